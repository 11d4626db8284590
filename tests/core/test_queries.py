"""Queries group items whatever the ids are and whatever their order."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise import InvalidInputError, Queries

IDS = st.one_of(
    st.lists(st.integers(-3, 3), min_size=1),
    st.lists(st.sampled_from(["a", "b", "long id", ""]), min_size=1),
    st.lists(st.floats(-2, 2), min_size=1),
    st.lists(st.booleans(), min_size=1),
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from("xy")), min_size=1),
    st.lists(st.one_of(st.integers(0, 1), st.sampled_from(["0", "1"])), min_size=1),
)


@given(IDS)
def test_groups_are_those_of_a_dictionary(qid):
    queries = Queries.from_qid(qid)
    rows = {}
    for i, q in enumerate(qid):
        rows.setdefault(q, []).append(i)
    assert [found.tolist() for found in queries] == list(rows.values())
    assert list(queries.ids.tolist()) == list(rows)
    assert queries.sizes.tolist() == [len(r) for r in rows.values()]
    assert len(queries) == queries.n_queries == len(rows)
    assert queries.n_items == len(qid)


@given(IDS)
def test_order_sorts_by_query_and_keeps_the_order_inside(qid):
    queries = Queries.from_qid(qid)
    assert np.all(np.diff(queries.index[queries.order]) >= 0)
    for q in range(len(queries)):
        assert np.all(np.diff(queries.rows(q)) > 0)
    assert queries.is_sorted == (queries.order.tolist() == list(range(len(qid))))


@given(IDS, st.booleans())
def test_runs_of_rows_tell_sizes_as_the_rows_do(qid, in_runs):
    """What `from_qid` knows of rows that come query by query is what is found without it."""
    queries = Queries.from_qid(sorted(qid, key=str) if in_runs else qid)
    found = Queries(queries.ids, queries.index)
    assert queries.is_sorted == found.is_sorted
    assert queries.sizes.tolist() == found.sizes.tolist()
    assert not queries.sizes.flags.writeable


def test_sums_means_and_spread():
    queries = Queries.from_qid(["b", "a", "b"])
    assert queries.sum([1, 2, 3]).tolist() == [4, 2]
    assert queries.mean([1, 2, 3]).tolist() == [2, 2]
    assert queries.spread([10, 20]).tolist() == [10, 20, 10]


@pytest.mark.parametrize("k", [None, 1, 2, 9])
def test_the_best_of_each_query_come_first_and_equal_ones_as_given(k):
    queries, scores = Queries.from_qid(list("babbac")), np.array([1.0, 2.0, 3.0, 3.0, 2.0, 0.0])
    expected = [
        row
        for rows in queries
        for row in sorted(rows.tolist(), key=lambda row: (-scores[row], row))[:k]
    ]
    assert queries.best_first(scores, k).tolist() == expected
    ranks = queries.ranks(queries.best_first(scores))
    for rows in queries:
        above = [[(scores[b], -b) > (scores[a], -a) for b in rows] for a in rows]
        assert ranks[rows].tolist() == [1 + sum(better) for better in above]


def test_take_keeps_some_items_and_drops_empty_queries():
    queries = Queries.from_qid([5, 6, 5, 7]).take(np.array([0, 3]))
    assert queries.ids.tolist() == [5, 7]
    assert queries.index.tolist() == [0, 1]


def test_single_is_one_query():
    assert [rows.tolist() for rows in Queries.single(3)] == [[0, 1, 2]]


def test_values_are_frozen():
    queries = Queries.from_qid([1, 1, 2])
    for array in (queries.ids, queries.index, queries.sizes, queries.order, queries.starts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


@pytest.mark.parametrize(
    "qid", [[1.0, np.nan], ["a", None], np.array(["2020-01-01", "NaT"], "M8[D]")]
)
def test_a_missing_id_is_named(qid):
    with pytest.raises(InvalidInputError, match="row 1 has none"):
        Queries.from_qid(qid)


def test_ids_must_be_one_dimensional():
    with pytest.raises(InvalidInputError, match=r"one-dimensional.*\(2, 2\)"):
        Queries.from_qid(np.zeros((2, 2)))


@pytest.mark.parametrize(
    "missing",
    [
        pd.NA,
        pd.NaT,
        np.float32("nan"),
        Decimal("NaN"),
        Decimal("sNaN"),
        np.datetime64("NaT", "D"),
        None,
    ],
    ids=repr,
)
@pytest.mark.parametrize("container", [list, lambda v: np.array(v, dtype=object)])
def test_missing_ids_of_every_kind_are_named(missing, container):
    with pytest.raises(InvalidInputError, match="row 2 has none"):
        Queries.from_qid(container([1, 2, missing, 1]))


def test_missing_ids_of_pandas_columns_are_named():
    for values, dtype in [([1, None], "Int64"), (["a", None], "string")]:
        with pytest.raises(InvalidInputError, match="row 1 has none"):
            Queries.from_qid(pd.Series(values, dtype=dtype))


def test_large_integers_stay_distinct():
    ids = [-1, 2**63, 2**63 + 1, 2**63]
    queries = Queries.from_qid(ids)
    assert queries.ids.tolist() == ids[:3]
    assert queries.index.tolist() == [0, 1, 2, 1]


def test_no_ids_are_no_queries():
    assert Queries.from_qid([]).n_queries == 0
    with pytest.raises(InvalidInputError, match="X has 3 rows, qid has 0"):
        Queries.of([], 3)


def test_ids_must_be_hashable():
    with pytest.raises(InvalidInputError, match="can be hashed.*unhashable type: 'dict'"):
        Queries.from_qid([{}, {}])
