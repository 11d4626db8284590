"""Small grey pictures as text, two rows of pixels in each line of characters."""

from collections.abc import Sequence

import numpy as np

from rankwise.core.arrays import FloatArray

BLOCKS = " ▄▀█"  # neither pixel, the lower, the upper, both
ASCII = " .':"
INK = 0.4  # of the brightest pixel
GAP = "   "


def draw(images: Sequence[FloatArray], encoding: str) -> list[str]:
    """Return the lines of pictures side by side.

    Parameters
    ----------
    images : sequence of (height, width)
        Pixels between 0 and 1, of the same even height.
    encoding
        How the text will be written; it decides whether blocks can be used.
    """
    marks = BLOCKS if encoding.lower().startswith("utf") else ASCII
    drawn = [_lines(image, marks) for image in images]
    return [GAP.join(parts).rstrip() for parts in zip(*drawn, strict=True)]


def _lines(image: FloatArray, marks: str) -> list[str]:
    inked = np.asarray(image) > INK
    codes = 2 * inked[0::2].astype(int) + inked[1::2]
    return ["".join(marks[code] for code in line) for line in codes]
