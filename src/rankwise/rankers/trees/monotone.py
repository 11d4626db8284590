"""Features in which scores may only rise, or only fall."""

from collections.abc import Mapping
from typing import Any

from rankwise.core.errors import InvalidInputError


def directions_of(monotone: Any, names: Any, n_features: int) -> list[int]:
    """Return 1 or -1 for each feature in which scores may only rise or fall, and 0 for others.

    Parameters
    ----------
    monotone : mapping or None
        1 or -1 by the name or the position of a feature.
    names : (n_features,) or None
        The names of the features, if they have any.
    n_features : int
        Number of features.
    """
    directions = [0] * n_features
    if monotone is None:
        return directions
    if not isinstance(monotone, Mapping):
        raise InvalidInputError(
            "`monotone` must map features to 1 or -1, such as {'price': -1}: got "
            f"{type(monotone).__name__}."
        )
    places = {} if names is None else {str(name): j for j, name in enumerate(names)}
    for feature, direction in monotone.items():
        place: Any = places.get(feature, feature)
        is_place = isinstance(place, int) and not isinstance(place, bool)
        if not is_place or not 0 <= place < n_features:
            known = "by name, or " if places else ""
            raise InvalidInputError(
                f"`monotone` must hold features of X, {known}by position from 0 to "
                f"{n_features - 1}: got {feature!r}."
            )
        if direction not in (1, -1):
            raise InvalidInputError(
                f"`monotone` must hold 1 for features in which scores may only rise, and -1 for "
                f"those in which they may only fall: got {direction!r} for {feature!r}."
            )
        directions[place] = int(direction)
    return directions
