"""The data file: same bytes every time, readable by header and by HDF5, never half there."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import struct
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest

from simgen import blocks
from simgen.data import (
    CANARY_NAME,
    canary_nbytes,
    data_id,
    is_current,
    load,
    read_header,
    verify,
    write_data,
    write_raw,
)
from simgen.errors import DamagedError, MissingError, SimgenError, UsageError
from simgen.files import PART
from simgen.ir import (
    CANARY,
    GUARD,
    PAGE,
    Buffer,
    Distribution,
    DType,
    Fill,
    Role,
    TensorSpec,
    Workload,
)
from simgen.random_values import BLOCK, generate

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
NORMAL = Fill(Distribution.NORMAL, 0.0, 0.5, high=1.0)
LABELS = Fill(Distribution.UNIFORM, 0.0, 10.0)
INPUTS = (  # one of more than a block, with a tail; one far smaller than a page
    Buffer("conv1.x", TensorSpec((3, 5, 137, 129)), Role.INPUT, 0, NORMAL),
    Buffer("conv1.b", TensorSpec((7, 1, 1, 1)), Role.INPUT, 2**22, NORMAL),
    Buffer("loss.labels", TensorSpec((100,), DType.I32), Role.INPUT, 2**23, LABELS),
)
OUTPUT = Buffer("conv1.y", TensorSpec((1, 3, 33, 33)), Role.OUTPUT, 2**24)


def workload(inputs=INPUTS, outputs=(OUTPUT,), seed=11):
    return Workload("conv1", seed, (), (*inputs, *outputs), (), (), 2**25, 2**24)


@pytest.fixture(name="path")
def data_path(tmp_path):
    path = tmp_path / "data.h5"
    write_data(path, workload())
    return path


def in_subprocess(code, *arguments, **options):
    """Run `code` with this checkout's simgen."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, text=True, **options)


def leftovers(folder):
    return sorted(p.name for p in folder.iterdir())


# The file's layout


def test_header_tells_what_was_written(path):
    header = read_header(path)
    assert header == write_data(path, workload()).header
    assert header.id == data_id(workload())
    assert header.file_nbytes == path.stat().st_size
    assert [e.nbytes for e in header.entries] == [
        *(b.spec.nbytes for b in INPUTS),
        canary_nbytes(workload()),
    ]


def test_header_has_the_launchers_layout(path):
    """Offsets as a C compiler lays out struct data_header of templates/launchers/system.h."""
    content = path.read_bytes()
    assert content[:8] == b"simgenD1"
    assert content[8:40] == data_id(workload())
    assert struct.unpack_from("<QQ", content, 40) == (len(content), 4)
    offset, nbytes = struct.unpack_from("<QQ", content, 56)
    values = np.frombuffer(content[offset : offset + nbytes], "<f4")
    assert np.array_equal(values, generate("conv1.x", INPUTS[0].spec, NORMAL, 11))


def test_datasets_start_on_pages_and_do_not_overlap(path):
    entries = sorted(read_header(path).entries, key=lambda e: e.offset)
    assert all(e.offset % PAGE == 0 for e in entries)
    assert all(a.offset + a.nbytes <= b.offset for a, b in pairwise(entries))


def test_the_header_of_many_tensors_fits_before_hdf5(tmp_path):
    """300 entries need more than one page of user block."""
    inputs = [replace(INPUTS[1], name=f"layer{i}.b", offset=i * 2 * PAGE) for i in range(300)]
    written = write_data(tmp_path / "data.h5", workload(inputs))
    with h5py.File(written.path) as file:
        assert file.userblock_size == 2 * PAGE
        assert len(file) == 301
    verify(written.path, workload(inputs))


def test_hdf5_reads_what_the_header_points_to(path):
    loaded = load(path, workload())
    with h5py.File(path) as file:
        assert set(file) == {b.name for b in INPUTS} | {CANARY_NAME}
        for b in INPUTS:
            assert file[b.name].shape == b.spec.shape
            assert file[b.name].dtype == b.spec.dtype.numpy
            assert file[b.name].chunks is None
            assert np.array_equal(file[b.name][...], loaded[b.name])


def test_attributes_tell_where_the_values_come_from(path):
    with h5py.File(path) as file:
        attributes = dict(file["conv1.x"].attrs)
    digest = attributes.pop("sha256")
    assert len(digest) == 64
    assert attributes == {
        "distribution": "normal",
        "mean": 0.0,
        "standard_deviation": 0.5,
        "lowered_to": 1.0,
        "generator": "philox-4x64-10/1",
        "seed": 11,
    }


def test_load_gives_the_generated_values_read_only(path):
    loaded = load(path, workload())
    assert list(loaded) == [b.name for b in INPUTS]
    for b in INPUTS:
        expected = generate(b.name, b.spec, b.fill, 11).reshape(b.spec.shape)
        assert np.array_equal(loaded[b.name], expected)
    with pytest.raises(ValueError, match="read-only"):
        loaded["conv1.b"][0] = 1


@pytest.mark.parametrize(
    ("shapes", "nbytes"),
    [
        ([], GUARD),
        ([(1,)], PAGE + GUARD),
        ([(1024,), (1025,)], 2 * PAGE + GUARD),
        ([(2**24,)], 2**22 + GUARD),
    ],
)
def test_canary_covers_the_largest_output_up_to_4_mib(tmp_path, shapes, nbytes):
    outputs = [
        Buffer(f"a.y{i}", TensorSpec(shape), Role.OUTPUT, 0) for i, shape in enumerate(shapes)
    ]
    made = workload(INPUTS[1:2], outputs)
    assert canary_nbytes(made) == nbytes
    write_data(tmp_path / "data.h5", made)
    with h5py.File(tmp_path / "data.h5") as file:
        assert file[CANARY_NAME].shape == (nbytes // 4,)
        assert np.all(file[CANARY_NAME][...] == CANARY)


# Identity


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_bytes_do_not_depend_on_threads_or_time(path, tmp_path, threads):
    again = tmp_path / "again.h5"
    write_data(again, workload(), threads=threads)
    assert again.read_bytes() == path.read_bytes()


def test_identity_covers_all_that_decides_the_values():
    x, *rest = INPUTS
    changed = [
        workload(seed=12),
        workload((replace(x, name="conv2.x"), *rest)),
        workload((replace(x, spec=TensorSpec((5, 3, 137, 129))), *rest)),
        workload((replace(x, fill=replace(NORMAL, high=None)), *rest)),
        workload((replace(x, fill=replace(NORMAL, b=0.25)), *rest)),
        workload(INPUTS[1:]),
        workload(INPUTS[::-1]),
        workload(outputs=(replace(OUTPUT, spec=TensorSpec((2, 3, 33, 33))),)),
    ]
    assert len({data_id(w) for w in [workload(), *changed]}) == len(changed) + 1


def test_identity_ignores_what_does_not():
    moved = workload([replace(b, offset=b.offset + PAGE) for b in INPUTS])
    whole = workload((replace(INPUTS[0], fill=replace(NORMAL, a=0)), *INPUTS[1:]))
    assert data_id(moved) == data_id(whole) == data_id(replace(workload(), name="other"))


def test_identity_is_known():
    """When this fails, data files that exist are made again: change _FORMAT on purpose only."""
    assert data_id(workload()).hex()[:16] == "1512ee11ec04e45d"


def test_is_current_knows_the_workload_and_a_whole_file(path):
    assert is_current(path, workload())
    assert not is_current(path, workload(seed=12))
    assert not is_current(path.with_name("none.h5"), workload())
    os.truncate(path, path.stat().st_size - 1)
    assert not is_current(path, workload())


def test_reading_the_header_imports_neither_numpy_nor_h5py(path):
    code = (
        "import sys; from pathlib import Path; from simgen.data import read_header;"
        "read_header(Path(sys.argv[1])); print(sorted({'numpy', 'h5py'} & set(sys.modules)))"
    )
    with in_subprocess(code, path, stdout=subprocess.PIPE) as process:
        assert process.communicate()[0] == "[]\n"


# Damage


def test_a_whole_file_verifies(path):
    verify(path, workload())


def test_a_user_may_replace_values_and_verify_says_so(path):
    with h5py.File(path, "r+") as file:
        file["conv1.b"][0] = 42
    assert is_current(path, workload())
    assert load(path, workload())["conv1.b"].flat[0] == 42
    with pytest.raises(DamagedError, match=r"dataset conv1\.b does not have the stored sha256"):
        verify(path, workload())


@pytest.mark.parametrize("entry", range(4))
@pytest.mark.parametrize("place", ["first", "last"])
def test_one_flipped_bit_is_found_in_any_dataset(path, entry, place):
    where = read_header(path).entries[entry]
    offset = where.offset + (0 if place == "first" else where.nbytes - 1)
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    name = [*(b.name for b in INPUTS), CANARY_NAME][entry]
    with pytest.raises(DamagedError, match=f"dataset {name} "):
        verify(path, workload())


@pytest.mark.parametrize("length", [0, 7, 55, 56, 100, PAGE, -1])
def test_a_cut_file_is_damaged(path, length):
    os.truncate(path, length % path.stat().st_size)
    with pytest.raises(DamagedError, match="build the bundle again"):
        read_header(path)


@pytest.mark.parametrize(
    ("offset", "patch", "fact"),
    [
        (0, b"SIMGEN", "not a simgen data file"),
        (40, struct.pack("<Q", 1), "bytes long where its header says 1"),
        (48, struct.pack("<Q", 2**60), "longer than the file"),
        (56, struct.pack("<Q", 17), "not on a page"),
        (64, struct.pack("<Q", 2**63), "outside the file"),
    ],
)
def test_a_changed_header_is_damaged(path, offset, patch, fact):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(patch)
    with pytest.raises(DamagedError, match=fact):
        read_header(path)


def test_hdf5_structures_that_are_overwritten_are_damage(path):
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(bytes(512))
    with pytest.raises(DamagedError, match="HDF5 cannot read it"):
        verify(path, workload())


def test_another_workloads_file_is_not_loaded(path):
    with pytest.raises(DamagedError, match="other tensors or another seed"):
        load(path, workload(seed=12))


def test_a_file_that_is_not_there_is_missing(tmp_path):
    with pytest.raises(MissingError, match="cannot be read"):
        read_header(tmp_path / "data.h5")


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
    usage = blocks.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(blocks.shutil, "disk_usage", lambda _: usage._replace(free=4096))
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

    monkeypatch.setattr(blocks.os, "pwrite", pwrite)
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
from test_data import workload, write_data, write_raw
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
        "import sys, time; from pathlib import Path; from simgen.data import write_raw\n"
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
    monkeypatch.setattr(blocks.os, "posix_fallocate", refuse)
    monkeypatch.delattr(blocks.os, "O_DIRECT")
    write_raw(tmp_path / "cached", 2**21 + 40, 1)
    assert (tmp_path / "cached").read_bytes() == direct.read_bytes()


def test_short_writes_are_finished(tmp_path, monkeypatch):
    """A system may write less than asked; 5000 bytes are also no size for a direct write."""
    pwrite = os.pwrite
    write_raw(tmp_path / "whole", 2**20 + 40, 1)
    monkeypatch.setattr(blocks.os, "pwrite", lambda fd, what, at: pwrite(fd, what[:5000], at))
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
        "import json, resource, sys; from pathlib import Path; from simgen.data import write_raw\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "write_raw(Path(sys.argv[1]), 2**23, 1, threads=4); small = peak()\n"
        "write_raw(Path(sys.argv[1]), 2**28, 1, threads=4); print(json.dumps([small, peak()]))"
    )
    with in_subprocess(code, tmp_path / "a", stdout=subprocess.PIPE) as process:
        small, large = json.loads(process.communicate()[0])
    assert large - small < 64 * 1024  # KiB, for a file that is 248 MiB larger
