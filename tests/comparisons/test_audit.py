"""Audits: each planted defect is flagged by its probe, and a clean world by none."""

from collections import Counter

import numpy as np
import pytest
from scipy.special import expit

from rankwise import ChoiceTable, ComparisonTable, InvalidInputError, PreferenceGP, leaderboard

NAMES = np.array(
    [
        "gpt-4",
        "gpt-3",
        "claude-2",
        "claude-1",
        "llama",
        "falcon",
        "mistral",
        "qwen",
        "yi",
        "phi",
        "gemma",
        "dbrx",
    ]
)
FAMILY = np.array([name.split("-")[0] for name in NAMES])
JUDGES = np.array(["gpt-4-turbo", *(f"rater {k}" for k in range(1, 20))])


def world(
    seed=0,
    n_rows=4000,
    *,
    order=0.0,
    order_of_one=0.0,
    circles=0.0,
    own_family=0.0,
    length=0.0,
    question=0.0,
    category=0.0,
):
    """Draw answers with planted defects, each a size of what is added to leads."""
    rng, n_items = np.random.default_rng(seed), len(NAMES)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    judge, asked = rng.integers(len(JUDGES), size=n_rows), rng.integers(100, size=n_rows)
    kind, tokens = rng.integers(3, size=n_rows), rng.normal(size=n_rows)
    duel, of_question, of_kind = (rng.normal(size=(n, n_items)) for n in (n_items, 100, 3))
    f = np.linspace(1.0, -1.0, n_items)
    is_own = (FAMILY == "gpt").astype(float)
    lead = (
        f[first]
        - f[second]
        + order
        + order_of_one * (judge == 3)
        + circles * (duel[first, second] - duel[second, first])
        + own_family * (judge == 0) * (is_own[first] - is_own[second])
        + length * tokens
        + question * (of_question[asked, first] - of_question[asked, second])
        + category * (of_kind[kind, first] - of_kind[kind, second])
    )
    lead = lead + rng.logistic(size=n_rows)
    return ComparisonTable.of(
        NAMES[first],
        NAMES[second],
        np.where(lead > 0.3, 1, np.where(lead < -0.3, -1, 0)),
        judge=JUDGES[judge],
        question=asked,
        category=kind,
        covariates={"length": tokens},
    )


def flags(table, **options):
    audit = leaderboard(table, random_state=0, **options).audit()
    return {finding.probe for finding in audit.flagged}


PLANTED = {
    "position bias": {"order": 0.4},
    "circles": {"circles": 0.4},
    "self-preference": {"own_family": 1.5},
    "length and style": {"length": 0.5},
    "clustering by question": {"question": 1.0},
    "categories": {"category": 0.5},
}


@pytest.mark.parametrize("probe", PLANTED)
def test_a_planted_defect_is_flagged_by_its_probe(probe):
    found = [flags(world(seed, **PLANTED[probe])) for seed in range(3)]
    assert all(probe in names for names in found)
    others = Counter(name for names in found for name in names - {probe, "categories"})
    assert max(others.values(), default=0) <= 1


def test_clean_worlds_are_flagged_rarely():
    """Fifteen probes at a level of one percent, in ten worlds."""
    n_flags = Counter(name for seed in range(10) for name in flags(world(100 + seed)))
    assert sum(n_flags.values()) <= 4
    assert max(n_flags.values(), default=0) <= 2


def test_one_judge_who_prefers_what_is_shown_first_is_named():
    table = world(order_of_one=2.0)
    finding = leaderboard(table, random_state=0).audit()["position bias"]
    assert finding.is_flagged
    assert finding.rows[0]["judge"] == JUDGES[3]
    assert finding.rows[0]["low"] < 2.0 < finding.rows[0]["high"]
    assert not finding.rows[1]["flagged"]


def test_effects_are_met_by_their_intervals():
    hits = Counter()
    for seed in range(12):
        table = world(seed, order=0.3, own_family=1.0, length=0.4)
        audit = leaderboard(table, random_state=0).audit()
        even = expit(0.3 - 0.3) - expit(-0.3 - 0.3)
        for probe, truth in (
            ("position bias", even),
            ("self-preference", 1.0),
            ("length and style", 0.4),
        ):
            hits[probe] += audit[probe].low < truth < audit[probe].high
    assert min(hits.values()) >= 8  # 90 % of 12


def test_neighbours_are_separated_one_by_one_and_all_together():
    audit = leaderboard(world(), random_state=0).audit()
    rows = audit["neighbours"].rows
    assert [row["above"] for row in rows] == leaderboard(world(), random_state=0).names[
        :-1
    ].tolist()
    alone, together = (sum(row[k] for row in rows) for k in ("separated", "separated_together"))
    assert together <= alone
    for row in rows:
        assert row["separated"] == (row["low"] > 0.0)
        assert (row["more_answers_each"] > 0.0) == (not row["separated"])


def test_the_answers_that_neighbours_need_separate_them():
    rng = np.random.default_rng(0)

    def drawn(n_rows):
        won = rng.random(n_rows) < expit(0.25)
        return ComparisonTable.of(["x"] * n_rows, ["y"] * n_rows, np.where(won, 1, -1))

    (row,) = leaderboard(drawn(60), deviation=1.0).audit()["neighbours"].rows
    assert not row["separated"]
    needed = 60 + int(row["more_answers_each"])
    assert 60 < needed < 5000


def test_judges_who_all_answer_alike_have_no_agreement_beyond_chance():
    votes = {"winner": list("aab") * 6, "loser": list("bcc") * 6, "judge": list("xyz") * 6}
    audit = leaderboard(votes, judges=True, random_state=0).audit()
    assert "all answers are alike" in audit.left_out["agreement of judges"]


def test_repeats_and_agreement_are_counted_by_hand():
    """Judge x contradicts itself in every repeat; y and z agree in all of theirs."""
    columns = {"first": [], "second": [], "outcome": [], "judge": [], "question": []}
    for question in range(30):
        for judge, answers in (("x", (1, -1)), ("y", (1, 1)), ("z", (1, 1))):
            for outcome in answers:
                row = ("a", "b", outcome, judge, question)
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
    table = ComparisonTable.of(**columns)
    audit = leaderboard(table, random_state=0).audit()
    same = audit["self-consistency"]
    assert same.value == pytest.approx(60 / 90)
    assert same.rows[0]["pairs"] == 90
    # by answer: y and z agree with 3 of the 4 others', x with all or with none
    assert audit["agreement of judges"].rows[0]["judge"] == "x"
    assert audit["agreement of judges"].rows[0]["agrees"] == pytest.approx(0.5)
    assert audit["agreement of judges"].rows[-1]["agrees"] == pytest.approx(0.75)


def test_a_judge_of_most_answers_who_decides_the_order_is_flagged():
    rng = np.random.default_rng(0)
    first = rng.integers(6, size=3000)
    second = (first + 1 + rng.integers(5, size=3000)) % 6
    judge = np.where(np.arange(3000) < 1800, 0, rng.integers(1, 10, size=3000))
    lead = np.where(judge == 0, -1.0, 1.0) * 0.5 * (second - first) + rng.logistic(size=3000)
    table = ComparisonTable.of(first, second, np.where(lead > 0, 1, -1), judge=judge)
    finding = leaderboard(table, random_state=0).audit()["influence of judges"]
    assert finding.is_flagged
    assert finding.rows[0]["without"] == "0"
    assert finding.rows[0]["share"] == pytest.approx(0.6)
    assert finding.rows[0]["tau"] < 0.0


def test_groups_and_short_budgets_are_flagged():
    games = [("a", "b"), ("b", "c"), ("c", "a")] * 50 + [("a", "d"), ("x", "y")]
    audit = leaderboard(games, random_state=0).audit()
    assert audit["groups that never met"].is_flagged
    assert {row["item"] for row in audit["uneven budgets"].rows} == {"d", "x", "y"}
    assert "position bias" in audit.left_out


def test_what_was_not_looked_at_is_said():
    audit = leaderboard([("a", "b"), ("b", "c")], random_state=0).audit()
    assert "not looked at: categories, since there is no column of categories" in str(audit)
    assert {finding.probe for finding in audit.findings}.isdisjoint(audit.left_out)
    with pytest.raises(InvalidInputError, match="'categories': there is no column"):
        audit["categories"]
    with pytest.raises(InvalidInputError, match="its probes are neighbours"):
        audit["moon"]
    assert set(audit.to_dict()) == {"findings", "left_out"}
    assert "<table>" in audit._repr_html_()


def test_boards_without_comparisons_of_two_have_no_audit():
    choices = ChoiceTable.from_rankings([["a", "b", "c"]] * 3)
    for board in (leaderboard(choices), PreferenceGP().fit(pairs=[("a", "b")] * 3).leaderboard()):
        with pytest.raises(InvalidInputError, match="this one was made otherwise"):
            board.audit()


def answers_of_judges(seed, *, own_taste=0.0, model_noise=1.0):
    """Draw repeats by humans and a model; each judge may have leads of their own."""
    rng = np.random.default_rng(seed)
    judges = np.array(["human 1", "human 2", "human 3", "gpt-4"])
    n_rows, n_items = 3000, 5
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    judge, f = rng.integers(4, size=n_rows), np.linspace(1.5, -1.5, n_items)
    taste = own_taste * rng.normal(size=(4, n_items))
    lead = f[first] - f[second] + taste[judge, first] - taste[judge, second]
    factor = np.where(judge == 3, model_noise, 1.0)
    won = np.sign(factor * lead + rng.logistic(size=n_rows))
    return ComparisonTable.of(first, second, won, judge=judges[judge])


def test_judges_who_differ_agree_less_than_their_repeats_allow():
    for seed in range(3):
        alike = leaderboard(answers_of_judges(seed), random_state=0).audit()
        apart = leaderboard(answers_of_judges(seed, own_taste=1.5), random_state=0).audit()
        assert not alike["bound of agreement"].is_flagged
        assert apart["bound of agreement"].is_flagged
        assert alike["bound of agreement"].low < alike["bound of agreement"].value


def test_a_judge_is_held_against_humans_where_they_are_marked():
    for seed in range(3):
        alike = leaderboard(answers_of_judges(seed), random_state=0).audit()
        noisy = leaderboard(answers_of_judges(seed, model_noise=0.2), random_state=0).audit()
        assert not alike["judges against humans"].is_flagged
        (row,) = noisy["judges against humans"].rows
        assert row["judge"] == "gpt-4"
        assert row["flagged"]
        assert row["low"] < row["agrees"] < row["high"]
    unmarked = leaderboard(world(), random_state=0).audit()
    assert unmarked.left_out["judges against humans"].startswith("no judge is marked")


def test_clusters_of_questions_go_together_with_judges():
    table = world(0, 1500, question=1.5)
    alone = leaderboard(table, judges=True, random_state=0)
    both = leaderboard(table, judges=True, clustered="question", random_state=0)
    assert both.judges.names.tolist() == alone.judges.names.tolist()
    place = [both.names.tolist().index(name) for name in alone.names.tolist()]
    np.testing.assert_allclose(both.score[place], alone.score, atol=1e-6)
    widths = (both.high - both.low)[place] / (alone.high - alone.low)
    assert np.median(widths) > 1.1
    assert alone.audit()["clustering by question"].value == pytest.approx(np.median(widths))
    # a leaderboard that is clustered already is compared with one that is not
    found = both.audit()["clustering by question"]
    assert found.value == pytest.approx(np.median(widths), rel=0.05)


def test_boards_that_are_compared_allow_for_the_order_too():
    """An item that is always shown first is the best only where its place is not allowed for."""
    rng, n_rows = np.random.default_rng(0), 3000
    first = rng.integers(3, size=n_rows)
    second = np.where(first == 0, rng.integers(1, 3, size=n_rows), 3 - first)
    f = np.array([-0.7, 0.5, 0.2])
    lead = f[first] - f[second] + 1.5 + rng.logistic(size=n_rows)
    outcome = np.where(lead > 0.2, 1, np.where(lead < -0.2, -1, 0))
    table = ComparisonTable.of(first, second, outcome)
    plain, board = (leaderboard(table, first=one, random_state=0) for one in (False, True))
    assert plain.names.tolist() != board.names.tolist() == [1, 2, 0]
    assert board.audit()["ties"].value == 1.0
