"""The things to be ranked: from a table, or from a folder of images or texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError
from rankwise.io.tables.reading import open_table
from rankwise.io.tables.table import DataTable

IMAGES = {".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"}
TEXTS = {".md", ".txt"}
NAME_COLUMNS = ("name", "item", "title", "id")
TEXT_COLUMNS = ("text", "description", "body")
IMAGE_COLUMNS = ("image", "photo", "picture", "file")
MAX_CATEGORIES = 20
MAX_TEXT = 100_000


@final
@dataclass(frozen=True)
class Item:
    """One thing to be ranked.

    Parameters
    ----------
    name : str
        Its name, different for every item.
    text : str
        The text shown with the name.
    image : Path or None
        The file of its image, below the folder of the items.
    features : tuple of float
        Numbers that say which items are alike.
    """

    name: str
    text: str = ""
    image: Path | None = None
    features: tuple[float, ...] = ()


@final
@dataclass(frozen=True)
class ItemList:
    """Hold the items, and how each column was used."""

    items: tuple[Item, ...]
    feature_names: tuple[str, ...] = ()
    ignored_columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    @property
    def features(self) -> FloatArray:
        """The features of all items, (n_items, n_features)."""
        rows = [item.features for item in self.items]
        return np.array(rows, dtype=float).reshape(len(rows), -1)


def read_item_list(path: Path) -> ItemList:
    """Read items from a CSV, TSV or Parquet file, or from a folder of images or texts.

    Parameters
    ----------
    path : path
        A table has one row per item: a name, and optionally a text, the file of an image (relative
        to the table) and further columns. Columns of numbers, or with few different words, become
        features. In a folder every image or text is an item, named after its file.
    """
    if not path.exists():
        raise DataFileError(f"{path}: there is no such file or folder. Check the name.")
    found = _from_folder(path) if path.is_dir() else _from_table(path)
    if len(found) < 2:
        raise DataFileError(f"{path} must hold at least two items to compare: it has {len(found)}.")
    names = [item.name for item in found.items]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataFileError(f"{path}: items must have different names: {twice!r} occurs twice.")
    return found


def _from_folder(folder: Path) -> ItemList:
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    images = [p for p in files if p.suffix.lower() in IMAGES]
    if images:
        return ItemList(tuple(Item(p.stem, image=p.resolve()) for p in _distinct(images)))
    texts = [p for p in files if p.suffix.lower() in TEXTS]
    return ItemList(tuple(Item(p.stem, text=_read_text(p)) for p in _distinct(texts)))


def _distinct(files: Sequence[Path]) -> list[Path]:
    """Keep one file of each name without its suffix."""
    return list({p.stem: p for p in reversed(files)}.values())[::-1]


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[:MAX_TEXT]


def _from_table(path: Path) -> ItemList:
    table = open_table(path)
    columns = list(table.names)
    # columns of names, texts and images by their usual names; others are features
    name = _find(columns, NAME_COLUMNS) or columns[0]
    text, image = _find(columns, TEXT_COLUMNS), _find(columns, IMAGE_COLUMNS)
    others = [c for c in columns if c not in (name, text, image)]
    features, names, ignored = _features(table, others)
    texts = table.words(text) if text is not None else None
    images = table.words(image) if image is not None else None
    items = [
        Item(
            str(label).strip(),
            "" if texts is None else str(texts[i])[:MAX_TEXT],
            None if images is None else _image(path, str(images[i]).strip()),
            tuple(features[i].tolist()),
        )
        for i, label in enumerate(table.words(name))
    ]
    return ItemList(tuple(items), names, ignored)


def _find(columns: Sequence[str], wanted: Sequence[str]) -> str | None:
    by_name = {c.strip().lower(): c for c in columns}
    return next((by_name[w] for w in wanted if w in by_name), None)


def _image(table: Path, name: str) -> Path | None:
    """Return the file of an image; it must be below the folder of the table."""
    if not name:
        return None
    folder = table.resolve().parent
    path = (folder / name).resolve()
    if not path.is_relative_to(folder) or path.suffix.lower() not in IMAGES or not path.is_file():
        raise DataFileError(
            f"{table}: an image must be a file ({', '.join(sorted(IMAGES))}) below the folder of "
            f"the table: {name!r} is not."
        )
    return path


def _features(
    table: DataTable, columns: Sequence[str]
) -> tuple[FloatArray, tuple[str, ...], tuple[str, ...]]:
    """Return standardised numbers, and indicators of columns with few different words."""
    parts: list[FloatArray] = []
    names: list[str] = []
    ignored: list[str] = []
    n_items = 0
    for column in columns:
        words = [str(word).strip() for word in table.words(column)]
        n_items = len(words)
        numbers = _parsed_numbers(words)
        kinds = sorted(set(words))
        # numbers are standardised, categories become indicators, other text is ignored
        if numbers is not None:
            if numbers.std() > 0:
                parts.append((numbers - numbers.mean())[:, None] / numbers.std())
                names.append(column)
        elif 1 < len(kinds) <= min(MAX_CATEGORIES, n_items // 2):
            parts.append(np.array([[float(w == k) for k in kinds] for w in words]))
            names += [f"{column}={kind}" for kind in kinds]
        else:
            ignored.append(column)
    if not parts:
        return np.zeros((len(table.words(table.names[0])), 0)), (), tuple(ignored)
    return np.concatenate(parts, axis=1), tuple(names), tuple(ignored)


def _parsed_numbers(words: Sequence[str]) -> FloatArray | None:
    """Return finite numbers, blanks filled with the mean of the others; None if some are words."""
    try:
        values = np.array([float(word) if word else np.nan for word in words])
    except ValueError:
        return None
    known = np.isfinite(values)
    if not known.any():
        return None
    return np.where(known, values, values[known].mean())
