"""What a user pays for whole calls, in CPU seconds of one core, beside their least."""

import lightgbm
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.svm import LinearSVC

from benchmarks.harness import Row, markdown, one_core
from benchmarks.harness import cpu_ratio as row
from rankwise import (
    NDCG,
    BoostedRanker,
    Gaussian,
    LinearRankRLS,
    RankRLS,
    RankRLSCV,
    RankSVM,
    SearchRanker,
    evaluate,
)

PEERS = ["lightgbm"]
GRID = 2.0 ** np.arange(-10, 11)


def evaluation_row() -> Row:
    """Evaluate a million rows; LightGBM has prepared queries, gains and the best order before."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(10_000), 100)
    y = rng.integers(0, 5, len(qid)).astype(float)
    scores = 0.3 * y + rng.normal(size=len(qid))
    parameters = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "verbose": -1}
    parameters |= {"num_threads": 1, "num_leaves": 255, "min_data_in_leaf": 1}
    data = lightgbm.Dataset(scores[:, None], y, group=np.full(10_000, 100), params=parameters)
    booster = lightgbm.Booster(parameters, data)
    booster.update()
    return row(
        "evaluate NDCG @ 10, 1,000,000 rows in 10,000 queries",
        lambda: evaluate(y, scores, qid, NDCG @ 10),
        "LightGBM's eval_train, data prepared before",
        booster.eval_train,
        "at most 1x",
        repeats=5,
    )


def dense_problem(n_items, n_features, n_queries):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, n_features))
    qid = np.repeat(np.arange(n_queries), n_items // n_queries)
    noisy = X @ rng.normal(size=n_features) / np.sqrt(n_features) + rng.normal(size=n_items)
    return X, np.clip(np.round(noisy + 1), 0, 4), qid


def selection_rows() -> list[Row]:
    """Return choices of alpha beside one fit."""
    X, y, qid = dense_problem(50_000, 46, 500)
    linear = row(
        "RankRLSCV, 50,000 x 46, 31 alphas, NDCG @ 10, fit to fitted",
        lambda: RankRLSCV(measure=NDCG @ 10).fit(X, y, qid=qid),
        "RankRLS().fit",
        lambda: RankRLS().fit(X, y, qid=qid),
        "at most 4x",
        repeats=5,
    )
    default = [default_row(n_queries) for n_queries in (500, 1_000)]
    Xb, yb, qb = dense_problem(10_000, 46, 500)
    options = {"kernel": Gaussian(0.01), "basis": 800, "random_state": 0}
    basis = row(
        "RankRLSCV, Gaussian, basis=800, 10,000 rows, 31 alphas, fit to fitted",
        lambda: RankRLSCV(measure=NDCG @ 10, **options).fit(Xb, yb, qid=qb),
        "RankRLS().fit",
        lambda: RankRLS(**options).fit(Xb, yb, qid=qb),
        "none",
    )
    return [linear, *default, basis]


def default_row(n_queries: int) -> Row:
    """Choose among 31 alphas by leaving out every query and the default measure, disagreement.

    Of the time at 1,000 queries two fifths are tridiagonal refits, a third the Gram matrices of the
    queries, and a seventh counting pairs; a fit has none of these.
    """
    X, y, qid = dense_problem(50_000, 46, n_queries)
    return row(
        f"RankRLSCV, 50,000 x 46 in {n_queries:,} queries, 31 alphas, default measure",
        lambda: RankRLSCV().fit(X, y, qid=qid),
        "RankRLS().fit",
        lambda: RankRLS().fit(X, y, qid=qid),
        "at most 3x",
        repeats=5,
    )


def words(n_items, n_features, n_words):
    """Return counts of words of Zipf's frequencies."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, n_features + 1)
    drawn = rng.choice(n_features, size=(n_items, n_words), p=frequency / frequency.sum())
    starts = np.arange(n_items + 1, dtype=np.int32) * n_words
    indices = drawn.ravel().astype(np.int32)
    X = csr_array((np.ones(drawn.size), indices, starts), shape=(n_items, n_features))
    X.sum_duplicates()
    signal = X @ rng.normal(size=n_features)
    return X, np.round(2 * signal / signal.std() + rng.normal(size=n_items))


def word_rows() -> list[Row]:
    T, z = words(11_293, 42_254, 100)
    topic = (z > 1).astype(float)
    T.data[:] = 1 + np.log(T.data)
    one_topic = row(
        "RankRLS, one topic, sparse text 11,293 x 42,254, fit to fitted",
        lambda: RankRLS().fit(T, topic),
        "LinearSVC as classifier",
        lambda: LinearSVC().fit(T, topic),
        "none",
        repeats=2,
    )
    topics = np.column_stack([(z > cut).astype(float) for cut in np.arange(-3, 5) / 2])
    eight_topics = row(
        "LinearRankRLS, 8 topics at once, the same text",
        lambda: LinearRankRLS().fit(T, topics),
        "8 fits, one after the other",
        lambda: [LinearRankRLS().fit(T, one) for one in topics.T],
        "at most 0.7x",
        repeats=2,
    )
    T.data /= np.repeat(np.sqrt(T.multiply(T).sum(axis=1)), np.diff(T.indptr))
    return [*grid_rows(), one_topic, eight_topics, *margin_rows(T, topic)]


def grid_rows() -> list[Row]:
    """Return grids of alphas over columns of Zipf's and of equal frequencies."""
    qid = np.repeat(np.arange(3_000), 20)

    def grid(X, y):
        return LinearRankRLS(alphas=GRID, random_state=0).fit(X, y, qid=qid)

    def from_the_one_before(X, y):
        ranker = LinearRankRLS(warm_start=True)
        for alpha in GRID[::-1]:
            ranker.set_params(alpha=alpha).fit(X, y, qid=qid)

    def alone(X, y):
        return LinearRankRLS(GRID[0]).fit(X, y, qid=qid)

    X, y = words(60_000, 20_000, 50)
    one_alpha = row(
        "LinearRankRLS, one alpha, word counts, 60,000 x 20,000, fit to fitted",
        lambda: LinearRankRLS(ties="keep").fit(X, y, qid=qid),
        "SciPy's cg, preconditioned by the diagonal, to the same residual",
        lambda: by_scipy(X, y, qid),
        "at least 3x faster",
    )
    U, z = equally_frequent(60_000, 20_000, 50)
    job = "LinearRankRLS, 21 alphas with validation, {}, 60,000 x 20,000, fit to fitted"
    separate = "21 preconditioned fits, each from the weights of the one before"
    smallest, words_job, equal_job = (
        "its smallest alpha alone", job.format("word counts"), job.format("columns alike"),
    )  # fmt: skip
    return [
        one_alpha,
        row(words_job, lambda: grid(X, y), separate, lambda: from_the_one_before(X, y),
            "at most 1x", repeats=2),
        row(words_job, lambda: grid(X, y), smallest, lambda: alone(X, y), "none", repeats=2),
        row(equal_job, lambda: grid(U, z), smallest, lambda: alone(U, z), "at most 1.3x"),
    ]  # fmt: skip


def by_scipy(X, y, qid):
    """Solve the equations of RankRLS as one would without a library.

    To a residual of 1e-9 both take 39 iterations, each a pass over the entries in either direction:
    4.1 ms of ours and 4.8 of SciPy's products, both bound by random reads. Three times is out of
    reach of one core at double precision (1.2x; values of single precision 1.5x).
    """
    sizes = np.bincount(qid)
    P = csr_array((np.ones(len(qid)), (qid, np.arange(len(qid)))))
    XT, sums, squares = X.T.tocsr(), (P @ X).tocsr(), X.copy()
    squares.data **= 2
    sums.data **= 2
    diagonal = squares.sum(axis=0) - sums.T @ (1 / sizes) + 1.0

    def centred(v):
        return v - np.repeat(P @ v / sizes, sizes)

    shape = (X.shape[1], X.shape[1])
    A = LinearOperator(shape, lambda w: XT @ centred(X @ w) + w, dtype=float)
    M = LinearOperator(shape, lambda w: w / diagonal, dtype=float)
    return cg(A, XT @ centred(y), rtol=1e-9, M=M)[0]


def equally_frequent(n_items, n_features, n_entries):
    """Return rows of entries drawn from all columns alike."""
    rng = np.random.default_rng(0)
    indices = rng.integers(0, n_features, (n_items, n_entries), dtype=np.int32)
    starts = np.arange(n_items + 1, dtype=np.int32) * n_entries
    X = csr_array((rng.random(indices.size), indices.ravel(), starts), (n_items, n_features))
    X.sum_duplicates()
    signal = X @ rng.normal(size=n_features)
    return X, np.round(2 * signal / signal.std() + rng.normal(size=n_items))


def margin_rows(T, topic) -> list[Row]:
    """Return RankSVM on rows of length 1; its C multiplies pairs, of which an item is in many.

    C = 1e-3 is about as stiff as the classifier's 1. The hinge at C = 1 takes 35 steps to its
    certified gap of 1e-4, each of them sorts and some 60 products. Dividing by the diagonal of the
    Hessian was tried: it saves no time.
    """

    def compare(loss, C, bar) -> Row:
        return row(
            f"RankSVM, {loss}, C = {C:g}, one topic, rows of length 1, 11,293 x 42,254",
            lambda: RankSVM(C, loss=loss).fit(T, topic),
            "LinearSVC as classifier",
            lambda: LinearSVC().fit(T, topic),
            bar,
            repeats=2,
        )

    squared = [compare("squared_hinge", C, "at most 2x") for C in (1e-3, 1.0)]
    return [*squared, compare("hinge", 1.0, "at most 5x")]


def latency_rows() -> list[Row]:
    """Return a thousand calls for one query of 20 x 46 each, beside what they cannot do without."""
    X, y, qid = dense_problem(2_000, 46, 100)
    one, ids = X[:20].copy(), np.zeros(20, dtype=int)
    linear = RankRLS().fit(X, y, qid=qid)
    search = SearchRanker().fit(X, y, qid=qid)
    boosted = BoostedRanker().fit(X, y, qid=qid)
    booster = lightgbm.Booster(model_str=boosted.model_.tobytes().decode())
    members = [member.steps_[-1] for member in search.members_]
    parts = [(m.dual_coef_, np.ascontiguousarray(m.predictor_.rows.T)) for m in members]
    rows = [np.random.default_rng(0).random((20, len(basis))) for _, basis in parts]

    def kernels():
        for A, (weights, basis) in zip(rows, parts, strict=True):
            np.exp(A @ basis) @ weights

    def trees():
        booster.predict(one, num_threads=1)

    def compare(job, ours, against, other, bar) -> Row:
        return row(
            f"{job}, 1,000 times one query of 20 x 46",
            lambda: [ours() for _ in range(1_000)],
            against,
            lambda: [other() for _ in range(1_000)],
            bar,
            repeats=5,
        )

    bare, peer = "X @ w", "predict of LightGBM's Booster"
    return [
        compare("RankRLS.predict", lambda: linear.predict(one), bare, lambda: one @ linear.coef_,
            "5 ms"),
        compare("RankRLS.predict", lambda: linear.predict(one), peer, trees, "at most 1x"),
        compare("RankRLS.rank", lambda: linear.rank(one, qid=ids, k=10), peer, trees, "15 ms"),
        compare("BoostedRanker.predict", lambda: boosted.predict(one), peer, trees,
            "at most 1.2x"),
        compare("SearchRanker.predict", lambda: search.predict(one, qid=ids),
            "the products and exponentials of its two kernels", kernels, "60 ms"),
    ]  # fmt: skip


def table() -> list[Row]:
    with one_core():  # a second thread that waits would count as well
        return [evaluation_row(), *latency_rows(), *selection_rows(), *word_rows()]


if __name__ == "__main__":
    print(markdown("Whole calls", table()))
