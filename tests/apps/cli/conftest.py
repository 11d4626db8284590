"""A folder with small ranking files, and a way to run commands in it."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rankwise
import rankwise.io
from problems import Problem, problem
from rankwise.apps.cli.app import app
from rankwise.io import write_svmlight, write_table


@dataclass(frozen=True)
class Folder:
    """Data in several formats, all with the same rows."""

    path: Path
    train: Problem
    validation: Problem
    test: Problem

    def __truediv__(self, name):
        return self.path / name


FUNCTIONS = {
    name for name in (*rankwise.__all__, *rankwise.io.__all__) if "_" in name and name.islower()
}
"""Public functions; those without an underscore have the name of a command, or of a plain word."""

SIZES = (6, 1, 8, 5, 7, 2, 9, 4)
COLUMNS = ["stars", "price", "age"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    names = enumerate(["train", "validation", "test"])
    drawn = {name: (seed, problem(seed, SIZES)) for seed, name in names}
    sets = {name: replace(p, qid=p.qid + 100 * seed) for name, (seed, p) in drawn.items()}
    for name, data in sets.items():
        for suffix in ("txt", "txt.gz"):
            write_svmlight(path / f"{name}.{suffix}", data.X, data.y, data.qid)
        columns = dict(zip(COLUMNS, data.X.T, strict=True))
        table = {"city": data.qid, **columns, "rating": data.y}
        write_table(path / f"{name}.csv", table)
        write_table(path / f"{name}.parquet", table)
    reordered = {name: table[name] for name in ("price", "city", "age", "rating", "stars")}
    write_table(path / "reordered.csv", reordered)
    np.savetxt(path / "scores.txt", sets["test"].X[:, 0])
    return Folder(path, **sets)


@pytest.fixture
def run(folder, monkeypatch):
    """Run a command inside the folder and return its result."""
    monkeypatch.chdir(folder.path)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def succeed(run):
    """Run a command that must succeed and return what it printed."""

    def invoke(*arguments):
        result = run(*arguments)
        assert result.exit_code == 0, (result.output, result.exception)
        assert result.stderr == ""
        return result.stdout

    return invoke


@pytest.fixture
def fit(succeed, tmp_path):
    """Run a fit that must succeed and return its report and its model."""

    def invoke(*arguments):
        printed = succeed("fit", *arguments, "-o", tmp_path / "model", "--json")
        return json.loads(printed), rankwise.load(tmp_path / "model")

    return invoke


@pytest.fixture
def refuse(run):
    """Run a command that must be refused with one line on standard error, and return it."""

    def invoke(*arguments, status=2):
        result = run(*arguments)
        assert result.exit_code == status, (result.output, result.exception)
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1
        assert not FUNCTIONS & set(re.findall(r"\w+", lines[0])), "no names of Python's functions"
        return lines[0]

    return invoke
