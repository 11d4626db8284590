"""``rankwise demo``."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Demo:
    """Rank handwritten digits, next to regression on the scores: choose alpha, train, compare."""
