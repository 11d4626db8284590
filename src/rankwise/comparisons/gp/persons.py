"""The features of persons, who may answer or not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, freeze
from rankwise.core.comparisons.comparison_table import Labels
from rankwise.core.errors import InvalidInputError
from rankwise.core.storable import storable
from rankwise.io.comparisons import read_items


@storable
@final
@dataclass(frozen=True, eq=False)
class PersonTraits:
    """Hold the features of persons on one scale: mean 0, and a mean square length of 1.

    Parameters
    ----------
    names : (n_persons,)
    rows : (n_persons, n_traits)
    centre, scale : (n_traits,)
        What was subtracted from the features, and what they were then divided by.
    """

    names: NDArray[Any]
    rows: FloatArray
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, persons: Any) -> Self:
        """Read the features of persons and bring them to one scale.

        Parameters
        ----------
        persons : frame, or mapping of names to rows of numbers
            Named by its index or its only column of text.
        """
        names, features = _read_persons(persons)
        centre, scale = features.mean(axis=0), features.std(axis=0)
        scale = np.sqrt(features.shape[1]) * np.where(scale > 0.0, scale, 1.0)
        return cls(names, freeze((features - centre) / scale), freeze(centre), freeze(scale))

    @property
    def n_traits(self) -> int:
        """Number of features."""
        return self.rows.shape[1]

    def joined_with(self, persons: Any) -> Self:
        """Add other persons on the same scale; those of the same name are replaced."""
        names, features = _read_persons(persons)
        if features.shape[1] != self.n_traits:
            raise InvalidInputError(
                f"Persons must have the {self.n_traits} features of those in `fit`: got "
                f"{features.shape[1]}."
            )
        given = set(names.tolist())
        kept = np.array([name not in given for name in self.names.tolist()], dtype=bool)
        rows = np.vstack([self.rows[kept], (features - self.centre) / self.scale])
        everyone = [*self.names[kept].tolist(), *names.tolist()]
        labels = Labels.of(np.array(everyone, dtype=object))
        return replace(self, names=labels.names, rows=freeze(rows[np.argsort(labels.index)]))

    def of_names(self, names: Sequence[Any]) -> FloatArray:
        """Return the features of persons; zeros, an average person, for those without features."""
        place = {name: row for row, name in enumerate(self.names.tolist())}
        rows = np.array([place.get(name, -1) for name in names], dtype=np.intp)
        return np.vstack([self.rows, np.zeros(self.n_traits)])[rows]


def _read_persons(persons: Any) -> tuple[NDArray[Any], FloatArray]:
    """Return the sorted names of persons and their features."""
    is_mapping = isinstance(persons, Mapping)
    known = (np.array(list(persons), dtype=object), list(persons.values())) if is_mapping else None
    names, rows = known or read_items(persons)
    if names is None:
        raise InvalidInputError(
            "`persons` must be a frame with the names of persons as its index or in a column of "
            "text, or a dictionary of rows by name: got no names."
        )
    features = np.asarray(rows, dtype=np.float64)
    if features.ndim != 2 or features.shape[1] == 0 or not np.isfinite(features).all():
        raise InvalidInputError(
            "`persons` must have numbers as features, one or more for every person and none "
            f"missing: got an array of shape {features.shape}."
        )
    labels = Labels.of(np.array(names.tolist(), dtype=object))
    if labels.n_names != len(features):
        twice = labels.names.tolist()[int(np.argmax(labels.counts > 1))]
        raise InvalidInputError(f"`persons` must hold each person once: got {twice!r} twice.")
    return labels.names, features[np.argsort(labels.index)]
