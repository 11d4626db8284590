"""What the fuzzers found, one case each."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import rankwise
from problems import problem
from rankwise import (
    InvalidInputError,
    RankerPipeline,
    RankRLS,
    RankRLSCV,
    WithinQueryEncoder,
    WithinQueryScaler,
)
from rankwise.io import from_frame, read_comparisons, write_scores

P = problem(seed=0, sizes=(4, 3, 5))


ODD_MEASURES = {"bytes": b"NDCG", "number": 3, "array": np.zeros(3), "iterator": iter("a")}


@pytest.mark.parametrize("measure", ODD_MEASURES.values(), ids=ODD_MEASURES)
def test_a_measure_is_a_measure_or_its_name(measure):
    with pytest.raises(InvalidInputError, match="measure"):
        RankRLSCV([0.1, 1.0], measure=measure).fit(P.X, P.y, P.qid)


SWITCHES = [
    (cls, name)
    for cls in (RankRLSCV, rankwise.LinearRankRLS, rankwise.RankSVM, rankwise.DORM)
    for name, value in cls().get_params().items()
    if isinstance(value, bool)
]


NO_SWITCHES = {
    "array": np.arange(3.0),
    "list": [True],
    "mapping": {},
    "sparse": csr_array((3, 2)),
    "frame": pd.DataFrame({"a": [1, 2]}),
    "missing": pd.NA,
}


@pytest.mark.parametrize("value", NO_SWITCHES.values(), ids=NO_SWITCHES)
@pytest.mark.parametrize(("cls", "name"), SWITCHES, ids=str)
def test_a_switch_is_no_array(cls, name, value):
    with pytest.raises(
        InvalidInputError, match=f"`{name}` must be True(,| or) False( or a function)?: got "
    ):
        cls(**{name: value}).fit(P.X, P.y, P.qid)


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (RankRLSCV(ties=np.arange(3.0)), "`ties` must be one of 'drop', 'keep'"),
        (rankwise.RankSVM(cost=np.arange(3.0)), "`cost` must be one of 'unit', 'magnitude'"),
        (rankwise.RankSVM(kernel=np.arange(3.0)), "`kernel` must be a name, a kernel or"),
        (rankwise.DORM(kernel=np.arange(3.0)), "`kernel` must be a name, a kernel or"),
    ],
)
def test_an_array_is_no_name(ranker, message):
    with pytest.raises(InvalidInputError, match=message):
        ranker.fit(P.X, P.y, P.qid)


@pytest.mark.parametrize(
    "value", [np.zeros(3), 3, True, [], "", b"a", lambda x: x], ids=lambda v: type(v).__name__
)
def test_a_checkpoint_is_a_path(value):
    with pytest.raises(InvalidInputError, match="`checkpoint` must be the path of a file or None"):
        rankwise.LinearRankRLS(checkpoint=value).fit(P.X, P.y, P.qid)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 10**400}, "`alpha` must be a finite number from 0"),
        ({"alphas": [10**400]}, "`alphas` must be an array of finite numbers"),
        ({"alphas": [[1, 2], [3]]}, "`alphas` must be an array of finite numbers"),
        ({"alphas": ["a"]}, "`alphas` must be an array of finite numbers"),
    ],
)
def test_alphas_beyond_all_floats_or_of_no_shape_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        rankwise.LinearRankRLS(**options).fit(P.X, P.y, P.qid)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bounds", "`bounds` must map names of hyperparameters"),
        ("flip_rate", "`flip_rate` must be a finite number between 0 and 0.5"),
    ],
)
def test_hyperparameters_of_a_process_are_no_arrays(name, message):
    ranker = rankwise.PreferenceGP(**{name: np.arange(3.0)})
    with pytest.raises(InvalidInputError, match=message):
        ranker.fit(P.X, pairs=[[0, 1], [2, 1]])


GRADES = np.digitize(P.y, [-1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decay": 10**400}, "`decay` must be an exponent above 0"),
        ({"n_diverse": np.arange(3)}, "`n_diverse` must be"),
        ({"n_functions": np.arange(3)}, "`n_functions` must be a whole number"),
        ({"max_iter": 10**400}, r"`max_iter` must be .*401 digits, which is not below 2\*\*63"),
        ({"n_functions": 10**30}, r"`n_functions` must be .*0, which is not below 2\*\*63"),
        ({"basis": np.zeros((0, 3))}, "`basis` must be .* at least one row"),
        ({"basis": [[1, 2], [3]]}, "`basis` must be a table of numbers"),
        ({"basis": [["a", "b", "c"]]}, "`basis` must hold numbers"),
    ],
)
def test_options_of_dorm_are_checked(options, message):
    with pytest.raises(InvalidInputError, match=message):
        rankwise.DORM(**options).fit(P.X, GRADES, P.qid)


@pytest.mark.parametrize("Cs", [2**31, 10**400, [[1, 2], [3]], 0, True, np.ones((2, 2))], ids=repr)
def test_the_grid_of_dorm_is_of_a_size_that_can_be_tried(Cs):
    with pytest.raises(InvalidInputError, match="`Cs` must be a number of values up to 10,000, or"):
        rankwise.DORMCV(Cs=Cs).fit(P.X, GRADES, P.qid)


def test_a_basis_that_spans_nothing_gives_dorm_no_features():
    ranker = rankwise.DORM(basis=np.full((3, 3), 1e-320), max_iter=5)
    with pytest.warns(rankwise.ConvergenceWarning, match="Nothing was learned"):
        ranker.fit(P.X, GRADES, P.qid)
    assert np.ptp(ranker.predict(P.X)) == 0.0


@pytest.mark.parametrize("cv", [b"bytes", np.array(3.0), 2.5], ids=repr)
def test_folds_are_a_number_a_splitter_or_lists(cv):
    with pytest.raises(InvalidInputError, match="`cv` must be 'auto', 'leave_query_out'"):
        RankRLSCV([0.1, 1.0], cv=cv).fit(P.X, P.y, P.qid)


@pytest.mark.filterwarnings("ignore::rankwise.ConvergenceWarning")
def test_a_c_beyond_all_reason_still_ends():
    assert np.isfinite(rankwise.RankSVM(C=10.0**30, max_iter=50).fit(P.X, P.y, P.qid).coef_).all()


def test_alpha_of_components_fits_a_float():
    with pytest.raises(InvalidInputError, match="`alpha` must be a finite number from 0 on"):
        rankwise.KPCRank(alpha=10**400).fit(P.X, P.y, P.qid)


def test_a_degree_beyond_all_floats_is_refused():
    with pytest.raises(
        InvalidInputError, match=r"`degree` must be a whole number from 1 to 2,147,483,648"
    ):
        rankwise.Polynomial(10**400)


def test_a_choice_is_a_text_and_no_array():
    with pytest.raises(InvalidInputError, match="`cost` must be one of"):
        RankRLS(cost=np.ones(3)).fit(P.X, P.y, P.qid)


@pytest.mark.parametrize("transformer", [WithinQueryScaler, WithinQueryEncoder])
def test_numbers_beyond_all_floats_are_refused(transformer):
    with pytest.raises(ValueError, match="fit a float|2D array"):
        transformer().fit(10**400, P.y, qid=P.qid)
    with pytest.raises(InvalidInputError, match="`scores` must hold numbers"):
        rankwise.evaluate(P.y, [10**400] * len(P.y), P.qid)
    with pytest.raises(InvalidInputError, match="`X` must hold numbers that fit a float"):
        rankwise.leave_pair_out(RankRLS(), 10**400, P.y > 0)


def test_basis_rows_that_span_nothing_are_no_division_by_zero():
    basis = np.full((3, P.X.shape[1]), 1e-320)
    ranker = RankRLSCV([0.1, 1.0], basis=basis).fit(P.X, P.y, P.qid)
    assert np.ptp(ranker.predict(P.X)) == 0.0


def test_the_steps_of_a_pipeline_are_a_list():
    with pytest.raises(InvalidInputError, match="`steps` must end in a ranker"):
        RankerPipeline({"a": RankRLS()}).fit(P.X, P.y, P.qid)


def test_a_number_is_no_path_of_a_model():
    with pytest.raises(InvalidInputError, match="`path` must be the path of a model file: got int"):
        rankwise.load(1)  # would read, and close, standard output


def test_comparisons_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "matches.csv"
    path.write_text("who,whom\na,b\n")
    with pytest.raises(rankwise.DataFileError, match=r"matches\.csv: Comparisons must"):
        read_comparisons(path)


def test_a_margin_without_end_is_named_with_its_file(tmp_path):
    path = tmp_path / "matches.csv"
    path.write_text("winner,loser,margin\na,b,1\nb,a,inf\n")
    with pytest.raises(rankwise.DataFileError, match=r"matches\.csv: `margin` must be finite"):
        read_comparisons(path)


@pytest.mark.parametrize(
    "ranker", [RankRLS(), rankwise.LinearRankRLS(), rankwise.KPCRank()], ids=repr
)
@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (1e200, "`y` must hold numbers up to 1e.140 .* Divide all"),
        (1e-200, "`y` must hold numbers above 1e-140 .* Multiply all"),
    ],
)
def test_scores_whose_squares_are_no_numbers_are_refused(ranker, scale, message):
    for y in (P.y * scale, np.column_stack([P.y, P.y]) * scale):
        with pytest.raises(InvalidInputError, match=message):
            ranker.fit(P.X, y, P.qid)


def test_margins_whose_squares_are_no_numbers_are_refused():
    with pytest.raises(InvalidInputError, match="`pair_margin` must hold numbers up to 1e.140"):
        RankRLS().fit(P.X, pairs=[[0, 1], [1, 2]], pair_margin=[1e200, 1.0])


def test_samples_whose_squares_are_no_numbers_are_refused():
    with pytest.raises(InvalidInputError, match="`X` must hold numbers up to 1e.140"):
        rankwise.leave_pair_out(RankRLS(), P.X * 1e300, P.y > 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rankwise.Gaussian(np.ones(3)), "`gamma` must be a finite number above 0"),
        (lambda: rankwise.Polynomial(coef0=np.ones(3)), "`coef0` must be .* from 0 on"),
        (lambda: rankwise.Polynomial(coef0="one"), "`coef0` must be a finite number from 0 on"),
        (lambda: rankwise.evaluate(P.y, P.y, P.qid, 3), "A measure must have the form"),
        (lambda: rankwise.evaluate(P.y, P.y, P.qid, np.array(3.0)), "A measure must have the form"),
        (lambda: rankwise.evaluate([[1, 2], [3]], P.y), "`y` must hold numbers"),
        (lambda: rankwise.leave_pair_out(RankRLS(), P.X, [[1, 2], [3]]), "`y` must hold one entry"),
        (lambda: rankwise.leaderboard(np.ones((4, 3, 2))), "Comparisons must come as a file"),
        (lambda: rankwise.leaderboard({"a": 1}), "must hold one entry per comparison: got 1"),
        (lambda: WithinQueryEncoder(columns=3).fit(P.X, P.y, P.qid), "`columns` must hold"),
        (
            lambda: rankwise.WithinQueryImputer(add_indicator=np.ones(3)).fit(P.X, P.y, P.qid),
            "`add_indicator` must be True or False",
        ),
        (
            lambda: rankwise.LinearRankRLS(ties=np.ones(3)).fit(P.X, np.eye(12)[:, :2], P.qid),
            "`ties` must be one of",
        ),
        (
            lambda: rankwise.KPCRank(ties=np.ones(3)).fit(P.X, P.y, P.qid),
            "`ties` must be one of",
        ),
    ],
)  # fmt: skip
def test_an_argument_of_the_wrong_kind_is_named(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


NAMED = [("a", "b"), ("b", "c"), ("a", "c")]
RANKER = RankRLS().fit(P.X, P.y, P.qid)
PROCESS = rankwise.PreferenceGP().fit(pairs=NAMED)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PROCESS.predict_pair("a", "b", noisy=np.ones(3)), "`noisy` must be True or"),
        (lambda: PROCESS.predict_pair("a", "b", covariates=[1.0]), "`covariates` must be a dict"),
        (lambda: PROCESS.predict_pair("a", "b", judge=[None]), "`judge` must be one of"),
        (lambda: PROCESS.predict([None]), "Names must be those of the 3 items of `fit`: got None"),
        (lambda: PROCESS.suggest(n=None), "`n` must be a whole number above 0"),
        (lambda: PROCESS.suggest(k=np.ones(3)), "`k` must be a whole number above 0"),
        (lambda: PROCESS.sample(n=None), "`n` must be a whole number above 0"),
        (lambda: PROCESS.leaderboard(n_draws=None), "`n_draws` must be a whole number above 0"),
        (
            lambda: PROCESS.leaderboard(level="much"),
            "`level` must be a finite number between 0 and 1",
        ),
        (lambda: PROCESS.update([("a", "b")], judge=3), "Names must come as a list"),
        (lambda: PROCESS.update([("a", "b")], judge=[[1, 2], [3]]), "`judge` must hold one entry"),
        (lambda: PROCESS.update([("a", "b")], date=3.0), "date has no list of entries"),
        (lambda: PROCESS.update([("a", "b")], date=[[]]), "`date` must hold one date for each"),
        (lambda: PROCESS.update([[1, 2], [3]]), "Rows of comparisons must be"),
        (
            lambda: rankwise.PreferenceGP().fit(P.X, pairs=[[0, 1], [1, 2]], judge=[[1, 2], [3]]),
            "`judge` must hold one entry",
        ),
        (
            lambda: rankwise.LinearRankRLS(early_stopping=True, validation_fraction=np.ones(3)).fit(
                P.X, P.y, P.qid
            ),
            "`validation_fraction` must be a finite number between 0 and 1",
        ),
        (lambda: rankwise.leaderboard(NAMED, level=np.ones(3)), "`level` must be a finite number"),
        (lambda: rankwise.leaderboard(NAMED, clustered=[1, 0]), "`clustered` must be True or"),
        (lambda: rankwise.leaderboard(NAMED, deviation=1e300), "`deviation` must lie between"),
        (lambda: rankwise.leaderboard(NAMED, half_life="long"), "`half_life` must be a finite"),
        (lambda: rankwise.leaderboard(NAMED, ["a"]), "`columns` must be ComparisonColumns"),
        (lambda: rankwise.leaderboard(NAMED).win_matrix(3), "Names must be those of the leader"),
        (lambda: rankwise.PairCalibration.of(None, P.X, [[0, 1]]), "`ranker` must be a ranker"),
        (lambda: rankwise.evaluate_answers("much"), "`probability` must hold numbers"),
        (lambda: rankwise.evaluate_answers([0.5], [1], n_bins=[3]), "`n_bins` must be a whole"),
        (lambda: rankwise.evaluate_answers([0.5], [[1, 2], [3]]), "`outcome` must hold numbers"),
        (lambda: rankwise.compare_auc([0, 0, 1, 1], "a", [1.0] * 4), "`a` must hold numbers"),
        (lambda: rankwise.paired_test([1.0, "x"], [1.0, 2.0]), "`a` must hold numbers"),
        (lambda: rankwise.explain(RANKER, P.X, P.qid, a=None), "`a` must be a row of `X`"),
        (lambda: rankwise.explain(RANKER, P.X, P.qid, b=[1]), "`b` must be a row of `X`"),
        (lambda: rankwise.explain(RANKER, {"a": 1}), "Rows must hold numbers or text"),
        (lambda: rankwise.explain(RANKER, [[1, 2], [3]]), "Rows must have the same length"),
        (
            lambda: rankwise.feature_importance(RANKER, P.X, P.y, P.qid, feature_names=3.0),
            "`feature_names` must hold a name for each",
        ),
        (
            lambda: rankwise.leave_pair_out(RankRLS(), P.X, P.y > 0, positive=[[1, 2], [3]]),
            "`positive` must be one of",
        ),
        (
            lambda: rankwise.leave_pair_out(RankRLS(), P.X, P.y > 0, roc=np.ones(3)),
            "`roc` must be True or False",
        ),
        (lambda: rankwise.click_propensities([[1, 2], [3]], [1, 0]), "`position` must hold one"),
        (lambda: rankwise.click_propensities([0, 1], "no"), "`clicked` must hold numbers"),
        (lambda: rankwise.ConditionalRankRLS().fit(10**400, P.X, P.y), "numbers that fit a float"),
        (lambda: rankwise.BoostedRanker().fit(10**400, P.y, P.qid), "numbers that fit a float"),
        (
            lambda: rankwise.BoostedRanker(min_samples_leaf=2**31).fit(P.X, P.y, P.qid),
            "LightGBM must accept the options",
        ),
    ],
)
def test_an_odd_argument_of_a_method_is_named(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


RANKER = RankRLS().fit(P.X, P.y, P.qid)
GP = rankwise.PreferenceGP().fit(P.X, pairs=[[0, 1], [2, 1], [3, 2]])
NAMED_GP = rankwise.PreferenceGP().fit(pairs=[("a", "b"), ("b", "c")])
DIRECT = rankwise.DORM().fit(P.X, P.y, P.qid)
EVALUATION = rankwise.evaluate(P.y, P.y, P.qid)
RAGGED = [[1, 2], [3]]


def matrix():
    """Return what NumPy warns of making."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.matrix([[1, 2]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: EVALUATION.interval(random_state=matrix()),
            "`random_state` must be a whole number from 0",
        ),
        (
            lambda: EVALUATION.interval(random_state=-1),
            "`random_state` must be a whole number from 0",
        ),
        (lambda: next(rankwise.QueryKFold(2, random_state="a").split(P.X, P.y, P.qid)), "`random_"),
        (lambda: RANKER.rank(P.X, P.qid, k=1j), "`k` must be a whole number"),
        (lambda: RANKER.rank(P.X, P.qid, as_frame=pd.NA), "`as_frame` must be True or False"),
        (lambda: rankwise.RankSVM().fit_path(P.X, P.y, P.qid, Cs=RAGGED), "`Cs` must be an array"),
        (lambda: DIRECT.predict_diverse(P.X, RAGGED, P.qid), "`sources` must hold one entry"),
        (lambda: DIRECT.predict_diverse(P.X, [None] * 12, P.qid), "`sources` must name a source"),
        (lambda: DIRECT.predict_diverse(P.X, [["a"]] * 12, P.qid), "weights of items over topics"),
        (lambda: GP.update(RAGGED, tied=[[0, 1]]), "`pairs` must hold one entry"),
        (lambda: GP.predict(P.X, return_std=pd.NA), "`return_std` must be True or False"),
        (
            lambda: GP.certainty(n_draws=2**31),
            "`n_draws` must be a whole number above 0 and up to 10,000,000",
        ),
        (lambda: GP.sample(n=2**31), "`n` must be a whole number above 0 and up to 10,000,000"),
        (lambda: GP.with_length_scale(None), "`factor` must be a finite number"),
        (
            lambda: rankwise.PreferenceGP().fit(RAGGED, pairs=[("a", "b")]),
            "`X` must have rows of one length",
        ),
        (lambda: NAMED_GP.rank(RAGGED), "`X` must hold one entry"),
        (lambda: NAMED_GP.leaderboard().format([]), "`kind` must be one of"),
        (lambda: rankwise.Queries.single(-1), "`n_items` must be a whole number"),
        (lambda: rankwise.Queries.from_qid([1, 1]).sum([1.0]), "`values` must have one entry"),
        (
            lambda: rankwise.PreferenceGraph.from_pairs([[0, 1]], n_items="2"),
            "`n_items` must be a whole",
        ),
        (
            lambda: rankwise.PreferenceGraph.from_scores([1.0, 2.0]).quadratic([1.0]),
            "`f` must have one entry per item",
        ),
        (
            lambda: rankwise.leave_pair_out(rankwise.RankRLS(ties=np.zeros(2)), P.X, P.y),
            "`ties` must be one of",
        ),
        (
            lambda: rankwise.leave_pair_out(RankRLS(), P.X, P.y, roc=pd.NA),
            "`roc` must be True or False",
        ),
        (lambda: rankwise.leave_pair_out([], P.X, P.y), "`estimator` must have a method `fit`"),
        (
            lambda: rankwise.leave_pair_out(RankRLS(), P.X, P.y, n_permutations=np.zeros(0)),
            "`n_permutations` must be a whole number",
        ),
        (lambda: rankwise.feature_importance(None, P.X, P.y), "`ranker` must have a method"),
        (
            lambda: rankwise.feature_importance(RANKER, P.X, P.y, n_repeats=2**31),
            "`n_repeats` must be .* up to 100,000",
        ),
        (lambda: rankwise.suspect_answers([("a", "b")], None), "`board` must be a Leaderboard"),
        (lambda: rankwise.average_over_length_scales(None), "`gp` must be a PreferenceGP"),
        (
            lambda: rankwise.SquaredExponential(item_effect=None),
            "`item_effect` must be a finite number from 0 on",
        ),
        (lambda: rankwise.SquaredExponential(length_scale=RAGGED), "`length_scale` must hold one"),
        (lambda: read_comparisons([("a", "b")], True), "`columns` must be ComparisonColumns"),
        (lambda: read_comparisons([("a", "b")], names=RAGGED), "`names` must hold one entry"),
        (lambda: read_comparisons([("a", "b")], names=[["a"]]), "`names` must be text or numbers"),
        (lambda: RANKER.report(None, P.y), "`X` must be a table of numbers"),
        (lambda: write_scores(None, [1.0]), "`target` must be the path of a file or an open one"),
        (
            lambda: from_frame(pd.DataFrame({"x": [1.0], "y": [1.0]}), y=True),
            "`y` must name a column of",
        ),
        (
            lambda: from_frame(pd.DataFrame({"x": [1.0], "y": [1.0]}), features=[3]),
            "`features` must name columns of",
        ),
    ],
)
def test_odd_arguments_are_named(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize("path", [None, 0, 2**31, True, {}])
def test_paths_are_text_or_paths(path):
    with pytest.raises(rankwise.DataFileError, match="Expected the path of a file, got"):
        rankwise.LinearRankRLS().fit_file(path)


COMPLEX = {"Python": 1 + 0j, "double": np.complex128(1), "single": np.complex64(1)}
REAL_NUMBERS = {
    "RankRLS": lambda c: RankRLS(alpha=c).fit(P.X, P.y),
    "RankRLSCV": lambda c: RankRLSCV([c, 2.0]).fit(P.X, P.y, P.qid),
    "LinearRankRLS": lambda c: rankwise.LinearRankRLS(alpha=c).fit(P.X, P.y),
    "RankSVM": lambda c: rankwise.RankSVM(c).fit(P.X, P.y),
    "DORM": lambda c: rankwise.DORM(C=c).fit(P.X, P.y),
    "KPCRank": lambda c: rankwise.KPCRank(2, alpha=c).fit(P.X, P.y),
    "ConditionalRankRLS": lambda c: rankwise.ConditionalRankRLS(alpha=c).fit(P.X, P.X, P.X @ P.X.T),
    "noise": lambda c: rankwise.PreferenceGP(noise=c).fit(P.X, P.y),
    "flip_rate": lambda c: rankwise.PreferenceGP(flip_rate=c).fit(P.X, P.y),
    "Gaussian": rankwise.Gaussian,
    "Polynomial": lambda c: rankwise.Polynomial(2, 1.0, c),
    "SquaredExponential": lambda c: rankwise.SquaredExponential(1.0, 1.0, c),
    "AUC": lambda c: rankwise.AUC(relevant=c),
    "y": lambda c: RankRLS().fit(P.X, c * P.y),
    "sample_weight": lambda c: RankRLS().fit(P.X, P.y, sample_weight=np.full(len(P.y), c)),
    "pair_margin": lambda c: RankRLS().fit(P.X, pairs=[[0, 1]], pair_margin=[c]),
    "scores": lambda c: rankwise.evaluate(P.y, c * P.X[:, 0], P.qid, "Concordance"),
}


@pytest.mark.parametrize("number", COMPLEX.values(), ids=COMPLEX)
@pytest.mark.parametrize("use", REAL_NUMBERS.values(), ids=REAL_NUMBERS)
def test_complex_numbers_are_not_taken_for_real_ones(use, number):
    """NumPy's convert to floats with a warning, and would lose their imaginary part."""
    with pytest.raises(InvalidInputError, match="must"):
        use(number)


WEIGHTED = [
    RankRLS(),
    RankRLS(kernel="gaussian"),
    RankRLSCV([0.1, 1.0]),
    rankwise.LinearRankRLS(),
    rankwise.RankSVM(),
    rankwise.KPCRank(2),
    rankwise.DORM(),
    rankwise.PreferenceGP(),
    rankwise.BoostedRanker(n_trees=2, early_stopping=False),
    rankwise.SearchRanker(basis=5),
]


@pytest.mark.parametrize("ranker", WEIGHTED, ids=str)
def test_weights_whose_products_overflow_are_refused(ranker):
    """Weights of 1e300 once gave bare warnings of an overflow, or a model of NaN."""
    with pytest.raises(InvalidInputError, match="`sample_weight` must hold weights up to 1e[+]70"):
        ranker.fit(P.X, P.y, P.qid, sample_weight=np.full(len(P.y), 1e300))


def test_weights_of_comparisons_and_measures_have_the_same_limit():
    with pytest.raises(InvalidInputError, match="`pair_weight` must hold weights up to 1e[+]70"):
        RankRLS().fit(P.X, pairs=[[0, 1]], pair_weight=[1e300])
    with pytest.raises(InvalidInputError, match=r"got 1e[+]300. Divide all weights"):
        rankwise.evaluate(P.y, P.X[:, 0], P.qid, "AUC", sample_weight=np.full(len(P.y), 1e300))
    RankRLS().fit(P.X, P.y, P.qid, sample_weight=np.full(len(P.y), 1e70))


@pytest.mark.parametrize("loss", ["rank_rls", "squared_hinge"])
def test_trees_refuse_derivatives_beyond_single_precision(loss):
    ranker = rankwise.BoostedRanker(loss, n_trees=2, early_stopping=False)
    with pytest.raises(InvalidInputError, match="single precision can hold.*Divide scores"):
        ranker.fit(P.X, P.y, P.qid, sample_weight=np.full(len(P.y), 1e60))
