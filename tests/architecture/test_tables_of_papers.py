"""The page of the papers' tables lists every experiment that repeats one, under its paper."""

import ast
import re

import pytest

from architecture.source_tree import ROOT

PAPERS = ("PTAB07", "PTA09", "APS10", "LS08", "TH10")


def experiments():
    """Return the titles of the experiments by name, as ``python -m experiments`` knows them."""
    text = (ROOT / "experiments" / "__main__.py").read_text(encoding="utf-8")
    found = re.search(r"^EXPERIMENTS = (\{.*?^\})", text, re.DOTALL | re.MULTILINE)
    return ast.literal_eval(found[1])


def sections():
    """Return the text of the page below the name of each paper."""
    text = (ROOT / "docs" / "theory" / "tables.rst").read_text(encoding="utf-8")
    parts = re.split(r"\n(\w+)\n-+\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_lists_the_experiments_of_each_paper(paper):
    expected = {name for name, title in experiments().items() if f"[{paper}]" in title}
    assert set(re.findall(r"``(\w+)``  ?", sections()[paper])) - {"NAME"} == expected
