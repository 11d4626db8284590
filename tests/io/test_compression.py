import bz2
import gzip
import lzma

import pytest

from rankwise.core.errors import DataFileError
from rankwise.io.files import format_suffix, open_read, open_write

OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
COMPRESSED = [suffix for suffix in OPENERS if suffix]
CONTENT = bytes(range(256)) * 50


@pytest.mark.parametrize("suffix", OPENERS)
def test_other_programs_read_what_is_written_and_the_other_way_round(tmp_path, suffix):
    ours, theirs = tmp_path / f"ours{suffix}", tmp_path / f"theirs{suffix}"
    with open_write(ours) as stream:
        stream.write(CONTENT)
    with OPENERS[suffix](ours, "rb") as stream:
        assert stream.read() == CONTENT
    with OPENERS[suffix](theirs, "wb") as stream:
        stream.write(CONTENT)
    with open_read(theirs) as stream:
        assert stream.read() == CONTENT


@pytest.mark.parametrize("suffix", OPENERS)
def test_same_content_gives_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        with open_write(path) as stream:
            stream.write(CONTENT)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_file_cut_short_is_refused(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    with open_write(path) as stream:
        stream.write(CONTENT)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataFileError, match=f"a.txt{suffix}: expected a whole {suffix} file"):  # noqa: SIM117
        with open_read(path) as stream:
            stream.read()


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_file_that_is_not_compressed_is_refused(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"1 1:0.5\n" * 10)
    with pytest.raises(DataFileError, match="damaged or cut short"), open_read(path) as stream:
        stream.read()


def test_damaged_gzip_data_are_refused(tmp_path):
    path = tmp_path / "a.gz"
    damaged = bytearray(gzip.compress(CONTENT))
    damaged[15:40] = b"\xff" * 25
    path.write_bytes(damaged)
    with pytest.raises(DataFileError, match="damaged or cut short"), open_read(path) as stream:
        stream.read()


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_trouble_of_the_system_is_passed_on(tmp_path, suffix):
    with pytest.raises(FileNotFoundError), open_read(tmp_path / f"none{suffix}"):
        pass
    (tmp_path / f"a{suffix}").write_bytes(b"")
    with pytest.raises(BrokenPipeError), open_read(tmp_path / f"a{suffix}"):
        raise BrokenPipeError(32, "pipe closed")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.csv", ".csv"), ("a.CSV.GZ", ".csv"), ("b.a.txt.xz", ".txt"), ("a.gz", ""), ("a", "")],
)
def test_format_suffix_ignores_the_compression(name, suffix):
    assert format_suffix(name) == suffix
