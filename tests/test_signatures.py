"""Signatures that can be read: no union of numpy's types spelt out, few lines each."""

import ast
import inspect
import textwrap
import typing

import pytest

import rankwise

MOST_CHARACTERS = 450
"""Of a function or method; constructors have a parameter a line in the documentation."""

WIDEST_PARAMETER = 45
"""Of a line of a constructor in the documentation, which has the default as it is written."""


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


def parameters_as_written():
    """Yield the parameters of constructors without their types, defaults as in the source."""
    for name in rankwise.__all__:
        value = getattr(rankwise, name)
        own = value.__dict__.get("__init__") if inspect.isclass(value) else None
        if inspect.isfunction(own) and own.__code__.co_filename != "<string>":  # no dataclass
            function = ast.parse(textwrap.dedent(inspect.getsource(own))).body[0]
            arguments = function.args
            given = [*arguments.posonlyargs, *arguments.args]
            behind = zip(given[::-1], arguments.defaults[::-1], strict=False)
            for one, default in [
                *behind,
                *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
            ]:
                yield name, f"{one.arg}={ast.unparse(default) if default else ''}"


def test_a_parameter_of_a_constructor_fits_a_line_of_a_phone():
    written = list(parameters_as_written())
    assert len(written) > 100
    assert [(name, text) for name, text in written if len(text) > WIDEST_PARAMETER] == []


def returned(value):
    """Return what a method says it returns, in the words of the source, for every overload."""
    written = [*typing.get_overloads(value), value]
    return [str(one.__annotations__.get("return")) for one in written]


@pytest.mark.parametrize(
    ("function", "type"),
    [
        (rankwise.explain, "Explanation"),
        (rankwise.RankRLS.explain, "Explanation"),
        (rankwise.RankRLS.rank, "IntArray"),
        (rankwise.RankRLS.rank, "DataFrame"),
        (rankwise.PreferenceGP.rank, "DataFrame"),
        (rankwise.Leaderboard.plot, "Axes"),
        (rankwise.Leaderboard.to_frame, "DataFrame"),
        (rankwise.Explanation.plot, "Axes"),
    ],
)
def test_what_comes_back_has_a_type(function, type):
    assert type in returned(function)
