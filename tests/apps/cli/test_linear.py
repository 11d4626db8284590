"""``rankwise fit linear``, also streamed, and ``--pairs``: as in Python, and what is refused."""

import re
import signal
from inspect import signature

import numpy as np
import pytest

import rankwise
from rankwise import LinearRankRLS, RankRLS, evaluate
from rankwise.apps.cli.jobs.fits import pairwise
from rankwise.io import read_scores, write_table
from rankwise.measures.registry import parse_measure
from rankwise.solve.conjugate_gradients import CGState

TABLE = ["--y", "rating", "--qid", "city"]
GRID = ["--alphas", "1e-2:1e4:4"]
ALPHAS = np.geomspace(1e-2, 1e4, 4)
VALIDATE = ["--validate", "validation.txt"]
PAIRS = np.array([[0, 5], [7, 5], [20, 3], [20, 41], [3, 41], [11, 30], [0, 5], [5, 0], [12, 13]])
MARGIN = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0, 0.25, 2.0])
WEIGHT = np.array([1.0, 0.5, 2.0, 1.0, 1.0, 4.0, 1.0, 1.0, 0.25])


@pytest.fixture(scope="module", autouse=True)
def comparisons(folder):
    columns = {"winner": PAIRS[:, 0], "loser": PAIRS[:, 1]}
    write_table(folder / "bare_pairs.csv", columns)
    write_table(folder / "pairs.csv", columns | {"margin": MARGIN, "weight": WEIGHT})
    write_table(folder / "far.csv", {"winner": [0], "loser": [42]})
    write_table(folder / "named_pairs.csv", {"winner": ["fig"], "loser": ["pear"]})
    rows = dict(zip(["stars", "price", "age"], folder.train.X.T, strict=True))
    write_table(folder / "unscored.csv", rows)
    (folder / "featureless.txt").write_text("1 qid:1\n2 qid:1\n")


def validation(folder):
    held_out = folder.validation
    return {"X_val": held_out.X, "y_val": held_out.y, "qid_val": held_out.qid}


def fitted(folder, *, validate=False, **options):
    ranker = LinearRankRLS(random_state=0, **options)
    given = validation(folder) if validate else {}
    return ranker.fit(folder.train.X, folder.train.y, qid=folder.train.qid, **given)


@pytest.mark.parametrize("option", [[], ["--stream"]])
@pytest.mark.parametrize("data", [["train.txt.gz"], ["train.parquet", *TABLE]])
def test_iterations_and_streams_give_the_closed_form(fit, folder, data, option):
    options = ["--alpha", 0.5, "--cost", "unit", "--query-weight", "equal"]
    report, ranker = fit("linear", *data, *option, *options)
    exact = RankRLS(alpha=0.5, cost="unit", query_weight="equal")
    exact.fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-7)
    assert report["ranker"] == "LinearRankRLS"
    assert (report["alpha"], report["n_features"], report["n_queries"]) == (0.5, 3, 8)
    assert report["n_items"] == (None if option else 42)
    assert report["selection"] is None


def test_a_stream_in_small_parts_of_unsorted_rows_gives_the_closed_form(fit, folder, tmp_path):
    report, ranker = fit(
        "linear", "train.txt", "--stream", "--memory", "1K", "--cache-dir", tmp_path
    )
    exact = RankRLS().fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-7)
    assert report["n_iter"] > 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_of_iterations_scores_columns_by_name(succeed, folder, tmp_path):
    for option in ([], ["--stream"]):
        succeed("fit", "linear", "train.parquet", "-o", tmp_path / "model", *TABLE, *option)
        succeed("predict", tmp_path / "model", "reordered.csv", "-o", tmp_path / "scores.txt")
        expected = fitted(folder).predict(folder.test.X)
        np.testing.assert_allclose(read_scores(tmp_path / "scores.txt"), expected, rtol=1e-6)


@pytest.mark.parametrize("measure", ["Concordance", "Disagreement"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["train.txt", *VALIDATE],
        ["train.txt", "--stream", *VALIDATE],
        ["train.parquet", "--stream", "--validate", "validation.csv", *TABLE],
    ],
)
def test_a_grid_in_one_run_is_judged_by_the_validation_file(fit, folder, arguments, measure):
    report, ranker = fit("linear", *arguments, *GRID, "--measure", measure)
    held_out = folder.validation
    values = [
        evaluate(held_out.y, fitted(folder, alpha=a).predict(held_out.X), held_out.qid, measure)[
            measure
        ]
        for a in ALPHAS
    ]
    assert report["selection"]["measure"] == measure
    np.testing.assert_allclose(report["selection"]["grid"], ALPHAS)
    np.testing.assert_allclose(report["selection"]["values"], values)
    best = max(values) if parse_measure(measure).greater_is_better else min(values)
    assert values[ALPHAS.tolist().index(report["alpha"])] == pytest.approx(best)
    assert ranker.alpha_ == report["alpha"]


def test_without_a_validation_file_a_part_is_held_out(fit, folder):
    report, ranker = fit("linear", "train.txt", *GRID)
    expected = fitted(folder, alphas=ALPHAS)
    assert report["selection"]["judged"] == "on a tenth held out"
    assert ranker.alpha_ == expected.alpha_
    np.testing.assert_allclose(ranker.coef_, expected.coef_)
    assert max(report["selection"]["values"]) == pytest.approx(expected.held_out_value_)


def test_one_alpha_is_measured_on_the_validation_file(fit, folder):
    report, _ = fit("linear", "train.txt", *VALIDATE, "--alpha", 3)
    value = fitted(folder, alpha=3.0).score(
        folder.validation.X, folder.validation.y, qid=folder.validation.qid
    )
    assert report["selection"]["values"] == pytest.approx([value])


@pytest.mark.parametrize("option", [[], ["--stream"]])
@pytest.mark.parametrize("alphas", [["--alpha", 0], GRID])
def test_early_stopping_keeps_the_best_iterate(fit, folder, option, alphas):
    stopping = ["--early-stopping", "--n-iter-no-change", 2]
    report, ranker = fit("linear", "train.txt", *option, *stopping, *alphas, *VALIDATE)
    grid = {"alpha": 0.0} if alphas != GRID else {"alphas": ALPHAS}
    expected = fitted(folder, validate=True, early_stopping=True, n_iter_no_change=2, **grid)
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-6)
    assert report["best_iter"] == expected.best_iter_
    assert max(report["selection"]["values"]) == pytest.approx(expected.held_out_value_)


def test_report_tells_the_choice_and_the_iteration(succeed, tmp_path):
    printed = succeed(
        *("fit", "linear", "train.txt", "-o", tmp_path / "model", "--early-stopping"),
        *(*GRID, *VALIDATE),
    )
    ranker = rankwise.load(tmp_path / "model")
    assert re.findall(r"^(\S+) .*  chosen$", printed, re.MULTILINE) == [f"{ranker.alpha_:g}"]
    assert f"Trained LinearRankRLS(alpha={ranker.alpha_:g}) on 42 items, 3 features, 8 " in printed
    assert f"that of iteration {ranker.best_iter_}, after {ranker.n_iter_} iteration" in printed


@pytest.mark.filterwarnings("default")
def test_a_run_that_is_cut_short_warns_and_goes_on_from_its_checkpoint(run, folder, tmp_path):
    command = ["fit", "linear", "train.txt", "-o", tmp_path / "model"]
    command += ["--checkpoint", tmp_path / "run"]
    short = run(*command, "--max-iter", 1)
    assert short.exit_code == 0
    assert short.stderr.startswith("warning: Not converged after max_iter=1 iterations")
    assert rankwise.load(tmp_path / "model").n_iter_ == 1
    whole = run(*command, "--tol", 1e-12)
    assert (whole.exit_code, whole.stderr) == (0, "")
    ranker = rankwise.load(tmp_path / "model")
    np.testing.assert_allclose(ranker.coef_, fitted(folder, tol=1e-12).coef_, rtol=1e-9)
    assert (ranker.max_iter, ranker.tol, ranker.checkpoint) == (1000, 1e-12, None)
    other = run(*command, "--alpha", 7)
    assert other.exit_code == 2
    assert "expected a checkpoint of the same data and parameters" in other.stderr


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("option", [[], ["--stream"]])
def test_ctrl_c_saves_the_best_model_so_far_and_says_so(run, folder, tmp_path, monkeypatch, option):
    command = ["fit", "linear", "train.txt", *option, "-o", tmp_path / "model", *GRID, *VALIDATE]
    command += ["--checkpoint", tmp_path / "run", "--early-stopping"]
    move = CGState.move

    def press_at_the_second(state, *given):
        if state.iteration == 1:
            signal.raise_signal(signal.SIGINT)
        return move(state, *given)

    with monkeypatch.context() as patch:
        patch.setattr(CGState, "move", press_at_the_second)
        stopped = run(*command)
    assert stopped.exit_code == 0
    (line,) = stopped.stderr.splitlines()
    assert line.startswith("warning: Stopped by Ctrl-C after 1 iterations; the best so far is kept")
    assert f"Saved as {tmp_path / 'model'}." in stopped.stdout
    ranker = rankwise.load(tmp_path / "model")
    values = ranker.history_["value"]
    assert values.shape == (1, 4)
    assert ranker.held_out_value_ == values.max()
    assert run(*command).exit_code == 0
    whole = fitted(folder, validate=True, alphas=ALPHAS, early_stopping=True)
    resumed = rankwise.load(tmp_path / "model")
    assert resumed.n_iter_ == whole.n_iter_ > 2
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-6)


@pytest.mark.parametrize("option", [[], ["--stream", "--memory", "1K"]])
def test_rows_can_be_stored_in_single_precision(fit, folder, option):
    _, ranker = fit("linear", "train.txt", *option, "--dtype", "float32")
    assert ranker.dtype == "float32"
    np.testing.assert_allclose(ranker.coef_, fitted(folder).coef_, rtol=1e-4)


def learned_from_pairs(ranker, folder, **options):
    return ranker.fit(folder.train.X, pairs=PAIRS, **options)


@pytest.mark.parametrize("data", ["train.txt", "unscored.csv"])
@pytest.mark.parametrize("file", ["pairs.csv", "bare_pairs.csv"])
@pytest.mark.parametrize("family", ["rls", "linear"])
@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
def test_comparisons_of_rows_equal_python(fit, folder, data, file, family, cost):
    report, ranker = fit(family, data, "--pairs", file, "--cost", cost)
    given = {"pair_margin": MARGIN, "pair_weight": WEIGHT} if file == "pairs.csv" else {}
    exact = learned_from_pairs(RankRLS(cost=cost), folder, **given)
    np.testing.assert_allclose(ranker.coef_, exact.coef_, rtol=1e-7)
    assert (report["n_items"], report["n_pairs"], report["n_queries"]) == (42, 9, None)


def test_comparisons_are_counted_in_the_report(succeed, tmp_path):
    printed = succeed("fit", "rls", "train.txt", "-o", tmp_path / "model", "--pairs", "pairs.csv")
    assert "on 42 items, 3 features, 9 comparisons in" in printed


def test_a_grid_is_judged_by_leaving_out_comparisons(fit, folder):
    report, ranker = fit("rls", "train.txt", "--pairs", "pairs.csv", *GRID)
    given = {"pair_margin": MARGIN, "pair_weight": WEIGHT}
    search = learned_from_pairs(rankwise.RankRLSCV(ALPHAS), folder, **given)
    np.testing.assert_allclose(report["selection"]["values"], search.path_.values)
    assert report["selection"]["judged"] == "by leaving out each comparison in turn"
    np.testing.assert_allclose(ranker.coef_, search.coef_)


def test_iterations_on_comparisons_are_judged_by_held_out_ones(fit, folder):
    report, ranker = fit("linear", "train.txt", "--pairs", "bare_pairs.csv", *GRID)
    expected = learned_from_pairs(LinearRankRLS(alphas=ALPHAS, random_state=0), folder)
    assert report["alpha"] == expected.alpha_
    np.testing.assert_allclose(ranker.coef_, expected.coef_)


@pytest.mark.parametrize("family", ["rls", "linear"])
def test_comparisons_can_be_judged_by_a_validation_file(fit, folder, family):
    report, _ = fit(family, "train.txt", "--pairs", "pairs.csv", *VALIDATE, "-m", "NDCG @ 3")
    given = {"pair_margin": MARGIN, "pair_weight": WEIGHT}
    exact = learned_from_pairs(RankRLS(), folder, **given)
    held_out = folder.validation
    value = evaluate(held_out.y, exact.predict(held_out.X), held_out.qid, "NDCG @ 3")["NDCG @ 3"]
    assert report["selection"]["values"] == pytest.approx([value])


@pytest.mark.parametrize("family", ["rls", "linear"])
def test_ties_of_named_comparisons_are_kept_or_left_out(fit, folder, family):
    X = np.random.default_rng(0).normal(size=(6, 2))
    items = ["name,u,v", *(f"{name},{u},{v}" for name, (u, v) in zip("abcdef", X, strict=True))]
    (folder / "goods.csv").write_text("\n".join(items))
    games = ["a,b,a", "b,c,a", "c,d,b", "e,f,a", "a,f,tie", "b,e,tie"]
    (folder / "games.csv").write_text("\n".join(["a,b,winner", *games]))
    pairs = np.array([[0, 1], [1, 2], [3, 2], [4, 5], [0, 5], [1, 4]])
    margin = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    for ties, rows in (("keep", slice(None)), ("drop", slice(4))):
        _, found = fit(family, "goods.csv", "--pairs", "games.csv", "--ties", ties)
        expected = RankRLS().fit(X, pairs=pairs[rows], pair_margin=margin[rows])
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-4)


@pytest.mark.parametrize("family", ["rls", "linear", "svm"])
def test_codes_say_who_won_in_named_comparisons(fit, refuse, folder, family, tmp_path):
    X = np.random.default_rng(0).normal(size=(4, 2))
    items = ["name,u,v", *(f"{name},{u},{v}" for name, (u, v) in zip("pqrs", X, strict=True))]
    (folder / "things.csv").write_text("\n".join(items))
    (folder / "words.csv").write_text("a,b,winner\np,q,a\nq,r,b\nr,s,a\n")
    (folder / "numbers.csv").write_text("a,b,winner\np,q,0\nq,r,1\nr,s,0\n")
    line = refuse("fit", family, "things.csv", "-o", tmp_path / "m", "--pairs", "numbers.csv")
    assert "--codes '0=b,1=a'" in line
    _, coded = fit(family, "things.csv", "--pairs", "numbers.csv", "--codes", "0=a,1=b")
    _, plain = fit(family, "things.csv", "--pairs", "words.csv")
    np.testing.assert_array_equal(coded.coef_, plain.coef_)


def test_query_ids_beside_comparisons_are_told_about(succeed, folder, tmp_path):
    rows = ["1 qid:1 1:0.5", "0 qid:1 1:0.2", "1 qid:2 1:0.9", "0 qid:2 1:0.1"]
    (folder / "asked.txt").write_text("\n".join(rows))
    (folder / "bare.txt").write_text("\n".join(f"{row[0]} {row[8:]}" for row in rows))
    (folder / "won.csv").write_text("winner,loser\n0,1\n2,1\n")
    options = ("-o", tmp_path / "model", "--pairs", "won.csv")
    assert "The query ids were not used" in succeed("fit", "rls", "asked.txt", *options)
    assert "query ids" not in succeed("fit", "rls", "bare.txt", *options)


FIT = ("fit", "linear", "train.txt", "-o", "new.model")
STREAM = (*FIT, "--stream")
PAIRED = (*FIT, "--pairs", "pairs.csv")
RLS_PAIRED = ("fit", "rls", "train.txt", "-o", "new.model", "--pairs", "pairs.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*FIT, "--memory", "1G"), "--memory must come with --stream"),
        ((*FIT, "--cache-dir", "."), "--cache-dir must come with --stream"),
        ((*FIT, "--n-iter-no-change", 5), "--n-iter-no-change must come with --early-stopping"),
        ((*FIT, "-m", "AP"), "--measure must come with --validate, or with several values"),
        ((*PAIRED, "--stream"), "--stream must not come with --pairs: comparisons name rows"),
        ((*PAIRED, "--query-weight", "equal"), "--query-weight must not come with --pairs"),
        ((*PAIRED, *GRID, "-m", "AP"), "--measure must not come with --pairs without --validate"),
        ((*FIT, "--pairs-val", "pairs.csv"), "--pairs-val must come with --pairs"),
        ((*RLS_PAIRED, "--pairs-val", "pairs.csv"), "--pairs-val must come with --alphas"),
        (
            (*RLS_PAIRED, *GRID, "-m", "AP"),
            "--measure must be one of .* each comparison is left out",
        ),
        ((*STREAM, *GRID), "--stream must come with --validate when"),
        ((*STREAM, "--early-stopping"), "--stream must come with --validate when"),
        ((*STREAM, "--y", "rating"), r"name columns of a table .*: train\.txt is not a table"),
        ((*STREAM, "--memory", "much"), "--memory must be a size such as 512M or 2G: got 'much'"),
        ((*STREAM, "--memory", "0"), "--memory must be a size"),
        ((*STREAM, "--cache-dir", "nowhere"), "nowhere.*: No such file or directory"),
        (
            ("fit", "linear", "featureless.txt", "-o", "new.model", "--stream"),
            "expected at least one feature",
        ),
        (
            ("fit", "linear", "train.csv", "-o", "new.model", "--stream"),
            "expected an svmlight or Parquet",
        ),
        ((*FIT, "--alpha", 0), "--alpha must be a finite number above 0"),
        ((*FIT, "--alpha", 1, "--alphas", "1,2"), "Only one of --alpha and --alphas"),
        ((*FIT, "--tol", 2), "--tol must be a finite number from 0 on and below 1"),
        ((*FIT, "--max-iter", 0), "--max-iter must be a whole number above 0"),
        ((*FIT, "--checkpoint", "no/run"), "The folder of no/run must exist"),
        ((*FIT, *GRID, "--measure", "NDGC"), "Unknown measure 'NDGC'"),
        ((*FIT, "--pairs", "far.csv"), "--pairs must name rows 0 to 41"),
        ((*FIT, "--pairs", "named_pairs.csv"), "to be row numbers .*, got names such as 'fig'"),
        ((*FIT, "--pairs", "train.csv"), "must have the column 'winner'"),
        ((*FIT, "--codes", "0=a"), "--codes must come with --pairs"),
        ((*PAIRED, "--codes", "0=a"), "--codes must come with names of items"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(refuse, folder, arguments, message):
    line = refuse(*arguments)
    assert line.startswith("error: ")
    assert re.search(message, line), line
    assert not (folder / "new.model").exists()


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("100", 100), ("1K", 1024), ("1.5m", 3 << 19), ("2GB", 2 << 30), (" 1T ", 1 << 40)],
)
def test_sizes_are_powers_of_1024(text, n_bytes):
    assert pairwise.parse_size(text) == n_bytes


def test_defaults_that_are_left_out_are_those_of_the_library():
    memory = signature(LinearRankRLS.fit_file).parameters["memory"].default
    assert pairwise.parse_size(pairwise.DEFAULT_MEMORY) == memory


def test_named_comparisons_with_queries_and_validation(fit, folder):
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(20, 2)), [f"w{k}" for k in range(20)]
    qid = np.repeat(["a", "b"], 10)
    write_table(folder / "wines.csv", {"name": names, "colour": qid, "x": X[:, 0], "y2": X[:, 1]})
    ends = rng.integers(10, size=(60, 2)) + 10 * rng.integers(2, size=(60, 1))
    ends = ends[ends[:, 0] != ends[:, 1]]
    count = rng.integers(1, 4, size=len(ends)).astype(float)
    for file, rows in [("named.csv", slice(0, 40)), ("more.csv", slice(40, None))]:
        won, lost = (np.array(names)[ends[rows, side]] for side in (0, 1))
        write_table(folder / file, {"winner": won, "loser": lost, "count": count[rows]})
    wines = ("wines.csv", "--pairs", "named.csv")
    given = {"pairs": ends[:40], "pair_weight": count[:40]}
    _, ranker = fit("rls", *wines, "--drop", "colour")
    np.testing.assert_allclose(ranker.coef_, RankRLS().fit(X, **given).coef_)
    _, ranker = fit("rls", *wines, "--qid", "colour", "--query-weight", "equal")
    expected = RankRLS(query_weight="equal").fit(X, qid=qid, **given)
    np.testing.assert_allclose(ranker.coef_, expected.coef_)
    _, ranker = fit("rls", *wines, "--drop", "colour", *GRID, "--pairs-val", "more.csv")
    validation = {"pairs_val": ends[40:], "pair_weight_val": count[40:]}
    options = ("--drop", "colour", *GRID, "--early-stopping", "--pairs-val", "more.csv")
    report, linear = fit("linear", *wines, *options)
    expected = LinearRankRLS(alphas=ALPHAS, early_stopping=True).fit(X, **given, **validation)
    assert linear.alpha_ == expected.alpha_
    assert report["selection"]["judged"] == "on more.csv"
    expected = rankwise.RankRLSCV(ALPHAS).fit(X, **given, **validation)
    assert ranker.alpha_ == expected.alpha_
