"""The audit of a leaderboard: probes with their intervals, flags where evidence clears a bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from rankwise.comparisons.audit.context import categories, clusters, covariates
from rankwise.comparisons.audit.evidence import Evidence
from rankwise.comparisons.audit.finding import Finding
from rankwise.comparisons.audit.judges import (
    agreement,
    bound,
    consistency,
    humans,
    influence,
    position_bias,
    self_preference,
)
from rankwise.comparisons.audit.votes import budgets, circles, groups, neighbours, ties
from rankwise.core.display import Result, columns_of, label_bars
from rankwise.core.errors import InvalidInputError

Probe = Callable[[Evidence], Finding | None]

PROBES: dict[str, tuple[Probe, str]] = {
    "neighbours": (neighbours, ""),
    "groups that never met": (groups, ""),
    "uneven budgets": (budgets, ""),
    "ties": (ties, "there are no ties, or nothing else"),
    "circles": (circles, ""),
    "position bias": (position_bias, "the rows do not say who was shown first"),
    "self-consistency": (consistency, "no judge answered about the same pair twice"),
    "agreement of judges": (
        agreement,
        "no two judges answered about the same pair, or all answers are alike",
    ),
    "bound of agreement": (bound, "no judge answered twice where others did"),
    "judges against humans": (humans, "no judge is marked as human beside others"),
    "self-preference": (self_preference, "no judge is named like a family of items"),
    "influence of judges": (influence, "there are fewer than three judges"),
    "length and style": (covariates, "there are no covariates"),
    "clustering by question": (clusters, "there is no column of questions"),
    "categories": (categories, "there is no column of categories"),
}
"""What is looked at, and why it may not be."""


@final
@dataclass(frozen=True)
class Audit(Result):
    """Hold what the probes of an audit found, and which could not be made.

    Build it with ``board.audit()``.

    Parameters
    ----------
    findings : tuple of Finding
    left_out : dict of str to str
        Why other probes were not made.

    Examples
    --------
    >>> from rankwise import leaderboard
    >>> battles = [("x", "y", "a"), ("y", "x", "b"), ("y", "z", "a"), ("z", "y", "b")] * 30
    >>> audit = leaderboard(battles, random_state=0).audit()
    >>> audit.is_clean
    True
    >>> sorted(audit.left_out)[:2]
    ['agreement of judges', 'bound of agreement']
    """

    findings: tuple[Finding, ...]
    left_out: dict[str, str]

    @classmethod
    def of(cls, seen: Evidence) -> Audit:
        """Run all probes."""
        found = {name: probe(seen) for name, (probe, _) in PROBES.items()}
        return cls(
            tuple(finding for finding in found.values() if finding is not None),
            {name: PROBES[name][1] for name, finding in found.items() if finding is None},
        )

    def __getitem__(self, probe: str) -> Finding:
        for finding in self.findings:
            if finding.probe == probe:
                return finding
        why = self.left_out.get(probe)
        raise InvalidInputError(
            f"The audit has no finding about {probe!r}: "
            f"{why or 'its probes are ' + ', '.join(PROBES)}."
        )

    @property
    def flagged(self) -> tuple[Finding, ...]:
        """The findings whose evidence clears the bar."""
        return tuple(finding for finding in self.findings if finding.is_flagged)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is flagged."""
        return not self.flagged

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "left_out": dict(self.left_out),
        }

    def _columns(self) -> dict[str, Any]:
        """Return a row for each finding, without its details."""
        rows = [{**vars(one)} for one in self.findings]
        return {name: values for name, values in columns_of(rows).items() if name != "rows"}

    def _cells(self) -> list[list[str]]:
        body = [["!" if one.is_flagged else "", one.probe, one.said] for one in self.findings]
        return [["", "probe", "what the answers say"], *body]

    def _caption(self) -> str:
        return repr(self)

    def _draw(self, ax: Any) -> None:
        """Draw the findings that are numbers with their intervals; what is flagged is red."""
        shown = [one for one in self.findings if one.low == one.low and one.high == one.high]
        for at, one in enumerate(shown):
            ends = [[max(one.value - one.low, 0.0)], [max(one.high - one.value, 0.0)]]
            color = "tab:red" if one.is_flagged else "tab:blue"
            ax.errorbar([one.value], [at], xerr=ends, fmt="o", capsize=3, color=color)
        label_bars(ax, [one.probe for one in shown])
        ax.set_xlabel("what the probe found, with its interval")

    def __str__(self) -> str:
        width = max(len(one.probe) for one in self.findings)
        lines = [
            f"{'!' if one.is_flagged else ' '} {one.probe:<{width}}  {one.said}"
            for one in self.findings
        ]
        lines += [f"  not looked at: {name}, since {why}" for name, why in self.left_out.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        names = ", ".join(one.probe for one in self.flagged) or "nothing"
        return f"Audit({len(self.findings)} probes, flagged: {names})"
