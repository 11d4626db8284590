"""The demonstration, with fewer queries, and its pictures."""

from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper

import numpy as np
import pytest

from rankwise.apps.cli.jobs import first_steps
from rankwise.apps.cli.jobs.first_steps import draw
from rankwise.datasets import load_digits_queries


@pytest.fixture(scope="module")
def printed():
    with redirect_stdout(TextIOWrapper(BytesIO(), encoding="utf-8")) as output:
        first_steps.show(load_digits_queries(n_queries=25, n_items=10))
        output.seek(0)
        return output.read()


def row(printed, name):
    lines = [line for line in printed.splitlines() if line.startswith(f"{name}  ")]
    return [float(cell) for cell in lines[0].removeprefix(name).split()]


def test_demo_ranks_better_than_regression(printed):
    assert row(printed, "RankRLS")[1] > row(printed, "ridge regression")[1]
    assert row(printed, "kernel RankRLS")[1] > row(printed, "kernel ridge regression")[1]


def test_demo_counts_queries_and_tests_the_difference(printed):
    assert "25 test queries, 0 undefined" in printed
    assert printed.count(", p = ") == 2


def test_demo_shows_one_query_with_digits_grades_and_pictures(printed):
    lines = printed.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  digit"))
    digits = np.array(lines[at].split()[1:], dtype=int)
    grades = np.array(lines[at + 1].split()[1:], dtype=int)
    assert len(digits) == 10
    assert len(set(digits - grades)) == 1
    assert len([line for line in lines[at + 2 :] if line.strip()]) == 4


def test_kernel_ridge_of_the_demo_is_ridge_regression():
    data = load_digits_queries(n_queries=8, n_items=9)
    for scores, expected in zip(
        first_steps._kernel_ridge(data.train, "linear")(data.test.X),
        first_steps._ridge(data.train)(data.test.X),
        strict=True,
    ):
        offset = np.mean(expected) - np.mean(scores)
        np.testing.assert_allclose(scores + offset, expected, atol=1e-8)


def test_pictures_stand_side_by_side():
    full, lower = np.ones((2, 2)), np.array([[0.0, 0.0], [1.0, 0.0]])
    assert draw([full, lower], "utf-8") == ["██   ▄"]
    assert draw([full, lower], "ascii") == ["::   ."]
    assert draw([full[:, :1], 1 - lower], "UTF8") == ["█   ▀█"]
