"""Own orders of persons or a common one: comparisons of jokes, held-out log-loss and seconds.

Every user of Jester who rated all of the jokes compares pairs of them by these ratings. Some pairs
are learned from, others of the same users are held out. With features, a joke is known by what
other users made of it.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness import markdown_table, progress, with_error
from experiments.ratings_data import read_jester
from rankwise import PreferenceGP

N_JOKES, N_FEATURES, N_HELD_OUT = 20, 4, 40
SIZES = ((100, 10), (100, 30), (100, 100), (303, 10), (303, 30), (303, 100))
"""Numbers of persons, and of answers of each."""

N_OTHERS = 2000


class Answers:
    """Comparisons of jokes by persons, to learn from and to test on."""

    def __init__(self, ratings: NDArray[Any], n_answers: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ends = np.column_stack(np.triu_indices(ratings.shape[1], 1))
        train, test, who, tested = [], [], [], []
        for person, rated in enumerate(ratings):
            lead = rated[ends[:, 0]] - rated[ends[:, 1]]
            kept = rng.permutation(np.flatnonzero(lead))[: n_answers + N_HELD_OUT]
            pairs = np.where(lead[kept, None] > 0.0, ends[kept], ends[kept, ::-1])
            train.append(pairs[N_HELD_OUT:])
            test.append(pairs[:N_HELD_OUT])
            who.append(np.full(len(pairs) - N_HELD_OUT, person))
            tested.append(np.full(N_HELD_OUT, person))
        self.train, self.who = np.concatenate(train), np.concatenate(who)
        self.test, self.tested = np.concatenate(test), np.concatenate(tested)


def people() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ratings of jokes by users who rated all of them, and features from other users."""
    ratings = read_jester().toarray()
    jokes = np.argsort(-(ratings != 0.0).sum(axis=0), kind="stable")[:N_JOKES]
    complete = ratings[(ratings[:, jokes] != 0.0).all(axis=1)][:, jokes]
    complete = complete[np.random.default_rng(0).permutation(len(complete))]
    others = complete[-N_OTHERS:]
    others = others - others.mean(axis=1, keepdims=True)
    U, s, _ = np.linalg.svd(others.T - others.T.mean(axis=0), full_matrices=False)
    return complete, np.sqrt(N_JOKES) * U[:, :N_FEATURES] * (s / s[0])[:N_FEATURES]


def fitted(answers: Answers, features: Any, *, judge: Any = None, tastes: bool = False) -> Any:
    """Learn from the answers, by the names of jokes alone or with their features."""
    kernel, X = ("linear", np.eye(N_JOKES)) if features is None else (None, features)
    gp = PreferenceGP(kernel, tastes=tastes, random_state=0)
    return gp.fit(X, pairs=answers.train, judge=judge)


def common(answers: Answers, features: Any) -> tuple[PreferenceGP, Any]:
    """Learn one order for all."""
    return fitted(answers, features), None


def reliable(answers: Answers, features: Any) -> tuple[PreferenceGP, Any]:
    """Learn one order, and how reliable each person is."""
    return fitted(answers, features, judge=answers.who), answers.tested


def own(answers: Answers, features: Any) -> tuple[PreferenceGP, Any]:
    """Learn an order of every person."""
    return fitted(answers, features, judge=answers.who, tastes=True), answers.tested


METHODS: dict[str, tuple[Callable, bool]] = {
    "common order": (common, False),
    "common order, reliability of each": (reliable, False),
    "own tastes": (own, False),
    "own tastes, features of jokes": (own, True),
}


def losses(answers: Answers, features: Any, method: Callable) -> tuple[NDArray[Any], float, float]:
    """Return the log-loss of every person, the share of right answers and the seconds of a fit."""
    start = time.process_time()
    gp, judge = method(answers, features)
    seconds = time.process_time() - start
    p = gp.predict_pair(*answers.test.T, judge=judge)
    by_person = -np.log(p).reshape(-1, N_HELD_OUT).mean(axis=1)
    return by_person, float(np.mean(p > 0.5)), seconds


def section() -> str:
    """Return the table."""
    complete, features = people()
    rows = []
    for n_persons, n_answers in SIZES:
        answers = Answers(complete[:n_persons], n_answers, seed=n_answers)
        base = None
        for name, (method, with_features) in METHODS.items():
            given = features if with_features else None
            found, right, seconds = losses(answers, given, method)
            base = found if base is None else base
            gain = "" if base is found else with_error(found - base, 3, "+")
            figures = [with_error(found, 3), gain, f"{right:.3f}", f"{seconds:.1f}"]
            rows.append([n_persons, n_answers, name, *figures])
        progress(f"tastes: {n_persons} persons, {n_answers} answers each")
    header = ["persons", "answers each", "", "log-loss", "against common", "right", "CPU seconds"]
    return (
        f"{N_JOKES} jokes of Jester, {N_HELD_OUT} held-out pairs of every person; errors are "
        "standard errors over persons. Features are the first principal components of the ratings "
        f"of {N_OTHERS:,} other users. Answers follow a user's ratings, so they never contradict "
        "each other, and many of them tell about others.\n\n" + markdown_table(header, rows)
    )
