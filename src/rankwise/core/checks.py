"""Checks of arguments, with errors that say what to do."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray, IntArray, column_ranges
from rankwise.core.errors import InvalidInputError


def check_length(name: str, values: NDArray[Any], n_items: int, owner: str = "X") -> None:
    """Refuse ``values`` unless there is one entry per item."""
    if values.ndim == 0 or values.shape[0] != n_items:
        n_entries = "no list of entries" if values.ndim == 0 else values.shape[0]
        raise InvalidInputError(
            f"`{name}` must have one entry per row of `{owner}`: "
            f"{owner} has {n_items} rows, {name} has {n_entries}."
        )


def check_vector(name: str, values: NDArray[Any], length: int, of: str) -> None:
    """Refuse ``values`` that are not a vector with one entry per what they are ``of``."""
    if values.shape != (length,):
        raise InvalidInputError(
            f"`{name}` must have one entry per {of}: there are {length}, got shape {values.shape}."
        )


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Refuse NaN and infinity, naming the first row that holds one."""
    finite = np.isfinite(values)
    if finite.all():
        return
    row = int(np.argmin(finite.reshape(len(values), -1).all(axis=1)))
    raise InvalidInputError(
        f"`{name}` must be finite: row {row} holds NaN or infinity. Fill in or leave out such rows."
    )


def is_missing(value: Any) -> bool:
    """Tell whether a cell is None or not equal to itself: any kind of NaN, NaT or NA."""
    try:
        return value is None or not bool(value == value)
    except (TypeError, ValueError, ArithmeticError):  # pandas' NA, arrays, signalling NaN
        return not isinstance(value, np.ndarray)


def is_blank(value: Any) -> bool:
    """Tell whether a cell is missing or an empty text."""
    return is_missing(value) or (isinstance(value, str) and value == "")


def missing_cells(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which cells of a vector of objects are missing."""
    try:
        unequal = np.asarray(values != values, dtype=bool)
    except (TypeError, ValueError, ArithmeticError):
        return np.array([is_missing(value) for value in values], dtype=bool)
    return unequal | np.equal(values, np.array(None))


LARGEST, LARGEST_WEIGHT = 1e140, 1e70
"""Numbers above this have squares, or sums of squares, beyond the range of double precision; the
weight of a pair is the product of two weights."""


def refuse_masked(name: str, values: object) -> None:
    """Refuse masked arrays with masked entries, which are not data."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        n_masked = int(np.ma.getmaskarray(values).sum())
        raise InvalidInputError(
            f"`{name}` must not have masked entries: {n_masked} are. Fill them in with `filled`, "
            "or leave these rows out."
        )


def as_floats(name: str, values: Any, what: str = "numbers") -> FloatArray:
    """Return real numbers as an array; refuse anything that cannot be converted without loss."""
    refuse_masked(name, values)
    try:
        given = np.asarray(values)
        if given.dtype.kind in "cmM":
            raise TypeError(f"got {given.dtype}")
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"`{name}` must hold {what}: {error}.") from error


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return entries of any kind as an array; refuse rows of different lengths."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(f"`{name}` must hold one entry for each row: {error}.") from error


def refuse_unusable_rows(X: object, name: str = "X") -> None:
    """Refuse what cannot be made a table of numbers, and say what to do instead."""
    refuse_masked(name, X)
    remedy = None
    if X is None or isinstance(X, Mapping | str | bytes | set | frozenset | Iterator):
        remedy = "Give an array, a data frame or a sparse matrix"
    elif isinstance(X, np.matrix):
        remedy = "Use np.asarray(X)"
    elif callable(getattr(X, "collect", None)) and getattr(X, "__array__", None) is None:
        remedy = "Call X.collect() first"
    elif np.dtype(getattr(X, "dtype", None) if isinstance(X, np.ndarray) else float).kind in "mM":
        remedy = "Turn dates into numbers"
    if remedy is not None:
        raise InvalidInputError(
            f"`{name}` must be a table of numbers, one row per item: got {type(X).__name__}. "
            f"{remedy}."
        )


def are_plain_rows(X: object, owner: object, *, allow_nan: bool = False) -> bool:
    """Return whether rows to score need no reading: floats in C order, as many as in training.

    This takes a microsecond, scikit-learn's own look at an array fifty. Whatever is not plain,
    numbers that are not finite included, is left to that.

    Parameters
    ----------
    X
        The rows.
    owner
        The estimator that was fitted, which knows the number and the names of its features.
    allow_nan : bool
        Whether blanks are allowed.
    """
    fitted = vars(owner)
    if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or len(X) == 0:
        return False
    if X.shape[1] != fitted.get("n_features_in_") or "feature_names_in_" in fitted:
        return False
    if not X.flags.c_contiguous:
        return False
    return math.isfinite(np.vdot(X, X)) or (allow_nan and not np.isinf(X).any())


@contextmanager
def refuse_overflow(name: str = "X") -> Iterator[None]:
    """Refuse numbers beyond all floats, on which checks of other libraries raise OverflowError."""
    try:
        yield
    except OverflowError as error:
        raise InvalidInputError(f"`{name}` must hold numbers that fit a float: {error}.") from error


@contextmanager
def refuse_blanks(owner: str) -> Iterator[None]:
    """Say which rankers of ours take blanks, where scikit-learn names estimators of its own."""
    try:
        yield
    except ValueError as error:
        if "does not accept missing values" not in str(error):
            raise
        raise InvalidInputError(
            f"`X` must not have blanks for {owner}: Input X contains NaN. Put WithinQueryImputer "
            "before it in a RankerPipeline, or use AutoRanker or SearchRanker, which take blanks."
        ) from error


def refuse_huge_rows(X: Any, name: str = "X") -> None:
    """Refuse dense or sparse rows whose squares double precision cannot hold."""
    low, high = column_ranges(X) if isinstance(X, np.ndarray) else (X.data, X.data)
    refuse_huge_entries(low, high, name)


def refuse_huge_entries(
    low: NDArray[Any], high: NDArray[Any], name: str = "X", remedy: str = "Scale the features."
) -> None:
    """Do the same for rows whose entries lie between these."""
    largest = max(float(high.max(initial=0.0)), -float(low.min(initial=0.0)))
    if largest > LARGEST:
        raise InvalidInputError(
            f"`{name}` must hold numbers up to {LARGEST:.0e} in magnitude to be learned from: got "
            f"{largest:.3g}. {remedy}"
        )


def check_scores(y: ArrayLike, name: str = "y") -> FloatArray:
    """Return scores as floats of shape (n_items,) or (n_items, n_outputs)."""
    values = as_floats(name, y, "numbers, a score for each item")
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] == 0):
        raise InvalidInputError(
            f"`{name}` must have shape (n_items,) or (n_items, n_outputs): got {values.shape}."
        )
    check_finite(name, values)
    return values


def check_weight(name: str, weight: ArrayLike | None, length: int, of: str) -> FloatArray:
    """Return non-negative finite weights, ones when none are given."""
    if weight is None:
        return np.ones(length)
    values = as_floats(name, weight)
    if values.ndim == 0:
        values = np.full(length, float(values))
    check_vector(name, values, length, of)
    if not np.isfinite(values).all() or (values < 0).any():
        row = int(np.argmax(~np.isfinite(values) | (values < 0)))
        raise InvalidInputError(
            f"`{name}` must be finite and not negative: entry {row} is {values[row]}."
        )
    if length and not values.any():
        raise InvalidInputError(f"`{name}` must not be zero everywhere: every weight is 0.")
    if values.max(initial=0.0) > LARGEST_WEIGHT:
        raise InvalidInputError(
            f"`{name}` must hold weights up to {LARGEST_WEIGHT:.0e}, whose products can be added "
            f"up: got {values.max():.3g}. Divide all weights by the largest."
        )
    return values


def check_pairs(pairs: ArrayLike | None, n_items: int | None) -> IntArray:
    """Return comparisons as an integer array (n_pairs, 2), winner first, checked for bounds."""
    refuse_masked("pairs", pairs)
    try:
        values = np.asarray(pairs)
    except ValueError as error:
        raise InvalidInputError(f"`pairs` must have shape (n_pairs, 2): {error}.") from error
    if values.ndim != 2 or values.shape[1] != 2 or len(values) == 0:
        raise InvalidInputError(
            "`pairs` must have shape (n_pairs, 2) with at least one row, the winner's index first: "
            f"got shape {values.shape}."
        )
    if values.dtype.kind not in "iu":
        raise InvalidInputError(
            f"`pairs` must hold integer positions of rows of `X`: got dtype {values.dtype}."
        )
    limit = int(values.max()) + 1 if n_items is None else n_items
    outside = ((values < 0) | (values >= limit)).any(axis=1)
    if outside.any():
        bad = int(np.argmax(outside))
        raise InvalidInputError(
            f"`pairs` must name rows 0 to {limit - 1}: pair {bad} is {tuple(values[bad].tolist())}."
        )
    same = values[:, 0] == values[:, 1]
    if same.any():
        bad = int(np.argmax(same))
        raise InvalidInputError(
            f"`pairs` must compare two different items: pair {bad} compares item "
            f"{int(values[bad, 0])} with itself. Leave such pairs out."
        )
    return values.astype(np.intp, copy=False)


def entries_of(value: Any) -> list[Any]:
    """Return the entries of a list or an array; a text or a single value is its only entry."""
    try:
        return [value] if isinstance(value, str) else list(value)
    except TypeError:  # not iterable, or an array without axes
        return [value]


LONGEST_NAME = 100
"""Characters of a text for which no similar one is looked for."""


def hint(value: Any, names: Iterable[Any]) -> str:
    """Suggest the closest known name, if one is close."""
    known = {str(name).lower(): name for name in names}
    if isinstance(value, str) and len(value) > LONGEST_NAME:
        return ""
    close = get_close_matches(str(value).lower(), known, n=1)
    return f" Did you mean {str(known[close[0]])!r}?" if close else ""


def positions_of(names: Any, known: Sequence[Any], owner: str) -> IntArray:
    """Return the position of every name among the distinct names of an owner."""
    place = {name: position for position, name in enumerate(known)}
    wanted = entries_of(names.tolist() if isinstance(names, np.ndarray) else names)
    strange = [name for name in wanted if not _is_among(name, place)]
    if strange:
        raise InvalidInputError(
            f"Names must be those of {owner}: got {strange[0]!r}.{hint(strange[0], known)}"
        )
    return np.array([place[name] for name in wanted], dtype=np.intp)


def _is_among(name: Any, known: Mapping[Any, Any]) -> bool:
    """Tell whether a name is known; what cannot be looked up is not."""
    try:
        return name in known
    except (TypeError, ValueError):  # lists and arrays, signalling NaN
        return False


def check_flag(name: str, value: object) -> None:
    """Refuse an array or a list for a boolean option."""
    is_one = not isinstance(value, np.ndarray | list | tuple | Mapping)
    try:
        bool(value)
    except (TypeError, ValueError):  # a sparse matrix, a frame, a missing value
        is_one = False
    if not is_one:
        raise InvalidInputError(f"`{name}` must be True or False: got {type(value).__name__}.")


def seeded(random_state: object) -> np.random.Generator:
    """Return NumPy's generator of a seed; rankers follow scikit-learn's ``random_state``."""
    is_seed = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    is_known = isinstance(random_state, np.random.Generator | np.random.RandomState)
    if is_seed or is_known or random_state is None:
        try:
            return np.random.default_rng(random_state)  # type: ignore[arg-type]
        except ValueError:  # below 0
            pass
    raise InvalidInputError(
        "`random_state` must be None, a whole number from 0 on or a generator of NumPy: got "
        f"{random_state!r}."
    )


def real_number(value: object) -> float:
    """Return a real number as a float; NaN for anything else, and for what is too large."""
    try:
        is_real = isinstance(value, int | float | np.integer | np.floating)
        return float(value) if is_real else float("nan")  # type: ignore[arg-type]
    except OverflowError:  # beyond all doubles
        return float("nan")
