"""The data file: same bytes every time, readable by header and by HDF5, and damage is noticed."""

from __future__ import annotations

import os
import struct
import subprocess
from dataclasses import replace
from itertools import pairwise

import h5py
import numpy as np
import pytest
from data_files import INPUTS, NORMAL, OUTPUT, in_subprocess, workload

from simgen.errors import DamagedError
from simgen.ground.ir import GUARD, PAGE, Buffer, DType, Role, TensorSpec
from simgen.tensors import digest
from simgen.tensors.data_file import (
    CANARY_NAME,
    canary_nbytes,
    data_id,
    is_current,
    load,
    read_header,
    verify,
    write_data,
)
from simgen.tensors.random_values import generate


@pytest.fixture(name="path")
def data_path(tmp_path):
    path = tmp_path / "data.h5"
    write_data(path, workload())
    return path


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
        assert np.all(file[CANARY_NAME][...] == DType.F32.canary)


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
        "import sys; from pathlib import Path; from simgen.tensors.data_file import read_header;"
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


def test_a_file_that_cannot_be_read_is_damage(tmp_path):
    (tmp_path / "folder.h5").mkdir()
    for name in ("none.h5", "folder.h5"):
        with pytest.raises(DamagedError, match=f"{name}: cannot be read"):
            read_header(tmp_path / name)


def test_a_file_that_ends_too_early_has_no_digest(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(10))
    assert digest.file_digest(path, 10) == digest.file_digest(path, 10)
    with pytest.raises(DamagedError, match="cannot be read to its end"):
        digest.file_digest(path, 11)
