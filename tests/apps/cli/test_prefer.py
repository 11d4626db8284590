"""``rankwise prefer``: a ranking of names, with intervals, and the next question."""

import json

import numpy as np
import pytest

from rankwise import IndicatorEncoder, PreferenceGP
from rankwise.io import write_table

NAMES = ["fig", "pear", "kiwi", "plum", "apple", "grape"]
FEATURES = np.column_stack([np.arange(6.0), [100.0, 90.0, 95.0, 80.0, 85.0, 70.0]])
PAIRS = np.array([[0, 3], [0, 5], [1, 5], [1, 4], [2, 3], [0, 4], [2, 5], [4, 5], [1, 0], [3, 5]])


@pytest.fixture(scope="module", autouse=True)
def fruit(folder):
    names = np.array(NAMES)
    columns = {"fruit": names, "shade": FEATURES[:, 0], "price": FEATURES[:, 1]}
    write_table(folder / "fruit.csv", columns)
    write_table(folder / "moved.csv", {k: columns[k] for k in ("price", "fruit", "shade")})
    write_table(folder / "bare.csv", {"fruit": names})
    write_table(folder / "twice.csv", {"fruit": np.array(["fig", "fig"])})
    write_table(folder / "numbers.csv", {"id": np.arange(10, 16)})
    winner, loser = names[PAIRS].T
    write_table(folder / "answers.csv", {"winner": winner, "loser": loser})
    tied = np.arange(10) % 3 == 0
    write_table(folder / "ties.csv", {"winner": winner, "loser": loser, "tied": tied.astype(int)})
    write_table(folder / "named.csv", {"winner": winner, "loser": loser, "same": tied.astype(int)})
    words = np.where(tied, "Yes", "")
    write_table(folder / "words.csv", {"winner": winner, "loser": loser, "tied": words})
    flags = {"winner": winner, "loser": loser, "tied": tied}
    write_table(folder / "flags.parquet", flags)
    write_table(folder / "maybe.csv", {**flags, "tied": np.where(tied, "maybe", "no")})
    write_table(folder / "ids.csv", {"winner": PAIRS[:, 0] + 10, "loser": PAIRS[:, 1] + 10})
    write_table(folder / "strange.csv", {"winner": ["fig", "melon"], "loser": ["pear", "fig"]})
    write_table(folder / "typed.csv", {"winner": ["fig"], "loser": ["Plum"]})
    write_table(folder / "self.csv", {"winner": ["fig", "kiwi"], "loser": ["pear", "kiwi"]})
    write_table(folder / "level.csv", {"winner": ["fig"], "loser": ["pear"], "tied": [1]})


def fitted(tied=None, **options):
    X = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
    tied = np.zeros(10, dtype=bool) if tied is None else tied
    gp = PreferenceGP(**options)
    return gp.fit(X, pairs=PAIRS[~tied], tied=PAIRS[tied]), X


def test_codes_say_who_won(succeed, refuse, folder):
    first, second = np.array(NAMES)[PAIRS].T
    swapped = np.arange(10) % 2 == 1
    columns = {"a": np.where(swapped, second, first), "b": np.where(swapped, first, second)}
    write_table(folder / "coded.csv", {**columns, "winner": swapped.astype(int)})
    line = refuse("prefer", "fruit.csv", "coded.csv")
    assert "0 = b, 1 = a; or 0 = tie, 1 = a; or 0 = a, 1 = b" in line
    assert "--codes '0=b,1=a'" in line
    coded = succeed("prefer", "fruit.csv", "coded.csv", "--codes", "0=a,1=b", "--json")
    plain = succeed("prefer", "fruit.csv", "answers.csv", "--json")
    assert json.loads(coded)["ranking"] == json.loads(plain)["ranking"]


def test_ranking_is_that_of_the_process_on_standardised_features(succeed):
    report = json.loads(succeed("prefer", "fruit.csv", "answers.csv", "--json", "--ask", 2))
    gp, X = fitted()
    order = gp.rank(X)
    assert [one["item"] for one in report["ranking"]] == [NAMES[i] for i in order]
    scores, covariance = gp.predict(X, return_cov=True)
    centre = np.eye(6) - 1.0 / 6.0
    std = np.sqrt((centre @ covariance @ centre).diagonal())
    np.testing.assert_allclose(
        [one["score"] for one in report["ranking"]], (centre @ scores)[order]
    )
    np.testing.assert_allclose([one["std"] for one in report["ranking"]], std[order])
    assert report["questions"] == [[NAMES[i], NAMES[j]] for i, j in gp.suggest(X, 2).tolist()]
    assert sum(one["best"] for one in report["ranking"]) == pytest.approx(1.0)
    assert report["likelihood"] == pytest.approx(gp.likelihood_.parameters)


def test_report_prints_intervals_and_the_next_question(succeed):
    lines = succeed("prefer", "fruit.csv", "answers.csv", "--no-robust", "--level", "0.8")
    header, *rows = lines.splitlines()
    assert header.split() == ["item", "rank", "80%", "interval", "best", "score", "std"]
    gp, X = fitted(likelihood="probit")
    assert [row.split()[0] for row in rows[:6]] == [NAMES[i] for i in gp.rank(X)]
    first, second = gp.suggest(X)[0]
    assert rows[6:] == ["10 answers", f"ask next: {NAMES[first]} or {NAMES[second]}?"]


def test_logistic_scores_are_log_odds(succeed):
    report = json.loads(succeed("prefer", "fruit.csv", "answers.csv", "--logistic", "--json"))
    gp, X = fitted(likelihood="logistic")
    assert [one["item"] for one in report["ranking"]] == [NAMES[i] for i in gp.rank(X)]
    assert report["likelihood"] == {"noise": 1.0}
    printed = succeed("prefer", "fruit.csv", "answers.csv", "--logistic")
    assert "wrong way round" not in printed


def test_robust_report_tells_the_rate_of_flips(succeed):
    printed = succeed("prefer", "fruit.csv", "answers.csv", "--ask", "0", "--goal", "best")
    assert printed.splitlines()[-1].startswith("estimated share of answers recorded")


def test_ties_count_as_no_preference(succeed):
    by_default = succeed("prefer", "fruit.csv", "ties.csv", "--json", "--no-robust")
    by_name = succeed("prefer", "fruit.csv", "named.csv", "--json", "--no-robust", "--tied", "same")
    assert by_default == by_name
    for file in ("words.csv", "flags.parquet"):
        assert succeed("prefer", "fruit.csv", file, "--json", "--no-robust") == by_default
    gp, X = fitted(np.arange(10) % 3 == 0, likelihood="probit")
    scores = np.sort(gp.predict(X))[::-1]
    report = json.loads(by_default)
    np.testing.assert_allclose(
        [one["score"] for one in report["ranking"]], scores - scores.mean(), atol=1e-12
    )
    assert report["likelihood"].keys() == {"tie_width", "noise"}


def test_columns_may_stand_in_any_order(succeed):
    options = ("answers.csv", "--json", "--features", "shade,price")
    expected = succeed("prefer", "fruit.csv", *options)
    assert succeed("prefer", "moved.csv", *options, "--item", "fruit") == expected


def test_items_without_features_are_ranked_by_their_answers_alone(succeed):
    names = json.loads(succeed("prefer", "bare.csv", "answers.csv", "--json"))
    numbers = json.loads(succeed("prefer", "numbers.csv", "ids.csv", "--json"))
    order = [one["item"] for one in names["ranking"]]
    assert order == [NAMES[int(one["item"]) - 10] for one in numbers["ranking"]]
    assert order[-1] == "grape"  # it lost five times and never won


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("fruit.csv", "strange.csv"),
            "strange.csv, row 2: expected names of items in fruit.csv, got 'melon'.",
        ),
        (("fruit.csv", "typed.csv"), "got 'Plum'. Did you mean 'plum'?"),
        (("fruit.csv", "self.csv"), "row 1 compares 'kiwi' with itself"),
        (
            ("fruit.csv", "maybe.csv"),
            "must say 1, yes or true, or else 0, no, false or nothing: row 0 says 'maybe'",
        ),
        (("twice.csv", "answers.csv"), "once, got 'fig' several times"),
        (("fruit.csv", "fruit.csv"), "must have columns winner and loser, or a, b and winner"),
        (("fruit.csv", "answers.csv", "--item", "x"), "must have the column 'x' for --item"),
        (
            ("fruit.csv", "answers.csv", "--features", "x"),
            "must have the column 'x' for --features",
        ),
        (("fruit.csv", "answers.csv", "--tied", "x"), "must have a column 'x' for --tied"),
        (
            ("fruit.csv", "answers.csv", "--level", "2"),
            "--level must be a finite number between 0 and 1",
        ),
    ],
)
def test_bad_files_are_refused(refuse, arguments, message):
    assert message in refuse("prefer", *arguments)


def test_judges_are_learnt_and_printed(succeed, refuse, folder):
    (folder / "things.csv").write_text("name\na\nb\nc\nd\n")
    order = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("b", "d"), ("a", "d")] * 4
    rows = [f"{w},{lost},{j}" for j in ("ann", "bob") for w, lost in order]
    rows += [f"{lost},{w},eve" for w, lost in order]
    (folder / "judged.csv").write_text("winner,loser,judge\n" + "\n".join(rows))
    (folder / "who.csv").write_text("winner,loser,who\n" + "\n".join(rows))
    report = json.loads(succeed("prefer", "things.csv", "judged.csv", "--json"))
    assert [one["item"] for one in report["ranking"]] == ["a", "b", "c", "d"]
    assert report["judges"][0]["judge"] == "eve"
    assert report["judges"][0]["careless"] > 0.9
    printed = succeed("prefer", "things.csv", "who.csv", "--judge", "who")
    assert "judge  answers  ties" in printed
    assert "must have a column 'x' for --judge" in refuse(
        "prefer", "things.csv", "who.csv", "--judge", "x"
    )


def test_answers_come_in_every_layout(succeed, folder):
    (folder / "things.csv").write_text("name\na\nb\n")
    (folder / "plain.csv").write_text("winner,loser\n" + 5 * "a,b\n" + "b,a\n")
    (folder / "votes.csv").write_text("winner,loser,count\na,b,5\nb,a,1\n")
    rows = 3 * "a,b,Model A\n" + 2 * "b,a,model_b\n" + "b,a,model_a\n"
    (folder / "arena.csv").write_text("Model A,Model B,Winner\n" + rows)
    expected = json.loads(succeed("prefer", "things.csv", "plain.csv", "--json"))["ranking"]
    for name in ("votes.csv", "arena.csv"):
        found = json.loads(succeed("prefer", "things.csv", name, "--json"))["ranking"]
        assert [one["item"] for one in found] == ["a", "b"]
        scores = [one["score"] for one in found]
        np.testing.assert_allclose(scores, [one["score"] for one in expected], rtol=1e-6)


def test_answers_without_a_preference_rank_nothing_above_anything(succeed):
    ranking = json.loads(succeed("prefer", "bare.csv", "level.csv", "--json"))["ranking"]
    np.testing.assert_allclose([one["score"] for one in ranking], 0.0, atol=1e-6)


def test_columns_that_are_ignored_are_said(run, folder):
    (folder / "things.csv").write_text("name\na\nb\n")
    (folder / "votes.csv").write_text("winner,loser,mood\na,b,5\nb,a,1\n")
    result = run("prefer", "things.csv", "votes.csv")
    assert result.exit_code == 0
    assert "warning: columns not used: mood" in result.stderr


def test_trees_take_part_where_features_interact(run, succeed, folder):
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    speed, size = rng.normal(size=(2, 40))
    names = np.array([f"p{k}" for k in range(40)])
    write_table(folder / "animals.csv", {"name": names, "speed": speed, "size": size})
    ends = np.array([rng.choice(40, 2, replace=False) for _ in range(600)])
    lead = np.sign(speed[ends[:, 0]] - speed[ends[:, 1]])
    lead *= np.where(size[ends].prod(axis=1) > 0.0, 1.0, -1.0)
    ends = np.where((lead > 0.0)[:, None], ends, ends[:, ::-1])
    write_table(folder / "fights.csv", {"winner": names[ends[:, 0]], "loser": names[ends[:, 1]]})
    printed = succeed("prefer", "animals.csv", "fights.csv", "--top", 3)
    assert "boosted trees of differences of features take part: log-loss" in printed
    command = "prefer", "animals.csv", "fights.csv", "--json", "--ask", 0
    report = json.loads(run(*command).stdout)["interactions"]
    assert report["take_part"]
    assert report["log_loss_with"] < report["log_loss_without"]
    assert "interactions" not in json.loads(run(*command, "--no-interactions").stdout)


def dated_rows():
    """Return answers of 200 days in which the order of two things turns round, c always last."""
    rows = []
    for day in range(200):
        winner, loser = ("a", "b") if day < 100 else ("b", "a")
        rows.append((winner, loser, day))
        rows.append(("ab"[day % 2], "c", day))
    return rows


@pytest.fixture(scope="module")
def dated(folder):
    (folder / "three.csv").write_text("name\na\nb\nc\n")
    rows = dated_rows()
    lines = [f"{w},{lost},{day}" for w, lost, day in rows]
    (folder / "days.csv").write_text("winner,loser,date\n" + "\n".join(lines))
    start = np.datetime64("2026-01-01")
    lines = [f"{w},{lost},{start + np.timedelta64(day, 'D')}" for w, lost, day in rows]
    (folder / "when.csv").write_text("winner,loser,when\n" + "\n".join(lines))


@pytest.mark.usefixtures("dated")
def test_dates_tell_which_answers_are_old(run, succeed, refuse):
    by_days = json.loads(succeed("prefer", "three.csv", "days.csv", "--drift", "--json"))
    assert [one["item"] for one in by_days["ranking"]] == ["b", "a", "c"]
    by_dates = json.loads(
        succeed("prefer", "three.csv", "when.csv", "--drift", "--date", "when", "--json")
    )
    found, expected = (
        [one["score"] for one in report["ranking"]] for report in (by_dates, by_days)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-3)  # parameters are searched for to 1e-3
    decayed = json.loads(succeed("prefer", "three.csv", "days.csv", "--half-life", 20, "--json"))
    assert [one["item"] for one in decayed["ranking"]] == ["b", "a", "c"]
    assert "forgotten within about" in succeed("prefer", "three.csv", "days.csv", "--drift")
    result = run("prefer", "three.csv", "days.csv")
    assert "note: dates are ignored; --drift or --half-life use them" in result.stderr
    assert "--date must come with --drift or --half-life" in refuse(
        "prefer", "three.csv", "when.csv", "--date", "when"
    )
    assert "must have a column 'x' for --date" in refuse(
        "prefer", "three.csv", "days.csv", "--drift", "--date", "x"
    )
    assert "must come with comparisons that have dates" in refuse(
        "prefer", "fruit.csv", "answers.csv", "--drift"
    )
    assert "must come with dates" in refuse("prefer", "fruit.csv", "answers.csv", "--half-life", 3)


def test_every_judge_has_an_order(succeed, refuse, folder):
    (folder / "three.csv").write_text("name\na\nb\nc\n")
    rows = [f"{w},{lost},ann" for w, lost in ("ab", "bc", "ac")] * 5
    rows += [f"{lost},{w},bob" for w, lost in ("ab", "bc", "ac")] * 5
    (folder / "tastes.csv").write_text("winner,loser,judge\n" + "\n".join(rows))
    options = ("prefer", "three.csv", "tastes.csv", "--tastes")
    for person, order in (("ann", "abc"), ("bob", "cba")):
        report = json.loads(succeed(*options, "--person", person, "--json"))
        assert "".join(one["item"] for one in report["ranking"]) == order
        assert report["taste_share"] > 0.3
    assert "is their own taste" in succeed(*options)
    assert "got 'anne'. Did you mean 'ann'?" in refuse(*options, "--person", "anne")
    assert "(with --tastes): got 'ann'" in refuse(
        "prefer", "three.csv", "tastes.csv", "--person", "ann"
    )
    assert "must come with answers that say who gave them" in refuse(
        "prefer", "fruit.csv", "answers.csv", "--tastes"
    )


def test_items_may_be_described_by_words_prices_and_blanks(run, folder):
    prices = ["$1,000.00", "$90.00", "$95.00", "", "$85.00", "$70.00"]
    table = {"fruit": NAMES, "colour": ["red", "green"] * 3, "price": prices}
    write_table(folder / "words_of_fruit.csv", {k: np.array(v) for k, v in table.items()})
    result = run("prefer", "words_of_fruit.csv", "answers.csv", "--json")
    assert result.exit_code == 0, result.output
    assert "categories in colour; price as numbers (decimal points, $)" in result.stderr
    cost = [float(text.strip("$").replace(",", "")) if text else None for text in prices]
    cells = np.array([["red", "green"] * 3, cost], dtype=object).T
    gp = PreferenceGP(None, likelihood="robust", random_state=0)
    gp.fit(IndicatorEncoder().fit_transform(cells), pairs=PAIRS)
    scores = {row["item"]: row["score"] for row in json.loads(result.stdout)["ranking"]}
    expected = gp.predict(IndicatorEncoder().fit_transform(cells))
    found = np.array([scores[name] for name in NAMES])
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-6)


def test_items_of_text_alone_have_no_features(run, folder):
    more = [f"{name}-{k}" for k in range(5) for name in NAMES]
    texts = [f"note {k}" for k in range(30)]
    write_table(folder / "notes.csv", {"fruit": np.array(more), "note": np.array(texts)})
    result = run("prefer", "notes.csv", "answers.csv")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "expected features beside the names, got text" in said
    assert "rankwise leaderboard answers.csv" in said
