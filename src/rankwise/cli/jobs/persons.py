"""Persons whose orders are asked for by name."""

from difflib import get_close_matches
from pathlib import Path

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.tables.reading import open_table
from rankwise.rankers.gp.preference_gp import PreferenceGP


def check_person(person: str | None, gp: PreferenceGP) -> None:
    """Refuse a person without answers, which would have the common order."""
    if person is None:
        return
    known = [] if gp.tastes_ is None or gp.judge_names_ is None else gp.judge_names_.tolist()
    if person not in known:
        close = get_close_matches(person, [str(name) for name in known], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInputError(
            f"--person must name one of the {len(known)} judges whose tastes are learnt (with "
            f"--tastes): got {person!r}.{hint}"
        )


def read_persons(path: Path) -> dict[str, FloatArray]:
    """Read a table of persons: their names in the first column, numbers in all others."""
    table = open_table(path)
    name, *columns = table.names
    if not columns:
        raise DataFileError(
            f"{path}: expected names of persons and features as numbers, got the column {name!r} "
            "alone."
        )
    (rows,), (names,) = table.read([tuple(columns)], [name])
    listed = [str(one) for one in names.tolist()]
    twice = next((one for place, one in enumerate(listed) if one in listed[:place]), None)
    if twice is not None:
        raise DataFileError(f"{path}: expected each person once, got {twice!r} twice.")
    return dict(zip(listed, rows, strict=True))
