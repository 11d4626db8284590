"""A page about a leaderboard: the ranking, a picture, and who beats whom."""

import re
import subprocess
import sys

import numpy as np
import pytest

from rankwise import InvalidInputError, MissingExtraError, RankRLS, leaderboard, make_report
from rankwise.apps.cli.commands import LeaderboardCommand
from rankwise.apps.cli.jobs.comparisons import leaderboard as run_leaderboard
from rankwise.apps.report.figures import heat_map
from rankwise.core.display import interval_chart
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
    page = make_report(leaderboard(table), table, title="Games").html
    assert "<h1>Games</h1>" in page
    assert "Who beats whom" in page
    assert "How often it was" in page
    assert "<svg" in page
    assert HOSTILE not in page
    counted = re.search(r"How often it was.*?</table>", page, re.S).group()
    assert counted.count(">6<") == 4  # each of the four pairs that were played was won six times


def test_without_comparisons_only_probabilities_are_shown():
    page = make_report(leaderboard(GAMES)).html
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
    assert "probability of a win; of a tie 0." in make_report(leaderboard(drawn)).html
    decided = leaderboard([("ann", "bob"), ("bob", "ann"), ("ann", "bob")] * 5)
    assert "probability that the first is preferred" in make_report(decided).html


def test_scores_on_the_scale_of_elo_are_whole_numbers():
    board = leaderboard(GAMES)
    assert f"{board.rows()[0]['score']:.2f}" in make_report(board).html
    elo = board.elo()
    page, first = make_report(elo).html, elo.rows()[0]
    assert f"{first['low']:.0f} to {first['high']:.0f}" in page
    assert f"{first['score']:.2f}" not in page


# What a reader needs to judge the order


def battles(n_items, n_answers=600, seed=0):
    rng = np.random.default_rng(seed)
    f, rows = rng.normal(size=n_items), []
    for _ in range(n_answers):
        a, b = rng.choice(n_items, 2, replace=False)
        judge = int(rng.integers(4))
        won = rng.random() < (0.5 if judge == 0 else 1.0 / (1.0 + np.exp(2.0 * (f[b] - f[a]))))
        result = "tie" if rng.random() < 0.25 else "a" if won else "b"
        rows.append((f"model-of-organisation-{a:02}-long-name", f"other {b}", result, judge))
    names = {f"other {b}": f"model-of-organisation-{b:02}-long-name" for b in range(n_items)}
    columns = list(zip(*[(a, names[b], r, f"judge {j}") for a, b, r, j in rows], strict=True))
    return dict(zip(("a", "b", "result", "judge"), columns, strict=True))


def test_judges_effects_and_ties_are_on_the_page():
    table = read_comparisons(battles(8))
    board = leaderboard(table, judges=True, first=True)
    page = make_report(board, table).html
    for title in ("Ranking", "Who beats whom", "Effects", "Judges"):
        assert f">{title}</h2>" in page
    assert page.index("judge 0") < page.index("judge 1")  # the most suspect first
    effect = board.effects[0]
    assert f"{effect.low:.3f} to {effect.high:.3f}" in page
    assert re.search(r"2\d% of the answers are ties", page)
    assert "Answers may be ties" in page
    plain = make_report(leaderboard(GAMES)).html
    assert ">Judges</h2>" not in plain
    assert ">Effects</h2>" not in plain
    assert "Answers may be ties" not in plain
    assert "of the answers are ties" not in plain


def test_the_reading_and_the_audit_are_on_the_page():
    table = read_comparisons(battles(8))
    board = leaderboard(table, random_state=0)
    page = make_report(board, table, categories={"German": board}).html
    for title in ("Audit", "Neighbours", "Only German", "How the table was read"):
        assert f">{title}</h2>" in page
    for finding in board.audit().findings:
        assert finding.probe in page
    assert "winner: result" in page


def test_headers_of_sentences_stand_above_them(table):
    page = make_report(leaderboard(table, random_state=0), table).html
    assert '<th scope="col" class="long">what the answers say</th>' in page
    assert '<th scope="col">score</th>' in page


def test_who_beats_whom_is_a_map_of_sixty_items():
    page = make_report(leaderboard(read_comparisons(battles(60, 3000)))).html
    assert page.count("<rect") == 60 * 59
    assert "The map shows all items" in page
    assert "The tables show the best 12" in page
    assert len(page) < 600_000
    many = make_report(leaderboard(read_comparisons(battles(70, 3000)))).html
    assert many.count("<rect") == 60 * 59
    assert "The map shows the best 60 items" in many


def test_the_map_is_blue_where_the_row_is_ahead():
    figure = heat_map(["x", "<y>"], np.array([[0.5, 0.9], [0.1, 0.5]]), "x & y")
    first, second = re.findall(r'fill="(#\w+)" fill-opacity="([\d.]+)"', figure)
    assert (first, second) == (("#1f6fc4", "0.80"), ("#d9730d", "0.80"))
    assert "&lt;y&gt;" in figure
    assert 'aria-label="x &amp; y"' in figure


def test_the_chart_shows_all_items_or_says_which():
    board = leaderboard(read_comparisons(battles(60, 3000)))
    assert board.chart().count("<circle") == 60
    assert "Scores of all 60 items" in board.chart()
    assert board.chart(10).count("<circle") == 10
    assert "Scores of the best 10" in board.chart(10)
    many = make_report(leaderboard(read_comparisons(battles(110, 3000)))).html
    assert many.count("<circle") == 100
    assert "The chart shows the best 100 of 110 items; the table shows all." in many


def test_long_names_are_cut_in_the_middle():
    chart = leaderboard([("a" * 30 + "-first", "a" * 30 + "-second")] * 5).chart()
    assert re.search(r">1 a+…a+-first<", chart)
    assert re.search(r">2 a+…a+-second<", chart)
    assert "<title>1 " + "a" * 30 + "-first</title>" in chart


def test_a_notebook_shows_the_chart_and_the_table():
    shown = leaderboard(GAMES)._repr_html_()
    assert shown.index("<svg") < shown.index("<table")
    assert HOSTILE not in shown


def test_a_single_item_is_drawn():
    assert interval_chart(["x"], [1.0], [1.0], [1.0], "one").count("<circle") == 1


def test_a_page_about_a_leaderboard_needs_no_drawing_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "markupsafe", None)
    assert "<svg" in make_report(leaderboard(GAMES)).html


def test_without_templates_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r'or, in a clone, pip install "\.\[report\]"'):
        make_report(leaderboard(GAMES))


def test_modules_of_reports_load_without_optional_packages():
    """As on a plain install, where neither templates nor drawings are there."""
    missing = dict.fromkeys(("jinja2", "markupsafe", "matplotlib"))
    code = f"import sys; sys.modules.update({missing!r})\n"
    code += "import rankwise.apps.report.report"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_title_of_a_page_from_a_file_is_a_title(tmp_path, capsys):
    path = tmp_path / "model_battles-2024.csv"
    path.write_text("winner,loser\n" + "".join(f"{a},{b}\n" for a, b in GAMES))
    run_leaderboard(
        LeaderboardCommand(comparisons=path, output=tmp_path / "board.html", parameters={})
    )
    page = (tmp_path / "board.html").read_text()
    assert "<title>Leaderboard: model battles 2024</title>" in page


def test_groups_that_never_met_are_told_apart():
    games = [("ann", "bob"), ("bob", "ann"), ("ann", "bob")] * 5
    others = [(f"{one} II", f"{other} II") for one, other in games]
    page = make_report(leaderboard([*games, *others], random_state=0)).html
    assert "2 groups of items never met: scores, ranks and probabilities hold inside" in page
    assert ">group<" in page
    assert ">group<" not in make_report(leaderboard(games, random_state=0)).html


def test_tables_of_categories_say_how_many_items_they_leave_out():
    names = np.array([f"item {k:02d}" for k in range(40)])
    ring = [(names[k], names[(k + 1) % 40]) for k in range(40)] * 2
    board = leaderboard(ring, random_state=0)
    page = make_report(board, categories={"English": board}).html
    assert "80 answers about 40 items. The table shows the best 30." in page


def test_arguments_of_the_other_kind_of_page_are_refused():
    board = leaderboard(GAMES)
    with pytest.raises(InvalidInputError, match="takes its ComparisonTable, .* got `qid`"):
        make_report(board, qid=[1, 2])
    with pytest.raises(InvalidInputError, match="takes its ComparisonTable, .* got X of type list"):
        make_report(board, [[1.0]])
    with pytest.raises(InvalidInputError, match="must have the items' scores `y`"):
        make_report(RankRLS().fit([[0.0], [1.0]], [0, 1]), [[0.0], [1.0]])


def test_drawings_are_as_wide_as_their_names_and_fit_a_phone():
    """A screen of 24 rem shows the best items, whose intervals are farthest to the right."""
    short = leaderboard([("a", "b"), ("b", "c"), ("a", "c")] * 9).chart()
    long = leaderboard([("a" * 30, "b"), ("b", "c"), ("a" * 30, "c")] * 9).chart()
    widths = [int(re.search(r'viewBox="0 0 (\d+)', svg)[1]) for svg in (short, long)]
    assert widths[0] < widths[1]
    for svg in (short, long):
        assert float(re.search(r"min-width: (\d+)rem", svg)[1]) <= 24
    assert "min-width: 30rem" not in make_report(leaderboard(GAMES)).html
