"""The command itself: help, version, failures, what is loaded when."""

import os
import re
import signal
import subprocess
import sys
import warnings

import pytest

import rankwise
from rankwise.apps.cli.app import COMMANDS, FAMILIES
from rankwise.apps.cli.fit_commands import Fit, FitLinear, FitRLS
from rankwise.apps.cli.jobs import models
from rankwise.apps.cli.jobs.fits import automatic, cluster, pairwise
from rankwise.apps.cli.output import print_table
from systems import loaded_by_scikit_learn

HEAVY = {"numpy", "scipy", "sklearn", "safetensors"}


def start(*arguments, **options):
    """Start ``python -m rankwise`` as a process of its own."""
    command = [sys.executable, "-m", "rankwise", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_module_runs_and_lists_the_commands():
    process = start("--help")
    printed, errors = process.communicate()
    assert process.returncode == 0
    assert errors == ""
    for name in ("fit", "predict", "evaluate", "demo"):
        assert name in printed


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--version"],
        ["fit"],
        ["fit", "--help"],
        ["predict", "--help"],
        *(["fit", family, "--help"] for family in FAMILIES),
    ],
    ids=" ".join,
)
def test_help_loads_nothing_heavy(arguments):
    program = (
        "import sys\nfrom rankwise.apps.cli.app import main\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "rankwise.apps.cli.app" in result.stderr.split()
    assert not HEAVY & set(result.stderr.split())


@pytest.mark.parametrize("name", [name for group in COMMANDS.values() for name in group])
def test_every_command_has_a_group_and_a_short_call_for_help(succeed, name):
    assert succeed(name, "-h") == succeed(name, "--help")
    printed = succeed("-h")
    assert all(group in printed for group in COMMANDS)
    assert name in printed


def test_switches_are_shown_without_a_type(succeed):
    for arguments in (("-h",), ("fit", "linear", "-h"), ("leaderboard", "-h"), ("fit", "-h")):
        assert "bool" not in succeed(*arguments).lower()


@pytest.mark.parametrize(
    ("command", "home", "job"),
    [(Fit, automatic, "fit"), (FitRLS, pairwise, "fit_rls"), (FitLinear, pairwise, "fit_linear")],
)
def test_a_fit_with_workers_runs_the_job_for_clusters(monkeypatch, command, home, job):
    ran = []
    monkeypatch.setattr(home, job, lambda _: ran.append("here"))
    monkeypatch.setattr(cluster, job, lambda _: ran.append("there"))
    files = {"train": "a", "output": "b", "parameters": {}}
    command(**files).run()
    command(**files, workers=2).run()
    assert ran == ["here", "there"]


@pytest.mark.parametrize("command", ["predict", "rank", "evaluate"])
def test_scoring_does_not_load_what_fits_reports_and_exports_need(folder, tmp_path, command):
    rankwise.RankRLS().fit(folder.train.X, folder.train.y, qid=folder.train.qid).save(
        tmp_path / "model"
    )
    data = ["scores.txt"] if command == "evaluate" else []
    model = [] if command == "evaluate" else [str(tmp_path / "model")]
    arguments = [command, *model, "test.txt", *data]
    program = (
        "import sys\nfrom rankwise.apps.cli.app import main\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=folder.path, capture_output=True, text=True, check=True
    )
    loaded = set(result.stderr.split())
    heavy = {"scipy.stats", "scipy.optimize", "pandas", "pyarrow"} - loaded_by_scikit_learn()
    assert not heavy & loaded
    loaded = {name for name in loaded if name.startswith("rankwise.")}
    assert "rankwise.apps.cli.jobs.models" in loaded
    above = ("automatic", "apps.report", "apps.export", "apps.serve", "apps.distributed")
    above = (*above, "comparisons.gp", "rankers.dorm")
    assert not [name for name in loaded if name.startswith(tuple(f"rankwise.{a}" for a in above))]


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "prefer"])
def test_every_command_explains_itself(succeed, command):
    assert f"rankwise {command}" in succeed(command, "--help")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_explains_itself(succeed, family):
    printed = succeed("fit", family, "--help")
    assert f"For example: rankwise fit {family}" in printed
    assert "--output" in printed


@pytest.mark.parametrize(
    "arguments",
    [*((name,) for group in COMMANDS.values() for name in group),
     ("fit",), *(("fit", name) for name in FAMILIES)],
    ids=" ".join,
)  # fmt: skip
def test_help_names_values_in_words_and_no_types_of_python(succeed, arguments):
    printed = succeed(*arguments, "--help")
    assert not re.search(r"<\w|list\[|\{[A-Z]", printed), printed


def test_nothing_asked_is_answered_with_help(succeed):
    assert succeed() == succeed("--help")
    assert succeed("fit") == succeed("fit", "--help")


def test_help_of_fit_lists_the_families_and_the_recommended_options(succeed):
    printed = succeed("fit", "--help")
    assert re.search(r"fit \[OPTIONS\] \S*TRAIN\S*\s*$", printed, re.MULTILINE)
    for word in ("--measure", "--validate", "--output", *FAMILIES):
        assert word in printed
    assert "recommended" not in printed
    assert "--alpha" not in printed


def test_version_is_that_of_the_package(succeed):
    assert succeed("--version") == f"rankwise {rankwise.__version__}\n"


def fail_with(monkeypatch, error):
    def job(command):
        raise error

    monkeypatch.setattr(models, "evaluate", job)


def test_interruption_says_stopped(refuse, monkeypatch):
    fail_with(monkeypatch, KeyboardInterrupt())
    assert refuse("evaluate", "test.txt", "scores.txt", status=130) == "stopped"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError("Unable to allocate 7 TiB"), "error: not enough memory: Unable to allocate"),
        (OSError("the disk is gone"), "error: the disk is gone"),
        (PermissionError(13, "Permission denied", "x.txt"), "error: x.txt: Permission denied"),
    ],
)
def test_trouble_with_the_system_is_one_line(refuse, monkeypatch, error, line):
    fail_with(monkeypatch, error)
    assert refuse("evaluate", "test.txt", "scores.txt").startswith(line)


def test_a_defect_is_not_hidden(run, monkeypatch):
    fail_with(monkeypatch, ZeroDivisionError("a defect"))
    result = run("evaluate", "test.txt", "scores.txt")
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)


def test_a_warning_is_one_line(run, monkeypatch):
    def run_job(command):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn("mind the gap", UserWarning, stacklevel=1)

    monkeypatch.setattr(models, "evaluate", run_job)
    result = run("evaluate", "test.txt", "scores.txt")
    assert result.exit_code == 0
    assert result.stderr == "warning: mind the gap\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_interrupt_signal_stops_without_a_model(tmp_path):
    os.mkfifo(tmp_path / "train.txt")
    process = start("fit", "train.txt", "-o", "model", cwd=tmp_path)
    with open(tmp_path / "train.txt", "wb"):  # opens once the command has begun to read
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate()
    assert process.returncode == 130
    assert (printed, errors) == ("", "stopped\n")
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


MOMENTS = ["typer", "rankwise.apps.cli.options", "numpy", "scipy", "sklearn"]
"""Modules after whose import a command is stopped, from its first one to those of its job."""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("again", [False, True])
def test_interruption_while_modules_load_says_stopped(folder, tmp_path, moment, again):
    """Wherever it hits the import of other packages, no line of theirs is shown."""
    arguments = ["fit", "rls", str(folder / "train.txt"), "-o", str(tmp_path / "model")]
    command = [sys.executable, "-X", "importtime", "-m", "rankwise", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.rpartition("|")[2].strip() == moment:
            break
    for _ in range(1 + again):
        process.send_signal(signal.SIGINT)
    left = [line for line in process.stderr if not line.startswith("import time:")]
    process.stderr.close()
    assert process.wait() == 130
    assert left == ["stopped\n"]
    assert not list(tmp_path.iterdir())


def test_an_ignored_interruption_stays_ignored():
    """A shell ignores Ctrl-C for what runs in the background: a command does not change that."""
    program = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from rankwise.__main__ import run_command\n"
        f"sys.argv[1:] = {['predict', '--help']!r}\n"
        "try:\n    run_command()\nfinally:\n    signal.raise_signal(signal.SIGINT)"
    )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == ""


def test_a_closed_pipe_ends_quietly(folder, succeed, tmp_path):
    succeed("fit", "train.txt", "-o", tmp_path / "model")
    process = start("predict", tmp_path / "model", folder / "test.txt")
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141  # as for a program that SIGPIPE ends


@pytest.mark.parametrize("arguments", [("--help",), ("fit", "--help"), ("--version",), ()])
def test_help_that_nobody_reads_ends_quietly(arguments):
    process = start(*arguments)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


def test_names_outside_the_encoding_are_printed_as_escapes(tmp_path):
    (tmp_path / "games.csv").write_text("winner,loser\nÄpfel,Birnen\nÄpfel,日本\nBirnen,日本\n")
    environment = dict(os.environ, PYTHONIOENCODING="ascii")
    process = start("leaderboard", tmp_path / "games.csv", env=environment)
    printed, errors = process.communicate()
    assert process.returncode == 0
    assert errors.splitlines() == ["read: items: winner and loser", "read: winner: winner"]
    assert "\\xc4pfel" in printed
    assert "\\u65e5\\u672c" in printed


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_without_standard_output_a_command_runs_and_prints_nothing(tmp_path):
    (tmp_path / "games.csv").write_text("winner,loser\nA,B\nB,C\n")
    shell = [sys.executable, "-m", "rankwise", "leaderboard", str(tmp_path / "games.csv")]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *shell], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == ["read: items: winner and loser", "read: winner: winner"]


def test_a_terminal_gets_a_ruled_table_with_every_cell(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(["measure", "mean"], [["NDCG @ 10", "0.5000"], ["AP[x]", "-"]])
    printed = capsys.readouterr().out
    for cell in ("measure", "mean", "NDCG @ 10", "0.5000", "AP[x]"):
        assert cell in printed
    assert "│" in printed or "|" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rank", "m", "x.csv", "--top", "many"), "must be a valid integer"),
        (("rank", "m", "x.csv", "--top", "0"), "must be greater than or equal to 1"),
        (("fit", "x.csv", "-o", "m", "--for", "onnx"), "'onnx' is not one of 'elasticsearch'"),
    ],
)
def test_values_that_options_cannot_take_are_refused_in_plain_words(run, arguments, message):
    result = run(*arguments)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2
    assert message in said
    assert not any(word in said for word in ("Value error", "Input should", "unable to parse"))
