"""Errors and results are found in modules of their own."""

import dataclasses

import pytest

import rankwise
import rankwise.errors
import rankwise.results
from rankwise.core.display import Result


def test_every_error_is_in_its_module():
    known = {name for name in rankwise.__all__ if name.endswith(("Error", "Warning"))}
    assert set(rankwise.errors.__all__) == known
    for name in known:
        assert getattr(rankwise.errors, name) is getattr(rankwise, name)


def test_every_result_is_in_its_module():
    public = {name: getattr(rankwise, name) for name in rankwise.__all__}
    kinds = {name: kind for name, kind in public.items() if isinstance(kind, type)}
    results = {name for name, kind in kinds.items() if issubclass(kind, Result)}
    assert results <= set(rankwise.results.__all__) <= set(kinds)
    for name in rankwise.results.__all__:
        assert getattr(rankwise.results, name) is kinds[name]
        assert dataclasses.is_dataclass(kinds[name])
    assert dir(rankwise.results) == rankwise.results.__all__
    with pytest.raises(AttributeError, match=r"rankwise\.results.*'RankRLS'"):
        rankwise.results.RankRLS  # noqa: B018 - the name is what is tried
