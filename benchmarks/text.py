"""Twenty topics of text, one after the other: RankSVM beside scikit-learn's linear classifier.

Whole calls, from rows to a fitted ranker; a topic takes its turn with all of them. Documents are
drawn from words of Zipf's frequencies, of which some belong to a topic. LinearSVC has one thread,
so CPU seconds are compared on one core, and seconds that pass on all.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.svm import LinearSVC

from benchmarks.harness import Row, markdown, one_core
from rankwise import RankSVM

N_DOCUMENTS, N_WORDS, N_TOPICS = 11_293, 42_254, 20  # as in 20 newsgroups
OWN_WORDS, SHARE_OF_OWN = 300, 0.08


def documents() -> tuple[csr_array, np.ndarray]:
    """Return documents as TF-IDF rows of length 1, and the topic of each."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, N_WORDS + 1)
    frequency /= frequency.sum()
    topic = rng.integers(0, N_TOPICS, N_DOCUMENTS)
    lengths = np.clip(rng.lognormal(np.log(120), 0.7, N_DOCUMENTS), 10, 2000).astype(int)
    document = np.repeat(np.arange(N_DOCUMENTS), lengths)
    word = rng.choice(N_WORDS, len(document), p=frequency)
    middling = np.sqrt(frequency) / np.sqrt(frequency).sum()
    own = [rng.choice(N_WORDS, OWN_WORDS, replace=False, p=middling) for _ in range(N_TOPICS)]
    is_own = rng.random(len(document)) < SHARE_OF_OWN
    among_own = frequency[:OWN_WORDS] / frequency[:OWN_WORDS].sum()
    drawn = rng.choice(OWN_WORDS, is_own.sum(), p=among_own)
    word[is_own] = np.array(own)[topic[document[is_own]], drawn]
    entries = np.ones(len(word)), (document.astype(np.int32), word.astype(np.int32))
    counts = csr_array(entries, shape=(N_DOCUMENTS, N_WORDS))
    return csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(counts)), topic


def seconds_of(job: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    job()
    return clock() - start


def compare(C: float, where: str, clock: Callable[[], float]) -> Row:
    X, topic = documents()
    RankSVM(C).fit(X[:500], topic[:500] == 0)  # warm-up
    ours, theirs, gaps = [], [], []
    for k in range(N_TOPICS):
        y, ranker = (topic == k).astype(float), RankSVM(C)
        theirs.append(seconds_of(lambda y=y: LinearSVC().fit(X, y), clock))
        ours.append(seconds_of(lambda y=y, ranker=ranker: ranker.fit(X, y), clock))
        gaps.append(ranker.solution_.gap)
    ratios = np.divide(ours, theirs)
    return Row(
        f"RankSVM, C = {C:g}, {N_TOPICS} topics, {N_DOCUMENTS:,} x {N_WORDS:,}, {where}",
        "LinearSVC as classifier, C = 1",
        "at most 2x",
        sum(ours),
        sum(theirs),
        sum(ours) / sum(theirs),
        f"of a topic: median {statistics.median(ratios):.1f}x, {ratios.min():.1f} to "
        f"{ratios.max():.1f}x; largest gap {max(gaps):.0e}",
    )


def table() -> list[Row]:
    """C multiplies pairs: C = 1e-3 regularises about as much as 1 does in the classifier.

    At C = 1 the problem is a thousand times as stiff. Newton's method takes 14 steps with some 350
    products in all, which are two thirds of the time; LinearSVC stops without a certificate.
    """
    rows = []
    for C in (1e-3, 1.0):
        with one_core():
            rows.append(compare(C, "CPU seconds, per core", time.process_time))
        rows.append(compare(C, "all cores", time.perf_counter))
    return rows


if __name__ == "__main__":
    print(markdown("Topics of text", table()))
