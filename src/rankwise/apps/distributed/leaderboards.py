"""Leaderboards of comparisons in many files, which are counted where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, Literal, Self, TypeAlias, final, get_args

import rankwise
from rankwise.apps.distributed.engine import engine_of
from rankwise.apps.distributed.partitions import paths_of
from rankwise.comparisons.leaderboard import Leaderboard
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import InvalidInputError
from rankwise.io.comparison_columns import ColumnRoles, ComparisonColumns
from rankwise.io.comparison_reading import described
from rankwise.io.comparisons import read_with_roles

Kept: TypeAlias = Literal["judge", "question", "category", "date"]
"""What tells rows apart, if an option needs it."""


def leaderboard(
    pattern: str | PathLike[str] | Sequence[str | PathLike[str]],
    columns: ComparisonColumns | None = None,
    *,
    skip_bad: bool = False,
    client: Any = None,
    **options: Any,
) -> Leaderboard:
    r"""Rank named items from who beat whom in many files, each counted by a worker.

    A file is read, and rows that say the same become one row with their number; these rows are
    added up. The result is that of `rankwise.leaderboard` on the rows of all files, and a worker
    needs memory for its file only. Judges, questions and dates are kept where an option needs them:
    without them there are at most three rows for each order of two items.

    Parameters
    ----------
    pattern : path, pattern such as ``"part-*.parquet"``, or several of them
        Tables as in `rankwise.leaderboard`, in a folder that all workers see.
    columns : ComparisonColumns, optional
        The columns by name, as in `rankwise.leaderboard`.
    skip_bad : bool
        Whether to leave out rows that cannot be read, as in `rankwise.io.read_comparisons`.
    client : distributed.Client, optional
        The cluster; by default the current client or, without one, threads of this process.
    **options
        Options of `rankwise.leaderboard`.

    Returns
    -------
    Leaderboard
        Its ``audit`` is about what was kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from rankwise.apps.distributed import leaderboard
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part, winner in enumerate(["a", "b"]):
    ...         text = "a,b,winner\n" + f"ann,bob,{winner}\n" * (2 - part) + "bob,cid,a\n"
    ...         _ = Path(folder, f"part-{part}.csv").write_text(text)
    ...     board = leaderboard(f"{folder}/part-*.csv", random_state=0)
    >>> board.names.tolist(), board.answers.tolist()
    (['ann', 'bob', 'cid'], [3.0, 5.0, 2.0])
    """
    keep = _needed(options)
    table = count_comparisons(pattern, columns, keep=keep, skip_bad=skip_bad, client=client)
    return rankwise.leaderboard(table, **options)


def count_comparisons(
    pattern: str | PathLike[str] | Sequence[str | PathLike[str]],
    columns: ComparisonColumns | None = None,
    *,
    keep: Sequence[Kept] = (),
    skip_bad: bool = False,
    client: Any = None,
) -> ComparisonTable:
    r"""Read comparisons from many files; rows that say the same are one row with their number.

    Parameters
    ----------
    pattern, columns, skip_bad, client
        As in `leaderboard`.
    keep : sequence of {"judge", "question", "category", "date"}
        What tells rows apart beside items, their order, the outcome and covariates.

    Returns
    -------
    ComparisonTable
        Its ``weight`` holds the numbers; margins are left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from rankwise.apps.distributed import count_comparisons
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in "12":
    ...         _ = Path(folder, f"{part}.csv").write_text("winner,loser\n" + "ann,bob\n" * 5)
    ...     table = count_comparisons(f"{folder}/*.csv")
    >>> table.n_rows, table.weight.tolist()
    (1, [10.0])
    """
    with engine_of(client) as engine:
        paths = paths_of(pattern)
        labels = [f"Partition {k} ({path})" for k, path in enumerate(paths)]
        counts = engine.call_each(
            "count", _Counted.of, labels, paths, columns, skip_bad, tuple(keep)
        )
        (found,) = engine.compute([engine.add(counts)])
    table: ComparisonTable = found.described()
    return table


def _needed(options: dict[str, Any]) -> list[Kept]:
    """Return which columns beside items, outcome and covariates the options need."""
    clustered = options.get("clustered", False)
    by_question = isinstance(clustered, str)
    needs: dict[Kept, bool] = {
        "judge": bool(options.get("judges")) or (bool(clustered) and not by_question),
        "question": by_question,
        "date": options.get("half_life") is not None,
    }
    return [role for role, needed in needs.items() if needed]


@final
@dataclass(frozen=True, eq=False)
class _Counted:
    """What some files say, each different row once; they are added up."""

    label: str
    table: ComparisonTable
    roles: ColumnRoles
    words: dict[str, int]
    notes: tuple[str, ...]
    n_left_out: int

    @classmethod
    def of(
        cls, path: str, columns: ComparisonColumns | None, skip_bad: bool, kept: tuple[Kept, ...]
    ) -> Self:
        """Read and count the rows of a file."""
        found = read_with_roles(path, columns, skip_bad=skip_bad)
        table = found.table
        if found.roles.weight is not None and (table.weight % 1.0).any():
            raise InvalidInputError(
                "Weights must be whole numbers in files that are counted one by one: column "
                f"{found.roles.weight!r} has others, whose effective number is that of all rows. "
                "Use rankwise.leaderboard on all files together."
            )
        # left out: what would tell rows apart that the leaderboard takes for the same
        out: dict[str, Any] = {
            role: None for role in ("judge", "question", "date", "category") if role not in kept
        }
        counted = replace(table, **out).counted()
        return cls(path, counted, found.roles, found.words, found.notes, found.n_left_out)

    def __add__(self, other: Self) -> Self:
        """Add the rows of other files, which must have been read in the same way."""
        self._refuse_other_reading(other)
        return replace(
            self,
            table=ComparisonTable.joined([self.table, other.table]).counted(),
            words={**self.words, **other.words},
            n_left_out=self.n_left_out + other.n_left_out,
        )

    def _refuse_other_reading(self, other: Self) -> None:
        """Refuse files whose columns or cells mean different things."""
        mine, theirs = self._reading(), other._reading()
        for what, one in mine.items():
            if one != theirs[what]:
                raise InvalidInputError(
                    f"All files must be read in the same way: {what} is {one!r} in {self.label}, "
                    f"{theirs[what]!r} in {other.label}. Name the columns, and what cells mean."
                )
        for word in self.words.keys() & other.words.keys():
            if self.words[word] != other.words[word]:
                raise InvalidInputError(
                    f"All files must be read in the same way: a result of {word!r} means "
                    f"{self.words[word]} in {self.label}, {other.words[word]} in {other.label}. "
                    "Say what cells mean by `codes`."
                )

    def _reading(self) -> dict[str, Any]:
        """Return what files must have in common, by name."""
        table = self.table
        labels = {role: getattr(table, role) for role in ("judge", "question", "category")}
        return {
            **{
                f"the column of `{one.name}`": getattr(self.roles, one.name)
                for one in fields(self.roles)
            },
            "the treatment of weights": self.notes,
            "the kind of names": "text" if table.names.dtype.kind in "UO" else "numbers",
            **{
                f"the kind of each {role}": None if one is None else one.names.dtype.kind
                for role, one in labels.items()
            },
            "a known date": table.date is not None,
            "the covariates": table.covariate_names,
        }

    def described(self) -> ComparisonTable:
        """Return the table, which says how it was read."""
        lines = described(self.table, self.roles, self.words, self.n_left_out)
        lines += [
            f"{role}: {getattr(self.roles, role)}, not needed and not kept"
            for role in get_args(Kept)
            if getattr(self.roles, role) is not None and getattr(self.table, role) is None
        ]
        return replace(self.table, reading=(*lines, *self.notes))
