"""Preference Gaussian processes against BoTorch and bare LAPACK."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from statistics import median

import numpy as np
from scipy.linalg import cholesky
from scipy.special import log_ndtr, ndtr

from benchmarks.harness import Row, joined, markdown, one_core, spread, within
from rankwise import PreferenceGP, SquaredExponential
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import sweep_sites
from rankwise.comparisons.gp.inference.likelihood import Probit
from rankwise.comparisons.gp.inference.prior import factorize_kernel, moments_under

PEERS = ["botorch", "torch"]
N_ITEMS, N_PAIRS, N_TEST, N_FITS, N_ROUNDS = 350, 3500, 5000, 2, 20
"""Items and comparisons beside BoTorch, which takes minutes for more points on a line."""


def line(n_items, rng):
    """Return points on a line and a wave of scores, in units of the noise of an answer."""
    x = rng.uniform(-4.0, 4.0, size=n_items)
    return x[:, None], 8.0 * np.sinc(x)


def cube(n_items, rng):
    """Return points in ten dimensions, of which four matter."""
    X = rng.uniform(size=(n_items, 10))
    return X, 6.0 * (np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3])


def draw_pairs(f, n_pairs, rng):
    """Compare random items, the winner first, with unit noise."""
    i = rng.integers(len(f), size=n_pairs)
    j = (i + rng.integers(1, len(f), size=n_pairs)) % len(f)
    swap = (f[i] - f[j] + rng.normal(size=n_pairs) < 0.0)[:, None]
    return np.where(swap, np.stack([j, i], 1), np.stack([i, j], 1))


def problem(points: Callable):
    """Return items and comparisons to learn from, and new items with comparisons to predict."""
    rng = np.random.default_rng(0)
    X, f = points(2 * N_ITEMS, rng)
    train, test = slice(0, N_ITEMS), slice(N_ITEMS, None)
    return X[train], draw_pairs(f[train], N_PAIRS, rng), X[test], draw_pairs(f[test], N_TEST, rng)


def botorch_fit(X, pairs, kernel=None):
    """Fit BoTorch's PairwiseGP as its documentation does; None where all its attempts fail."""
    import torch  # noqa: PLC0415
    from botorch.exceptions import ModelFittingError  # noqa: PLC0415
    from botorch.fit import fit_gpytorch_mll  # noqa: PLC0415
    from botorch.models.pairwise_gp import (  # noqa: PLC0415
        PairwiseGP,
        PairwiseLaplaceMarginalLogLikelihood,
    )
    from botorch.models.transforms.input import Normalize  # noqa: PLC0415

    torch.manual_seed(0)
    rows = torch.as_tensor(X, dtype=torch.double)
    model = PairwiseGP(
        rows,
        torch.as_tensor(pairs).long(),
        covar_module=kernel,
        input_transform=Normalize(d=X.shape[1]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        except ModelFittingError:
            return None
    return model


def botorch_log_loss(model, X, pairs) -> float:
    """Return the mean log-loss of its answers, whose noise variance is 2."""
    import torch  # noqa: PLC0415

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = model.posterior(torch.as_tensor(X, dtype=torch.double))
        mean = posterior.mean.numpy().ravel()
        cov = posterior.distribution.covariance_matrix.numpy()
    i, j = pairs.T
    variance = np.maximum(cov[i, i] + cov[j, j] - 2.0 * cov[i, j], 0.0)
    return -float(np.mean(log_ndtr((mean[i] - mean[j]) / np.sqrt(2.0 + variance))))


def log_loss(gp, X, pairs) -> float:
    """Return the mean log-loss of recorded answers."""
    return -float(np.mean(np.log(gp.predict_pair(X[pairs[:, 0]], X[pairs[:, 1]]))))


MODELS = {
    "the model of BoTorch": lambda: PreferenceGP(
        SquaredExponential(length_scale="per_feature"), likelihood="probit"
    ),
    "`PreferenceGP()`, with item effects and flips": PreferenceGP,
}
"""Both have a length-scale per dimension and priors of the parameters; the second is larger."""


def fit_rows(name: str, points: Callable, bar: float) -> list[Row]:
    """Compare both models with one fit of BoTorch; the bar is for the same model."""
    X, pairs, X_test, test = problem(points)
    against = "BoTorch PairwiseGP, its own fitting routine"
    other, theirs = np.nan, "BoTorch not installed"
    if find_spec("botorch") is not None:
        other, model = cpu(lambda: botorch_fit(X, pairs))
        theirs = "all attempts of theirs failed"
        if model is not None:
            theirs = f"theirs {botorch_log_loss(model, X_test, test):.4f}"
    rows = []
    for kind, build in MODELS.items():
        build().fit(X[:50], pairs=pairs[(pairs < 50).all(axis=1)])  # warm-up
        runs = [cpu(lambda build=build: build().fit(X, pairs=pairs)) for _ in range(N_FITS)]
        times = [seconds for seconds, _ in runs]
        seconds = min(times)
        note = f"CPU seconds; held-out log-loss {log_loss(runs[0][1], X_test, test):.4f}, {theirs}"
        note = joined(note, spread([other / seconds for seconds in times]))
        wanted = f"at least {bar:g}x faster" if build is not PreferenceGP else "-"
        job = f"hyperparameter fit, {N_ITEMS} items, {N_PAIRS:,} comparisons, {name}: {kind}"
        rows.append(Row(job, against, wanted, seconds, other, other / seconds, note))
    return rows


def sweep_row() -> Row:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1000, 10))
    f = 6.0 * np.sin(3.0 * X[:, 0])
    comparisons = Comparisons.from_pairs(draw_pairs(f, 20_000, rng))
    K = SquaredExponential(2.0, 0.3)(X, X)
    prior = factorize_kernel(K, comparisons)
    sites = np.concatenate([np.full(comparisons.n_pairs, 0.1), np.zeros(comparisons.n_pairs)])
    here = partial(moments_under, prior)
    return within(
        f"one EP sweep, 1,000 items, 20,000 comparisons, rank {prior.rank}",
        lambda: sweep_sites(prior, Probit(), here, prior.copies, sites, True),
        "one Cholesky of that order",
        lambda: cholesky(K + np.eye(len(K)), lower=True, check_finite=False),
        15,
        repeats=9,
    )


def many_items_row() -> Row:
    """Compare a fit through 100 basis rows with the error of the true scores."""
    rng = np.random.default_rng(0)
    X, f = cube(20_000, rng)
    pairs, test = draw_pairs(f, 50_000, rng), draw_pairs(f, N_TEST, rng)
    gp = PreferenceGP(basis=100, random_state=0)
    seconds, _ = cpu(lambda: gp.fit(X, pairs=pairs))
    truth = -float(np.mean(np.log(ndtr(f[test[:, 0]] - f[test[:, 1]]))))
    loss = f"held-out log-loss {log_loss(gp, X, test):.4f}, of the true scores {truth:.4f}"
    note = f"CPU seconds; {loss}"
    job = "hyperparameter fit, 20,000 items, 50,000 comparisons, 10-D, 100 basis rows"
    return Row(job, "nothing: feasibility", "-", seconds, np.nan, np.nan, note)


def whole_fit_rows() -> list[Row]:
    """Fit with features at default, in CPU seconds: what a user pays."""
    rows = []
    for n_items, n_pairs, bar in ((1000, 5000, 2.8), (2000, 20_000, 10.0)):
        rng = np.random.default_rng(0)
        X, f = cube(n_items, rng)
        pairs, test = draw_pairs(f, n_pairs, rng), draw_pairs(f, N_TEST, rng)
        with one_core():
            seconds, gp = cpu(partial(PreferenceGP().fit, X, pairs=pairs))
        note = f"CPU seconds of one core; held-out log-loss {log_loss(gp, X, test):.4f}"
        job = f"`PreferenceGP().fit`, {n_items:,} items, {n_pairs:,} comparisons, 10-D"
        rows.append(Row(job, f"{bar:g} s", "at most 1x", seconds, bar, seconds / bar, note))
    return rows


def taste_rows() -> list[Row]:
    """Fit an order of every person, by name, in CPU seconds."""
    rows, n_items, n_answers, bar = [], 20, 100, 10.0
    for n_persons in (100, 303):
        rng = np.random.default_rng(0)
        h = 1.5 * rng.normal(size=n_items) + rng.normal(size=(n_persons, n_items))
        pairs = np.concatenate([draw_pairs(own, n_answers, rng) for own in h])
        who = np.repeat(np.arange(n_persons), n_answers)
        gp = PreferenceGP("linear", tastes=True)
        with one_core():  # a second thread that waits would count as well
            seconds, _ = cpu(partial(gp.fit, np.eye(n_items), pairs=pairs, judge=who))
        share = f"learnt share of own taste {gp.taste_share_:.2f}, drawn with {1.0 / 3.25:.2f}"
        job = f"`PreferenceGP(tastes=True).fit`, {n_persons} persons x {n_answers} comparisons"
        job += f" of {n_items} items"
        note = f"CPU seconds of one core; {share}"
        rows.append(Row(job, f"{bar:g} s", "at most 1x", seconds, bar, seconds / bar, note))
    return rows


def live_rows() -> list[Row]:
    """Ask and answer in turns: whole calls, the first one apart."""
    rows = []
    for n_pairs in (500, 3000, 20_000):
        rng = np.random.default_rng(0)
        X, f = cube(1000, rng)
        gp = PreferenceGP().fit(X, pairs=draw_pairs(f, n_pairs, rng))
        asked, learnt = [], []
        with one_core():
            first, _ = cpu(gp.suggest)
            for _ in range(N_ROUNDS):
                seconds, (pair,) = cpu(gp.suggest)
                asked.append(seconds)
                wins = f[pair[0]] - f[pair[1]] + rng.normal() > 0.0
                answer = pair if wins else pair[::-1]
                learnt.append(cpu(partial(gp.update, answer[None]))[0])
        for name, times in (("suggest", asked), ("update", learnt)):
            note = f"CPU seconds of one core, median of {N_ROUNDS}; the slowest "
            note += f"{1000 * max(times):.0f} ms"
            note += f"; the first after `fit` {1000 * first:.0f} ms" if name == "suggest" else ""
            job = f"`{name}`, 1,000 items, {n_pairs:,} comparisons"
            seconds = median(times)
            rows.append(Row(job, "50 ms", "at most 1x", seconds, 0.05, seconds / 0.05, note))
    return rows


def warm_up() -> None:
    """Run every kernel once, so that no row pays for loading."""
    rng = np.random.default_rng(0)
    X, f = cube(40, rng)
    gp = PreferenceGP().fit(X, pairs=draw_pairs(f, 60, rng))
    gp.update(gp.suggest())
    PreferenceGP("linear", tastes=True).fit(
        np.eye(40), pairs=draw_pairs(f, 60, rng), judge=np.arange(60) % 3
    )


def cpu(job: Callable):
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


def table() -> list[Row]:
    """Return all rows, those of whole calls first; about two minutes on a quiet machine."""
    warm_up()
    return [
        *whole_fit_rows(),
        *taste_rows(),
        *live_rows(),
        *fit_rows("1-D", line, 100),
        *fit_rows("10-D", cube, 8),
        sweep_row(),
        many_items_row(),
    ]


if __name__ == "__main__":
    print(markdown("Preference Gaussian processes", table()))
