"""Ask which is better in a browser, until Ctrl-C; then write the ranking and a report."""

import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rankwise.apps.ask.items import ItemList, read_item_list
from rankwise.apps.ask.ranking import AskGoal
from rankwise.apps.ask.session import AskSession
from rankwise.apps.ask.store import AnswerStore
from rankwise.apps.cli.commands import Ask
from rankwise.apps.cli.jobs.files import check_target
from rankwise.apps.cli.output import counted
from rankwise.core.display import spreadsheet_text
from rankwise.core.errors import DataFileError, MissingExtraError
from rankwise.io.answer_file import AnswerFile, is_answer_file
from rankwise.io.files import open_write
from rankwise.io.tables.reading import write_table


def ask(command: Ask) -> None:
    """Serve the page until Ctrl-C or SIGTERM, or write the answers to a table."""
    if command.export is not None:
        _export(command, command.export)
        return
    try:
        from rankwise.apps.ask.report import render_report  # noqa: PLC0415 - optional dependencies
        from rankwise.apps.ask.server import ranking_csv, run_server  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "Asking in a browser", "starlette, uvicorn and jinja2", "ask"
        ) from error
    # items, goal and the answers so far
    items = read_item_list(command.items)
    goal = AskGoal.of(command.goal, len(items), command.confidence)
    session = AskSession(
        AnswerStore.open(command.answer_file, items), goal, repeats=command.repeats
    )
    _print_start(command, items, session)
    # serve until stopped, then write the ranking and the report
    try:
        with _until_stopped():
            run_server(session, command.host, command.port, lambda links: _announce(command, links))
        _write(command.answer_file.with_suffix(".ranking.csv"), ranking_csv(session))
        _write(command.answer_file.with_suffix(".report.html"), render_report(session))
    finally:
        session.close()


@contextmanager
def _until_stopped() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block and not the process: uvicorn raises them once more."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


def _export(command: Ask, target: Path) -> None:
    """Write one row per answer: both items as shown, who won, the rater and the time."""
    path = command.items if is_answer_file(command.items) else command.answer_file
    check_target(target, command.items, path)
    if not is_answer_file(path):
        raise DataFileError(f"{path} must be an answers file of rankwise ask: it does not exist.")
    columns = AnswerFile.read(path).columns()
    columns["judge"] = np.array([spreadsheet_text(name) for name in columns["judge"]], dtype=object)
    write_table(target, columns)
    print(f"{counted(len(columns['a']), 'answer', 'answers')} written to {target}.")


def _print_start(command: Ask, items: ItemList, session: AskSession) -> None:
    print(f"{counted(len(items), 'item', 'items')} from {command.items}, goal: {session.goal}.")
    if items.feature_names:
        print(f"Features: {', '.join(items.feature_names)}.")
    if items.ignored_columns:
        print(f"Not used: {', '.join(items.ignored_columns)}.")
    known = counted(len(session.records), "answer", "answers")
    print(f"Answers are kept in {command.answer_file} ({known} so far).")


def _announce(command: Ask, links: list[str]) -> None:
    first, *others = links
    print(f"Open {first} and answer; Ctrl-C ends.", flush=True)
    for link in others:
        print(f"From another network: {link}", flush=True)
    own = ("http://127.0.0.1:", "http://[::1]:")
    if command.host in ("0.0.0.0", "::") and first.startswith(own):
        print(
            "On a phone, put the address of this machine in its place: its network settings show "
            "it.",
            flush=True,
        )
    if command.browser:
        webbrowser.open(first)


def _write(path: Path, text: str) -> None:
    with open_write(path) as file:
        file.write(text.encode())
    print(f"Wrote {path}.")
