"""The user's own values of inputs: read from files, checked, in data.h5, told apart by digest."""

import json
import os
import socket
import subprocess
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from loaded import program

from simgen.bundle import results, writing
from simgen.errors import DamagedError, UsageError
from simgen.ground.ir import (
    Buffer,
    Distribution,
    DType,
    Fill,
    Role,
    TensorSpec,
    Workload,
    from_json,
    to_json,
)
from simgen.ground.storage import hdf5 as hdf5_module
from simgen.tensors import data_file, own_values

X = Buffer("conv1.x", TensorSpec((2, 3, 5, 7)), Role.INPUT, 0)
LABELS = Buffer("loss.labels", TensorSpec((4,), DType.I32), Role.INPUT, 4096)
FILL = Fill(Distribution.UNIFORM, 0.0, 1.0)
WORKLOAD = Workload("conv1", 1, (), (X, LABELS), (), (), 2**20, 2**20)


@pytest.fixture
def images():
    return np.random.default_rng(5).normal(size=X.spec.shape)


def test_each_file_format_gives_the_same_values(tmp_path, images):
    np.savez(tmp_path / "a.npz", **{"conv1.x": images})
    np.save(tmp_path / "conv1.x.npy", images)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["conv1.x"] = images
    with h5py.File(tmp_path / "behind_a_header", "w", userblock_size=1024) as file:
        file["conv1.x"] = images
    header = {"dtype": "F64", "shape": images.shape, "data_offsets": [0, images.nbytes]}
    text = json.dumps({"__metadata__": {"format": "np"}, "conv1.x": header}).encode()
    length = len(text).to_bytes(8, "little")
    (tmp_path / "a.safetensors").write_bytes(length + text + images.tobytes())
    for name in ("a.npz", "conv1.x.npy", "a.h5", "behind_a_header", "a.safetensors"):
        found = own_values.read_values([tmp_path / name], WORKLOAD)
        assert list(found) == ["conv1.x"]
        assert found["conv1.x"].dtype == np.float32
        np.testing.assert_array_equal(found["conv1.x"], images.astype(np.float32))


def test_values_of_several_files_and_whole_numbers(tmp_path, images):
    np.save(tmp_path / "conv1.x.npy", images)
    np.savez(tmp_path / "labels.npz", **{"loss.labels": np.array([1, 2, -3, 4], np.int64)})
    found = own_values.read_values([tmp_path / "conv1.x.npy", tmp_path / "labels.npz"], WORKLOAD)
    assert found["loss.labels"].dtype == np.int32
    assert found["loss.labels"].tolist() == [1, 2, -3, 4]


def spoiled(array, at, value):
    array = array.copy()
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("name", "change", "fact"),
    [
        ("conv1.X", lambda a: a, "not an input of conv1; did you mean 'conv1.x'"),
        ("conv1.x", lambda a: a[:1], "has shape 1x3x5x7, the input 2x3x5x7"),
        ("conv1.x", lambda a: a.astype(np.int32), "has elements of type int32"),
        ("conv1.x", lambda a: a.astype("U"), "has elements of type <U"),
        ("conv1.x", lambda a: spoiled(a, (1, 2, 3, 4), np.nan), "[1, 2, 3, 4] is nan"),
        ("conv1.x", lambda a: spoiled(a, (0, 0, 0, 0), 1e39), "[0, 0, 0, 0] is 1e+39"),
        ("loss.labels", lambda a: np.array([1, 2, 3, 2**31]), "more than 32 bits"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path, images, name, change, fact):
    path = tmp_path / "a.npz"
    np.savez(path, **{name: change(images)})
    with pytest.raises(UsageError) as caught:
        own_values.read_values([path], WORKLOAD)
    assert f"--values {path}: " in str(caught.value)
    assert fact in str(caught.value)
    assert ";" in str(caught.value)


def test_a_tensor_is_given_once(tmp_path, images):
    np.save(tmp_path / "conv1.x.npy", images)
    with pytest.raises(UsageError, match="has values already"):
        own_values.read_values([tmp_path / "conv1.x.npy"] * 2, WORKLOAD)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"\x93NUMPY\x01\x00", b"weights\n"]
)
def test_a_file_that_is_none_is_one_line(tmp_path, content):
    (tmp_path / "weights").write_bytes(content)
    with pytest.raises(UsageError, match=r"give a .npz, .* or HDF5 file") as caught:
        own_values.read_values([tmp_path / "weights"], WORKLOAD)
    assert "\n" not in str(caught.value)


def test_a_damaged_archive_is_one_line(tmp_path, images):
    path = tmp_path / "a\n.npz"
    np.savez_compressed(path, **{"conv1.x": images})
    content = bytearray(path.read_bytes())
    content[80:120] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"give a .npz, .* or HDF5 file") as caught:
        own_values.read_values([path], WORKLOAD)
    assert "\n" not in str(caught.value)


def test_datasets_without_values_and_of_text_do_not_fit(tmp_path):
    facts = ((h5py.Empty("f4"), "no values"), ("weights", "not numbers"), (1.0, "has shape"))
    for value, fact in facts:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["conv1.x"] = value
        with pytest.raises(UsageError, match=fact):
            own_values.read_values([tmp_path / "a.h5"], WORKLOAD)


@pytest.mark.parametrize("place", ["none.npz", "."])
def test_no_such_file(tmp_path, place):
    with pytest.raises(UsageError, match=r"--values .*; give a"):
        own_values.read_values([tmp_path / place], WORKLOAD)


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "conv1.x.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(UsageError):
        own_values.read_values([tmp_path / "conv1.x.npy"], WORKLOAD)


def test_other_values_are_another_workload(images):
    first = own_values.with_values(WORKLOAD, {"conv1.x": images.astype(np.float32)})
    second = own_values.with_values(WORKLOAD, {"conv1.x": images.astype(np.float32) + 1})
    ids = {data_file.data_id(each) for each in (WORKLOAD, first, second)}
    assert len(ids) == 3
    assert from_json(Workload, to_json(first)) == first


def simgen(*words, cwd):
    return subprocess.run([program(), *words], cwd=cwd, capture_output=True, text=True)


def test_a_bundle_holds_them_and_its_reference_uses_them(tmp_path):
    """The inputs of the second bundle are the data file of the first, but for the weights."""
    words = ("build", "fc_fwd", "--set", "n=2", "--set", "c=6", "--set", "num_output=4")
    words += ("-q", "--target", "host")
    assert simgen(*words, "-o", "plain", cwd=tmp_path).returncode == 0
    weights = np.arange(24, dtype=np.float64).reshape(4, 6) / 7
    plain = data_file.load(tmp_path / "plain/data.h5", writing.load(tmp_path / "plain").workload)
    (w,) = (name for name in plain if name.endswith(".w"))
    (x,) = (name for name in plain if name.endswith(".x"))
    np.savez(tmp_path / "w.npz", **{w: weights.reshape(plain[w].shape)})
    made = simgen(*words, "-o", "own", "--values", "w.npz", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    own = writing.load(tmp_path / "own")
    values = data_file.load(own.path / "data.h5", own.workload)
    np.testing.assert_array_equal(values[w].reshape(4, 6), weights.astype(np.float32))
    np.testing.assert_array_equal(values[x], plain[x])
    data_file.verify(own.path / "data.h5", own.workload)
    for command in (("run", "own", "-q"), ("diff", "own", "host", "reference")):
        ran = simgen(*command, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
    found = results.load(tmp_path / "own/results/host/results.h5").outputs
    (y,) = (output.values for name, output in found.items() if name.endswith(".y"))
    expected = values[x].reshape(2, 6).astype(float) @ weights.T
    np.testing.assert_allclose(y.reshape(2, 4), expected, rtol=1e-5)
    # The data file of another bundle does as well: the values are the same then.
    words = (*words, "-o", "again", "--values", "own/data.h5")
    assert simgen(*words, cwd=tmp_path).returncode == 0
    again = writing.load(tmp_path / "again")
    np.testing.assert_array_equal(
        data_file.load(again.path / "data.h5", again.workload)[x], values[x]
    )
    # The file of one workload is not taken for that of the other.
    with pytest.raises(DamagedError):
        data_file.load(tmp_path / "plain/data.h5", own.workload)


def test_large_tensors_come_block_by_block(tmp_path):
    """More than one block of the generator, and a last one that is not whole."""
    large = Buffer("a.x", TensorSpec((3 * 2**17 + 5,)), Role.INPUT, 0, FILL)
    values = {"a.x": np.arange(large.spec.size, dtype=np.float32)}
    workload = own_values.with_values(Workload("a", 1, (), (large,), (), (), 2**22, 2**22), values)
    path = tmp_path / "data.h5"
    data_file.write_data(path, workload, values=values)
    data_file.verify(path, workload)
    np.testing.assert_array_equal(data_file.load(path, workload)["a.x"], values["a.x"])


def test_exact_is_a_word_beside_files_and_no_file(tmp_path):
    """Whole numbers for what the file does not give; a file of that name is given as ./exact."""
    words = ("build", "fc_fwd", "--set", "n=2", "--set", "c=6", "--set", "num_output=4")
    words += ("--target", "cuda", "-o", "b")
    np.savez(tmp_path / "w.npz", **{"fc.w": np.full((4, 6), 0.1)})
    made = simgen(*words, "--values", "exact", "--values", "w.npz", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "reproduce: simgen build fc_fwd" in made.stdout
    assert "--values exact --values w.npz" in made.stdout
    with h5py.File(tmp_path / "b/data.h5") as file:
        told = dict(file["fc.x"].attrs)
        assert (told["distribution"], told["largest"], told["share_not_zero"]) == ("whole", 300, 1)
        values = file["fc.x"][()]
        assert np.array_equal(values, np.rint(values))
        assert dict(file["fc.w"].attrs)["distribution"] == "given"
    refused = simgen(*words, "--values", "./exact", cwd=tmp_path)
    assert refused.returncode == 2
    assert "exact: No such file or directory" in refused.stderr
    np.savez(tmp_path / "exact", **{"fc.w": np.full((4, 6), 0.1)})
    (tmp_path / "exact.npz").rename(tmp_path / "exact")
    assert simgen(*words, "--values", "./exact", cwd=tmp_path).returncode == 0


# ------------------------------------------------------------------ hostile and damaged files


def refused(path, *words):
    with pytest.raises(UsageError) as caught:
        own_values.read_values([path], WORKLOAD)
    text = str(caught.value)
    assert text.startswith("--values ")
    assert "\n" not in text
    for word in words:
        assert word in text
    return text


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")  # which hung
    refused(tmp_path / "pipe.npz", "a pipe, not a file")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        refused(tmp_path / "socket", "a socket, not a file")
    refused(tmp_path, "a folder, not a file")
    refused(Path("/dev/zero"), "a device, not a file")
    (tmp_path / "dangling.h5").symlink_to("nowhere")
    refused(tmp_path / "dangling.h5", "No such file")


def hdf5(path, fill):
    with h5py.File(path, "w") as file:
        fill(file)
    return path


def test_a_file_that_gives_nothing_is_refused(tmp_path):
    """It left the random weights, and nobody knew."""
    np.savez(tmp_path / "none.npz")
    refused(tmp_path / "none.npz", "holds no tensor")
    path = hdf5(tmp_path / "none.h5", lambda file: file.create_group("weights"))
    refused(path, "holds no tensor")
    path = hdf5(tmp_path / "c.h5", lambda file: file.update({"canary": np.zeros(3)}))
    refused(path, "holds no tensor")


@pytest.fixture
def secret(tmp_path, images):
    """Another file of the machine, of the right size, and in HDF5 too."""
    images.astype("<f4").tofile(tmp_path / "secret.bin")
    return hdf5(tmp_path / "secret.h5", lambda file: file.update({"conv1.x": images}))


def external_link(file):
    file["conv1.x"] = h5py.ExternalLink("secret.h5", "conv1.x")


def external_link_of_a_group(file):
    file["all"] = h5py.ExternalLink("secret.h5", "/")
    file["conv1.x"] = h5py.SoftLink("/all/conv1.x")


def external_storage(file):
    shape = X.spec.shape
    file.create_dataset("conv1.x", shape, "<f4", external=[("secret.bin", 0, X.spec.nbytes)])


def virtual(file):
    layout = h5py.VirtualLayout(X.spec.shape, "<f4")
    layout[...] = h5py.VirtualSource("secret.h5", "conv1.x", X.spec.shape)
    file.create_virtual_dataset("conv1.x", layout)


@pytest.mark.parametrize(
    "fill", [external_link, external_link_of_a_group, external_storage, virtual]
)
def test_no_other_file_is_read(tmp_path, monkeypatch, secret, fill):
    monkeypatch.chdir(tmp_path)
    text = refused(hdf5(tmp_path / "a.h5", fill), "conv1.x" if fill is virtual else "")
    assert "another file" in text or "other datasets" in text


def test_soft_links_in_the_file_are_followed(tmp_path, images):
    def fill(file):
        file["deep/er/values"] = images
        file["deep/next"] = h5py.SoftLink("er/values")
        file["conv1.x"] = h5py.SoftLink("/deep/next")

    path = hdf5(tmp_path / "a.h5", fill)
    with hdf5_module.opened(path) as file:
        found = {name: each.shape for name, each in hdf5_module.datasets(file)}
    assert found == dict.fromkeys(("conv1.x", "deep/er/values", "deep/next"), images.shape)


@pytest.mark.parametrize("target", ["/none", "conv1.x", "/", ".", "none/x", "loop"])
def test_soft_links_that_lead_nowhere_are_refused(tmp_path, target):
    def fill(file):
        file["conv1.x"] = h5py.SoftLink(target)
        file["loop"] = h5py.SoftLink("conv1.x")

    refused(hdf5(tmp_path / "a.h5", fill))


def test_groups_in_themselves_come_to_an_end(tmp_path):
    def fill(file):
        file["a/b"] = file["/"]
        file["a/c"] = file["/"]

    refused(hdf5(tmp_path / "a.h5", fill), "too many groups")


@pytest.mark.parametrize(
    "dtype",
    [
        complex, bool, "S5", "V7", h5py.string_dtype(), h5py.vlen_dtype("f4"), h5py.ref_dtype,
        [("a", "f4"), ("b", "i4")], h5py.enum_dtype({"a": 1}), np.dtype(("f4", (2,))),
    ],
    ids=str,
)  # fmt: skip
def test_elements_that_are_no_numbers_are_refused(tmp_path, dtype):
    path = hdf5(tmp_path / "a.h5", lambda f: f.create_dataset("conv1.x", X.spec.shape, dtype))
    refused(path, "conv1.x")
    if np.dtype(dtype).metadata is None:  # a type that .npy files have
        np.savez(tmp_path / "a.npz", **{"conv1.x": np.zeros(X.spec.shape, dtype)})
        refused(tmp_path / "a.npz", "conv1.x")


def test_what_is_said_to_be_huge_is_not_read(tmp_path):
    """Files of a kilobyte or two that ask for memory that no machine has."""
    huge = (2**20, 2**20, 2**10)
    path = hdf5(tmp_path / "a.h5", lambda f: f.create_dataset("conv1.x", huge, "f4"))
    refused(path, "larger than the file")
    path = hdf5(
        tmp_path / "b.h5",
        lambda f: f.create_dataset("conv1.x", huge, "f4", chunks=(1, 1, 1), compression="gzip"),
    )
    refused(path, "larger than the file can be")
    path = hdf5(
        tmp_path / "c.h5",
        lambda f: f.create_dataset(
            "conv1.x", X.spec.shape, "f4", maxshape=(None,) * 4, chunks=(2**8,) * 3 + (2**4,)
        ),
    )
    refused(path, "larger than the file can be")
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {huge}, }}".ljust(117) + "\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    (tmp_path / "conv1.x.npy").write_bytes(npy)
    refused(tmp_path / "conv1.x.npy", "has shape 1048576x1048576x1024")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("conv1.x.npy", npy)
    refused(tmp_path / "a.npz", "has shape")


def test_a_chunk_holds_no_more_than_its_values(tmp_path):
    """zlib would make all that is in it, gigabytes of megabytes, before HDF5 counts the values."""
    shape = X.spec.shape

    def fill(file):
        made = file.create_dataset("conv1.x", shape, "f4", chunks=shape, compression=4)
        made.id.write_direct_chunk((0, 0, 0, 0), zlib.compress(bytes(4), 0) * 2**18)

    refused(hdf5(tmp_path / "a.h5", fill), "larger than the file can be")


def test_compressed_values_are_read(tmp_path, images):
    path = hdf5(
        tmp_path / "a.h5",
        lambda f: f.create_dataset("conv1.x", data=images, compression="gzip", shuffle=True),
    )
    found = own_values.read_values([path], WORKLOAD)["conv1.x"]
    np.testing.assert_array_equal(found, images.astype(np.float32))
    np.savez_compressed(tmp_path / "a.npz", **{"conv1.x": np.asfortranarray(images)})
    found = own_values.read_values([tmp_path / "a.npz"], WORKLOAD)["conv1.x"]
    np.testing.assert_array_equal(found, images.astype(np.float32))


def test_a_member_of_an_archive_is_an_array(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("conv1.x", b"1 2 3")  # which NumPy gives as bytes
    refused(tmp_path / "a.npz", "'conv1.x' is not a .npy file")


def test_names_of_any_length_give_a_short_line(tmp_path, images):
    name = "x" * 100_000 + "\x1b[31m\u202e"
    path = hdf5(tmp_path / "a.h5", lambda f: f.create_dataset(name[:60_000], data=images))
    assert len(refused(path)) < 1000
    np.savez(tmp_path / "a.npz", **{name[-60_000:]: images})
    assert len(refused(tmp_path / "a.npz")) < 1000
