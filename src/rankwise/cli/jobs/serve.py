"""Serve a model over HTTP."""

from rankwise.cli.commands import ServeCommand
from rankwise.cli.jobs.files import load_ranker
from rankwise.serve.server import serve_ranker


def run(command: ServeCommand) -> None:
    """Serve until Ctrl-C."""
    ranker = load_ranker(command.model)
    print(
        f"Serving {command.model} on http://{command.host}:{command.port}; Ctrl-C ends.", flush=True
    )
    serve_ranker(
        ranker,
        host=command.host,
        port=command.port,
        max_items=command.max_items,
        max_bytes=command.max_bytes,
    )
