"""What a command refuses, and how it says so: one line on standard error, exit status 2."""

import re

import pytest

from rankwise import RankRLS

TABLE = ["--y", "rating", "--qid", "city"]


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "linear.model"
    RankRLS().fit(folder.train.X, folder.train.y, qid=folder.train.qid).save(path)
    return path


@pytest.fixture(scope="module")
def odd_files(folder):
    (folder / "bad.txt").write_text("1 qid:1 1:0.5\n2 qid:1 1:x\n")
    (folder / "one.txt").write_text("1 qid:1 1:0.5\n")
    (folder / "bare.txt").write_text("1 qid:1\n2 qid:1\n")
    (folder / "flat.txt").write_text("1 qid:1 1:0.5\n1 qid:1 1:0.7\n")
    (folder / "wide.txt").write_text("1 qid:1 1:0.5 9:1\n")
    (folder / "few.txt").write_text("0.5\n0.25\n")
    (folder / "words.txt").write_text("0.5\nhigh\n")
    (folder / "plain.csv").write_text("stars,price\n1,2\n3,4\n")


FIT = ("fit", "rls", "train.txt", "-o", "new.model")
FIT_BEST = ("fit", "train.txt", "-o", "new.model")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "none.txt", "-o", "new.model"), r"none\.txt: No such file or directory"),
        (("fit", "bad.txt", "-o", "new.model"), r"bad\.txt, line 2: expected .*got '1:x'"),
        (("fit", "one.txt", "-o", "new.model"), "at least 2 items and 1 feature: it has 1 item "),
        (("fit", "bare.txt", "-o", "new.model"), "1 feature: it has 2 items and 0 features"),
        (("fit", "flat.txt", "-o", "new.model"), "differ|equal"),
        (("fit", "plain.csv", "-o", "new.model"), "expected a column of scores named y.*--y"),
        (("fit", "train.csv", "-o", "new.model", "--y", "grade"), "must have the column 'grade'"),
        (
            ("evaluate", "test.txt", "linear.model"),
            r"linear\.model must hold scores: it is a model\. .*rankwise predict linear\.model",
        ),
        (("fit", "train.txt", "-o", "."), r"\. must be a file to write: it is a folder"),
        (("fit", "train.txt", "-o", "no/model"), "The folder of no/model must exist: there is no"),
        ((*FIT, "--alpha", "-1"), "--alpha must be a finite number above 0: got -1"),
        ((*FIT, "--alpha", "1", "--alphas", "1,2"), "Only one of --alpha and --alphas"),
        ((*FIT, "--alphas", "1:9:99999999"), "--alphas must ask for at most 10,000 values"),
        ((*FIT, "--kernel", "linear", "--gamma", "1"), "--gamma must belong to the kernel: linear"),
        ((*FIT, "--kernel", "gaussian", "--degree", "2"), "gaussian has no degree"),
        ((*FIT, "--kernel", "gaussian", "--gamma", "0"), "--gamma must be a finite number above 0"),
        (
            (*FIT, "--cost", "unit", "--ties", "keep"),
            "--ties 'keep' is defined only for --cost 'magnitude'",
        ),
        ((*FIT_BEST, "--measure", "NDGC"), "Unknown measure 'NDGC'.*Did you mean 'NDCG'"),
        ((*FIT, "--measure", "AP"), "--measure must come with --validate, or with several values"),
        ((*FIT, "--y", "rating"), r"name columns of a table .*: train\.txt is not a table"),
        ((*FIT, "--validate", "wide.txt"), r"wide\.txt, line 1: expected features up to 3"),
        (
            (*FIT, "--validate", "flat.txt"),
            "No value of --alpha can be judged: the measure",
        ),
        ((*FIT, "--validate", "plain.csv"), "must have the 3 features of the model: it has 2"),
        (("predict", "none.model", "test.txt"), "none.model: No such file or directory"),
        (("predict", "train.txt", "test.txt"), "train.txt"),
        (("predict", "linear.model", "wide.txt"), r"wide\.txt, line 1: expected features up to 3"),
        (("predict", "linear.model", "plain.csv"), "must have the 3 features of the model"),
        (("predict", "linear.model", "test.txt", "-o", "no/scores"), "The folder of no/scores"),
        (("evaluate", "test.txt", "few.txt"), "there are 42 items and 2 scores"),
        (("evaluate", "test.txt", "words.txt"), r"words\.txt, line 2: expected one finite number"),
        (("evaluate", "plain.csv", "few.txt"), "expected a column of scores"),
        (("evaluate", "test.txt", "scores.txt", "-m", "NDCG @ 0"), "0"),
        (
            ("evaluate", "test.txt", "scores.txt", "--preset", "lightgbm"),
            "must come with --measure",
        ),
        (
            ("evaluate", "test.txt", "scores.txt", "--per-query", "v.doc"),
            r"v\.doc: expected a name",
        ),
    ],
)
@pytest.mark.usefixtures("model", "odd_files")
def test_bad_input_is_refused_in_one_line(refuse, folder, arguments, message):
    line = refuse(*arguments)
    assert line.startswith("error: ")
    assert re.search(message, line), line
    assert not (folder / "new.model").exists()


@pytest.mark.parametrize("text", ["", "1,", "1:2", "1:x:3", "0:1:3", "1:10:0", "-1:1:3", "1:inf:3"])
def test_a_grid_that_cannot_be_read_is_refused(refuse, text):
    line = refuse(*FIT, "--validate", "validation.txt", "--alphas", text)
    assert "--alphas must be a list such as 0.1,1,10 or a range such as 1e-3:1e3:7" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "train.txt"), "--output"),
        (("fit", "rls", "train.txt"), "--output"),
        (("fit", "rls", "train.txt", "-o", "m", "--cost", "cheap"), "cheap"),
        (("fit", "rls", "train.txt", "-o", "m", "--alhpa", "1"), "--alhpa"),
        (("fit", "train.txt", "-o", "m", "--alpha", "1"), "--alpha"),
        (("fit", "train.txt", "-o", "m", "--kernel", "gaussian"), "--kernel"),
        (("fit", "rls", "train.txt", "-o", "m", "--tol", "1"), "--tol"),
        (("fit", "linear", "train.txt", "-o", "m", "--kernel", "gaussian"), "--kernel"),
        (("fit", "linear", "train.txt", "-o", "m", "--basis", "5"), "--basis"),
        (("fit", "svm", "train.txt", "-o", "m", "--alpha", "1"), "--alpha"),
        (("fit", "svm", "train.txt", "-o", "m", "--ties", "keep"), "--ties"),
        (("fit", "kpcrank", "train.txt", "-o", "m", "--basis", "5"), "--basis"),
        (("fit", "dorm", "train.txt", "-o", "m", "--pairs", "pairs.csv"), "--pairs"),
        (("fit", "dorm", "train.txt", "-o", "m", "--cost", "unit"), "--cost"),
        (("rank", "train.txt"), "rank"),
        (("fit", "rsl", "train.txt", "-o", "m"), "No such command 'rsl'. Did you mean 'rls'"),
    ],
)
def test_options_that_cannot_be_understood_are_refused(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_old_model_survives_a_refused_fit(refuse, folder):
    path = folder / "old.model"
    path.write_bytes(b"as it was")
    refuse("fit", "rls", "train.txt", "-o", path, "--alpha", "0")
    assert path.read_bytes() == b"as it was"
