"""What is written down agrees with the source: public names, paths, modules, the glossary."""

import ast
import re

import pytest

from architecture.source_tree import (
    MODULES,
    ROOT,
    SOURCE,
    classes,
    defined,
    exported,
    none_of,
)

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("[be]*/*.md"), *(ROOT / "docs").rglob("*.rst")])
DOCUMENTS = [path for path in DOCUMENTS if "generated" not in path.parts]
PLACES = (ROOT, SOURCE / "rankwise", SOURCE / "rankwise" / "rankers")
"""The folders that a path in a document may start from."""


def text_of(path):
    return path.read_text(encoding="utf-8")


# Public names


def test_every_public_name_has_a_docstring_with_examples():
    none_of(
        f"{MODULES[home].where}: {name} has no Examples section"
        for name, home in exported().items()
        for node in [defined(home, name)]
        if node is None or not re.search(r"^Examples\n-+$", ast.get_docstring(node) or "", re.M)
    )


def test_every_public_name_has_a_section_of_the_api_page():
    tree = ast.parse(text_of(ROOT / "docs" / "conf.py"))
    groups = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TASK_OF_PACKAGE"
    )
    none_of(
        f"docs/conf.py: TASK_OF_PACKAGE has no task for {home}.{name}"
        for name, home in exported().items()
        if not {home.split(".")[1], ".".join(home.split(".")[1:3])} & set(groups)
    )


# Paths and modules


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_that_a_document_names_exist(path):
    none_of(
        f"{path.relative_to(ROOT)}: {named}"
        for named in re.findall(r"`([\w.-]+/[\w./-]*)`", text_of(path))
        if _is_ours(named) and not any((place / named).exists() for place in PLACES)
    )


def _is_ours(named):
    """Tell a path of this repository from other text with a slash."""
    first = named.partition("/")[0]
    if first == "..":
        return False
    return named.endswith((".py", ".rst", ".md", "/")) or any(
        (place / first).is_dir() for place in PLACES
    )


def test_documents_that_the_source_names_exist():
    none_of(
        f"{module.where}: {named}"
        for module in MODULES.values()
        for named in re.findall(
            r"\b(?:docs|tests|benchmarks|experiments)/[\w/-]+\.\w+", text_of(module.path)
        )
        if not (ROOT / named).is_file()
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_names_that_a_document_names_exist(path):
    none_of(
        f"{path.relative_to(ROOT)}: {named}"
        for named in re.findall(r"\brankwise(?:\.[A-Za-z_]\w*)+", text_of(path))
        if not _exists(named)
    )


def _exists(named):
    home = named
    while home not in MODULES:
        home = home.rpartition(".")[0]
    name = named[len(home) + 1 :].partition(".")[0]
    if not name:
        return True
    if MODULES[home].is_package:
        return name in exported() or name == "__version__"
    return defined(home, name) is not None


# The glossary


def test_the_concepts_of_the_glossary_are_classes():
    known = {node.name for _, node in classes()}
    table = text_of(ROOT / "GLOSSARY.md").partition("## Concepts in code")[2].partition("\n## ")[0]
    named = [cell for line in table.splitlines() for cell in line.split("|")[1:2]]
    concepts = [name for cell in named for name in re.findall(r"`(\w+)`", cell)]
    assert len(concepts) > 20
    none_of(f"GLOSSARY.md: {name} is not a class" for name in concepts if name not in known)


# Workflows


def test_workflows_use_whole_versions_of_actions():
    none_of(
        f"{path.relative_to(ROOT)}: {action} is no whole version"
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for action in re.findall(r"uses: (\S+)", text_of(path))
        if not re.fullmatch(r"[\w./-]+@v\d+\.\d+\.\d+", action)
    )
