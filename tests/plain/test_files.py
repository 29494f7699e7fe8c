"""Files and folders are there whole or not at all, and errors tell what was to be written."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simgen.ground.storage.files import (
    PART,
    SCRATCH,
    atomic_file,
    atomic_folder,
    read_regular,
    scratch_folder,
    write_atomic,
)


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_fills_up_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomic(path, b"new")
    assert caught.value.filename == str(path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("page.html", "old")]


@pytest.mark.parametrize("name", [None, "inner.et"])
def test_a_full_disk_is_told_with_the_name_of_the_folder(tmp_path, name):
    """Writing tells no name, and opening that of what is unfinished."""
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces/old").touch()
    with (
        pytest.raises(OSError, match="No space left") as caught,
        atomic_folder(tmp_path / "traces") as stage,
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name and str(stage / name))
    assert caught.value.filename == str(tmp_path / "traces")
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] == ["traces", "traces/old"]


def test_where_temporary_files_find_no_room_is_told(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught, scratch_folder("x", tmp_path):
        full()
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    def refuse(dir, prefix):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"{dir}/{prefix}x")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(PermissionError, match=r"page\.html") as caught:
        write_atomic(tmp_path / "page.html", b"new")
    assert PART not in str(caught.value)


def test_an_error_about_another_file_keeps_its_name(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"other\.txt"),
        atomic_file(tmp_path / "page.html"),
    ):
        (tmp_path / "other.txt").read_text()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("before", [None, {"a": "old", "b": "old"}])
def test_a_folder_takes_its_place_as_a_whole(tmp_path, before):
    home = tmp_path / "home"
    for name, text in (before or {}).items():
        home.mkdir(exist_ok=True)
        (home / name).write_text(text)
    with pytest.raises(IsADirectoryError), atomic_folder(home) as stage:
        stage.write_text("no file")
    assert home.exists() == bool(before)
    with atomic_folder(home) as stage:
        (stage / "a").write_text("new")
    assert [(p.name, p.read_text()) for p in home.iterdir()] == [("a", "new")]
    assert [p.name for p in tmp_path.iterdir()] == ["home"]


def test_without_a_system_call_that_swaps_names_folders_are_replaced_too(tmp_path, monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    for text in ("old", "new"):
        with atomic_folder(tmp_path / "home") as stage:
            (stage / text).write_text(text)
    assert os.listdir(tmp_path) == ["home"]
    assert os.listdir(tmp_path / "home") == ["new"]


def test_where_a_folder_cannot_be_named_the_old_one_stays(tmp_path, monkeypatch):
    rename = os.rename

    def broken(source, to):
        if Path(source).joinpath("new").exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, to)

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    home = tmp_path / "home"
    with atomic_folder(home) as stage:
        (stage / "old").write_text("")
    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(OSError, match="error"), atomic_folder(home) as stage:
        (stage / "new").write_text("")
    assert os.listdir(home) == ["old"]
    assert os.listdir(tmp_path) == ["home"]


def test_processes_that_write_one_folder_at_once_do_not_disturb_each_other(tmp_path):
    def write(text):
        for _ in range(50):
            with atomic_folder(tmp_path / "home") as stage:
                (stage / "x").write_text(text)

    def remove(_):
        for _ in range(50):
            shutil.rmtree(tmp_path / "home", ignore_errors=True)

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(write, "a"), pool.submit(write, "b"), pool.submit(remove, "")]
    for each in done:
        each.result()
    assert os.listdir(tmp_path) in ([], ["home"])


def replace_folder(path):
    with atomic_folder(path):
        pass


def test_only_what_dead_processes_of_this_machine_left_is_removed(tmp_path):
    here, dead = os.uname().nodename, 2**22 + 1  # more than a process number can be
    kept = [
        f"{PART}home-{here}-{os.getpid()}-abc", f"{PART}homes-x-99-abc", f"{PART}{here}-x-abc",
        f"{SCRATCH}other-{dead}-abc", "simgen-mine", f"mine-{here}-{dead}-abc",
    ]  # fmt: skip
    gone = [f"{PART}home-{here}-{dead}-abc", f"{PART}{here}-{dead}-abc.old"]
    gone += [f"{SCRATCH}compile-{here}-{dead}-abc", f"{PART}{here}-{dead}-abc"]
    for name in (*kept, *gone[:-1]):
        (tmp_path / name).mkdir()
    (tmp_path / gone[-1]).write_text("a file")
    with scratch_folder("test", tmp_path) as made:
        assert {*os.listdir(tmp_path)} == {*kept, made.name}
    assert {*os.listdir(tmp_path)} == {*kept}


@pytest.mark.parametrize("write", [lambda path: write_atomic(path, b"new"), replace_folder])
def test_writing_removes_what_killed_writers_left(tmp_path, write):
    left = tmp_path / f"{PART}{os.uname().nodename}-{2**22 + 1}-abc"
    left.touch()
    write(tmp_path / "new")
    assert os.listdir(tmp_path) == ["new"]


def test_a_file_of_just_the_size_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    assert read_regular(path, 4) == b"1234"
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_regular(path, 3)
