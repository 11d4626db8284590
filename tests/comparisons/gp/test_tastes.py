"""Tastes: every person has an order of its own, around one that all share."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag

import reference
from processes import conditioned, inference_of
from rankwise import ComparisonTable, InvalidInputError, PreferenceGP, SquaredExponential, load
from rankwise.comparisons.gp.answers import choose_likelihood
from rankwise.comparisons.gp.evidence import Inference, NegativeLogEvidence
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.prior import factorize_kernel, moments_under
from rankwise.comparisons.gp.inference.tastes import GROUP_ENTRIES, MarkedRows, group_persons
from rankwise.comparisons.gp.persons import PersonTraits
from rankwise.comparisons.gp.terms import Covariance, Effects, Scores, Tastes, Traits
from rankwise.features.covariances import Hyperprior
from rankwise.solve.iteration import StoppingRule

COMMON, TASTES = SquaredExponential(1.5, 1.2, 0.4), SquaredExponential(0.9, 0.8, 0.6)
TRAITS = SquaredExponential(0.8, 1.5, 0.5)
N_ITEMS, N_PERSONS = 6, 4
X = np.random.default_rng(5).normal(size=(N_ITEMS, 2))
NAMES = np.array(["ann", "bob", "cid", "dan"])


def answers(n_rows, seed=0, n_items=N_ITEMS, n_persons=N_PERSONS, ties=True, deviation=1.0):
    """Draw answers of persons whose scores deviate from common ones."""
    rng = np.random.default_rng(seed)
    h = rng.normal(0.0, 1.5, n_items) + rng.normal(0.0, deviation, (n_persons, n_items))
    who = rng.integers(n_persons, size=n_rows)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    lead = h[who, first] - h[who, second] + rng.normal(size=n_rows)
    outcome = np.where(np.abs(lead) < 0.3 * ties, 0, np.sign(lead)).astype(int)
    names = NAMES if n_persons == N_PERSONS else np.array([f"p{k:03}" for k in range(n_persons)])
    return ComparisonTable.of(
        first, second, outcome, judge=names[who].tolist(), names=np.arange(n_items)
    )


def fixed(likelihood="probit", **options):
    """Return a process whose parameters are not learned."""
    options = {"optimize": False, "tie_width": 0.4, "flip_rate": 0.05, **options}
    return PreferenceGP(COMMON, likelihood=likelihood, tastes=True, **options)


def with_tastes(gp):
    """Condition a fitted process on its answers with the kernel of tastes above."""
    return conditioned(gp, tastes=TASTES)


def log_loss(gp, table, **who):
    p = gp.predict_pair(table.first, table.second, **who)
    return -np.mean(np.log(np.where(table.outcome > 0, p, 1.0 - p)))


@pytest.mark.parametrize("likelihood", ["probit", "robust"])
def test_scores_of_every_person_equal_the_reference(likelihood):
    table = answers(18)
    gp = with_tastes(fixed(likelihood).fit(X, pairs=table))
    K = reference.person_item_covariance(COMMON(X, X), TASTES(X, X), N_PERSONS + 1)
    place = table.judge.index + 1
    A, signs = np.zeros((18, len(K))), np.where(table.outcome == 0, 1, table.outcome)
    A[np.arange(18), place * N_ITEMS + table.first] = signs
    A[np.arange(18), place * N_ITEMS + table.second] = -signs
    flip_rate = 0.05 * (likelihood == "robust")
    densities = [reference.judged_answer(1.0, 0.4, o == 0, flip_rate) for o in table.outcome]
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(K, A, densities, 20)
    assert gp.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)
    for number, person in enumerate([None, *NAMES, "a new person"]):
        block = slice(number * N_ITEMS, (number + 1) * N_ITEMS)
        got, got_cov = gp.predict(X, return_cov=True, judge=person)
        np.testing.assert_allclose(got, mean[block], atol=1e-5)
        np.testing.assert_allclose(got_cov, cov[block, block], atol=1e-5)
        _, std = gp.predict(X, return_std=True, judge=person)
        np.testing.assert_allclose(std**2, cov[block, block].diagonal(), atol=1e-5)
        i, j = number * N_ITEMS + np.array([2, 5])
        variance = cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
        win = reference.judged_answer(1.0, 0.4, tied=False, flip_rate=flip_rate)
        if person is not None:
            expected = np.exp(reference.tilted_by_quadrature(win, mean[i] - mean[j], variance)[0])
            found = gp.predict_pair([2], [5], judge=person)[0, 0]
            assert found == pytest.approx(expected, abs=1e-5)
    anyone = gp.predict_pair([2], [5])
    np.testing.assert_allclose(anyone, gp.predict_pair([2], [5], judge="a new person"), atol=1e-12)
    shared = gp.predict_pair([2], [5], noisy=False)
    assert abs(shared[0] - 0.5) > abs(anyone[0, 0] + 0.5 * anyone[0, 1] - 0.5)


@pytest.mark.parametrize("likelihood", ["probit", "robust", "logistic", "gaussian"])
@pytest.mark.parametrize("entries", [GROUP_ENTRIES, 30])  # one group, several of other sizes
def test_blocks_equal_one_kernel_over_persons_and_items(likelihood, entries):
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(1, 6), [1, 4, 9, 12, 30])
    pairs = np.array([rng.choice(min(2 + p, N_ITEMS), 2, replace=False) for p in who])
    tied = (rng.random(len(who)) < 0.2) & (likelihood != "gaussian")
    extra = {"margin": rng.normal(size=len(who)), "weight": rng.uniform(0.3, 2.5, len(who))}
    kernel = Covariance((Scores(COMMON), Tastes(TASTES)), 2)
    blocks = Comparisons.from_pairs(pairs, tied=tied, judge=who, **extra)
    rows = np.column_stack([X[blocks.items], np.zeros(len(blocks.items))])
    model = choose_likelihood(likelihood, blocks, None, 0.05, 0.4)
    persons = group_persons(blocks, entries=entries)
    sparse = Inference(rows, blocks, rows, "ep", persons=persons)
    at = pairs + N_ITEMS * who[:, None]
    whole = Comparisons.from_pairs(at, tied=tied, judge=who, **extra)
    rows = np.column_stack([X[whole.items % N_ITEMS], whole.items // N_ITEMS])
    dense = Inference(rows, whole, None, "ep")
    found, expected = (one.posterior(kernel, model) for one in (sparse, dense))
    assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-8)
    np.testing.assert_allclose(found.tau, expected.tau, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.noise_gradient, expected.noise_gradient, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        sparse.gradient(kernel, found), dense.gradient(kernel, expected), rtol=1e-4, atol=1e-5
    )


OF_PERSONS = Traits(TRAITS, PersonTraits.of({"ann": [0.0] * 3, "bob": [1.0] * 3}), np.zeros((2, 3)))
EFFECTS = Effects(None, ("x", "y"), (0.5, 5e-4))  # the second is of the order of a thousand
MARKED = Covariance((Scores(COMMON), EFFECTS, OF_PERSONS, Tastes(TASTES)), 2)


def marked_problem(entries):
    """Return one problem twice: through items and marks, and over all rows of all persons."""
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(1, 6), [2, 4, 9, 12, 30])
    Z = np.vstack([np.zeros(3), rng.normal(size=(5, 3))])
    values = np.vstack([np.zeros((3, 2)), rng.normal(size=(3, 2))]) * [1.0, 1000.0]
    shown = np.column_stack([np.tile(X, (6, 1)), np.repeat(values, N_ITEMS, axis=0)])
    pairs = np.array([rng.choice(N_ITEMS, 2, replace=False) for _ in who])
    pairs += N_ITEMS * rng.integers(6, size=pairs.shape)
    blocks = Comparisons.from_pairs(pairs, judge=who)
    rows = np.column_stack([shown[blocks.items], np.zeros((len(blocks.items), 4))])
    marked, basis = MarkedRows.of(rows, 2, Z)
    persons = group_persons(blocks, marked, entries)
    sparse = Inference(rows, blocks, basis, "ep", persons=persons)
    whole = Comparisons.from_pairs(pairs + len(shown) * who[:, None], judge=who)
    number, item = np.divmod(whole.items, len(shown))
    dense = Inference(np.column_stack([shown[item], Z[number], number]), whole, None, "ep")
    return sparse, dense


@pytest.mark.parametrize("entries", [GROUP_ENTRIES, 300])
def test_rows_with_marks_follow_from_few(entries):
    """The covariance of all rows of all persons, and its moments under any sites."""
    sparse, dense = marked_problem(entries)
    assert len(sparse.basis) == N_ITEMS * (1 + 2 + 3)
    K = MARKED(sparse.basis, sparse.basis)
    for group in sparse.persons.groups:
        D = group.basis_weights.toarray()
        B = np.random.default_rng(0).normal(size=(len(group.persons), group.size, group.size))
        B = B + np.swapaxes(B, 1, 2)
        np.testing.assert_allclose(
            group.scatter_to_basis(B), D.T @ block_diag(*B) @ D, rtol=1e-12, atol=1e-12
        )
        for person, own in zip(group.persons, D.reshape(*group.items.shape, -1), strict=True):
            own = own[np.abs(own).sum(axis=1) > 0.0]
            rows = dense.rows[dense.rows[:, -1] == person]
            rows = np.column_stack([rows[:, :-1], np.zeros(len(rows))])
            np.testing.assert_allclose(own @ K @ own.T, MARKED(rows, rows), atol=1e-12)
    rng = np.random.default_rng(1)
    tau, nu = rng.uniform(0.2, 2.0, 57), rng.normal(size=57)
    prior = factorize_kernel(MARKED(dense.rows, dense.rows), dense.comparisons, tol=1e-14)
    found = sparse.moments(MARKED, 1e-14)(tau, nu)
    expected = moments_under(prior, tau, nu)
    assert found[0].log_normalizer == pytest.approx(expected[0].log_normalizer, rel=1e-9)
    for one, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("entries", [GROUP_ENTRIES, 300])
@pytest.mark.parametrize("likelihood", ["probit", "robust"])
def test_marks_of_rows_equal_one_kernel_over_persons_and_items(likelihood, entries):
    sparse, dense = marked_problem(entries)
    model = choose_likelihood(likelihood, sparse.comparisons, None, 0.05, 0.4)
    found, expected = (one.posterior(MARKED, model) for one in (sparse, dense))
    assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-8)
    np.testing.assert_allclose(found.tau, expected.tau, rtol=1e-4, atol=1e-6)
    gradients = sparse.gradient(MARKED, found), dense.gradient(MARKED, expected)
    np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("likelihood", ["probit", "robust"])
def test_gradient_equals_finite_differences(likelihood):
    table = answers(60)
    gp = fixed(likelihood).fit(X, pairs=table)
    free = tuple(gp.likelihood_.free_parameters)
    kernel = Covariance((Scores(COMMON), Tastes(TASTES)), 2)
    objective = NegativeLogEvidence(
        inference_of(gp),
        kernel,
        gp.likelihood_,
        free,
        Hyperprior.flat(len(kernel.theta) + len(free)),
        rule=StoppingRule(1e-10, 200),
        rank_tol=1e-12,
    )
    x = objective.start
    expected = [(objective(x + e)[0] - objective(x - e)[0]) / 2e-3 for e in 1e-3 * np.eye(len(x))]
    np.testing.assert_allclose(objective(x)[1], expected, rtol=1e-4, atol=1e-5)


def moved(kernel, step):
    return kernel.with_theta(kernel.theta + step)


@pytest.mark.parametrize("persons", [[0, 1, 1, 2, 2, 2], [1, 0, 1, 2, 1, 2]])
@pytest.mark.parametrize("with_traits", [False, True])
def test_kernel_derivatives_equal_finite_differences(persons, with_traits):
    rng = np.random.default_rng(0)
    terms, Z = (Scores(COMMON), Tastes(TASTES)), np.zeros((N_ITEMS, 0))
    if with_traits:
        terms = (Scores(COMMON), OF_PERSONS, Tastes(TASTES))
        Z = rng.normal(size=(N_ITEMS, 3))
    rows = np.column_stack([X, Z, [0, 1, 1, 2, 2, 2]]).astype(float)
    other = np.column_stack([X[::-1], Z[::-1], persons])
    kernel = Covariance(terms, 2).fitted_to(rows)
    M, g = rng.normal(size=(N_ITEMS, N_ITEMS)), rng.normal(size=N_ITEMS)
    K = kernel(rows, other)
    np.testing.assert_allclose(kernel.diagonal(rows), kernel(rows, rows).diagonal(), atol=1e-12)
    apart = kernel.diagonal(rows) + kernel.diagonal(other) - 2.0 * K.diagonal()
    np.testing.assert_allclose(kernel.difference_variance(rows, other), apart, atol=1e-12)
    for found, value in (
        (kernel.weighted_gradient(rows, other, M), lambda k: np.sum(M * k(rows, other))),
        (
            kernel.weighted_variance_gradient(rows, other, g),
            lambda k: g @ k.difference_variance(rows, other),
        ),
    ):
        expected = [
            (
                value(kernel.with_theta(kernel.theta + e))
                - value(kernel.with_theta(kernel.theta - e))
            )
            / 2e-5
            for e in 1e-5 * np.eye(len(kernel.theta))
        ]
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_own_orders_are_learnt_and_predict_better_than_a_common_one():
    table = answers(1200, seed=3, n_items=8, n_persons=20, ties=False)
    rows = np.arange(table.n_rows)
    train, test = table.take(rows[:900]), table.take(rows[900:])
    gp = PreferenceGP(tastes=True).fit(pairs=train)
    who = test.judge.names[test.judge.index]
    own, common = log_loss(gp, test, judge=who.tolist()), log_loss(gp, test)
    assert own < common - 0.05
    assert common < log_loss(PreferenceGP().fit(pairs=train), test) + 0.01
    assert 0.15 < gp.taste_share_ < 0.5  # 0.31 in this world
    assert gp.judges_ is None


def test_persons_who_agree_have_little_taste():
    table = answers(1200, seed=3, n_items=8, n_persons=20, ties=False, deviation=0.0)
    gp = PreferenceGP(tastes=True).fit(pairs=table)
    assert gp.taste_share_ < 0.02
    scores = gp.predict()
    np.testing.assert_allclose(gp.predict(judge="p003"), scores, atol=0.4)


def test_without_tastes_there_is_no_share():
    gp = PreferenceGP(COMMON, optimize=False).fit(X, pairs=answers(20))
    assert gp.taste_share_ is None


def test_what_a_person_answered_tells_about_items_it_did_not_see():
    """Who likes one of two similar items will like the other, beyond the common order."""
    rows = np.array([[0.0], [0.1], [5.0], [5.1]])
    pairs = [(0, 2)] * 6 + [(2, 0)] * 6
    who = ["left"] * 6 + ["right"] * 6
    gp = PreferenceGP(SquaredExponential(1.0, 1.0), optimize=False, tastes=True)
    gp.fit(rows, pairs=pairs, judge=who)
    left, right = (gp.predict(rows, judge=person) for person in ("left", "right"))
    assert left[1] - left[3] > 0.5 > -0.5 > right[1] - right[3]
    np.testing.assert_array_equal(gp.rank(rows, judge="left", k=2), [0, 1])
    np.testing.assert_array_equal(np.sort(gp.rank(judge="right", k=2)), [2, 3])


def test_equal_rows_are_items_of_their_own_for_every_person():
    rows = np.zeros((2, 1))
    gp = PreferenceGP(SquaredExponential(1.0, 1.0, 0.5), optimize=False, tastes=True)
    gp.fit(rows, pairs=[(0, 1)] * 5 + [(1, 0)] * 5, judge=["a"] * 5 + ["b"] * 5)
    assert gp.rank(judge="a").tolist() == [0, 1]
    assert gp.rank(judge="b").tolist() == [1, 0]


def test_named_items_come_back_by_name_for_every_person():
    votes = {"a": ["tea"] * 8, "b": ["milk"] * 8, "winner": ["tea"] * 4 + ["milk"] * 4}
    gp = PreferenceGP(tastes=True).fit(pairs={**votes, "judge": ["ann"] * 4 + ["bob"] * 4})
    assert gp.rank(judge="ann").tolist() == ["tea", "milk"]
    assert gp.rank(judge="bob").tolist() == ["milk", "tea"]
    assert gp.rank(["tea", "milk"], judge="bob", k=1).tolist() == ["milk"]
    assert gp.rank(["tea", "milk"], judge="bob", as_frame=True)["item"].tolist() == ["milk", "tea"]


def test_order_ranks_and_draws_of_a_person():
    table = answers(400, seed=1)
    gp = fixed().fit(X, pairs=table)
    scores, cov = gp.predict(return_cov=True, judge="bob")
    draws = gp.sample(n=20_000, judge="bob", random_state=0)
    np.testing.assert_allclose(draws.mean(axis=0), scores, atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.1)
    board = gp.leaderboard(judge="bob", random_state=0)
    assert board.names.tolist() == gp.rank(judge="bob").tolist() == np.argsort(-scores).tolist()
    everyone = gp.leaderboard(random_state=0)
    assert board.names.tolist() != everyone.names.tolist()
    n_own = np.count_nonzero(table.judge.names[table.judge.index] == "bob")
    assert (board.answers.sum(), everyone.answers.sum()) == (2 * n_own, 800)
    assert gp.rank_distribution(judge="bob", random_state=0).best.argmax() == scores.argmax()
    frame = gp.rank(judge="bob", as_frame=True)
    assert frame["item"].tolist() == board.names.tolist()
    common = gp.rank(as_frame=True)
    assert common["item"].tolist() == gp.rank(X).tolist()


def test_more_answers_count_for_their_person():
    table = answers(60)
    rows = np.arange(60)
    gp = fixed().fit(X, pairs=table.take(rows[:40])).update(table.take(rows[40:]))
    whole = fixed().fit(X, pairs=table)
    for person in (None, *NAMES):
        expected = whole.predict(return_cov=True, judge=person)
        for found, value in zip(gp.predict(return_cov=True, judge=person), expected, strict=True):
            np.testing.assert_allclose(found, value, atol=1e-5)
    before = gp.predict(judge="eve")
    gp.update([(0, 5)] * 5, judge=["eve"] * 5)
    after = gp.predict(judge="eve")
    assert after[0] - after[5] > before[0] - before[5] + 0.5
    assert gp.judge_names_.tolist() == [*sorted(set(table.judge.names)), "eve"]
    gp.forget([(0, 5)] * 5, judge=["eve"] * 5)
    np.testing.assert_allclose(gp.predict(judge="eve"), before, atol=1e-5)
    gp.update([(0, 5)] * 5, judge=[7] * 5)  # a name of another type
    np.testing.assert_allclose(gp.predict(judge=7), after, atol=1e-5)


def test_pairs_of_several_persons_are_predicted_together():
    gp = fixed().fit(X, pairs=answers(80, ties=False))
    first, second = np.array([0, 1, 2, 3, 4]), np.array([5, 4, 3, 2, 1])
    who = ["ann", "bob", "ann", "stranger", "dan"]
    together = gp.predict_pair(first, second, judge=who)
    alone = [
        gp.predict_pair([i], [j], judge=person)[0]
        for i, j, person in zip(first, second, who, strict=True)
    ]
    np.testing.assert_allclose(together, alone, atol=1e-10)


def test_saved_and_loaded(tmp_path):
    gp = PreferenceGP(tastes=True, random_state=0).fit(pairs=answers(120))
    gp.save(tmp_path / "tastes.model")
    again = load(tmp_path / "tastes.model")
    for person in (None, *NAMES, "stranger"):
        np.testing.assert_array_equal(gp.predict(judge=person), again.predict(judge=person))
    np.testing.assert_array_equal(
        gp.predict_pair([0], [1], judge="ann"), again.predict_pair([0], [1], judge="ann")
    )


def test_surprising_answers_of_a_person_are_told():
    """The odd one out is judged by the order of its own person, not by the common one."""
    pairs = [(0, 1)] * 10 + [(1, 0)] * 10 + [(1, 0)]
    who = ["a"] * 10 + ["b"] * 10 + ["a"]
    gp = PreferenceGP(COMMON, optimize=False, tastes=True).fit(X[:2], pairs=pairs, judge=who)
    worst = gp.suspect_answers(1)[0]
    assert (worst["winner"], worst["judge"], worst["times"]) == (1, "a", 1.0)


def test_questions_are_about_the_common_order():
    gp = fixed().fit(X, pairs=answers(60))
    assert gp.suggest(X, 2).shape == (2, 2)
    assert 0.5 < gp.certainty(X) <= 1.0


TWO = [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("options", "given", "match"),
    [
        ({}, {"pairs": TWO}, "must come with answers that say who gave them"),
        ({}, {"pairs": TWO, "tied": [(0, 1)], "judge": ["a", "b"]}, "`tied_judge` must say who"),
        ({}, {"y": np.arange(N_ITEMS)}, "must come with answers that say who gave them"),
        ({"intransitive": True}, {"pairs": TWO, "judge": ["a", "b"]}, "without intransitive"),
        ({"basis": 3}, {"pairs": TWO, "judge": ["a", "b"]}, "without basis"),
        ({"method": "laplace"}, {"pairs": TWO, "judge": ["a", "b"]}, "without method='laplace'"),
        (
            {"drift": True},
            {"pairs": TWO, "judge": ["a", "b"], "date": [1, 2]},
            "without drift: got both",
        ),
    ],
)
def test_refused(options, given, match):
    with pytest.raises(InvalidInputError, match=match):
        fixed(**options).fit(X, **given)


def test_persons_are_refused_without_tastes():
    gp = PreferenceGP(COMMON, optimize=False).fit(X, pairs=answers(20))
    with pytest.raises(InvalidInputError, match="fit with tastes=True"):
        gp.predict(judge="ann")


def test_one_person_for_each_pair():
    gp = fixed().fit(X, pairs=answers(20))
    with pytest.raises(InvalidInputError, match="one for each of the 3 pairs: got 2"):
        gp.predict_pair([0, 1, 2], [3, 4, 5], judge=["ann", "bob"])


def test_answers_of_nobody_are_refused_in_updates():
    gp = fixed().fit(X, pairs=answers(20))
    with pytest.raises(InvalidInputError, match="must come with answers that say who gave them"):
        gp.update([(0, 1)])


AGES = {"ann": [60.0, 1.0], "bob": [20.0, 0.0], "cid": [35.0, 1.0], "dan": [70.0, 0.0]}


def scaled(persons):
    """Return features with mean 0 and a mean square length of 1."""
    F = np.array(list(persons.values()))
    return (F - F.mean(axis=0)) / F.std(axis=0) / np.sqrt(F.shape[1])


def with_traits(gp):
    """Condition a fitted process with the kernels above."""
    return conditioned(gp, tastes=TASTES, traits=TRAITS)


def test_persons_with_features_equal_the_reference():
    """A person without answers has an order too, from its features."""
    table = answers(18)
    everyone = {**AGES, "eve": [65.0, 1.0]}
    gp = with_traits(fixed().fit(X, pairs=table, persons=everyone))
    Z = np.vstack([np.zeros(2), scaled(everyone), np.zeros(2)])
    K = reference.person_item_covariance(COMMON(X, X), TASTES(X, X), 6, Z, TRAITS(X, X))
    place = table.judge.index + 1
    A, signs = np.zeros((18, len(K))), np.where(table.outcome == 0, 1, table.outcome)
    A[np.arange(18), place * N_ITEMS + table.first] = signs
    A[np.arange(18), place * N_ITEMS + table.second] = -signs
    densities = [reference.judged_answer(1.0, 0.4, o == 0, 0.0) for o in table.outcome]
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(K, A, densities, 20)
    assert gp.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)
    for number, person in enumerate([None, *everyone, "somebody"]):
        block = slice(number * N_ITEMS, (number + 1) * N_ITEMS)
        got, got_cov = gp.predict(X, return_cov=True, judge=person)
        np.testing.assert_allclose(got, mean[block], atol=1e-5)
        np.testing.assert_allclose(got_cov, cov[block, block], atol=1e-5)


def test_persons_who_come_later_count_like_those_of_the_fit():
    table = answers(60)
    known = fixed().fit(X, pairs=table, persons={**AGES, "eve": [65.0, 1.0]})
    scale = known.process_.model.term(Traits).persons
    later = fixed().fit(X, pairs=table, persons=AGES)
    model = later.process_.model
    own = model.term(Traits)
    persons = replace(own.persons, centre=scale.centre, scale=scale.scale)
    later.process_ = replace(later.process_, model=model.with_term(replace(own, persons=persons)))
    again = conditioned(later.with_persons({"eve": [65.0, 1.0], **AGES}))
    np.testing.assert_allclose(
        again.predict(judge="eve"), known.predict(judge="eve"), rtol=1e-6, atol=1e-8
    )
    more = answers(10, seed=3)
    both = fixed().fit(X, pairs=table, persons=AGES).update(more)
    joined = ComparisonTable.of(
        np.append(table.first, more.first),
        np.append(table.second, more.second),
        np.append(table.outcome, more.outcome),
        judge=[*NAMES[table.judge.index], *NAMES[more.judge.index]],
        names=np.arange(N_ITEMS),
    )
    whole = fixed().fit(X, pairs=joined, persons=AGES)
    np.testing.assert_allclose(both.predict(judge="cid"), whole.predict(judge="cid"), atol=1e-5)


def test_more_answers_with_covariates_count_for_persons_with_features(tmp_path):
    """So they do after saving and loading, and until they are taken back."""
    table = answers(60, ties=False)
    rows = np.arange(60)
    some, more = table.take(rows[:40]), table.take(rows[40:])
    gp = fixed().fit(X, pairs=some, first=True, persons=AGES)
    before = gp.predict(judge="bob")
    gp.save(tmp_path / "model")
    again = load(tmp_path / "model").update(more)
    whole = fixed().fit(X, pairs=table, first=True, persons=AGES)
    for person in (None, *NAMES, "stranger"):
        expected = whole.predict(return_cov=True, judge=person)
        found = again.predict(return_cov=True, judge=person)
        np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
        np.testing.assert_allclose(found[1], expected[1], atol=1e-5)
    again.forget(more)
    np.testing.assert_allclose(again.predict(judge="bob"), before, atol=1e-5)


@pytest.mark.parametrize("persons", [None, AGES])
def test_ties_alone_are_those_of_their_persons(persons):
    gp = fixed().fit(
        X,
        pairs=np.zeros((0, 2), dtype=int),
        tied=[(0, 1), (0, 1)],
        tied_judge=["ann", "bob"],
        persons=persons,
    )
    assert gp._recorded.judges.tolist() == [1, 2]


def test_features_of_persons_tell_what_new_ones_like(tmp_path):
    rng = np.random.default_rng(0)
    n_persons, n_items = 40, 5
    Z = rng.normal(size=(n_persons + 10, 2))
    h = rng.normal(size=n_items) + Z @ rng.normal(size=(2, n_items))
    who = np.repeat(np.arange(n_persons), 12)
    first = rng.integers(n_items, size=len(who))
    second = (first + 1 + rng.integers(n_items - 1, size=len(who))) % n_items
    won = h[who, first] - h[who, second] + 0.5 * rng.normal(size=len(who)) > 0.0
    frame = pd.DataFrame(Z, columns=["age", "income"], index=[f"p{k}" for k in range(len(Z))])
    winner = np.where(won, first, second)
    votes = {"a": first, "b": second, "winner": winner, "judge": frame.index[who]}
    gp = PreferenceGP(tastes=True, likelihood="probit").fit(pairs=votes, persons=frame)
    new = [np.corrcoef(gp.predict(judge=f"p{k}"), h[k])[0, 1] for k in range(n_persons, len(Z))]
    assert np.mean(new) > 0.8 > np.mean([np.corrcoef(gp.predict(), h[k])[0, 1] for k in range(40)])
    gp.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.predict(judge="p45"), gp.predict(judge="p45"))
    assert again.rank(judge="p45").tolist() == gp.rank(judge="p45").tolist()


def test_traits_have_the_gradient_of_finite_differences():
    gp = with_traits(fixed().fit(X, pairs=answers(60), persons=AGES))
    kernel, free = gp.process_.model.covariance, tuple(gp.likelihood_.free_parameters)
    objective = NegativeLogEvidence(
        inference_of(gp),
        kernel,
        gp.likelihood_,
        free,
        Hyperprior.flat(len(kernel.theta) + len(free)),
        rule=StoppingRule(1e-10, 200),
        rank_tol=1e-12,
    )
    x = objective.start
    expected = [(objective(x + e)[0] - objective(x - e)[0]) / 2e-3 for e in 1e-3 * np.eye(len(x))]
    np.testing.assert_allclose(objective(x)[1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("persons", [None, AGES])
def test_order_and_covariates_count_beside_tastes(persons):
    """Equal to a dense process over persons, items and the effect."""
    table = answers(18, ties=False)
    gp = fixed().fit(X, pairs=table, first=True, persons=persons)
    gp = with_tastes(gp) if persons is None else with_traits(gp)
    features = () if persons is None else (np.vstack([np.zeros(2), scaled(persons)]), TRAITS(X, X))
    K = reference.person_item_covariance(COMMON(X, X), TASTES(X, X), N_PERSONS, *features)
    deviation = gp.process_.model.term(Effects).deviations[0]
    K = np.block([[K, np.zeros((len(K), 1))], [np.zeros((1, len(K))), np.array([[deviation**2]])]])
    place = table.judge.index + 1
    A, rows = np.zeros((18, len(K))), np.arange(18)
    A[rows, place * N_ITEMS + table.first] = table.outcome
    A[rows, place * N_ITEMS + table.second] = -table.outcome
    A[rows, -1] = table.outcome
    densities = [reference.judged_answer(1.0, 0.0, tied=False, flip_rate=0.0)] * 18
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(K, A, densities, 20)
    assert gp.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)
    assert gp.effects_[0].value == pytest.approx(mean[-1], abs=1e-5)
    for number, person in enumerate([None, *NAMES]):
        block = slice(number * N_ITEMS, (number + 1) * N_ITEMS)
        got, got_cov = gp.predict(X, return_cov=True, judge=person)
        np.testing.assert_allclose(got, mean[block], atol=1e-5)
        np.testing.assert_allclose(got_cov, cov[block, block], atol=1e-5)
    i, j = 2 * N_ITEMS + np.array([1, 4])
    a = np.zeros(len(K))
    a[[i, j, -1]] = 1.0, -1.0, 1.0
    win = densities[0]
    expected = np.exp(reference.tilted_by_quadrature(win, a @ mean, a @ cov @ a)[0])
    found = gp.predict_pair([1], [4], judge="bob", covariates={"first": [1.0]})
    assert found[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("persons", "message"),
    [
        (np.zeros((4, 2)), "got no names"),
        ({"ann": []}, "must have numbers as features"),
        ({"ann": [np.nan]}, "none missing"),
        (pd.DataFrame({"who": ["ann", "ann"], "x": [1.0, 2.0]}), "got 'ann' twice"),
    ],
)
def test_persons_that_cannot_be_read_are_refused(persons, message):
    with pytest.raises(InvalidInputError, match=message):
        fixed().fit(X, pairs=answers(18), persons=persons)


def test_features_of_persons_need_tastes():
    with pytest.raises(InvalidInputError, match="`persons` must come with tastes=True"):
        PreferenceGP().fit(X, pairs=answers(18), persons=AGES)
    with pytest.raises(InvalidInputError, match="`with_persons` needs features of persons"):
        fixed().fit(X, pairs=answers(18)).with_persons(AGES)
    gp = fixed().fit(X, pairs=answers(18), persons=AGES)
    with pytest.raises(InvalidInputError, match="must have the 2 features"):
        gp.with_persons({"eve": [1.0]})


def test_a_person_is_a_name():
    votes = {"a": ["tea"] * 4, "b": ["milk"] * 4, "winner": ["tea", "milk"] * 2}
    gp = PreferenceGP(tastes=True, optimize=False).fit(pairs=votes | {"judge": ["x", "y"] * 2})
    with pytest.raises(InvalidInputError, match="`judge` must be the name of a person: unhashable"):
        gp.predict(judge={"x"})
    for name in (None, "nobody", float("nan")):  # persons of whom nothing is known
        expected = gp.predict_pair(["tea"], ["milk"], judge=["somebody"])
        np.testing.assert_array_equal(gp.predict_pair(["tea"], ["milk"], judge=[name]), expected)
