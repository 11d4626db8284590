"""What the pages of the documentation show."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = sorted(set((DOCS / "guide").glob("*.rst")) - {DOCS / "guide" / "index.rst"})
THEORY = sorted((DOCS / "theory").glob("*.rst"))


@pytest.fixture(scope="module")
def mathml():
    pytest.importorskip("latex2mathml", reason="the extra 'docs' is not installed")
    given = importlib.util.spec_from_file_location("mathml", DOCS / "mathml.py")
    module = importlib.util.module_from_spec(given)
    given.loader.exec_module(module)
    return module.mathml


@pytest.mark.parametrize("path", GUIDES, ids=[path.stem for path in GUIDES])
def test_a_page_of_the_guide_has_a_picture_and_a_card(path):
    assert re.search(r"^\.\. picture:: \w+", path.read_text(encoding="utf-8"), re.M)
    assert f":link: {path.stem}\n" in (DOCS / "guide" / "index.rst").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", THEORY, ids=[path.stem for path in THEORY])
def test_formulas_become_mathml_without_rests_of_latex(path, mathml):
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^\.\. math::\n((?:(?:   .*)?\n)+)", text, re.M)
    for block in blocks:
        latex = re.sub(r"^   :label:.*$", "", block, flags=re.M)
        drawn = mathml(latex, display=True)
        assert "<mi>&</mi>" not in drawn
        assert ">\\" not in drawn, latex


def test_lines_of_a_formula_are_aligned_at_their_ampersands(mathml):
    drawn = mathml(r"a &= b \\ c &= d", display=True)
    assert drawn.count("<mtr>") == 2
    assert "&<" not in drawn


def test_bars_stand_close_and_what_is_maximised_over_stands_below(mathml):
    assert mathml(r"|U|", display=False).count('lspace="0" rspace="0">|<') == 2
    shown = mathml(r"\max_f P(f)", display=True)
    assert "<munder><mo>max</mo><mi>f</mi></munder>" in shown
    assert "<msub><mo>max</mo>" in mathml(r"\max_f P(f)", display=False)
