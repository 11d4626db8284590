"""Kernels on pairs of objects: RankRLS on explicit rows, refits, relations, refusals."""

import mpmath
import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.base import clone
from sklearn.utils import estimator_checks

import rankwise
import reference
from rankwise import (
    ConditionalRankRLS,
    ConditionalRankRLSCV,
    ConjugateGradients,
    Gaussian,
    IndicatorEncoder,
    InvalidInputError,
    NothingToLearnError,
    NumericalError,
    Polynomial,
    RankRLS,
    export_ranker,
    load,
)

KERNELS = {"condition_kernel": Gaussian(0.3), "item_kernel": Polynomial(2, 0.5)}
EXACT = ConjugateGradients(tol=1e-13, n_basis=20)
RNG = np.random.default_rng(0)
U, V = RNG.normal(size=(9, 2)), RNG.normal(size=(7, 3))
Y = RNG.normal(size=(9, 7))
Q = RNG.normal(size=(9, 9))
SOME = np.where(RNG.random(Y.shape) < 0.6, Y, np.nan)
GRADES = np.round(Y)
NEW_U, NEW_V = RNG.normal(size=(4, 2)), RNG.normal(size=(5, 3))
K, G = KERNELS["condition_kernel"](U, U), KERNELS["item_kernel"](V, V)
COMPARISONS = np.array([[0, 1, 2], [0, 2, 5], [3, 1, 2], [3, 2, 1], [8, 6, 0], [4, 5, 6]])
SIGNS = {"symmetric": 1, "antisymmetric": -1}


def close(found, expected, share=1e-8):
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * np.abs(expected).max())


def rows_fit(alpha, y, new=(U, V), kernels=KERNELS, pairs=None, **options):
    """Fit RankRLS to the explicit list of known pairs; score all pairs of some objects."""
    row, column = np.nonzero(~np.isnan(y))
    k, g = kernels["condition_kernel"], kernels["item_kernel"]
    own = k(U[row], U[row]) * g(V[column], V[column])
    ranker = RankRLS(alpha, kernel="precomputed", **options)
    ranker.fit(own, y[row, column], qid=row) if pairs is None else ranker.fit(own, pairs=pairs)
    of_row = np.repeat(np.arange(len(new[0])), len(new[1]))
    of_column = np.tile(np.arange(len(new[1])), len(new[0]))
    cross = k(new[0][of_row], U[row]) * g(new[1][of_column], V[column])
    return ranker.predict(cross).reshape(len(new[0]), len(new[1]))


# The same as RankRLS on explicit rows


@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("new", [(U, V), (NEW_U, V), (U, NEW_V), (NEW_U, NEW_V)])
def test_a_full_matrix_equals_explicit_rows(alpha, new):
    ranker = ConditionalRankRLS(alpha, **KERNELS).fit(U, V, Y)
    close(ranker.predict(*new), rows_fit(alpha, Y, new, ties="keep"))


@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
@pytest.mark.parametrize(
    ("cost", "ties"),
    [("magnitude", "keep"), ("magnitude", "drop"), ("unit", "drop"), ("relative", "drop")],
)
@pytest.mark.parametrize("y", [Y, SOME, GRADES], ids=["full", "partial", "tied"])
def test_costs_ties_and_weights_equal_explicit_rows(y, cost, ties, query_weight):
    options = {"cost": cost, "ties": ties, "query_weight": query_weight}
    expected = rows_fit(0.3, y, (NEW_U, NEW_V), **options)
    for solver in ("auto", EXACT):
        if solver == "auto" and (y is not Y or cost == "relative"):
            continue  # by conjugate gradients either way
        ranker = ConditionalRankRLS(0.3, solver=solver, **KERNELS, **options).fit(U, V, y)
        close(ranker.predict(NEW_U, NEW_V), expected)


def test_ties_that_are_kept_have_a_closed_form():
    ranker = ConditionalRankRLS(0.3, **KERNELS).fit(U, V, GRADES)
    close(ranker.predict(), rows_fit(0.3, GRADES, ties="keep"))


@pytest.mark.parametrize("margin", [None, np.linspace(0.5, 2.0, len(COMPARISONS))])
def test_comparisons_equal_explicit_rows(margin):
    weight = None if margin is None else margin[::-1]
    ranker = ConditionalRankRLS(0.3, solver=EXACT, **KERNELS).fit(
        U, V, comparisons=COMPARISONS, pair_margin=margin, pair_weight=weight
    )
    code = COMPARISONS[:, :1] * 7 + COMPARISONS[:, 1:]
    explicit = RankRLS(0.3, kernel="precomputed").fit(
        np.kron(K, G), pairs=code, pair_margin=margin, pair_weight=weight
    )
    close(ranker.predict(), explicit.predict(np.kron(K, G)).reshape(9, 7))


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("y", [Y, SOME], ids=["full", "partial"])
def test_scores_equal_the_definition(alpha, y):
    ranker = ConditionalRankRLS(alpha, solver="auto" if y is Y else EXACT, **KERNELS)
    close(ranker.fit(U, V, y).predict(), reference.pair_scores(K, G, y, alpha))


def test_what_is_not_stored_is_not_known():
    row, column = np.nonzero(~np.isnan(SOME))
    stored = coo_array((SOME[row, column], (row, column)), shape=SOME.shape)
    options = {"solver": EXACT, **KERNELS}
    expected = ConditionalRankRLS(**options).fit(U, V, SOME)
    found = ConditionalRankRLS(**options).fit(U, V, csr_array(stored))
    close(found.predict(), expected.predict(), 1e-12)


def test_precomputed_kernels_and_sparse_objects():
    expected = ConditionalRankRLS(**KERNELS).fit(U, V, Y)
    k, g = KERNELS.values()
    given = ConditionalRankRLS(condition_kernel="precomputed", item_kernel="precomputed")
    given.fit(K, G, Y)
    close(given.predict(k(NEW_U, U), g(NEW_V, V)), expected.predict(NEW_U, NEW_V))
    sparse = ConditionalRankRLS(**KERNELS).fit(csr_array(U), csr_array(V), Y)
    close(sparse.predict(csr_array(NEW_U)), expected.predict(NEW_U))


@pytest.mark.parametrize("item_alpha", [None, 2.0])
@pytest.mark.parametrize("cost", ["magnitude", "unit"])
def test_few_linear_features_equal_their_kernels(item_alpha, cost):
    options = {
        "item_alpha": item_alpha,
        "cost": cost,
        "ties": "keep" if cost == "magnitude" else "drop",
    }
    found = ConditionalRankRLS(0.1, **options).fit(U + 3.0, V + 50.0, Y)
    given = {"condition_kernel": "precomputed", "item_kernel": "precomputed"}
    K_of, G_of = (U + 3.0) @ (U + 3.0).T, (V + 50.0) @ (V + 50.0).T
    expected = ConditionalRankRLS(0.1, **given, **options).fit(K_of, G_of, Y)
    new = NEW_U @ (U + 3.0).T, NEW_V @ (V + 50.0).T
    close(found.predict(NEW_U, NEW_V), expected.predict(*new))


# Objects of one kind


@pytest.mark.parametrize("relation", SIGNS)
@pytest.mark.parametrize("alpha", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("query_weight", ["items", "pairs"])
def test_relations_equal_the_definition(relation, alpha, query_weight):
    sign, weight = SIGNS[relation], 9.0 if query_weight == "pairs" else 1.0
    expected = reference.pair_scores(K, K, Q, alpha, sign, weight)
    for solver in ("auto", EXACT):
        ranker = ConditionalRankRLS(
            alpha, relation=relation, solver=solver, query_weight=query_weight, **KERNELS
        ).fit(U, None, Q)
        close(ranker.predict(), expected)
        close(ranker.predict(NEW_U, NEW_U), sign * ranker.predict(NEW_U, NEW_U).T, 1e-10)


@pytest.mark.parametrize("relation", SIGNS)
def test_partial_relations_equal_the_definition(relation):
    known = Q.copy()
    np.fill_diagonal(known, np.nan)
    known[3, 1:6] = np.nan
    ranker = ConditionalRankRLS(0.5, relation=relation, solver=EXACT, **KERNELS)
    expected = reference.pair_scores(K, K, known, 0.5, SIGNS[relation])
    close(ranker.fit(U, None, known).predict(), expected)


def test_an_intransitive_relation_is_learned():
    """Rock, paper, scissors on a circle: who is a third ahead wins; no scores of single objects."""
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, 60)
    objects = np.column_stack([np.cos(angle), np.sin(angle)])
    y = np.sin(angle[None, :] - angle[:, None])
    ranker = ConditionalRankRLS(0.01, relation="antisymmetric").fit(objects[:40], None, y[:40, :40])
    assert ranker.score(objects[40:], objects[40:], y[40:, 40:]) == 1.0


def test_items_left_out_are_the_conditions():
    expected = ConditionalRankRLS(condition_kernel="gaussian", item_kernel="gaussian")
    found = clone(expected).fit(U, None, Q)
    np.testing.assert_array_equal(found.predict(), expected.fit(U, U, Q).predict())


# Hold-outs


def refit(alpha, rows, columns, options):
    y = Y[np.ix_(rows, columns)]
    return ConditionalRankRLS(alpha, **KERNELS, **options).fit(U[rows], V[columns], y)


def without(n, out):
    return np.setdiff1d(np.arange(n), out)


@pytest.mark.parametrize(
    "options", [{}, {"cost": "unit", "ties": "drop"}, {"query_weight": "pairs"}]
)
@pytest.mark.parametrize("alpha", [0.05, 2.0])
@pytest.mark.parametrize("new", ["conditions", "items", "both"])
def test_hold_outs_equal_refits(new, alpha, options):
    ranker = ConditionalRankRLSCV([alpha], new=new, cv=3, random_state=0, **KERNELS, **options)
    ranker.fit(U, V, Y)
    fold = rankwise.selection.holdouts.Folds.random(
        3, np.arange(7), rankwise.rankers.base.generator(0)
    ).fold
    expected = np.empty_like(Y)
    for i in range(9):
        for number in range(3):
            out = np.flatnonzero(fold == number)
            rows = np.arange(9) if new == "items" else without(9, i)
            columns = np.arange(7) if new == "conditions" else without(7, out)
            expected[i, out] = refit(alpha, rows, columns, options).predict(U[[i]], V[out])[0]
    close(ranker.held_out_scores_, expected)
    final = ConditionalRankRLS(alpha, **KERNELS, **options).fit(U, V, Y)
    np.testing.assert_array_equal(ranker.dual_coef_, final.dual_coef_)


@pytest.mark.parametrize(
    "options", [{}, {"ties": "drop"}, {"cost": "unit", "ties": "drop"}, {"kernels": "linear"}]
)
@pytest.mark.parametrize("alpha", [0.05, 2.0])
@pytest.mark.parametrize("cv", [2, 3])
def test_cells_left_out_equal_refits(alpha, cv, options):
    """A fold of the items of one condition at a time; linear kernels are singular."""
    options = {**KERNELS, **options}
    if options.pop("kernels", None):
        options = {}
    ranker = ConditionalRankRLSCV([alpha], new="cells", cv=cv, random_state=0, **options)
    ranker.fit(U, V, Y)
    fold = rankwise.selection.holdouts.Folds.random(
        cv, np.arange(7), rankwise.rankers.base.generator(0)
    ).fold
    expected = np.empty_like(Y)
    for i, number in np.ndindex(9, cv):
        out = np.flatnonzero(fold == number)
        known = Y.copy()
        known[i, out] = np.nan
        model = ConditionalRankRLS(alpha, solver=EXACT, **options).fit(U, V, known)
        expected[i, out] = model.predict(U[[i]], V[out])[0]
    close(ranker.held_out_scores_, expected)
    final = ConditionalRankRLS(alpha, **options).fit(U, V, Y)
    np.testing.assert_array_equal(ranker.dual_coef_, final.dual_coef_)


def test_cells_of_noise_are_worth_a_half():
    """Known cells of a condition do not tell of the others where all is noise, for any alpha."""
    rng = np.random.default_rng(5)
    objects = rng.normal(size=(2, 40, 3))
    ranker = ConditionalRankRLSCV(new="cells", random_state=0).fit(
        *objects, rng.normal(size=(40, 40))
    )
    assert np.abs(ranker.path_.values - 0.5).max() < 0.1


@pytest.mark.parametrize("options", [{"query_weight": "pairs"}, {"relation": "antisymmetric"}])
def test_cells_without_a_closed_form_leave_every_condition_and_item_a_part(options):
    second, y = (V, Y) if "query_weight" in options else (None, Q)
    options = {"solver": EXACT, **KERNELS, **options}
    ranker = ConditionalRankRLSCV([0.5], new="cells", cv=3, random_state=0, **options)
    ranker.fit(U, second, y)
    rng = rankwise.rankers.base.generator(0)
    deal = rankwise.selection.holdouts.Folds.random
    columns = deal(3, np.arange(y.shape[1]), rng).fold
    rows = columns if second is None else deal(3, np.arange(9), rng).fold
    fold = (rows[:, None] + columns) % 3
    expected = np.empty_like(y)
    for number in range(3):
        known = np.where(fold == number, np.nan, y)
        model = ConditionalRankRLS(0.5, **options).fit(U, second, known)
        expected[fold == number] = model.predict()[fold == number]
    close(ranker.held_out_scores_, expected)


@pytest.mark.parametrize("relation", SIGNS)
@pytest.mark.parametrize("new", ["conditions", "items", "both"])
def test_hold_outs_of_relations_equal_refits(relation, new):
    ranker = ConditionalRankRLSCV(
        [0.5], new=new, cv=3, relation=relation, random_state=0, **KERNELS
    ).fit(U, None, Q)
    fold = rankwise.selection.holdouts.Folds.random(
        3, np.arange(9), rankwise.rankers.base.generator(0)
    ).fold
    expected = np.full_like(Q, np.nan)
    for number in range(3):
        out, kept = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        model = ConditionalRankRLS(0.5, relation=relation, **KERNELS)
        model.fit(U[kept], None, Q[np.ix_(kept, kept)])
        left, right = kept if new == "items" else out, kept if new == "conditions" else out
        expected[np.ix_(left, right)] = model.predict(U[left], U[right])
    np.testing.assert_array_equal(np.isnan(expected), np.isnan(ranker.held_out_scores_))
    close(np.nan_to_num(ranker.held_out_scores_), np.nan_to_num(expected))


def cells_left(new, fold_of_rows, fold_of_columns, number, *, of_one_kind):
    """Return which cells are learned from without a fold, and which are judged."""
    row, column = (fold_of_rows == number)[:, None], (fold_of_columns == number)[None, :]
    if of_one_kind:
        judged = {"conditions": row & ~column, "items": ~row & column, "both": row & column}[new]
        return ~row & ~column, judged
    out = {"conditions": row | (column & False), "items": column | (row & False)}
    return (~row & ~column, row & column) if new == "both" else (~out[new], out[new])


@pytest.mark.parametrize("relation", ["any", *SIGNS])
@pytest.mark.parametrize("new", ["conditions", "items", "both"])
@pytest.mark.parametrize("alpha", [0.1, 3.0])
def test_hold_outs_of_what_is_known_equal_refits(relation, new, alpha):
    """In folds, from the known scores of the others."""
    of_one_kind = relation != "any"
    second, y = (None, Q) if of_one_kind else (V, Y)
    known = np.random.default_rng(2).random(y.shape) < 0.8
    y = np.where(known, y, np.nan)
    options = {"relation": relation, "solver": EXACT, **KERNELS}
    ranker = ConditionalRankRLSCV([alpha], new=new, cv=3, random_state=0, **options)
    ranker.fit(U, second, y)
    rng = rankwise.rankers.base.generator(0)
    deal = rankwise.selection.holdouts.Folds.random
    columns = deal(3, np.arange(y.shape[1]), rng).fold
    rows = columns if of_one_kind else deal(3, np.arange(9), rng).fold
    expected = np.full_like(y, np.nan)
    for number in range(3):
        kept, out = cells_left(new, rows, columns, number, of_one_kind=of_one_kind)
        model = ConditionalRankRLS(alpha, **options).fit(U, second, np.where(kept, y, np.nan))
        judged = out & known
        expected[judged] = model.predict()[judged]
    np.testing.assert_array_equal(np.isnan(expected), np.isnan(ranker.held_out_scores_))
    close(np.nan_to_num(ranker.held_out_scores_), np.nan_to_num(expected))
    final = ConditionalRankRLS(alpha, **options).fit(U, second, y)
    np.testing.assert_array_equal(ranker.dual_coef_, final.dual_coef_)


@pytest.mark.parametrize(
    ("y", "options"),
    [(GRADES, {"ties": "drop"}), (Y, {"cost": "relative", "ties": "drop"}), (csr_array(Y), {})],
    ids=["tied", "relative", "stored"],
)
def test_what_has_no_closed_form_is_refitted(y, options):
    ranker = ConditionalRankRLSCV([0.1, 1.0, 10.0], cv=3, random_state=0, **KERNELS, **options)
    ranker.fit(U, V, y)
    assert ranker.held_out_value_ == ranker.path_.values.max()
    final = ConditionalRankRLS(ranker.alpha_, **KERNELS, **options).fit(U, V, y)
    np.testing.assert_array_equal(ranker.dual_coef_, final.dual_coef_)


@pytest.mark.parametrize("new", ["conditions", "items"])
def test_alpha_is_chosen_by_comparisons(new):
    rng = np.random.default_rng(0)
    drawn = np.array([[rng.integers(9), *rng.choice(7, 2, replace=False)] for _ in range(80)])
    margin = rng.random(80) + 0.5
    given = {"comparisons": drawn, "pair_margin": margin}
    options = {"solver": EXACT, **KERNELS}
    ranker = ConditionalRankRLSCV([0.1, 3.0], new=new, cv=3, random_state=0, **options)
    ranker.fit(U, V, **given)
    generator = rankwise.rankers.base.generator(0)
    deal = rankwise.selection.holdouts.Folds.random
    columns = deal(3, np.arange(7), generator).fold
    rows = deal(3, np.arange(9), generator).fold
    leads = np.full(80, np.nan)
    ends = columns[drawn[:, 1:]] if new == "items" else rows[drawn[:, :1]].repeat(2, axis=1)
    for number in range(3):
        kept, out = (ends != number).all(axis=1), (ends == number).all(axis=1)
        model = ConditionalRankRLS(ranker.alpha_, **options)
        model.fit(U, V, comparisons=drawn[kept], pair_margin=margin[kept])
        scores = model.predict()[drawn[:, :1], drawn[:, 1:]]
        leads[out] = (scores[:, 0] - scores[:, 1])[out]
    expected = np.mean(leads[~np.isnan(leads)] > 0)
    assert ranker.held_out_value_ == pytest.approx(expected)
    final = ConditionalRankRLS(ranker.alpha_, **options).fit(U, V, **given)
    np.testing.assert_array_equal(ranker.dual_coef_, final.dual_coef_)


def test_comparisons_that_nothing_judges():
    with pytest.raises(InvalidInputError, match="between two items that are left out together"):
        ConditionalRankRLSCV(new="items", cv=7).fit(U, V, comparisons=COMPARISONS)
    with pytest.raises(InvalidInputError, match="judges pairs, so the measure must be one of"):
        ConditionalRankRLSCV(measure="NDCG@5").fit(U, V, comparisons=COMPARISONS)


def test_an_alpha_that_does_not_converge_is_not_judged():
    solver = ConjugateGradients(max_iter=8, tol=1e-4)
    ranker = ConditionalRankRLSCV([1e-9, 100.0], solver=solver, cv=3, random_state=0, **KERNELS)
    ranker.fit(U, V, SOME)
    assert np.isnan(ranker.path_.values).tolist() == [True, False]
    assert ranker.alpha_ == 100.0


def test_the_best_alpha_is_chosen():
    rng = np.random.default_rng(3)
    users, films = rng.normal(size=(25, 4)), rng.normal(size=(20, 4))
    y = users @ films.T + 2.0 * rng.normal(size=(25, 20))
    for new in ("conditions", "items", "both"):
        ranker = ConditionalRankRLSCV([1e-4, 4.0, 1e6], new=new, random_state=0)
        ranker.fit(users, films, y)
        assert ranker.held_out_value_ == ranker.path_.values.max() > 0.6
        assert ranker.alpha_ == ranker.path_.grid[np.argmax(ranker.path_.values)]
    by_ndcg = ConditionalRankRLSCV([1.0], measure="Spearman").fit(users, films, y)
    assert repr(by_ndcg.path_.measure) == "Spearman"


# What people touch


def test_orders_and_scores():
    ranker = ConditionalRankRLS(0.1, **KERNELS).fit(U, V, Y)
    scores = ranker.predict(NEW_U, NEW_V)
    np.testing.assert_array_equal(ranker.rank(NEW_U, NEW_V), np.argsort(-scores, axis=1))
    np.testing.assert_array_equal(
        ranker.rank(NEW_U, NEW_V, k=2), np.argsort(-scores, axis=1)[:, :2]
    )
    known = np.where(np.arange(20).reshape(4, 5) % 3 == 0, np.nan, -scores)
    assert ranker.score(NEW_U, NEW_V, known) == 0.0
    assert ranker.score(NEW_U, NEW_V, csr_array(scores)) == 1.0


@pytest.mark.parametrize(
    "ranker", [ConditionalRankRLS(relation="symmetric"), ConditionalRankRLSCV([0.1, 1.0], cv=2)]
)
def test_rankers_come_back_from_a_file(ranker, tmp_path):
    ranker = clone(ranker).fit(U, None, Q)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert repr(loaded) == repr(ranker)
    np.testing.assert_array_equal(loaded.predict(NEW_U, NEW_U), ranker.predict(NEW_U, NEW_U))


@pytest.mark.parametrize("ranker", [ConditionalRankRLS(), ConditionalRankRLSCV()])
@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_get_params_invariance",
        "check_set_params",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
    ],
)
def test_scikit_learn_contract_of_parameters(ranker, check):
    getattr(estimator_checks, check)(type(ranker).__name__, ranker)


def test_refusals():
    fit = ConditionalRankRLS().fit
    with pytest.raises(InvalidInputError, match=r"expected \(9, 7\), got \(7, 9\)"):
        fit(U, V, Y.T)
    with pytest.raises(InvalidInputError, match="either `y` or `comparisons`"):
        fit(U, V)
    with pytest.raises(InvalidInputError, match="`y` must be finite where it is known"):
        fit(U, V, np.where(Y > 1, np.inf, Y))
    with pytest.raises(NothingToLearnError, match="no score is known"):
        fit(U, V, np.full_like(Y, np.nan))
    with pytest.raises(NothingToLearnError, match="all scores of every condition are equal"):
        fit(U, V, np.repeat(np.arange(9.0)[:, None], 7, axis=1))
    with pytest.raises(InvalidInputError, match="shape .n_pairs, 3.*got shape .1, 2."):
        fit(U, V, comparisons=[[0, 1]])
    with pytest.raises(InvalidInputError, match="conditions 0 to 8 and items 0 to 6: comparison 1"):
        fit(U, V, comparisons=[[0, 1, 2], [0, 7, 1]])
    with pytest.raises(InvalidInputError, match="two different items"):
        fit(U, V, comparisons=[[0, 1, 1]])
    with pytest.raises(InvalidInputError, match="`conditions` must be a table of numbers"):
        fit({"a": U}, V, Y)
    with pytest.raises(InvalidInputError, match="`items` must be None with relation='symmetric'"):
        ConditionalRankRLS(relation="symmetric").fit(U, V, Y)
    with pytest.raises(InvalidInputError, match="`relation` must be one of"):
        ConditionalRankRLS(relation="odd").fit(U, V, Y)
    with pytest.raises(InvalidInputError, match="`query_weight` must be one of"):
        ConditionalRankRLS(query_weight="odd").fit(U, V, Y)
    with pytest.raises(InvalidInputError, match="`solver` must be .*one of 'auto', 'iterations'"):
        ConditionalRankRLS(solver="direct").fit(U, V, Y)
    with pytest.raises(InvalidInputError, match="ties='keep' is defined only for cost='magnitude'"):
        ConditionalRankRLS(cost="unit").fit(U, V, Y)
    with pytest.raises(InvalidInputError, match="positive semidefinite"):
        ConditionalRankRLS(condition_kernel="precomputed").fit(-K, V, Y)
    with pytest.raises(NumericalError, match="must be larger than their rounding errors"):
        ConditionalRankRLS(1e-30).fit(U, V, Y)
    ranker = fit(U, V, Y)
    with pytest.raises(InvalidInputError, match="`items` must have as many columns.*expected 3"):
        ranker.predict(NEW_U, NEW_U)
    with pytest.raises(InvalidInputError, match="at least one known score"):
        ranker.score(U, V, np.full_like(Y, np.nan))


def test_refusals_of_hold_outs():
    with pytest.raises(InvalidInputError, match="`new` must be one of 'conditions', 'items'"):
        ConditionalRankRLSCV(new="users").fit(U, V, Y)
    with pytest.raises(InvalidInputError, match="`cv` must be a whole number above 0"):
        ConditionalRankRLSCV(cv=0.5).fit(U, V, Y)


# Laws


@pytest.mark.parametrize("y", [Y, SOME], ids=["full", "partial"])
def test_the_order_of_objects_does_not_matter(y):
    rows, columns = RNG.permutation(len(U)), RNG.permutation(len(V))
    expected = ConditionalRankRLS(0.5, **KERNELS).fit(U, V, y).predict(NEW_U, NEW_V)
    turned = ConditionalRankRLS(0.5, **KERNELS).fit(U[rows], V[columns], y[np.ix_(rows, columns)])
    close(turned.predict(NEW_U, NEW_V), expected)


@pytest.mark.parametrize("y", [Y, SOME], ids=["full", "partial"])
def test_a_constant_of_a_condition_changes_nothing(y):
    expected = ConditionalRankRLS(0.5, **KERNELS).fit(U, V, y)
    moved = ConditionalRankRLS(0.5, **KERNELS).fit(U, V, y + np.arange(len(U))[:, None])
    close(moved.dual_coef_, expected.dual_coef_)


# On a device


@pytest.mark.parametrize("relation", ["any", *SIGNS])
@pytest.mark.parametrize("y", ["full", "partial", "comparisons"])
def test_a_device_finds_the_same(relation, y):
    pytest.importorskip("torch", reason="the extra 'gpu' (torch) is not installed")
    known = Y if relation == "any" else Q
    if y == "partial":
        known = np.where(np.random.default_rng(1).random(known.shape) < 0.6, known, np.nan)
    given = {"comparisons": COMPARISONS} if y == "comparisons" else {"y": known}
    options = {**KERNELS, "relation": relation, "solver": "auto" if y == "full" else EXACT}
    items = V if relation == "any" else None
    expected = ConditionalRankRLS(0.5, **options).fit(U, items, **given)
    found = ConditionalRankRLS(0.5, device="cpu", **options).fit(U, items, **given)
    close(found.dual_coef_, expected.dual_coef_)


@pytest.mark.parametrize("relation", ["any", *SIGNS])
@pytest.mark.parametrize("new", ["conditions", "items", "both", "cells"])
def test_hold_outs_on_a_device(relation, new):
    pytest.importorskip("torch", reason="the extra 'gpu' (torch) is not installed")
    options = {**KERNELS, "relation": relation, "new": new, "cv": 3, "random_state": 0}
    given = (U, V, Y) if relation == "any" else (U, None, Q)
    expected = ConditionalRankRLSCV([0.1, 1.0, 10.0], **options).fit(*given)
    found = ConditionalRankRLSCV([0.1, 1.0, 10.0], device="cpu", **options).fit(*given)
    assert found.alpha_ == expected.alpha_
    close(found.path_.values, expected.path_.values)
    close(found.dual_coef_, expected.dual_coef_)


@pytest.mark.parametrize(("scale", "alpha"), [(1.0, 1e-4), (1.0, 1.0), (100.0, 1.0)])
def test_closed_form_of_items_that_are_not_centred(scale, alpha):
    """Items of mean 5 and deviation 1, times a scale: the features' equations in 60 digits."""
    rng = np.random.default_rng(0)
    conditions, items = rng.normal(size=(15, 3)), scale * (rng.normal(size=(20, 3)) + 5)
    y = np.sign(rng.normal(size=(15, 20)))
    with mpmath.workdps(60):
        U, V = mpmath.matrix(conditions.tolist()), mpmath.matrix(items.tolist())
        centring = mpmath.eye(20) - mpmath.ones(20) / 20
        V = centring * V
        # the weights W of products of features solve U'U W V'V + alpha W = U'Y V
        left, right, rhs = U.T * U, V.T * V, U.T * mpmath.matrix(y.tolist()) * V
        equations = mpmath.matrix(9)
        for i, j, a, b in np.ndindex(3, 3, 3, 3):
            equations[3 * i + j, 3 * a + b] = left[i, a] * right[b, j] + alpha * (i == a) * (j == b)
        flat = mpmath.lu_solve(equations, mpmath.matrix([rhs[i, j] for i, j in np.ndindex(3, 3)]))
        W = mpmath.matrix([[flat[3 * i + j] for j in range(3)] for i in range(3)])
        expected = np.array((U * W * V.T).tolist(), dtype=float)
    found = ConditionalRankRLS(alpha).fit(conditions, items, y).predict(conditions, items)
    found -= found.mean(axis=1, keepdims=True)
    norms = [np.linalg.norm(rows @ rows.T, 2) for rows in (conditions, items)]
    slack = np.finfo(float).eps * np.prod(norms) / alpha * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=slack)


def test_text_and_blanks_are_read_as_the_encoder_reads_them(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    users = rng.normal(size=(9, 2))
    films = pd.DataFrame(
        {"genre": ["a", "b", "c"] * 2, "year": [1990.0, None, 1992, 1993, 1994, 5]}
    )
    new = pd.DataFrame({"genre": ["c", "z"], "year": [None, 1991.0]})
    y = rng.normal(size=(9, 6))
    encoder = IndicatorEncoder().fit(films)
    expected = ConditionalRankRLS().fit(users, encoder.transform(films), y)
    found = ConditionalRankRLS().fit(users, films, y)
    assert found.condition_encoder_ is None
    np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_)
    scores = found.predict(None, new)
    np.testing.assert_allclose(scores, expected.predict(None, encoder.transform(new)))
    found.save(tmp_path / "m")
    np.testing.assert_allclose(load(tmp_path / "m").predict(None, new), scores)
    # a second fit on numbers forgets the words of the first
    assert found.fit(users, encoder.transform(films), y).item_encoder_ is None
    # objects of one kind share their encoder
    mixed = np.array([["x", 1.0], ["y", None], ["x", 3.0]], dtype=object)
    lead = np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]])
    games = ConditionalRankRLS(relation="antisymmetric").fit(mixed, y=lead)
    np.testing.assert_allclose(games.predict(mixed, mixed), games.predict())


def test_words_are_no_onnx(tmp_path):
    films = np.array([["a"], ["b"], ["a"]], dtype=object)
    ranker = ConditionalRankRLS().fit(np.eye(2), films, [[1, 2, 3], [3, 1, 2]])
    with pytest.raises(InvalidInputError, match="must have learned from numbers to become ONNX"):
        export_ranker(ranker, tmp_path / "m.onnx")
