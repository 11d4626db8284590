"""The measures that every law is asked of: each one plain, and each parameter changed."""

from rankwise.measures.binary import AP, RR, HitCount, Precision, Recall
from rankwise.measures.graded import DCG, ERR, ERU, NDCG, Utility
from rankwise.measures.pairwise import AUC, Disagreement
from rankwise.measures.registry import MEASURES

NEEDED = {"ERR": {"max_grade": 5}}
"""What a measure cannot do without, besides a cut-off."""


def plain(measure):
    """Return a measure as it is, with what it needs to be computed."""
    ready = measure(**NEEDED.get(measure.name, {}))
    return ready @ 3 if isinstance(ready, HitCount) else ready


PLAIN = tuple(map(plain, MEASURES))
CHANGED = (
    NDCG @ 1,
    NDCG @ 3,
    NDCG(gain="exponential") @ 2,
    NDCG(gain=(0, 0.5, 4, 4, 5, 7.25)),
    DCG(gain="exponential"),
    DCG @ 2,
    AP @ 1,
    AP @ 3,
    AP(normalize="relevant") @ 3,
    AP(relevant=2),
    Precision(relevant=2) @ 1,
    Precision(normalize="items") @ 4,
    Precision(normalize="best") @ 4,
    Recall(relevant=2) @ 2,
    ERR(max_grade=6) @ 2,
    RR @ 1,
    RR @ 3,
    RR(relevant=0.5),
    ERU(normalize="none"),
    ERU(neutral=1, half_life=1.5),
    ERU(neutral=-1, half_life=30),
    Utility(discounts=(1, 0.5, 0.5, 0.1)),
    Utility(gain="exponential", discounts=(3, 2), normalize="none"),
    AUC(relevant=2),
    Disagreement(ties="one"),
    Disagreement(average="pooled"),
    Disagreement(ties="one", average="pooled"),
    Disagreement(tied_grades="half"),
    Disagreement(ties="one", tied_grades="half", average="pooled"),
)
TIED = tuple(
    measure(ties=ties)
    for measure in (*PLAIN, NDCG @ 2, AP @ 2, RR @ 2)
    if getattr(measure, "ties", "") == "average"
    for ties in ("input", "reverse", "best", "worst")
)
EMPTY = tuple(measure(empty=empty) for measure in PLAIN for empty in ("zero", "one"))
VARIANTS = PLAIN + CHANGED + TIED + EMPTY
