import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from problems import problem
from rankwise.core.errors import InvalidInputError
from rankwise.io.svmlight import iter_svmlight, read_svmlight, write_svmlight
from reference import svmlight_items

SUFFIXES = ["", ".gz", ".xz", ".bz2"]
FAST = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

finite = st.floats(allow_nan=False, allow_infinity=False)
blanks = st.text(" \t", max_size=2)


def bits(values):
    return np.asarray(values, dtype=np.float64).view(np.uint64).tolist()


def read_text(path, text, **options):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_svmlight(path, **options)


@st.composite
def tables(draw):
    n_items, n_features = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    X = draw(hnp.arrays(np.float64, (n_items, n_features), elements=finite))
    y = draw(hnp.arrays(np.float64, n_items, elements=finite))
    return X, y


@FAST
@given(tables(), st.sampled_from(SUFFIXES), st.booleans())
def test_dense_tables_are_read_back_bit_for_bit(tmp_path, table, suffix, zero_based):
    X, y = table
    path = tmp_path / f"a.txt{suffix}"
    write_svmlight(path, X, y, zero_based=zero_based)
    data = read_svmlight(path)
    assert isinstance(data.X, np.ndarray)
    assert data.X.shape == X.shape
    assert bits(data.X) == bits(X)
    assert bits(data.y) == bits(y)
    assert data.qid is None
    assert data.comments is None


@FAST
@given(tables(), st.randoms(use_true_random=False))
def test_stored_entries_of_sparse_tables_are_read_back_bit_for_bit(tmp_path, table, random):
    X, y = table
    kept = [[random.random() < 0.3 for _ in row] for row in X]
    rows, columns = np.nonzero(kept)
    S = sparse.coo_array((X[rows, columns], (rows, columns)), shape=X.shape).tocsr()
    write_svmlight(tmp_path / "a.txt", S, y)
    data = read_svmlight(tmp_path / "a.txt", n_features=X.shape[1], dense=False)
    assert isinstance(data.X, sparse.csr_array)
    assert data.X.shape == S.shape
    assert data.X.indptr.tolist() == S.indptr.tolist()
    assert data.X.indices.tolist() == S.indices.tolist()
    assert bits(data.X.data) == bits(S.data)


ids = st.integers(-(10**18) + 1, 10**18 - 1) | st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="#"), min_size=1
)
remarks = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"))


@FAST
@given(st.lists(st.tuples(ids, remarks), min_size=1))
def test_any_ids_and_comments_are_read_back(tmp_path, rows):
    qid, comments = [row[0] for row in rows], [row[1] for row in rows]
    write_svmlight(
        tmp_path / "a.txt",
        np.ones((len(rows), 1)),
        np.zeros(len(rows)),
        np.array(qid, dtype=object),
        comments,
    )
    data = read_svmlight(tmp_path / "a.txt")
    assert [str(query) for query in data.qid.tolist()] == [str(query) for query in qid]
    stripped = ["" if not comment.strip() else comment.strip(" \t") for comment in comments]
    assert (data.comments or [""] * len(rows)) == stripped


@st.composite
def lines(draw, with_qid):
    if draw(st.integers(0, 4)) == 0:
        return draw(blanks) + draw(st.sampled_from(["", "# only a remark", "#"]))
    number = finite.map(repr) | st.sampled_from(["1", "-2", "+3", ".5", "7.", "1E3", "2e-4", "0"])
    features = draw(st.lists(st.integers(0, 30), unique=True, max_size=6))
    parts = [draw(number)]
    parts += [f"qid:{draw(st.integers(0, 9))}"] if with_qid else []
    parts += [f"{feature}:{draw(number)}" for feature in features]
    text = draw(blanks) + draw(st.sampled_from([" ", "\t", "  "])).join(parts) + draw(blanks)
    return text + draw(st.sampled_from(["", "#", "# hé # 1:2", "#docid = GX:1 "]))


@FAST
@given(st.booleans(), st.sampled_from(["\n", "\r\n"]), st.data())
def test_reader_agrees_with_splitting_the_text(tmp_path, with_qid, newline, data):
    rows = ["1 qid:5 0:1" if with_qid else "1 0:1", *data.draw(st.lists(lines(with_qid)))]
    text = newline.join(rows) + data.draw(st.sampled_from(["", newline]))
    found = read_text(tmp_path / "a.txt", text, dense=True, n_features=31)
    items = svmlight_items(text)
    X = np.zeros((len(items), 31))
    for row, (_, _, features, _) in enumerate(items):
        X[row, list(features)] = list(features.values())
    assert bits(found.X) == bits(X)
    assert bits(found.y) == bits([item[0] for item in items])
    if with_qid:
        assert found.qid.tolist() == [int(item[1]) for item in items]
    assert (found.comments or [""] * len(items)) == [item[3] for item in items]


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("zero_based", [True, False])
def test_agrees_with_scikit_learn_both_ways(tmp_path, dense, zero_based):
    given = problem(seed=1, grades=None)
    X = given.X * (given.X > -0.5)
    theirs, ours = tmp_path / "theirs.txt", tmp_path / "ours.txt"
    dump_svmlight_file(X, given.y, str(theirs), query_id=given.qid, zero_based=zero_based)
    X_theirs, y_theirs, qid_theirs = load_svmlight_file(
        str(theirs), n_features=3, query_id=True, zero_based=zero_based
    )
    data = read_svmlight(theirs, n_features=3, dense=dense, zero_based=zero_based)
    X_ours = data.X if dense else data.X.toarray()
    np.testing.assert_array_equal(X_ours, X_theirs.toarray())
    np.testing.assert_array_equal(data.y, y_theirs)
    np.testing.assert_array_equal(data.qid, qid_theirs)

    write_svmlight(ours, X if dense else sparse.csr_array(X), given.y, given.qid)
    X_back, y_back, qid_back = load_svmlight_file(str(ours), n_features=3, query_id=True)
    np.testing.assert_array_equal(X_back.toarray(), X)
    np.testing.assert_array_equal(y_back, given.y)
    np.testing.assert_array_equal(qid_back, given.qid)


def test_more_than_half_of_the_entries_make_a_dense_array(tmp_path):
    half = "1 1:1 2:0\n1 3:1 4:0\n"
    assert sparse.issparse(read_text(tmp_path / "a.txt", half).X)
    more = "1 1:1 2:0\n1 2:5 3:1 4:0\n"
    assert isinstance(read_text(tmp_path / "a.txt", more).X, np.ndarray)
    assert isinstance(read_text(tmp_path / "a.txt", half, dense=True).X, np.ndarray)
    assert sparse.issparse(read_text(tmp_path / "a.txt", more, dense=False).X)


def test_features_in_any_order_are_sorted(tmp_path):
    data = read_text(tmp_path / "a.txt", "1 3:0.3 1:0.1 2:0.2\n2 1:1 2:2 3:3\n", dense=False)
    assert data.X.indices.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.X.data.tolist() == [0.1, 0.2, 0.3, 1.0, 2.0, 3.0]


def test_zero_among_the_features_makes_them_zero_based(tmp_path):
    path = tmp_path / "a.txt"
    assert read_text(path, "1 1:5\n2 0:6\n").n_features == 2
    assert read_text(path, "1 1:5\n2 2:6\n").n_features == 2
    assert read_text(path, "1 1:5\n2 2:6\n", zero_based=True).n_features == 3


def test_ids_that_would_become_equal_as_numbers_stay_strings(tmp_path):
    for ids in [["7", "07"], ["7", "+7"], ["0", "-0"], ["7", "a"], ["1", "9" * 19], ["1", "-"]]:
        text = "".join(f"1 qid:{query} 1:1\n" for query in ids)
        assert read_text(tmp_path / "a.txt", text).qid.tolist() == ids
    data = read_text(tmp_path / "a.txt", "1 qid:-3 1:1\n1 qid:0 1:1\n1 qid:12 1:1\n")
    assert data.qid.dtype == np.int64
    assert data.qid.tolist() == [-3, 0, 12]


def test_long_numbers_are_read_as_float_does(tmp_path):
    third, pi = "0." + "3" * 40, "3.14159265358979323846264338327950288"
    data = read_text(tmp_path / "a.txt", f"{pi} 2:{third} 1:{pi}\n0 1:1 2:{third}\n")
    assert data.y.tolist() == [float(pi), 0.0]
    assert data.X.tolist() == [[float(pi), float(third)], [1.0, float(third)]]


def test_items_without_features_have_zeros(tmp_path):
    data = read_text(tmp_path / "a.txt", "1 qid:1\n2 qid:1 # nothing\n")
    assert data.X.shape == (2, 0)
    data = read_text(tmp_path / "a.txt", "1\n2 1:3\n", n_features=2, dense=True)
    assert data.X.tolist() == [[0.0, 0.0], [3.0, 0.0]]


def test_single_precision_is_the_rounded_double(tmp_path):
    for dense in [True, False]:
        data = read_text(tmp_path / "a.txt", "0.1 1:0.1 2:1e-50\n", dtype=np.float32, dense=dense)
        assert data.X.dtype == np.float32
        values = data.X if dense else data.X.data
        assert values.ravel().tolist() == [np.float32(0.1), 0.0]
        assert data.y.tolist() == [0.1]


def test_single_precision_limits_the_features_alone(tmp_path):
    text = f"1e300 1:1\n{'1' * 40}.5 1:2\n"
    data = read_text(tmp_path / "a.txt", text, dtype=np.float32)
    assert data.y.tolist() == [1e300, float("1" * 40 + ".5")]


def test_single_precision_table_is_read_back_bit_for_bit(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    write_svmlight(tmp_path / "a.txt", X, np.zeros(5))
    np.testing.assert_array_equal(read_svmlight(tmp_path / "a.txt", dtype=np.float32).X, X)


def test_byte_order_mark_and_foreign_bytes_are_no_obstacle(tmp_path):
    data = read_text(tmp_path / "a.txt", b"\xef\xbb\xbf1 qid:1 1:2 # caf\xe9\n")
    assert data.comments == ["caf\\xe9"]
    for chunk_bytes in range(1, 6):
        [chunk] = iter_svmlight(tmp_path / "a.txt", chunk_bytes=chunk_bytes)
        assert chunk.y.tolist() == [1.0]


def test_comments_may_be_skipped(tmp_path):
    assert read_text(tmp_path / "a.txt", "1 1:2 # x\n", comments="skip").comments is None


def test_repeated_entries_of_a_sparse_table_are_summed_and_the_table_left_alone(tmp_path):
    S = sparse.csr_array((np.array([1.0, 2.0, 4.0]), [1, 1, 0], [0, 3]), shape=(1, 2))
    write_svmlight(tmp_path / "a.txt", S, [0])
    assert (tmp_path / "a.txt").read_text() == "0 1:4 2:3\n"
    assert S.nnz == 3


def test_interrupted_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.txt.gz"
    write_svmlight(path, [[1.0]], [1.0])
    old = path.read_bytes()
    lone_surrogate = "\ud800"  # cannot be encoded, which shows after the first line is written
    with pytest.raises(UnicodeEncodeError):
        write_svmlight(path, [[1.0], [2.0]], [1.0, 2.0], comments=["fine", lone_surrogate])
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1.0]), "`X` must have two dimensions: got shape"),
        (([[np.nan]], [1.0]), "`X` must be finite"),
        ((sparse.csr_array([[np.inf]]), [1.0]), "`X` must be finite"),
        (([[1.0]], [1.0, 2.0]), "`y` must have one entry per row of `X`: X has 1 rows"),
        (([[1.0]], [np.inf]), "`y` must be finite"),
        (([[1.0]], [1.0], [1, 2]), "`qid` must have one entry per row of `X`: X has 1 rows"),
        (([[1.0]], [1.0], ["a b"]), "`qid` must not be empty or contain blanks or '#'"),
        (([[1.0]], [1.0], ["a#b"]), "got 'a#b'"),
        (([[1.0]], [1.0], [""]), "got ''"),
        (([[1.0]], [1.0], None, ["a", "b"]), "`comments` must have one entry per row"),
        (([[1.0]], [1.0], None, ["a\nb"]), "`comments` must not hold line breaks"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        write_svmlight(tmp_path / "a.txt", *arguments)
    assert list(tmp_path.iterdir()) == []
