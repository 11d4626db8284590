import json
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import save_file

import rankwise
from rankwise.core.errors import InvalidInputError, ModelFileError
from rankwise.io import model_file
from rankwise.io.model_file import FORMAT, read_model, write_model
from systems import needs_named_pipes, needs_unix

FAST = settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "U1", "U5", ">f8"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    )
)


def written(path, metadata=None, **given):
    write_model(path, metadata or {}, given)
    return read_model(path)


@FAST
@given(st.dictionaries(st.text(), json_values), st.dictionaries(st.text(max_size=8), arrays))
@example({"alpha": 0.1, "kernel": None}, {"coef": np.zeros((0, 3)), "empty": np.array("")})
def test_models_are_read_back_exactly(tmp_path, metadata, contents):
    contents.pop("__metadata__", None)
    write_model(tmp_path / "a.model", metadata, contents)
    metadata_back, contents_back = read_model(tmp_path / "a.model")
    assert metadata_back == metadata
    assert list(contents_back) == list(contents)
    for name, array in contents.items():
        back = contents_back[name]
        assert back.dtype == array.dtype.newbyteorder("=")
        assert back.shape == array.shape
        assert back.tobytes() == array.astype(back.dtype).tobytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda A: A.T,
        lambda A: A[::2, ::-1],
        np.asfortranarray,
        lambda A: np.broadcast_to(A[0], (4, 6)),
        lambda A: A[:, 1],
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "U3"])
def test_strided_arrays_keep_their_values(tmp_path, view, dtype):
    A = view(np.arange(24).reshape(4, 6).astype(dtype))
    np.testing.assert_array_equal(written(tmp_path / "a", A=A)[1]["A"], A)


def test_lists_and_tuples_are_taken_as_arrays_and_lists(tmp_path):
    metadata, contents = written(tmp_path / "a", {"range": (1, 2)}, coef=[1.0, 2.0])
    assert metadata == {"range": [1, 2]}
    assert contents["coef"].tolist() == [1.0, 2.0]


def test_same_model_gives_the_same_bytes(tmp_path):
    for name in "ab":
        write_model(tmp_path / name, {"k": [1, 2], "z": 0}, {"w": np.ones(3), "v": np.ones(2)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_file_is_plain_safetensors_with_its_format_and_version(tmp_path):
    write_model(tmp_path / "a", {"alpha": 2.0}, {"w": np.arange(3.0)})
    with safe_open(tmp_path / "a", "numpy") as file:
        document = json.loads(file.metadata()["rankwise-model"])
        np.testing.assert_array_equal(file.get_tensor("w"), np.arange(3.0))
    assert document["format_version"] == 1
    assert document["rankwise_version"] == rankwise.__version__
    assert document["metadata"] == {"alpha": 2.0}


def test_any_damaged_byte_is_noticed(tmp_path):
    path = tmp_path / "a.model"
    write_model(path, {"alpha": 0.25}, {"w": np.arange(3.0), "names": np.array(["a", "bc"])})
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"a\.model: expected"):
            read_model(path)


def test_any_cut_or_addition_is_noticed(tmp_path):
    path = tmp_path / "a.model"
    write_model(path, {}, {"w": np.arange(3.0)})
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(ModelFileError, match="damaged or cut short"):
            read_model(path)
    path.write_bytes(content + b"x")
    with pytest.raises(ModelFileError, match="damaged or cut short"):
        read_model(path)


class Malice:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"coef": [1, 2]}),
        pickle.dumps(Malice()),
        b"tree\nversion=v4\nnum_class=1\n",
        b'{"learner": {}}',
        b"PK\x03\x04 a zip file",
    ],
)
def test_files_of_other_formats_are_refused(tmp_path, content):
    path = tmp_path / "a.model"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="expected a model saved by rankwise, got a file of"):
        read_model(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_safetensors_of_other_programs_are_refused(tmp_path, metadata):
    save_file({"w": np.ones(2)}, tmp_path / "a", metadata=metadata)
    with pytest.raises(ModelFileError, match="got a safetensors file of another program"):
        read_model(tmp_path / "a")


def rewritten(path, tensors=None, text=None, **changes):
    """Write a model whose document differs from a good one, with a checksum that fits."""
    tensors = {"w": np.ones(2)} if tensors is None else tensors
    document = {
        "format_version": 1,
        "rankwise_version": "0.1.0",
        "metadata": {},
        "dtypes": {name: tensor.dtype.str for name, tensor in tensors.items()},
    } | changes
    document["sha256"] = model_file._checksum(document, tensors)
    save_file(tensors, path, metadata={FORMAT: json.dumps(document) if text is None else text})


def test_later_format_asks_for_an_update(tmp_path):
    rewritten(tmp_path / "a", format_version=2, rankwise_version="9.0")
    message = r"of format 1 or earlier, got format 2 of rankwise 9\.0\. Update rankwise"
    with pytest.raises(ModelFileError, match=message):
        read_model(tmp_path / "a")


def test_wrong_checksum_is_noticed(tmp_path):
    rewritten(tmp_path / "a", text=json.dumps({"format_version": 1, "sha256": "0" * 64}))
    with pytest.raises(ModelFileError, match="its checksum differs"):
        read_model(tmp_path / "a")


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "[1]"},
        {"text": "{"},
        {"text": "{}"},
        {"format_version": "1"},
        {"dtypes": {"w": "<f4"}},
        {"dtypes": {"w": "|O"}},
        {"dtypes": {"w": "<U2"}},
        {"dtypes": {"w": "no such type"}},
        {"dtypes": {"v": "<f8"}},
        {"dtypes": ["w"]},
        {"dtypes": {}},
        {"dtypes": {"w": "f8,f8"}},
        {"metadata": [1]},
        {"format_version": True},
        {"text": "[" * 100_000},
        {"tensors": {"w": np.full((1, 2), 0x110000, np.uint32)}, "dtypes": {"w": "<U2"}},
        {"tensors": {"w": np.full((1, 2), 65, np.uint32)}, "dtypes": {"w": "<U3"}},
    ],
)
def test_documents_that_make_no_sense_are_refused(tmp_path, changes):
    rewritten(tmp_path / "a")
    assert read_model(tmp_path / "a")[1]["w"].tolist() == [1.0, 1.0]
    rewritten(tmp_path / "a", **changes)
    with pytest.raises(ModelFileError, match="damaged or cut short"):
        read_model(tmp_path / "a")


def test_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "none.model")


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array([1j]), np.zeros(2, np.longdouble)]
)
def test_arrays_of_other_types_are_refused(tmp_path, array):
    with pytest.raises(InvalidInputError, match="`arrays` must hold booleans, .*: 'w' has dtype"):
        write_model(tmp_path / "a", {}, {"w": array})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": {1, 2}}, {1: 0, "b": 0}])
def test_metadata_that_json_cannot_hold_are_refused(tmp_path, metadata):
    with pytest.raises(InvalidInputError, match="`metadata` must be representable as JSON"):
        write_model(tmp_path / "a", metadata, {})
    assert list(tmp_path.iterdir()) == []


def test_model_that_does_not_read_back_never_replaces_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "a.model"
    write_model(path, {"version": "old"}, {"w": np.ones(2)})

    def save_wrongly(tensors, where, metadata):
        save_file({name: tensor + 1 for name, tensor in tensors.items()}, where, metadata)

    monkeypatch.setattr(model_file, "save_file", save_wrongly)
    with pytest.raises(ModelFileError, match="expected to read back what was written"):
        write_model(path, {"version": "new"}, {"w": np.ones(2)})
    assert read_model(path)[0] == {"version": "old"}
    assert list(tmp_path.iterdir()) == [path]


def test_name_that_the_format_keeps_for_itself_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="expected to read back what was written"):
        write_model(tmp_path / "a", {}, {"__metadata__": np.ones(2)})
    assert list(tmp_path.iterdir()) == []


def test_interrupted_write_keeps_the_old_model(tmp_path, monkeypatch):
    path = tmp_path / "a.model"
    write_model(path, {"version": "old"}, {})

    def stop(tensors, where, metadata):
        where.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(model_file, "save_file", stop)
    with pytest.raises(KeyboardInterrupt):
        write_model(path, {"version": "new"}, {})
    assert read_model(path)[0] == {"version": "old"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_usual_permissions(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    write_model(tmp_path / "m", {}, {"x": np.zeros(2)})
    assert (tmp_path / "m").stat().st_mode == plain.stat().st_mode


@needs_unix
def test_a_full_disk_is_the_systems_error_and_keeps_the_old_model(tmp_path):
    write_model(tmp_path / "m", {"version": "old"}, {})
    code = (
        "import resource, signal, sys\n"
        "import numpy as np\n"
        "from rankwise.io import write_model\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    write_model(sys.argv[1], {}, {'w': np.ones(10**5)})\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "m"], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "27\n"  # EFBIG, this test's stand-in for ENOSPC
    assert read_model(tmp_path / "m")[0] == {"version": "old"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


@needs_named_pipes
def test_models_go_through_pipes_and_are_not_read_from_them(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ModelFileError, match="got a pipe or a device"):
        read_model(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_model(pipe, {"a": 1}, {"w": np.ones(2)})
    reader.join()
    (tmp_path / "m").write_bytes(received[0])
    assert read_model(tmp_path / "m")[0] == {"a": 1}


def test_other_programs_read_what_is_written(tmp_path):
    tensors = {dtype: np.arange(6).reshape(2, 3).astype(dtype) for dtype in DTYPES[:12]}
    tensors |= {"empty": np.zeros((0, 4)), "number": np.array(3.0), "naïve": np.ones(1)}
    model_file.save_file(tensors, tmp_path / "ours", {"key": "value"})
    with safe_open(tmp_path / "ours", "numpy") as file:
        assert file.metadata() == {"key": "value"}
        assert set(file.keys()) == set(tensors)
        for name, tensor in tensors.items():
            found = file.get_tensor(name)
            assert found.dtype == tensor.dtype
            np.testing.assert_array_equal(found, tensor)
