"""Parameters are checked by the rules at their annotations, and errors say what must hold."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike
from typing_extensions import TypeAliasType

from rankwise import InvalidInputError
from rankwise.core.arrays import FloatArray
from rankwise.core.params import (
    REFUSED,
    Above,
    Advice,
    AtLeast,
    AtMost,
    Below,
    Positive,
    RandomSeed,
    Reads,
    Shape,
    Size,
    check_call,
    check_values,
    checked,
    compile_rule,
    rules_of,
    settle,
)

SPACES = {"flat": 1, "curved": 2}


def as_space(value):
    return SPACES.get(value, REFUSED) if isinstance(value, str) else value


class Learner:
    """An estimator in miniature."""

    def __init__(
        self,
        alpha: Annotated[float, Positive(), Advice("Choose a value such as 1.")] = 1.0,
        *,
        k: Annotated[int | None, Positive()] = None,
        ties: Literal["drop", "keep"] = "drop",
        C: Annotated[float, Positive()] | Literal["scale"] = "scale",
        space: Annotated[Any, Reads(as_space, "a space", SPACES)] = "flat",
        progress: bool = False,
        tol: Annotated[float, Above(0), Below(1)] = 1e-3,
        max_iter: Annotated[int, Positive()] = 100,
        random_state: RandomSeed = None,
        alphas: Annotated[FloatArray | None, Shape("n_alphas"), Positive()] = None,
    ) -> None:
        self.alpha = alpha
        self.k = k
        self.ties = ties
        self.C = C
        self.space = space
        self.progress = progress
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.alphas = alphas

    def rank(self, k: Annotated[int | None, Positive()] = None) -> Any:
        """Take a count."""
        return check_call(Learner.rank, k=k)


@dataclass(frozen=True)
class Width:
    """A frozen value with a rule."""

    gamma: Annotated[float, Positive()] = 1.0

    def __post_init__(self) -> None:
        settle(self)


@pytest.mark.parametrize(
    "good", [1, 1.5, np.float32(1.5), np.int8(1), np.float64(1e300), np.longdouble(2)]
)
def test_numbers_of_python_and_numpy_are_taken_as_floats(good):
    taken = checked(Learner(alpha=good)).alpha
    assert type(taken) is float
    assert taken == good


@pytest.mark.parametrize(
    "bad",
    [0, -1.0, True, np.True_, np.nan, np.inf, -np.inf, 1j, np.complex64(1), 10**400, "1", None,
     pd.NA, pd.NaT, [1.0], np.array(1.0), np.array([1.0]), np.ma.masked, pd.Series([1.0]),
     Fraction(1, 2), object],
    ids=repr,
)  # fmt: skip
def test_anything_else_is_refused_in_one_sentence(bad):
    message = r"^`alpha` must be a finite number above 0: got .*\. Choose a value such as 1\.$"
    with pytest.raises(InvalidInputError, match=message):
        checked(Learner(alpha=bad))


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (Annotated[int | None, AtLeast(1)], "a whole number from 1 on or None"),
        (Annotated[int, Positive()], "a whole number above 0"),
        (Annotated[float, Above(0), Below(1)], "a finite number between 0 and 1 (excluded)"),
        (Annotated[float, Above(0), AtMost(1)], "a finite number above 0 and up to 1"),
        (Annotated[float, AtLeast(0), AtMost(1)], "a finite number from 0 to 1"),
        (Annotated[float, AtLeast(0), Below(1)], "a finite number from 0 on and below 1"),
        (Literal["drop", "keep"], "one of 'drop', 'keep'"),
        (Annotated[float, Positive()] | Literal["scale"], "a finite number above 0 or 'scale'"),
        (bool | Literal["auto"], "True, False or 'auto'"),
        (
            Annotated[Any, Reads(as_space, "a space", SPACES)] | None,
            "a space, one of 'flat', 'curved' or None",
        ),
        (RandomSeed, "a whole number from 0 to 4,294,967,295, a RandomState, a Generator or None"),
        (Callable[[float], float], "a function"),
        (
            Annotated[FloatArray, Shape("n_items", "n_outputs"), AtLeast(0)],
            "an array of finite numbers from 0 on of shape (n_items, n_outputs)",
        ),
    ],
)
def test_rules_say_what_must_hold(annotation, says):
    assert compile_rule(annotation).says == says


def test_whole_numbers_are_no_floats_and_no_booleans():
    take = compile_rule(Annotated[int, AtLeast(1)]).take
    assert take(np.int64(3)) == 3
    assert type(take(np.uint8(3))) is int
    assert all(take(bad) is REFUSED for bad in (3.0, True, 0, 2**63, np.float64(2), "3", None))


def test_switches_take_booleans_only():
    take = compile_rule(bool).take
    assert take(np.True_) is True
    assert all(take(bad) is REFUSED for bad in (1, 0.0, "yes", None, pd.NA, np.array([True]), []))


def test_near_misses_are_suggested():
    message = r"`ties` must be one of 'drop', 'keep': got 'kep'. Did you mean 'keep'\?"
    with pytest.raises(InvalidInputError, match=message):
        checked(Learner(ties="kep"))


def test_arrays_are_shown_by_shape_and_huge_integers_by_digits():
    with pytest.raises(InvalidInputError, match=r"got an array of shape \(1000,\)"):
        checked(Learner(alpha=np.ones(1000)))
    with pytest.raises(InvalidInputError, match="about 5001 digits"):
        checked(Learner(alpha=10**5000))


def test_entries_of_arrays_are_named_by_row():
    with pytest.raises(InvalidInputError, match=r"above 0 of shape .n_alphas,. .*-2.0 in row 1"):
        checked(Learner(alphas=[1.0, -2.0]))
    with pytest.raises(InvalidInputError, match="`alphas` must be an array of finite numbers"):
        checked(Learner(alphas=[[1.0], [1.0, 2.0]]))


def test_values_are_taken_by_name_or_as_they_are():
    assert checked(Learner(space="curved")).space == 2
    assert checked(Learner(space=7)).space == 7
    with pytest.raises(InvalidInputError, match="`space` must be a space or one of 'flat', "):
        checked(Learner(space="bent"))


def test_a_registry_may_grow_after_the_rule_was_compiled():
    rule = compile_rule(Annotated[Any, Reads(as_space, "a space", SPACES)])
    SPACES["torn"] = 3
    try:
        assert "torn" in rule.names
    finally:
        del SPACES["torn"]


def test_the_owner_stays_as_it_was_constructed():
    learner = Learner(alpha=np.float32(0.5), space="curved")
    assert type(checked(learner)) is Learner
    assert type(learner.alpha) is np.float32
    assert learner.space == "curved"


def test_calls_are_checked_by_annotations_too():
    assert Learner().rank(np.int64(2)) == {"k": 2}
    with pytest.raises(InvalidInputError, match="`k` must be a whole number above 0 or None: got"):
        Learner().rank(0)


def test_frozen_values_are_put_into_one_form():
    assert type(Width(2).gamma) is float
    assert hash(Width(2)) == hash(Width(np.float64(2.0)))
    with pytest.raises(InvalidInputError, match="`gamma` must be a finite number above 0: got -1"):
        Width(-1)


def test_axes_of_one_name_have_one_length():
    rules = {
        "n": compile_rule(Annotated[int, Size("n_features")]),
        "w": compile_rule(Annotated[FloatArray, Shape("n_features"), Shape("n_out", "n_features")]),
    }
    assert check_values(rules, {"n": 2, "w": np.ones((3, 2))})["w"].shape == (3, 2)
    message = r"`w` must have the shape \(n_features,\) with n_features = 2, as `n` has: got \(3,\)"
    with pytest.raises(InvalidInputError, match=message):
        check_values(rules, {"n": 2, "w": np.ones(3)})


def test_annotations_without_a_rule_are_an_error_of_the_class():
    with pytest.raises(TypeError, match="no rule for the annotation"):
        compile_rule(3)
    with pytest.raises(TypeError, match="choices must be texts"):
        compile_rule(Literal["a", 1])


def test_a_check_takes_microseconds():
    learner = Learner()
    rules_of(Learner)
    seconds = min(timeit.repeat(lambda: checked(learner), number=200, repeat=5)) / 200
    assert seconds < 50e-6


def test_aliases_are_what_they_stand_for():
    """NumPy's types of arrays are such aliases from 2.5 on."""
    number = TypeAliasType("number", Annotated[float, Positive()])
    rule = compile_rule(TypeAliasType("either", number | None))
    assert rule.take(None) is None
    assert rule.take(2) == 2.0
    assert rule.take(-1) is REFUSED
    assert compile_rule(ArrayLike).take([[1, "a"]]) == [[1, "a"]]
