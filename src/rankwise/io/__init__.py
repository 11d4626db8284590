"""Read and write files: svmlight and LETOR, tables, comparisons, scores, models.

Which column of a table is `y`, `qid` or the item is decided in `data`, for files and frames alike;
which are features, and how their cells are read, in `feature_columns`.
"""

from rankwise.io.choices import read_choices
from rankwise.io.comparison_columns import ComparisonColumns
from rankwise.io.comparisons import PairData, read_comparisons, read_pairs
from rankwise.io.data import RankingData
from rankwise.io.frames import from_frame
from rankwise.io.model_file import read_model, write_model
from rankwise.io.rankings import RankedItems, read_ranked, read_scores, write_scores
from rankwise.io.reading import read
from rankwise.io.svmlight import (
    SvmlightScan,
    iter_svmlight,
    read_svmlight,
    scan_svmlight,
    write_svmlight,
)
from rankwise.io.tables.reading import read_table, write_table

__all__ = [
    "ComparisonColumns",
    "PairData",
    "RankedItems",
    "RankingData",
    "SvmlightScan",
    "from_frame",
    "iter_svmlight",
    "read",
    "read_choices",
    "read_comparisons",
    "read_model",
    "read_pairs",
    "read_ranked",
    "read_scores",
    "read_svmlight",
    "read_table",
    "scan_svmlight",
    "write_model",
    "write_scores",
    "write_svmlight",
    "write_table",
]
