"""Options of rankers come from their signatures: names, choices, defaults, help."""

import inspect
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import rankwise
from architecture import options
from rankwise.apps.cli.jobs.parameters import values_of
from rankwise.apps.cli.parameters import described_parameters, flag_of
from rankwise.core.params import rules_of
from rankwise.features.kernels import KERNELS, chosen_by_name

DESCRIBED = described_parameters()


@pytest.mark.parametrize("command", options.OWNERS)
def test_every_parameter_of_a_ranker_is_an_option_or_said_to_be_none(command):
    """What cannot be typed: estimators, functions and folds."""
    owners = options.OWNERS[command]
    known = {name for owner in owners for name in inspect.signature(owner).parameters}
    known &= {*options.PARTS.get(command, known)}
    described = {one["name"] for one in DESCRIBED[command]}
    left = known - described - {*options.BY_HAND, *options.OF_PYTHON, "self"}
    assert left <= {"cv"}


@pytest.mark.parametrize("command", options.OWNERS)
def test_defaults_and_choices_are_those_of_the_library(command):
    signature = inspect.signature(options.OWNERS[command][0]).parameters
    for one in DESCRIBED[command]:
        default = signature[one["name"]].default if one["name"] in signature else None
        default = options.PARTS.get(command, {}).get(one["name"], default)
        if one["name"] == "memory":
            assert one["default"] is None  # half of the memory of the machine
            assert default is None
        elif one["default"] is not None and one["name"] != "random_state":
            assert one["default"] == (default if isinstance(default, bool) else str(default))
        if one["name"] == "kernel":
            assert set(one["names"]) == {name for name in KERNELS if name != "precomputed"}
        assert one["help"].endswith(".")


def test_a_new_kernel_is_an_option_with_its_parameters(monkeypatch):
    monkeypatch.setitem(KERNELS, "wiggly", None)  # put back as it was, at the end

    @chosen_by_name
    @dataclass(frozen=True)
    class Wiggly(rankwise.Gaussian):
        """A kernel that was just written.

        Parameters
        ----------
        waves : float
            How many waves. They are long.
        """

        name: ClassVar[str] = "wiggly"
        waves: float = 1.0

    described = {one["name"]: one for one in options.options_of([rankwise.RankRLS])}
    assert "wiggly" in described["kernel"]["names"]
    assert described["waves"]["help"] == "How many waves (wiggly)."
    values = values_of(rankwise.RankRLS, {"kernel": "wiggly", "waves": "3"})
    assert values["kernel"] == Wiggly(waves=3.0)


@pytest.mark.parametrize(
    ("owner", "texts", "values"),
    [
        (rankwise.RankRLS, {"alpha": "0.5", "basis": "20"}, {"alpha": 0.5, "basis": 20}),
        (rankwise.DORM, {"C": "scale", "decay": "loglog"}, {"C": "scale", "decay": "loglog"}),
        (rankwise.DORM, {"C": "2", "decay": "0.25"}, {"C": 2, "decay": 0.25}),
        (rankwise.DORMCV, {"Cs": "4"}, {"Cs": 4}),
        (rankwise.RankRLSCV, {"alphas": "1e-1:10:3"}, {"alphas": [0.1, 1, 10]}),
        (
            rankwise.RankRLS,
            {"kernel": "gaussian", "gamma": "scale"},
            {"kernel": KERNELS["gaussian"]()},
        ),
        (
            rankwise.AutoRanker,
            {"memory": "2G", "time_budget": "none"},
            {"memory": 2 << 30, "time_budget": None},
        ),
        (rankwise.LinearRankRLS, {"early_stopping": True}, {"early_stopping": True}),
    ],
)
def test_texts_are_read_by_the_rules_of_parameters(owner, texts, values):
    found = values_of(owner, texts)
    assert {name for name in found if name not in ("random_state", "progress")} == set(values)
    for name, value in values.items():
        np.testing.assert_equal(found[name], value if name != "alphas" else np.array(value))


def test_a_wrong_text_gets_the_error_of_python(refuse):
    texts = {"cost": "cheap", "alpha": "much"}
    for name, text in texts.items():
        line = refuse("fit", "rls", "train.txt", "-o", "m", flag_of(name), text)
        error = str(rules_of(rankwise.RankRLS)[name].error(name, text))
        assert line == "error: " + error.replace(f"`{name}`", flag_of(name))
