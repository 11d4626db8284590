"""What comes in from outside is refused where it cannot be used."""

import numpy as np
import pytest
from scipy import sparse

from rankwise import InvalidInputError, LinearRankRLS, NumericalError, RankRLS, RankSVM
from rankwise.core.checks import are_plain_rows, as_floats
from rankwise.core.errors import BEGINNING, END, MissingExtraError

X = np.random.default_rng(0).normal(size=(8, 3))
Y = np.arange(8.0) % 3


def masked(values, *where):
    mask = np.zeros(np.shape(values), dtype=bool)
    mask[where] = True
    return np.ma.masked_array(values, mask=mask)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankRLS().fit(masked(X, 1), Y), "`X` must not have masked entries: 3 are"),
        (lambda: RankRLS().fit(X, masked(Y, 1)), "`y` must not have masked"),
        (lambda: RankRLS().fit(X, Y, qid=masked(Y, 1)), "`qid` must not have masked"),
        (lambda: RankRLS().fit(X, Y, sample_weight=masked(Y, 1)), "`sample_weight` must not"),
        (lambda: RankRLS().fit(X, pairs=masked([[0, 1]], 0, 1)), "`pairs` must not have masked"),
        (
            lambda: RankRLS().fit(X, pairs=[[0, 1]], pair_margin=masked([1.0], 0)),
            "`pair_margin` must not have masked",
        ),
        (lambda: RankRLS().fit(X, pairs=[[0, 1], [2]]), "all of one length: got lengths"),
        (lambda: RankRLS().fit([[1, 2], [3]], pairs=[("a", "b")]), "`X` must hold one entry for"),
        (lambda: RankRLS().fit(X, Y + 1j), "`y` must hold numbers.*complex128"),
        (lambda: RankRLS().fit(X, Y.astype("M8[s]")), "`y` must hold numbers.*datetime64"),
        (lambda: RankRLS().fit(X, [10**400] * 8), "`y` must hold numbers.*too large"),
        (lambda: RankRLS().fit([[10**400]] * 8, Y), "`X` must hold numbers that fit a float"),
        (lambda: RankRLS().fit(X, Y, sample_weight=["a"] * 8), "`sample_weight` must hold numbers"),
        (lambda: RankRLS(10**400).fit(X, Y), "`alpha` must be a finite number"),
        (lambda: RankRLS().fit({"a": [1]}, Y), "`X` must be a table of numbers.*got dict"),
        (lambda: RankRLS().fit(None, Y), "`X` must be a table of numbers.*got NoneType"),
        (lambda: RankRLS().fit(iter(X), Y), "`X` must be a table of numbers"),
        (lambda: RankRLS().fit(X.astype("M8[s]"), Y), "Turn dates into numbers"),
        (lambda: RankRLS().fit(X, Y).predict({"a": [1]}), "got dict. Give an array"),
        (lambda: RankRLS().fit(X * 1e200, Y), r"numbers up to 1e\+140.*Scale the features"),
        (lambda: RankRLS().fit(sparse.csr_array(X * -1e200), Y), r"numbers up to 1e\+140"),
        (lambda: LinearRankRLS().fit(X * 1e200, Y), r"numbers up to 1e\+140"),
        (lambda: RankSVM().fit(X * 1e200, Y), r"numbers up to 1e\+140"),
    ],
)
def test_unusable_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_matrices_and_lazy_frames_are_told_what_to_do():
    class LazyFrame:
        def collect(self):
            return X

    with pytest.raises(InvalidInputError, match=r"got LazyFrame. Call X.collect\(\) first"):
        RankRLS().fit(LazyFrame(), Y)
    with (
        pytest.warns(PendingDeprecationWarning),
        pytest.raises(InvalidInputError, match=r"got matrix. Use np.asarray\(X\)"),
    ):
        RankRLS().fit(np.matrix(X), Y)


def test_masked_arrays_without_masked_entries_are_arrays():
    plain = RankRLS().fit(X, Y)
    wrapped = RankRLS().fit(masked(X, []), masked(Y, []))
    np.testing.assert_array_equal(plain.coef_, wrapped.coef_)


def test_a_long_value_leaves_a_message_that_can_be_read():
    with pytest.raises(InvalidInputError, match=r"^`kernel` must be one of") as caught:
        RankRLS(kernel="x" * 400_000).fit(X, Y)
    assert len(str(caught.value)) < BEGINNING + END + 60
    with pytest.raises(InvalidInputError, match=r"characters\) \.\.\. .*Choose it\.$"):
        raise InvalidInputError(f"`alpha` must be a number: got {'1' * 10_000}. Choose it.")


def test_numbers_stay_what_they_are():
    values = np.array([1.5, 2.5])
    assert as_floats("y", values) is values
    assert as_floats("y", [True, 2]).tolist() == [1.0, 2.0]


def test_scores_beyond_all_doubles_are_refused():
    ranker = RankRLS(1e-12).fit(X, Y)
    with pytest.raises(NumericalError, match="exceed the range of double precision"):
        ranker.predict(np.full((1, 3), 1e308) * np.sign(ranker.coef_))


class _Fitted:
    n_features_in_ = 0

    def __init__(self, n_features=2, names=None):
        self.n_features_in_ = n_features
        if names is not None:
            self.feature_names_in_ = names


@pytest.mark.parametrize(
    ("rows", "is_plain"),
    [
        (np.ones((3, 2)), True),
        (np.full((3, 2), 1e200), False),  # finite, but not seen at a glance
        (np.ones((0, 2)), False),
        (np.ones((3, 3)), False),
        (np.ones(2), False),
        (np.ones((3, 2), dtype=np.float32), False),
        (np.ones((3, 2), dtype=int), False),
        (np.ones((3, 2), dtype=">f8"), False),
        (np.ones((2, 3)).T, False),
        (np.ma.masked_array(np.ones((3, 2))), False),
        (np.array([[1.0, np.inf]]), False),
        (np.array([[1.0, np.nan]]), False),
        ([[1.0, 2.0]], False),
    ],
)
def test_rows_are_plain_only_if_nothing_is_left_to_read(rows, is_plain):
    assert are_plain_rows(rows, _Fitted()) is is_plain
    assert not are_plain_rows(rows, _Fitted(names=["a", "b"]))


def test_blanks_are_plain_where_they_are_allowed_and_infinity_is_not():
    assert are_plain_rows(np.array([[1.0, np.nan]]), _Fitted(), allow_nan=True)
    assert not are_plain_rows(np.array([[np.inf, np.nan]]), _Fitted(), allow_nan=True)


def test_a_missing_extra_of_several_packages_is_said_in_the_plural():
    one, several = (str(MissingExtraError("It", package, "x")) for package in ("a", "a, b and c"))
    assert one.startswith("It needs a, which is not installed.")
    assert several.startswith("It needs a, b and c, which are not all installed.")
