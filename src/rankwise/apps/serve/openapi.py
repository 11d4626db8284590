"""What the server answers, for programs (OpenAPI) and for people."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from rankwise.apps.serve.requests import ItemReader
from rankwise.io.feature_columns import DATES, TRUTH

STYLE = (
    ":root { color-scheme: light dark; } body { font: 16px/1.5 system-ui, sans-serif; "
    "max-width: 50rem; margin: 2rem auto; padding: 0 1rem; } pre { overflow-x: auto; "
    "border: 1px solid grey; border-radius: .4rem; padding: .8rem; }"
)


def openapi(facts: Mapping[str, Any], reader: ItemReader) -> dict[str, Any]:
    """Return the interface of a server as an OpenAPI 3.1 document.

    Parameters
    ----------
    facts : mapping
        What ``GET /health`` says.
    reader : ItemReader
        Which items are read.
    """
    # an item: a list of numbers, or an object with names
    kinds = ["number", *(["string"] if reader.takes_raw else [])]
    kinds += ["null"] if reader.takes_raw or reader.takes_blanks else []
    value, n_features = {"type": kinds}, reader.n_features
    item: dict[str, Any] = {
        "type": "array",
        "items": value,
        "minItems": n_features,
        "maxItems": n_features,
    }
    example: Any = [0.5] * n_features
    if reader.names is not None:
        named: dict[str, Any] = {"type": "object", "properties": dict.fromkeys(reader.names, value)}
        if "null" not in kinds:
            named["required"] = list(reader.names)
        item = {"oneOf": [named, item]}
        example = {"id": "a", **{name: _example(reader, name) for name in reader.names}}
    items = {"type": "array", "items": item, "minItems": 1, "maxItems": reader.max_items}
    # requests and answers
    query = {"items": items, "ids": {"type": "array"}}
    k = {"type": "integer", "minimum": 1, "description": "Keep the best k items."}
    queries = {"type": "array", "items": {"type": "object", "properties": query}}
    body = {"type": "object", "properties": {**query, "k": k, "queries": queries}}
    numbers = {"type": "array", "items": {"type": "number"}}
    ranked = {"scores": numbers, "order": {"type": "array", "items": {"type": "integer"}}}
    model = {"type": "object", "properties": {"name": {}, "version": {}}}
    answer = {"type": "object", "properties": {**ranked, "ids": {"type": "array"}, "model": model}}
    summary = "Score and order the items of a query, or of several."
    return openapi_of(facts, "/rank", summary, body, {"items": [example]}, answer)


def _example(reader: ItemReader, name: str) -> Any:
    """Return a value of a feature as it may be given."""
    if name in reader.text:
        return "text"
    form = dict(reader.forms).get(name, "")
    if form.startswith(DATES):
        return "2026-11-16"
    return True if form == TRUTH else 0.5


def openapi_of(
    facts: Mapping[str, Any],
    path: str,
    summary: str,
    schema: Mapping[str, Any],
    example: Mapping[str, Any],
    answer: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the interface of a server with one place to post to.

    Parameters
    ----------
    facts : mapping
        What ``GET /health`` says.
    path, summary : str
        Where requests are posted to, and what for.
    schema, example : mapping
        Of a request.
    answer : mapping, optional
        The schema of an answer.
    """
    refusal = {"type": "object", "properties": {"error": {"type": "string"}}}
    post = {
        "summary": summary,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": example}},
        },
        "responses": {
            "200": _response("Scores, and positions of items, best first.", answer or {}),
            "400": _response("The request is not as described.", refusal),
            "413": _response("The request is too large.", refusal),
        },
    }
    gets = {"/health": "What is served.", "/metrics": "Counters, in the format of Prometheus."}
    paths: dict[str, Any] = {path: {"post": post}}
    for get, about in gets.items():
        paths[get] = {"get": {"summary": about, "responses": {"200": {"description": about}}}}
    info = {"title": f"rankwise: {facts['model']['name']}", "version": facts["version"]}
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def _response(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def docs_page(description: Mapping[str, Any]) -> str:
    """Return a page about the interface, which loads nothing."""
    parts = [f"<h1>{escape(description['info']['title'])}</h1>"]
    for path, methods in description["paths"].items():
        for method, what in methods.items():
            parts.append(
                f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(what['summary'])}</p>"
            )
            if "requestBody" in what:
                example = what["requestBody"]["content"]["application/json"]["example"]
                parts.append(f"<pre>{escape(json.dumps(example, indent=2))}</pre>")
    parts.append('<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>')
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>rankwise</title><style>{STYLE}'
        f"</style><body>{''.join(parts)}</body></html>"
    )
