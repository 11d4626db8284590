"""Ask which is better in a browser, until Ctrl-C; then write the ranking and a report."""

import signal
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
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
from rankwise.core.errors import DataFileError, extra
from rankwise.io.answer_file import AnswerFile, is_answer_file
from rankwise.io.files import open_write
from rankwise.io.tables.reading import write_table

USUAL = {
    "goal": "order",
    "confidence": "0.9",
    "question": "Which is better?",
    "hide_names": "False",
    "hide_ranking": "False",
}
"""What is asked, and shown, unless the command or an answers file says otherwise."""


def ask(command: Ask) -> None:
    """Serve the page until Ctrl-C or SIGTERM, or write the answers to a table."""
    if command.export is not None:
        _export(command, command.export)
        return
    with extra("Asking in a browser", "starlette, uvicorn and jinja2", "ask"):
        from rankwise.apps.ask.report import render_report  # noqa: PLC0415 - optional dependencies
        from rankwise.apps.ask.server import AskPage, ranking_csv, run_server  # noqa: PLC0415

    def plan(items: ItemList, before: Mapping[str, str]) -> tuple[dict[str, str], AskGoal, AskPage]:
        """Return what is asked and shown: as the command says, as before, or as usual."""
        known = {name: value for name, value in before.items() if name in USUAL}
        said = USUAL | known | _said(command)
        goal = AskGoal.of(said["goal"], len(items), said["confidence"])
        hidden = {name: said[name] == "True" for name in ("hide_names", "hide_ranking")}
        return said, goal, AskPage.of(items, said["question"], **hidden)

    # items and the answers so far; an answers file has both
    is_reopened = is_answer_file(command.items)
    path = command.items if is_reopened else command.answer_file
    items = None if is_reopened else read_item_list(command.items)
    if items is not None and not path.exists():
        plan(items, {})  # refuses before a file is made
    with closing(AnswerStore.open(path, items)) as store:
        items = store.items() if items is None else items
        settings, goal, page = plan(items, store.settings())
        store.keep_settings(settings)
        session = AskSession(store, goal, repeats=command.repeats)
        _print_start(command, items, session)
        # serve until stopped, then write the ranking and the report
        with _until_stopped():
            run_server(
                session, page, command.host, command.port, lambda links: _announce(command, links)
            )
        standing = session.standing()
        print(f"{standing}: the goal is {'' if standing.is_goal_reached else 'not '}reached.")
        _write(path.with_suffix(".ranking.csv"), ranking_csv(session))
        _write(path.with_suffix(".report.html"), render_report(session))


def _said(command: Ask) -> dict[str, str]:
    """Return the settings that the command names."""
    given = {name: getattr(command, name) for name in USUAL}
    return {name: str(value) for name, value in given.items() if value is not None}


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
    print(f"Answers are kept in {session.store.path} ({known} so far).")


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
