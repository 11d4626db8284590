"""A report holds what it promises, loads nothing, and shows hostile names as text."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import (
    AutoRanker,
    Gaussian,
    InvalidInputError,
    MissingExtraError,
    PreferenceGP,
    RankerPipeline,
    RankRLS,
    RankRLSCV,
    RankSVM,
    WithinQueryRanks,
    evaluate,
    leave_pair_out,
    make_report,
    paired_test,
)

HOSTILE = '<script>alert("x")</script> $\\frac{1}{'


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.clip(np.round(1 + X[:, 0] + 0.5 * rng.normal(size=80)), 0, 3)
    return X, y, np.repeat([f"q{i}" for i in range(16)], 5)


@pytest.fixture(scope="module")
def models(data):
    X, y, qid = data
    rankers = {
        "chosen": RankRLSCV(alphas=[0.1, 1.0, 10.0]),
        "kernel": make_pipeline(StandardScaler(), RankRLS(kernel=Gaussian(0.5))),
        "process": PreferenceGP(),
    }
    rankers["chosen"].fit(X, y, qid=qid)
    rankers["kernel"].fit(X, y)
    rankers["process"].fit(X[:20], y[:20], qid=qid[:20])
    return rankers


@pytest.fixture(scope="module")
def report(data, models):
    measures = ["NDCG @ 3", "Concordance"]
    names = [HOSTILE, "clicks", "age & size"]
    return make_report(models, *data, measures=measures, feature_names=names, title="A <title>")


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_all_parts_are_there(report):
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", report.html)
    assert headings == [
        "What was trained",
        "Measures",
        "Models side by side",
        "How the parameter was chosen: chosen",
        "Calibration",
        "What the model uses",
        "Best and worst queries",
    ]


def test_numbers_are_those_of_the_library(report, data, models):
    X, y, qid = data
    first = evaluate(y, models["chosen"].predict(X), qid, ["NDCG @ 3"])
    second = evaluate(y, models["kernel"].predict(X), qid, ["NDCG @ 3"])
    low, high = first.interval()[0]
    assert f"{first.mean[0]:.3f} ({low:.3f} to {high:.3f})" in report.html
    assert f"{paired_test(second, first).mean_difference:+.4f}" in report.html


def test_hostile_names_stay_text(report):
    assert "<script" not in report.html
    assert "&lt;script&gt;" in report.html
    assert "<h1>A &lt;title&gt;</h1>" in report.html


def test_nothing_is_loaded_from_elsewhere(report):
    assert not re.search(r'(src|href)="(?!#|data:,)', report.html)
    assert "@import" not in report.html
    assert "url(" not in re.sub(r"url\(#", "", report.html)
    assert "default-src 'none'" in report.html


def test_the_page_is_well_formed(report):
    class Parser(HTMLParser):
        def __init__(self):
            super().__init__()
            self.ids, self.images, self.tables = [], 0, 0

        def handle_starttag(self, tag, attrs):
            attrs = dict(attrs)
            self.ids += [attrs["id"]] if "id" in attrs else []
            self.images += tag == "svg" and bool(attrs.get("aria-label"))
            self.tables += tag == "caption"

    parser = Parser()
    parser.feed(report.html)
    assert len(parser.ids) == len(set(parser.ids))
    assert parser.images == report.html.count("<svg") == 5
    assert parser.tables == report.html.count("<table")


def test_the_same_input_gives_the_same_page(data, models):
    pages = {make_report(models["chosen"], *data, measures="NDCG @ 3").html for _ in range(2)}
    assert len(pages) == 1


def test_the_worst_query_comes_first(data, models):
    X, y, qid = data
    values = evaluate(y, models["chosen"].predict(X), qid, "NDCG @ 3").per_query
    worst = values["qid"][np.nanargmin(values["NDCG @ 3"])]
    page = make_report(models["chosen"], X, y, qid, measures="NDCG @ 3", item_names=np.arange(80))
    assert f"Worst 1: query {worst}," in page.html


def test_the_item_explained_leads_where_scores_depend_on_the_query():
    rng = np.random.default_rng(2)
    X, qid = rng.normal(size=(40, 4)), np.repeat(np.arange(5), 8)
    for seed in range(4):
        y = X @ np.random.default_rng(seed).normal(size=4)
        steps = [WithinQueryRanks("values_and_ranks"), RankRLS(kernel="gaussian")]
        ranker = RankerPipeline(steps).fit(X, y, qid=qid)
        page = make_report(ranker, X, y, qid).html
        first, second = np.sort(ranker.predict(X, qid=qid)[qid == 0])[::-1][:2]
        assert f"their scores differ by {first - second:.4g} (" in page


def test_two_classes_show_the_leave_pair_out_interval():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    y = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
    ranker = RankRLS(alpha=2.0).fit(X, y)
    estimate = leave_pair_out(RankRLS(alpha=2.0, ties="drop"), X, y)
    page = make_report({"mine": ranker, "svm": RankSVM().fit(X, y)}, X, y).html
    assert "ROC curve" in page
    assert f"{estimate.low:.3f} to {estimate.high:.3f}" in page
    assert page.index("AUC of unseen pairs") < page.index("What was trained")  # a card of its own
    chosen = make_report(RankRLSCV(alphas=[1.0]).fit(X, y), X, y).html
    assert "AUC of unseen pairs" in chosen


def test_the_curve_of_unseen_pairs_is_drawn_where_ties_are_kept():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    kept = make_report({"mine": RankRLS(ties="keep").fit(X, y)}, X, y).html
    dropped = make_report({"mine": RankRLS(ties="drop").fit(X, y)}, X, y).html
    assert "mine, unseen pairs" in kept
    assert "mine, unseen pairs" not in dropped


def test_a_report_says_how_many_queries_were_learned_from(data):
    X, y, qid = data
    part = np.isin(qid, ["q0", "q3", "q5", "q9"])
    model = RankRLS().fit(X[part], y[part], qid=qid[part])
    n_queries = len(np.unique(qid))
    page = make_report({"mine": model}, X, y, qid).html
    assert f"Of the {n_queries} queries, some were learned from: 4 by &#39;mine&#39;" in page
    fresh = make_report({"mine": model}, X[~part], y[~part], qid[~part]).html
    assert "No model has learned from these queries." in fresh


def test_names_come_from_a_frame(data):
    X, y, qid = data
    frame = pd.DataFrame(X, columns=["text match", "clicks", "age"])
    page = make_report(RankRLS().fit(frame, y, qid=qid), frame, y, qid)
    assert "text match" in page.html


def test_a_report_is_saved_and_shown(report, tmp_path):
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    assert report._repr_html_().startswith("<iframe")
    assert "<script" not in report._repr_html_()
    assert re.fullmatch(r"Report\('A <title>', \d+ kB\)", repr(report))
    assert len(report.html) < 400_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rankers": {}}, "at least one fitted ranker"),
        ({"y": [1.0]}, "`y` must have one entry per row"),
        ({"item_names": ["a"]}, "`item_names` must have one entry per row"),
    ],
)
def test_wrong_input_is_refused(change, message, data, models):
    X, y, qid = data
    given = {"rankers": models["chosen"], "X": X, "y": y, "qid": qid} | change
    with pytest.raises(InvalidInputError, match=message):
        make_report(**given)


def test_several_outputs_are_refused(data):
    X, y, _ = data
    with pytest.raises(InvalidInputError, match="rankers with one output: RankRLS has 2"):
        make_report(RankRLS().fit(X, np.column_stack([y, y])), X, y)


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_missing_packages_name_the_extra(package, data, models, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtraError, match=r"rankwise\[report\]"):
        make_report(models["chosen"], *data)


# Honest values lead


def cards_of(report):
    """Return title, value and note of every card."""
    return re.findall(r"<dt>(.*?)</dt><dd>(.*?)<small>(.*?)</small>", report.html)


def small_sample(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 40))
    return X, (np.arange(30) % 2).astype(float)


def test_a_small_sample_report_leads_with_the_honest_value():
    """Forty features without meaning fit thirty items perfectly; unseen pairs say one half."""
    X, y = small_sample()
    ranker = RankRLS(alpha=1e-6).fit(X, y)
    cards = cards_of(make_report(ranker, X, y))
    assert cards[0][0] == "AUC of unseen pairs"
    assert float(cards[0][1]) < 0.75
    assert "trained anew" in cards[0][2]
    perfect = [note for _, value, note in cards if value == "1.000"]
    assert perfect
    assert all("too good if learned from" in note for note in perfect)


def test_the_value_that_the_fit_printed_is_on_the_page():
    X, y = small_sample()
    auto = AutoRanker(random_state=0).fit(X, y)
    title, value, note = cards_of(make_report(auto, X, y))[0]
    assert value == f"{auto.honest_value_.value:.3f}"
    assert title == f"{auto.honest_value_.measure}, unseen {auto.honest_value_.unit}"
    assert "seen by no part of the fit" in note
    chosen = RankRLSCV().fit(X, y)
    title, value, note = cards_of(make_report(chosen, X, y))[0]
    assert (title.endswith("held out"), value) == (True, f"{chosen.held_out_value_:.3f}")
    assert "slightly too good" in note


def test_values_on_queries_that_were_learned_from_are_shown_as_such():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
    y = np.round(2 + X[:, 0]).clip(0)
    ranker = RankRLS().fit(X[:30], y[:30], qid=qid[:30])
    assert all(
        "too good: 6 of the queries" in c[2] for c in cards_of(make_report(ranker, X, y, qid))
    )
    unseen = make_report(ranker, X[30:], y[30:], qid[30:])
    assert all("on unseen queries" in card[2] for card in cards_of(unseen))
    assert "No model has learned from these queries." in unseen.html
    chosen = RankRLSCV().fit(X, y, qid=qid)
    (card,) = cards_of(make_report(chosen, X, y, qid))
    assert "held out" in card[0]


def test_queries_of_one_size_and_one_query_are_said_in_words(data):
    X, y, _ = data
    ranker = RankRLS().fit(X, y)
    for sizes, said in [
        ((40, 40), "2 queries of 40 items"),
        ((80,), "1 query of 80 items"),
        ((30, 50), "2 queries of 30 to 50 items"),
    ]:
        page = make_report(ranker, X, y, np.repeat(np.arange(len(sizes)), sizes)).html
        assert f"{said};" in page


def test_what_takes_long_is_counted_for_who_waits(data, capsys):
    X, y, qid = data
    ranker = RankRLS().fit(X, y, qid=qid)
    page = make_report(ranker, X, y, qid, progress=True).html
    said = capsys.readouterr()
    assert "features shuffled" in said.err
    assert said.out == ""
    assert page == make_report(ranker, X, y, qid).html
