"""What the README says works."""

import inspect
import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import sklearn
from typer.testing import CliRunner

import rankwise
from rankwise.apps.cli.app import app
from rankwise.datasets import load_digits_queries
from rankwise.io import write_svmlight
from rankwise.rankers.base import Ranker

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def commands(program):
    """Return the lines of shell blocks that start a program, without their comments."""
    lines = [
        shlex.split(line, comments=True) for text in blocks("sh") for line in text.splitlines()
    ]
    return [line[1:] for line in lines if line and line[0] == program]


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(blocks("python")) >= 3
    names = {}
    with sklearn.config_context():
        for text in blocks("python"):
            exec(compile(text, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "NDCG @ 10" in printed
    assert "rankrls__alpha" in printed
    assert rankwise.load("digits.model").kernel == "gaussian"


def test_blocks_of_the_doors_print_what_stands_below_them():
    """Digits of numbers may differ between machines: they agree to a few percent."""
    block = r"((?:(?!```).)*?)"
    doors = re.findall(rf"^```python\n{block}^```\n\n```text\n{block}^```$", README, re.M | re.S)
    assert len(doors) == 3
    for text, shown in doors:
        assert len([line for line in text.splitlines() if line.strip()]) <= 10
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(text, "README.md", "exec"), {})
        assert NUMBER.sub("#", out.getvalue()).split() == NUMBER.sub("#", shown).split()
        found, expected = ([float(n) for n in NUMBER.findall(t)] for t in (out.getvalue(), shown))
        np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.05)


def test_the_part_before_the_reference_is_short():
    door = README[: README.index("# Reference")]
    prose = re.sub(r"```.*?```|<picture>.*?</picture>|^\|[^\n]*$", "", door, flags=re.S | re.M)
    assert len(prose.split()) <= 700


def test_rankwise_commands_run(tmp_path, monkeypatch):
    for module in ("lightgbm", "onnxruntime", "jinja2", "pyarrow"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    monkeypatch.chdir(tmp_path)
    write_files()
    given = commands("rankwise")
    search = ["fit", "predict", "evaluate", "report", "explain", "export", "fit"]
    sample = ["leave-pair-out", "permutation-test", "fit", "report", "explain"]
    assert [command[0] for command in given] == [*search, *sample, "leaderboard", "prefer"]
    for command in given:
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, (command, result.output)
    for name in ("scores.csv", "values.csv", "report.html", "model.onnx", "board.html"):
        assert Path(name).stat().st_size > 100


def write_files():
    """Write the files that the commands of the README read, with ids, text and blanks."""
    rng = np.random.default_rng(0)
    for name, seed in (("train.csv", 0), ("test.csv", 1)):
        n, rng = 240, np.random.default_rng(seed)
        match, clicks = rng.normal(size=n), rng.exponential(size=n) * 1000
        grade = np.digitize(match + 0.5 * rng.normal(size=n), [0.0, 1.0])
        rows = ["query,doc_id,match,clicks,kind,grade"]
        for i in range(n):
            blank = "" if rng.random() < 0.1 else f"{clicks[i]:.0f}"
            kind = "abc"[rng.integers(3)]
            rows.append(f"q{i // 8},{9000 + i},{match[i]:.4f},{blank},{kind},{grade[i]}")
        Path(name).write_text("\n".join(rows) + "\n")
    data = load_digits_queries(n_queries=10, n_items=8).train
    write_svmlight("huge.txt.gz", data.X, data.y, data.qid)
    ill = rng.integers(0, 2, 40)
    rows = [f"p{i},{ill[i] + rng.normal():.3f},{rng.normal():.3f},{ill[i]}" for i in range(40)]
    Path("patients.csv").write_text("patient,marker,other,ill\n" + "\n".join(rows) + "\n")
    Path("items.csv").write_text("item,size,price\na,1,2\nb,2,1\nc,4,4\n")
    Path("answers.csv").write_text("winner,loser\na,b\nc,a\nc,b\na,c\n")


def test_the_first_block_is_the_two_make_commands():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert README.index("```sh\nmake demo") < README.index("## ")
    assert commands("make")[:2] == [["demo"], ["test"]]
    for (target,) in commands("make"):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_the_table_lists_every_ranker_and_no_other():
    public = {name: getattr(rankwise, name) for name in rankwise.__all__}
    rankers = {
        name
        for name, value in public.items()
        if inspect.isclass(value) and issubclass(value, Ranker)
    }
    assert rankers == set(re.findall(r"^\| `(\w+)` \|", README, flags=re.MULTILINE))


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`(docs/[\w/.-]+)`|\]\(([\w./-]+)\)", README)))
)
def test_files_that_are_named_exist(path):
    assert (ROOT / "".join(path)).is_file()
