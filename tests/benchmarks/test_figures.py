"""Figures of the tables are small, and say what was written."""

import pytest

pytest.importorskip("matplotlib", reason="the extra 'bench' is not installed")

from benchmarks.figures import figure, squeezed


def test_what_is_written_stays_and_tags_are_shortened():
    path = '<g d="M 1.23456 2 \nL 3 4 ">'
    given = f'<?xml version="1.0"?>\n<!-- x -->\n {path} \n<text>: 0.0012345</text>\n</g>'
    assert squeezed(given) == '<g d="M 1.23 2 L 3 4">\n<text>: 0.0012345</text>\n</g>\n'


def test_a_figure_holds_its_words_as_text_and_comes_out_the_same_twice(tmp_path):
    for name in ("a.svg", "b.svg"):
        with figure(tmp_path / name, 1, 1, (3, 2)) as ax:
            ax.plot([0.001, 1.0], label="least squares: 1.14")
            ax.legend()
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "least squares: 1.14</text>" in text
    assert "DejaVuSans-" not in text
    assert text == (tmp_path / "b.svg").read_text(encoding="utf-8")
