"""Whatever is typed, the answer is a result or a line that says what to type."""

import os

import numpy as np
import pytest
from typer.testing import CliRunner

from fuzz.mutations import N_CASES, seeded_rng
from problems import problem
from rankwise.apps.cli.app import app
from rankwise.io import write_svmlight, write_table

OPTIONS = {
    "-o": ["new.model", "no/such/folder/m", "train.txt", "/dev/full", "", "."],
    "--json": [],
    "--alpha": ["1", "-1", "0", "nan", "inf", "1e400", "a", ""],
    "--alphas": ["0.1,1", "1e-3:1e3:3", "1:2", ",", "a:b:c", "1:1:99999999", "-1,1", "nan"],
    "--kernel": ["linear", "gaussian", "polynomial", "other", ""],
    "--gamma": ["0.5", "-1", "nan", "median"],
    "--degree": ["2", "0", "-1", "1000"],
    "--measure": ["NDCG @ 5", "AUC", "NDCG @", "nonsense", "", "NDCG(" * 50, "x" * 5000],
    "--random-state": ["0", "-1", "99999999999999999999", "a"],
    "--validate": ["train.txt", "none.txt", "pairs.csv"],
    "--pairs": ["pairs.csv", "none.csv", "train.txt"],
    "--y": ["rating", "nothing", ""],
    "--qid": ["city", "nothing"],
    "--features": ["stars,price", "nothing", ",", ""],
    "--basis": ["3", "0", "-1", "100000", "a"],
    "--rank": ["2", "0", "-1"],
    "-C": ["1", "0", "nan"],
    "--cost": ["unit", "magnitude", "other"],
    "--components": ["2", "0", "1000"],
    "--max-iter": ["3", "0", "-1"],
    "--zero-based": [],
    "--one-based": [],
    "--help": [],
    "--unknown": [],
    "--stream": [],
    "--iterative": [],
    "--per-query": ["values.csv", "train.txt", "no/such/folder/q.csv"],
    "--top": ["3", "0", "-1", "99999999999"],
}
COMMANDS = [
    ["fit"], ["fit", "rls"], ["fit", "greedy"], ["fit", "linear"], ["fit", "svm"],
    ["fit", "kpcrank"], ["predict"], ["evaluate"], ["prefer"], ["leaderboard"], ["explain"],
    ["nonsense"], [],
]  # fmt: skip
WORDS = [
    "train.txt", "train.csv", "train.parquet", "pairs.csv", "scores.txt", "m.model", "none.txt",
    "empty.txt", "damaged.parquet", "binary.dat", ".", "/dev/null", "", "-", "é.txt", "x" * 300,
    "0",
]  # fmt: skip
CASES = N_CASES // 10 or 120


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with data of every kind, some of it damaged."""
    folder = tmp_path_factory.mktemp("files")
    data = problem(0, (4, 3, 5))
    write_svmlight(folder / "train.txt", data.X, data.y, data.qid)
    columns = dict(zip(["stars", "price", "age"], data.X.T, strict=True))
    for suffix in ("csv", "parquet"):
        write_table(folder / f"train.{suffix}", {"city": data.qid, **columns, "rating": data.y})
    (folder / "pairs.csv").write_text("winner,loser\nann,bob\nbob,cid\ncid,ann\nann,cid\n")
    (folder / "empty.txt").write_text("")
    parquet = (folder / "train.parquet").read_bytes()
    (folder / "damaged.parquet").write_bytes(parquet[:200] + b"\x00" * 50 + parquet[250:])
    (folder / "binary.dat").write_bytes(bytes(range(256)) * 4)
    np.savetxt(folder / "scores.txt", data.X[:, 0])
    return folder


def command_line(rng):
    """Draw a command, files and options that may or may not belong to it."""
    line = list(COMMANDS[rng.integers(len(COMMANDS))])
    expected = {"fit": ["train.txt"], "predict": ["m.model", "train.txt"]}.get("".join(line[:1]))
    if expected is None or rng.integers(3) == 0:
        expected = [WORDS[rng.integers(len(WORDS))] for _ in range(rng.integers(0, 3))]
    line += expected
    if line[:1] == ["fit"] and rng.integers(6):
        line += ["-o", "new.model"]
    for _ in range(rng.integers(0, 4)):
        option = list(OPTIONS)[rng.integers(len(OPTIONS))]
        values = OPTIONS[option]
        chosen = 0 if rng.integers(2) else rng.integers(max(1, len(values)))
        line += [option, values[chosen]] if values else [option]
    return line


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(10))
def test_any_command_line_ends_with_a_result_or_a_line(seed, files, monkeypatch):
    monkeypatch.chdir(files)
    rng = seeded_rng(seed)
    runner = CliRunner()
    assert runner.invoke(app, ["fit", "rls", "train.txt", "-o", "m.model"]).exit_code == 0
    kept = {name: (files / name).read_bytes() for name in ("train.txt", "pairs.csv")}
    for _ in range(CASES):
        line = command_line(rng)
        result = runner.invoke(app, line)
        assert result.exit_code in (0, 1, 2), (line, result.exception, result.output[-500:])
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            line,
            repr(result.exception),
        )
        assert "Traceback" not in result.output, line
        assert len(result.output) < 20_000, line
    assert kept == {name: (files / name).read_bytes() for name in kept}
    assert not [name for name in os.listdir(files) if name.endswith(".part")]
