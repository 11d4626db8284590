import os
import stat
import threading

import pytest

from rankwise.io.files import replacing


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


def test_link_is_followed(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("old")
    link.symlink_to(path)
    with replacing(link) as new:
        new.write_text("new")
    assert link.is_symlink()
    assert path.read_text() == "new"


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
