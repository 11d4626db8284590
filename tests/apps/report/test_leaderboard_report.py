"""A page about a leaderboard: the ranking, a picture, and who beats whom."""

import re

import pytest

from rankwise import leaderboard, leaderboard_report
from rankwise.io import read_comparisons

pytest.importorskip("jinja2")
matplotlib = pytest.importorskip("matplotlib")

HOSTILE = "<script>alert(1)</script>"
GAMES = [("ann", "bob"), ("ann", HOSTILE), ("bob", HOSTILE), ("bob", "ann")] * 6


@pytest.fixture
def table(tmp_path):
    rows = "\n".join(f"{winner},{loser}" for winner, loser in GAMES)
    (tmp_path / "games.csv").write_text(f"winner,loser\n{rows}\n")
    return read_comparisons(tmp_path / "games.csv")


def test_the_page_holds_ranking_and_pairs(table):
    page = leaderboard_report(leaderboard(table), table, title="Games").html
    assert "<h1>Games</h1>" in page
    assert "Who beats whom" in page
    assert "How often it was" in page
    assert "<svg" in page
    assert HOSTILE not in page
    counted = re.search(r"How often it was.*?</table>", page, re.S).group()
    assert counted.count(">6<") == 4  # each of the four pairs that were played was won six times


def test_without_comparisons_only_probabilities_are_shown():
    page = leaderboard_report(leaderboard(GAMES)).html
    assert "Probability of being preferred" in page
    assert "How often it was" not in page


def test_a_leaderboard_is_drawn_with_intervals():
    from matplotlib.figure import Figure

    board = leaderboard(GAMES).elo()
    ax = board.plot(Figure().subplots())
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == str(board.names[0])
    assert len(labels) == 3
    assert ax.yaxis_inverted()
    assert len(board.plot(Figure().subplots(), most=2).get_yticklabels()) == 2


def test_the_card_of_the_second_tells_ties_and_losses():
    drawn = [("ann", "bob", "a"), ("bob", "ann", "tie"), ("ann", "bob", "b")] * 5
    assert "probability of a win; of a tie 0." in leaderboard_report(leaderboard(drawn)).html
    decided = leaderboard([("ann", "bob"), ("bob", "ann"), ("ann", "bob")] * 5)
    assert "probability that the first is preferred" in leaderboard_report(decided).html


def test_scores_on_the_scale_of_elo_are_whole_numbers():
    board = leaderboard(GAMES)
    assert f"{board.rows()[0]['score']:.2f}" in leaderboard_report(board).html
    elo = board.elo()
    page, first = leaderboard_report(elo).html, elo.rows()[0]
    assert f"{first['low']:.0f} to {first['high']:.0f}" in page
    assert f"{first['score']:.2f}" not in page
