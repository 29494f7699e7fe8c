"""Writing the data file and raw files: never half there, on any disk, however they are ended."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import ENVIRONMENT, INPUTS, in_subprocess, leftovers, workload

from simgen.errors import MissingError, SimgenError, UsageError
from simgen.ground.ir import Distribution, Fill, TensorSpec
from simgen.ground.storage.files import PART
from simgen.tensors import block_io
from simgen.tensors.data_file import write_data, write_raw
from simgen.tensors.random_values import BLOCK, generate


@pytest.fixture(name="path")
def data_path(tmp_path):
    path = tmp_path / "data.h5"
    write_data(path, workload())
    return path


# Failures while writing


def test_an_input_that_cannot_be_generated_is_refused(tmp_path):
    empty = replace(INPUTS[1], fill=Fill(Distribution.UNIFORM, 2.0, 1.0))
    with pytest.raises(UsageError, match=r"conv1\.b: "):
        write_data(tmp_path / "data.h5", workload((empty,)))
    for broken in (replace(INPUTS[1], fill=None), replace(INPUTS[1], name="a/b")):
        with pytest.raises(SimgenError, match="cannot be a dataset"):
            write_data(tmp_path / "data.h5", workload((broken,)))
    assert leftovers(tmp_path) == []


def test_a_disk_that_is_too_small_is_seen_before_writing(tmp_path, monkeypatch):
    usage = block_io.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(block_io.shutil, "disk_usage", lambda _: usage._replace(free=4096))
    with pytest.raises(MissingError, match="needs 8000 bytes of disk, 4096 are free; make room"):
        write_raw(tmp_path / "new" / "mmap.bin", 8000, 1)
    with pytest.raises(MissingError, match="4096 are free"):
        write_data(tmp_path / "data.h5", workload())
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_leaves_the_old_file(path, monkeypatch, code):
    before = path.read_bytes()

    def pwrite(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(block_io.os, "pwrite", pwrite)
    with pytest.raises(MissingError, match="are free; make room"):
        write_data(path, workload(seed=12))
    assert path.read_bytes() == before
    assert leftovers(path.parent) == [path.name]


CALLS = {"data": "write_data(path, workload())", "raw": "write_raw(path, 2**22, 1)"}
WRITE = """
import sys
from itertools import pairwise
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from data_files import workload
from simgen.tensors.data_file import write_data, write_raw
from simgen.errors import SimgenError
path = Path(sys.argv[2])
try:
    %s
except SimgenError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("limit", [0, 20_000, 1_000_000])
def test_a_file_size_limit_is_one_clear_error(tmp_path, call, limit):
    def limit_file_size():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    code = WRITE % CALLS[call]
    arguments = (Path(__file__).parent, tmp_path / "file")
    options = {"stdout": subprocess.PIPE, "preexec_fn": limit_file_size}
    with in_subprocess(
        "import sys; sys.dont_write_bytecode = True" + code, *arguments, **options
    ) as p:
        message = p.communicate()[0]
    assert (p.returncode, message.count("\n")) == (3, 1)
    assert "more than a file may have here; raise the limit" in message
    assert leftovers(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize("call", CALLS)
def test_a_small_disk_is_one_clear_error(tmp_path, call):
    """A real full disk; shutil.disk_usage lies, so that the early check does not help."""
    code = "import shutil, types\nshutil.disk_usage = lambda _: types.SimpleNamespace(free=2**40)\n"
    command = (
        'mount -t tmpfs -o size=1m none "$D" || exit 77; "$@"; code=$?; ls -A "$D"; exit $code'
    )
    inner = [sys.executable, "-c", code + WRITE % CALLS[call], Path(__file__).parent]
    finished = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, "sh", *inner, tmp_path / "file"],
        env={**ENVIRONMENT, "D": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode == 77 or "unshare failed" in finished.stderr:
        pytest.skip("this machine does not let root mount")
    assert finished.returncode == 3, finished.stderr
    assert finished.stdout.count("\n") == 1  # the message, and an empty folder
    assert "bytes of disk" in finished.stdout


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupted_call_leaves_nothing(tmp_path, call):
    def interrupt(done, total):
        raise KeyboardInterrupt

    write = {
        "data": lambda path: write_data(path, workload(), progress=interrupt),
        "raw": lambda path: write_raw(path, 2**22, 1, progress=interrupt),
    }
    with pytest.raises(KeyboardInterrupt):
        write[call](tmp_path / "file")
    assert leftovers(tmp_path) == []


def test_a_killed_writer_leaves_no_file_under_the_good_name(tmp_path):
    code = (
        "import sys, time; from pathlib import Path\n"
        "from simgen.tensors.data_file import write_raw\n"
        "def report(done, total): print(done, flush=True); time.sleep(3600)\n"
        "write_raw(Path(sys.argv[1]), 2**23, 1, progress=report)"
    )
    with in_subprocess(code, tmp_path / "mmap.bin", stdout=subprocess.PIPE) as process:
        assert int(process.stdout.readline()) > 0  # it is in the middle of writing
        process.kill()
    assert process.returncode == -signal.SIGKILL
    (left,) = leftovers(tmp_path)
    assert left.startswith(PART)


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    write_raw(tmp_path / "file", 4, 1)
    for path in (tmp_path / "file" / "mmap.bin", tmp_path / "folder"):
        with pytest.raises(UsageError, match=r"cannot be written .*; choose another place"):
            write_raw(path, 4, 1, progress=lambda *_: pytest.fail("wrote before it looked"))
    assert leftovers(tmp_path) == ["file", "folder"]


# Raw files


@pytest.mark.parametrize("count", [1, 3, 1024, BLOCK, 2 * BLOCK + 1025])
def test_raw_files_hold_the_generators_values(tmp_path, count):
    path = tmp_path / "mmap.bin"
    write_raw(path, 4 * count, 9)
    fill = Fill(Distribution.UNIFORM, 0.0, 1.0)
    assert np.array_equal(np.fromfile(path, "<f4"), generate("raw", TensorSpec((count,)), fill, 9))


def test_raw_files_do_not_depend_on_threads(tmp_path):
    for threads in (1, 2, 7):
        write_raw(tmp_path / f"{threads}", 4 * (5 * BLOCK + 3), 9, threads=threads)
    assert len({p.read_bytes() for p in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize("nbytes", [0, -4, 6])
def test_raw_files_are_whole_numbers_of_floats(tmp_path, nbytes):
    with pytest.raises(UsageError, match="give a positive multiple of 4"):
        write_raw(tmp_path / "mmap.bin", nbytes, 1)
    assert leftovers(tmp_path) == []


def test_file_systems_without_direct_writes_or_reservation_work(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "no")

    direct = tmp_path / "direct"
    write_raw(direct, 2**21 + 40, 1)
    monkeypatch.setattr(block_io.os, "posix_fallocate", refuse)
    monkeypatch.delattr(block_io.os, "O_DIRECT")
    write_raw(tmp_path / "cached", 2**21 + 40, 1)
    assert (tmp_path / "cached").read_bytes() == direct.read_bytes()


def test_short_writes_are_finished(tmp_path, monkeypatch):
    """A system may write less than asked; 5000 bytes are also no size for a direct write."""
    pwrite = os.pwrite
    write_raw(tmp_path / "whole", 2**20 + 40, 1)
    monkeypatch.setattr(block_io.os, "pwrite", lambda fd, what, at: pwrite(fd, what[:5000], at))
    write_raw(tmp_path / "short", 2**20 + 40, 1)
    assert (tmp_path / "short").read_bytes() == (tmp_path / "whole").read_bytes()


def test_progress_ends_with_all_bytes(tmp_path):
    calls = []
    write_raw(tmp_path / "a", 4 * (3 * BLOCK + 5), 1, progress=lambda *call: calls.append(call))
    done, totals = zip(*calls, strict=True)
    assert set(totals) == {4 * (3 * BLOCK + 5)}
    assert list(done) == sorted(done)
    assert done[-1] == totals[0]


def test_memory_does_not_grow_with_the_file(tmp_path):
    code = (
        "import json, resource, sys; from pathlib import Path\n"
        "from simgen.tensors.data_file import write_raw\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "write_raw(Path(sys.argv[1]), 2**23, 1, threads=4); small = peak()\n"
        "write_raw(Path(sys.argv[1]), 2**28, 1, threads=4); print(json.dumps([small, peak()]))"
    )
    with in_subprocess(code, tmp_path / "a", stdout=subprocess.PIPE) as process:
        small, large = json.loads(process.communicate()[0])
    assert large - small < 64 * 1024  # KiB, for a file that is 248 MiB larger
