"""Signatures that can be read: no union of numpy's types spelt out, few lines each."""

import inspect

import rankwise

MOST_CHARACTERS = 450
"""Of a function or method; constructors have a parameter a line in the documentation."""


def public_callables():
    for name in rankwise.__all__:
        value = getattr(rankwise, name)
        if inspect.isclass(value):
            yield name, value
            for method, function in inspect.getmembers(value, inspect.isroutine):
                is_routing = method.startswith("set_") and method.endswith("_request")
                if not method.startswith("_") and not is_routing:
                    yield f"{name}.{method}", function
        elif callable(value):
            yield name, value


def signatures():
    for name, value in public_callables():
        try:
            yield name, value, str(inspect.signature(value))
        except (TypeError, ValueError):  # built in: says nothing
            continue


def test_no_signature_spells_out_array_like():
    assert [name for name, _, text in signatures() if "_SupportsArray" in text] == []


def test_functions_and_methods_have_short_signatures():
    long = [
        f"{name}: {len(text)}"
        for name, value, text in signatures()
        if not inspect.isclass(value) and len(text) > MOST_CHARACTERS
    ]
    assert long == []
