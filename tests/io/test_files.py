"""Files are opened by their suffix, compressed or not, and written all or nothing."""

import bz2
import gzip
import lzma
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from rankwise.core.errors import DataFileError
from rankwise.io import files
from rankwise.io.files import (
    format_suffix,
    is_stream,
    open_read,
    open_write,
    refuse_stream,
    refuse_unwritable,
    replacing,
)
from systems import needs_named_pipes, needs_unix

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


def test_file_appears_only_when_the_block_ends_well(tmp_path):
    path = tmp_path / "a.txt"
    with replacing(path) as new:
        new.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt, SystemExit])
def test_interrupted_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path, interruption):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_half():
        with replacing(path) as new:
            new.write_text("half of the n")
            raise interruption

    with pytest.raises(interruption):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_failed_rename_keeps_the_old_file_and_leaves_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def refuse(source, target):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no room"), replacing(path) as new:
        new.write_text("new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_block_may_remove_the_new_file_before_it_fails(tmp_path):
    def remove():
        with replacing(tmp_path / "a.txt") as new:
            new.unlink()
            raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        remove()
    assert list(tmp_path.iterdir()) == []


@needs_unix
def test_new_file_has_the_usual_permissions_and_a_replaced_one_its_own(tmp_path):
    usual, path = tmp_path / "usual.txt", tmp_path / "a.txt"
    usual.write_text("")
    with replacing(path) as new:
        new.write_text("1")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)
    path.chmod(0o600)
    with replacing(path) as new:
        new.write_text("2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@needs_unix
def test_link_is_followed(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("old")
    link.symlink_to(path)
    with replacing(link) as new:
        new.write_text("new")
    assert link.is_symlink()
    assert path.read_text() == "new"


@needs_named_pipes
def test_pipe_is_written_in_place(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_text()))
    reader.start()
    with replacing(path) as new:
        new.write_text("through")
    reader.join()
    assert received == ["through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_missing_folder_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "no" / "a.txt"):
        pass


@needs_named_pipes
def test_a_writer_that_replaces_its_file_does_not_replace_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    with replacing(path) as new:
        (new.parent / "other").write_bytes(CONTENT)
        (new.parent / "other").replace(new)
    reader.join()
    assert received == [CONTENT]
    assert is_stream(path)
    assert list(tmp_path.iterdir()) == [path]


@needs_unix
def test_standard_output_is_written_through(tmp_path):
    code = (
        "from rankwise.io.files import replacing\n"
        "with replacing('/dev/stdout') as new: new.write_text('through')\n"
    )
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert piped.stdout == b"through"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_bytes() == b"through"


@needs_unix
@pytest.mark.parametrize("kill", ["SIGKILL", "SIGTERM"])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, kill):
    path, number = tmp_path / "a.txt", getattr(signal, kill).value
    code = (
        "import os, sys\n"
        "from rankwise.io.files import replacing\n"
        "with replacing(sys.argv[1]) as new:\n"
        "    new.write_text('half')\n"
        "    os.kill(os.getpid(), int(sys.argv[2]))\n"
        "    import time; time.sleep(60)\n"
    )
    for name in (path, tmp_path / "b.txt"):
        ended = subprocess.run([sys.executable, "-c", code, name, str(number)], check=False)
        assert ended.returncode == -number
    assert len(list(tmp_path.iterdir())) == 2
    with replacing(path) as new, replacing(path) as other:  # of a running process: left alone
        assert new.exists()
        other.write_text("other")
        new.write_text("new")
    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left[1] == "a.txt"
    assert left[0].startswith(".b.txt.")
    assert len(left) == 2
    assert path.read_text() == "new"


def test_folders_that_cannot_be_written_are_noticed_before(tmp_path, monkeypatch):
    refuse_unwritable(tmp_path / "a.txt")
    with pytest.raises(IsADirectoryError):
        refuse_unwritable(tmp_path)
    with pytest.raises(FileNotFoundError):
        refuse_unwritable(tmp_path / "no" / "a.txt")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(PermissionError, match=tmp_path.name):
        refuse_unwritable(tmp_path / "a.txt")
    with pytest.raises(PermissionError, match=tmp_path.name), replacing(tmp_path / "a.txt"):
        pass
    assert list(tmp_path.iterdir()) == []


@needs_named_pipes
def test_pipes_are_refused_where_a_file_is_read_twice(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataFileError, match="pipe: expected a file to be read twice, .* a pipe"):
        refuse_stream(tmp_path / "pipe", "be read twice")
    refuse_stream(tmp_path / "none", "be read twice")
    (tmp_path / "file").touch()
    refuse_stream(tmp_path / "file", "be read twice")


@pytest.mark.skipif(sys.platform == "win32", reason="this pretends to be there")
@pytest.mark.parametrize(
    ("handle", "waited", "error", "expected"),
    [(7, 0x102, 0, True), (7, 0, 0, False), (None, 0, 87, False), (None, 0, 5, True)],
    ids=["runs", "has ended", "unknown", "of another user"],
)
def test_windows_is_asked_about_a_process_without_a_signal(
    monkeypatch, handle, waited, error, expected
):
    """There ``os.kill(process, 0)`` sends Ctrl-C to a whole console, or ends the process."""
    closed = []

    class Kernel:
        OpenProcess = staticmethod(FakeCall(lambda *_: handle))
        WaitForSingleObject = staticmethod(lambda *_: waited)
        CloseHandle = staticmethod(lambda handle: closed.append(handle.value))

    monkeypatch.setattr(files.sys, "platform", "win32")
    monkeypatch.setattr(files.os, "kill", lambda *_: pytest.fail("a signal was sent"))
    monkeypatch.setattr(files.ctypes, "WinDLL", lambda *_, **__: Kernel, raising=False)
    monkeypatch.setattr(files.ctypes, "get_last_error", lambda: error, raising=False)
    assert files._is_running(1234) is expected
    assert not files._is_running(1 << 40)
    assert closed == ([] if handle is None else [handle])


class FakeCall:
    """A function of a library, whose type of result can be set."""

    def __init__(self, call):
        self.call = call

    def __call__(self, *arguments):
        return self.call(*arguments)


def test_processes_are_known_by_their_numbers():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert files._is_running(os.getpid())
    assert not files._is_running(ended.pid)
