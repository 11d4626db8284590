"""What training has brought, in words and as JSON."""

from dataclasses import dataclass
from typing import Any, Self, final

from rankwise.cli.commands.fit import Fit
from rankwise.cli.jobs.choice import Choice
from rankwise.cli.jobs.files import given_scores, read_comparisons
from rankwise.cli.output import counted, decimals, print_table
from rankwise.core.errors import InvalidInputError
from rankwise.io.data import RankingData
from rankwise.rankers.dorm.dorm import DORM
from rankwise.rankers.dorm.dorm_cv import DORMCV
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS
from rankwise.rankers.rls.rank_rls import RankRLS


@final
@dataclass(frozen=True, eq=False)
class Lesson:
    """What to learn from: the rows and, by the names that ``fit`` has for them, the preferences."""

    data: RankingData
    preferences: dict[str, Any]

    @classmethod
    def of(cls, command: Fit, data: RankingData) -> Self:
        """Take the scores in the file, or the comparisons in a file of their own."""
        if data.n_items < 2 or data.n_features < 1:
            raise InvalidInputError(
                f"{command.train} must hold at least 2 items and 1 feature: it has "
                f"{counted(data.n_items, 'item', 'items')} and "
                f"{counted(data.n_features, 'feature', 'features')}."
            )
        if command.pairs is None:
            return cls(data, {"y": given_scores(command.train, data), "qid": data.qid})
        read = read_comparisons(command.pairs)
        preferences = {"pairs": read.pairs, "pair_margin": read.margin, "pair_weight": read.weight}
        return cls(data, preferences)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the features, where the file has them."""
        return None if self.data.feature_names is None else tuple(self.data.feature_names)

    @property
    def n_pairs(self) -> int | None:
        """Number of comparisons, None for scores."""
        return len(self.preferences["pairs"]) if "pairs" in self.preferences else None


@final
@dataclass(frozen=True, eq=False)
class Training:
    """The ranker, what it was trained on, how alpha was chosen, how long training took.

    Parameters
    ----------
    ranker
        The fitted ranker.
    lesson
        What it learned from; None when that was streamed from the file.
    choice
        The values of the alphas on data that was not trained on, if there were any.
    seconds
        The time of training.
    """

    ranker: RankRLS | LinearRankRLS | DORM | DORMCV
    lesson: Lesson | None
    choice: Choice | None
    seconds: float

    @property
    def setting(self) -> tuple[str, float]:
        """What regularises the ranker, and how much."""
        ranker = self.ranker
        if isinstance(ranker, DORM | DORMCV):
            return "C", ranker.C_
        return "alpha", ranker.alpha_ if isinstance(ranker, LinearRankRLS) else ranker.alpha

    @property
    def sizes(self) -> dict[str, int | None]:
        """How much was learned from; None where it does not apply or was not counted."""
        return {
            "n_items": None if self.lesson is None else self.lesson.data.n_items,
            "n_features": self.ranker.n_features_in_,
            "n_queries": self.ranker.n_queries_,
            "n_pairs": None if self.lesson is None else self.lesson.n_pairs,
        }


def summary(command: Fit, training: Training) -> dict[str, Any]:
    """Return what was done as a value for JSON."""
    ranker, choice = training.ranker, training.choice
    return {
        "model": str(command.output),
        "ranker": type(ranker).__name__,
        training.setting[0]: training.setting[1],
        **_course(ranker),
        **training.sizes,
        "ignored_queries": ranker.ignored_queries_,
        "seconds": training.seconds,
        "validation": None
        if choice is None
        else {
            "measure": repr(choice.measure),
            f"{choice.name}s": choice.alphas.tolist(),
            "values": choice.values.tolist(),
        },
    }


def print_report(command: Fit, training: Training) -> None:
    """Print the values of the alphas and what was trained."""
    ranker = training.ranker
    if training.choice is not None:
        _print_choice(training.choice)
    name, value = training.setting
    kernel = "" if isinstance(ranker, LinearRankRLS) else f", kernel={ranker.kernel_!r}"
    print(
        f"Trained {type(ranker).__name__}({name}={value:g}{kernel}) on "
        f"{_sizes_in_words(training)} in {training.seconds:.2g} s."
    )
    if isinstance(ranker, DORM | DORMCV):
        passes = counted(ranker.n_iter_, "pass", "passes")
        print(f"Optimised {command.optimise} to a gap of {ranker.solution_.gap:.1e} in {passes}.")
    if isinstance(ranker, LinearRankRLS):
        made = counted(ranker.n_iter_, "iteration", "iterations")
        print(f"The model is that of iteration {ranker.best_iter_}, after {made} in all.")
    if ranker.ignored_queries_ > 0:
        print(f"{counted(ranker.ignored_queries_, 'query', 'queries')} held no preference.")
    print(f"Saved as {command.output}.")


def _print_choice(choice: Choice) -> None:
    rows = [
        [f"{alpha:g}", decimals(value), "chosen" if at == choice.best else ""]
        for at, (alpha, value) in enumerate(zip(choice.alphas, choice.values, strict=True))
    ]
    print_table([choice.name, repr(choice.measure), ""], rows)
    if choice.is_at_end:
        end = f"The chosen {choice.name} is at an end of the grid"
        print(f"{end}: a wider grid may hold a better one.")


def _course(ranker: RankRLS | LinearRankRLS | DORM | DORMCV) -> dict[str, Any]:
    if isinstance(ranker, DORM | DORMCV):
        course = {"kernel": repr(ranker.kernel_), "n_iter": ranker.n_iter_}
        return course | {"gap": ranker.solution_.gap}
    if isinstance(ranker, LinearRankRLS):
        return {"n_iter": ranker.n_iter_, "best_iter": ranker.best_iter_}
    return {"kernel": repr(ranker.kernel_)}


def _sizes_in_words(training: Training) -> str:
    sizes = training.sizes
    words = {"n_items": ("item", "items"), "n_features": ("feature", "features")}
    if sizes["n_pairs"] is None:
        words["n_queries"] = ("query", "queries")
    else:
        words["n_pairs"] = ("comparison", "comparisons")
    counts = {name: sizes[name] for name in words}
    return ", ".join(counted(n, *words[name]) for name, n in counts.items() if n is not None)
