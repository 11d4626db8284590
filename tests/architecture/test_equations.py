"""Every printed equation that docs/theory/where.rst lists is cited in the file it names."""

import re
import tokenize

import pytest

from architecture.source_tree import ROOT, SOURCE, none_of

PAPERS = ("PTAB07", "PTA09", "APS10", "LS08", "TH10")
PLACE = r"(?:Sect\.|Alg\.|Fig\.|Theorem) \d+(?:\.\d+)*"
RANGE = re.compile(r"\((\d+)\)\s*(?:--?|to)\s*\((\d+)\)")
CITATION = re.compile(r"\[(\w+)\]_?((?:(?!\n\s*\n|\n\s*[-=]{3}|\[\w+\]|\"\"\").){1,300})", re.S)


def named(text):
    """Return the equations, sections, algorithms and figures that a text names."""
    text = re.sub(r"\s*\n\s*(?:# )?", " ", text)
    text = re.sub(r"Algorithms?", "Alg.", text)
    found = set(re.findall(PLACE, text))
    found |= {f"({number})" for number in re.findall(r"\((\d+)\)", text)}
    for first, last in RANGE.findall(text):
        found |= {f"({number})" for number in range(int(first), int(last) + 1)}
    for kind, more in re.findall(r"(Sect\.|Alg\.) \d[\d.]*((?:(?:,| and) \d[\d.]*\b)+)", text):
        found |= {f"{kind} {number}" for number in re.findall(r"\d+(?:\.\d+)*", more)}
    return found


def listed():
    """Yield (paper, what, file) of every row of the tables."""
    text = (ROOT / "docs" / "theory" / "where.rst").read_text(encoding="utf-8")
    for paper in PAPERS:
        section = text.partition(f"\n{paper}\n---")[2]
        section = re.split(r"\n\w[^\n]*\n-{3,}\n", section)[0]
        for row in re.split(r"\n   \* - ", section)[2:]:
            cells = re.split(r"\n     -", row)
            yield paper, cells[0], cells[-1].strip().strip("`")


def path_of(file):
    """Return the path of a file of the tables; some are experiments."""
    return (ROOT if file.startswith("experiments/") else SOURCE / "rankwise") / file


def cited(path, paper):
    """Return what the source of a file names of a paper."""
    text = path.read_text(encoding="utf-8")
    return set().union(*(named(rest) for key, rest in CITATION.findall(text) if key == paper))


ROWS = list(listed())


def test_the_tables_are_read():
    assert {paper for paper, _, _ in ROWS} == set(PAPERS)
    assert len(ROWS) > 45
    assert named("(1), (5)--(7), Sect. 6.3, 6.4") == {
        *("(1)", "(5)", "(6)", "(7)"),
        *("Sect. 6.3", "Sect. 6.4"),
    }


@pytest.mark.parametrize(("paper", "what", "file"), ROWS)
def test_every_equation_is_cited_in_its_file(paper, what, file):
    path = path_of(file)
    expected = named(what)
    assert expected, what
    none_of(f"{file}: no [{paper}] {one}" for one in expected - cited(path, paper))


def commented(path, paper):
    """Return what the comments of a file name of a paper, each at the line it is about."""
    with path.open(encoding="utf-8") as file:
        tokens = tokenize.generate_tokens(file.readline)
        comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    found = [named(rest) for key, rest in CITATION.findall("\n\n".join(comments)) if key == paper]
    return set().union(*found)


EQUATIONS = [row for row in ROWS if all(one.startswith("(") for one in named(row[1]))]
"""Rows without algorithms and sections, which are longer than a line."""


@pytest.mark.parametrize(("paper", "what", "file"), EQUATIONS)
def test_a_comment_marks_the_line_of_an_equation(paper, what, file):
    path = path_of(file)
    assert named(what) & commented(path, paper), f"{file}: no comment with [{paper}] {what}"


LABELLED = (
    *("measures", "export", "datasets", "distributed", "automatic", "transformers"),
    *("rankers/dorm", "rankers/svm", "rankers/trees", "rankers/conditional", "rankers/arena"),
)
"""Folders where every comment with an equation's key names the label of the theory page too."""

EQUATION = re.compile(r"\[(?:" + "|".join(PAPERS) + r")\] eqs?\. ")
LABEL = re.compile(r"\(\d+\w?\), ([a-z]+(?:-[a-z]+)+)\b")
"""A label follows the last number of a key: ``[PTA09] eq. (33), hold-update``."""


def labels():
    """Return the labels of the numbered equations of the theory pages."""
    pages = (ROOT / "docs" / "theory").glob("*.rst")
    return {
        label
        for page in pages
        for label in re.findall(r":label: (\S+)", page.read_text(encoding="utf-8"))
    }


def equation_comments(folder):
    """Yield (file, line, comment) of every comment of a folder that has the key of an equation."""
    for path in sorted((SOURCE / "rankwise" / folder).rglob("*.py")):
        with path.open(encoding="utf-8") as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type == tokenize.COMMENT and EQUATION.search(token.string):
                    yield path.relative_to(SOURCE), token.start[0], token.string


def test_comments_of_equations_are_found():
    assert LABEL.findall("# [LS08] eqs. (17), (24), dorm-oracle") == ["dorm-oracle"]
    assert LABEL.findall("# [LS08] eq. (27b), dorm-slack: of a query") == ["dorm-slack"]
    assert len(list(equation_comments("rankers/dorm"))) >= 10


@pytest.mark.parametrize("folder", LABELLED)
def test_the_key_of_an_equation_names_a_label_of_the_theory_pages(folder):
    known = labels()
    none_of(
        f"{file}:{line}: {comment}"
        for file, line, comment in equation_comments(folder)
        if not LABEL.search(comment) or not known.issuperset(LABEL.findall(comment))
    )
