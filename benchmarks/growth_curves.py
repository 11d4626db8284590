"""What growth is measured of: jobs, their sizes, and the cost that the documentation states."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.growth_jobs import (
    N_ITERATIONS,
    N_STEPS,
    Job,
    descend,
    fit,
    fit_pairs,
    fit_path,
    hold_out_pairs,
    hold_out_queries,
    margin_steps,
    measure,
    oracle,
    sweep,
)
from rankwise import Gaussian

Term = Callable[[int], float]


@dataclass(frozen=True)
class Curve:
    """A job of growing size, and the terms of its stated cost as functions of that size."""

    panel: str
    job: str
    axis: str
    sizes: tuple[int, ...]
    prepare: Callable[[int], Job]
    cost: str
    terms: tuple[Term, ...]
    note: str = ""


def powers(first: int, last: int) -> tuple[int, ...]:
    """Return the powers of two from one exponent to another."""
    return tuple(2**k for k in range(first, last + 1))


def constant(_: int) -> float:
    return 1.0


def linear(n: int) -> float:
    return float(n)


def squared(n: int) -> float:
    return float(n) ** 2


def cubic(n: int) -> float:
    return float(n) ** 3


def sorting(n: int) -> float:
    return n * np.log(n)


KERNEL_SIZES = (1000, 1414, 2000, 2828, 4000, 5657)
PAIRS = tuple(2**13 * (2**k - 1) for k in (2, 5, 8, 11, 14))  # in queries of 2^k items
CLOSED, OTHER = "items, least squares in closed form", "items, other algorithms"

CURVES = (
    Curve(
        CLOSED,
        "RankRLS, linear, 40 features",
        "items",
        powers(13, 18),
        lambda n: fit(n, 40),
        "O(n d^2)",
        (linear,),
    ),
    Curve(
        CLOSED,
        "RankRLS, Gaussian kernel, 100 basis rows",
        "items",
        powers(12, 16),
        lambda n: fit(n, 20, kernel=Gaussian(0.05), basis=100, random_state=0),
        "O(n r^2)",
        (linear,),
    ),
    Curve(
        CLOSED,
        "RankRLS, Gaussian kernel",
        "items",
        KERNEL_SIZES,
        lambda n: fit(n, 20, kernel=Gaussian(0.05)),
        "O(n^3)",
        (cubic,),
        "below: the n^2 kernel entries still count, and LAPACK gets faster with size",
    ),
    Curve(
        CLOSED,
        "leave-query-out, linear, 31 alphas",
        "items",
        powers(11, 16),
        hold_out_queries,
        "O(n d^2 + Q d^3 + k n d)",
        (linear,),
    ),
    Curve(
        CLOSED,
        "leave-pair-out, Gaussian kernel",
        "items",
        KERNEL_SIZES,
        hold_out_pairs,
        "O(n^3)",
        (cubic,),
        "below: kernel entries and pairs are n^2, and LAPACK gets faster with size",
    ),
    Curve(
        OTHER,
        f"LinearRankRLS, {N_ITERATIONS} iterations",
        "items",
        powers(13, 18),
        lambda n: descend(n, 50),
        "O(non-zeros)",
        (linear,),
    ),
    Curve(
        OTHER,
        f"RankSVM, {N_STEPS} steps, one query, 20 features",
        "items",
        powers(13, 18),
        lambda n: margin_steps(n, n),
        "O(n d^2 + n log n)",
        (linear, sorting),
        "above: features of a large query are taken in ever narrower blocks, a sweep over its "
        "items each",
    ),
    Curve(
        OTHER,
        "NDCG @ 10 and Disagreement, one query",
        "items",
        powers(15, 20),
        lambda n: measure(n, n),
        "O(n log n)",
        (sorting,),
        "above, as is a bare argsort of these sizes",
    ),
    Curve(
        OTHER,
        "DORM oracle, NDCG, one query",
        "items",
        powers(12, 17),
        lambda n: oracle(1, n),
        "O(n log n)",
        (sorting,),
    ),
    Curve(
        OTHER,
        "EP sweep, 10 comparisons an item",
        "items",
        (500, 707, 1000, 1414, 2000, 2828),
        lambda n: sweep(n, 10 * n),
        "O(n r^2 + n_pairs r), r = n",
        (cubic,),
        "below: LAPACK gets faster with size",
    ),
    Curve(
        "features",
        "RankRLS, linear, 16,384 items",
        "features",
        powers(5, 10),
        lambda d: fit(2**14, d),
        "O(n d^2)",
        (squared,),
        "below: the product gets faster with its width, and centring is linear in d",
    ),
    Curve(
        "features",
        f"LinearRankRLS, {N_ITERATIONS} iterations, 16,384 items",
        "non-zeros a row",
        powers(3, 8),
        lambda d: descend(2**14, d),
        "O(non-zeros)",
        (linear,),
        "below: a part of the time does not grow with the non-zeros",
    ),
    Curve(
        "pairs",
        "RankRLS, linear, from scores of 16,384 items",
        "pairs",
        PAIRS,
        lambda n: fit(2**14, 20, n // 2**13 + 1),
        "O(n d^2)",
        (constant,),
    ),
    Curve(
        "pairs",
        f"RankSVM, {N_STEPS} steps, from scores of 16,384 items",
        "pairs",
        PAIRS,
        lambda n: margin_steps(2**14, n // 2**13 + 1),
        "O(n d^2 + n log n)",
        (constant,),
    ),
    Curve(
        "pairs",
        "RankRLS, linear, from comparisons of 4,096 items",
        "pairs",
        powers(14, 20),
        lambda n: fit_pairs(2**12, 20, n),
        "O(n d^2 + n_pairs)",
        (constant, linear),
        "above: repeated pairs are found by sorting those of each item",
    ),
    Curve(
        "pairs",
        "EP sweep, 500 items",
        "pairs",
        powers(13, 18),
        lambda n: sweep(500, n),
        "O(n r^2 + n_pairs r)",
        (constant, linear),
    ),
    Curve(
        "queries",
        "RankRLS, linear, 32,768 items",
        "queries",
        (16, 64, 256, 1024, 4096),
        lambda n: fit(2**15, 20, 2**15 // n),
        "O(n d^2)",
        (constant,),
        "above: each query costs something of its own",
    ),
    Curve(
        "queries",
        "leave-query-out, linear, 31 alphas, 32,768 items",
        "queries",
        (16, 64, 256, 1024, 4096),
        lambda n: hold_out_queries(2**15, 2**15 // n),
        "O(n d^2 + Q d^3 + k n d)",
        (constant, linear),
        "a jump at the end: small queries are taken out one by one, where refitting would be "
        "faster",
    ),
    Curve(
        "queries",
        "NDCG @ 10 and Disagreement, 262,144 items",
        "queries",
        (16, 64, 256, 1024, 4096),
        lambda n: measure(2**18, 2**18 // n),
        "O(n log(n / Q))",
        (lambda n: np.log(2**18 / n),),
    ),
    Curve(
        "queries",
        "DORM oracle, NDCG, 32,768 items",
        "queries",
        (4, 16, 64, 256, 1024),
        lambda n: oracle(n, 2**15 // n),
        "O(n log(n / Q))",
        (lambda n: np.log(2**15 / n),),
        "sorting is a small part of the time",
    ),
    Curve(
        "alphas",
        "RankRLS path, Gaussian kernel, 1,500 items",
        "alphas",
        powers(0, 6),
        lambda n: fit_path(1500, n),
        "O(n^3 + k n^2)",
        (constant, linear),
    ),
    Curve(
        "alphas",
        "leave-query-out, linear, 16,384 items",
        "alphas",
        powers(0, 6),
        lambda n: hold_out_queries(2**14, n_alphas=n),
        "O(n d^2 + Q d^3 + k n d)",
        (constant, linear),
    ),
    Curve(
        "alphas",
        f"LinearRankRLS grid, {N_ITERATIONS} iterations, 16,384 items",
        "alphas",
        powers(1, 6),
        lambda n: descend(2**14, 50, n),
        "O(non-zeros + k d)",
        (constant, linear),
    ),
    Curve(
        "alphas",
        "leave-pair-out, Gaussian kernel, 500 items",
        "alphas",
        powers(0, 5),
        lambda n: hold_out_pairs(500, n),
        "O(k n^3)",
        (linear,),
    ),
)
