"""What other tools mean by a measure: their parameters, tested against the tools themselves."""

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "scikit-learn": {
        "NDCG": {"gain": "linear", "ties": "average", "empty": "zero"},
        "DCG": {"gain": "linear", "ties": "average"},
        "AUC": {},
    },
    "lightgbm": {
        "NDCG": {"gain": "exponential", "ties": "input", "empty": "one"},
        "AP": {"normalise": "best", "ties": "input", "empty": "one"},
    },
    "xgboost": {
        "NDCG": {"gain": "exponential", "ties": "input", "empty": "one"},
        "AP": {"normalise": "best", "ties": "input", "empty": "one"},
        "Precision": {"normalise": "items", "ties": "input"},
    },
    "trec_eval": {
        "NDCG": {"gain": "linear", "ties": "reverse", "empty": "zero"},
        "AP": {"normalise": "relevant", "ties": "reverse", "empty": "zero"},
        "Precision": {"normalise": "cutoff", "ties": "reverse"},
        "RR": {"ties": "reverse", "empty": "zero"},
    },
}
"""Tool, measure, parameters."""
