"""No build and no run harms what is there, and none uses what is damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from handmade import build, small, tree, with_manifest

from simgen.bundle import finding
from simgen.bundle import writing as bundles
from simgen.bundle.manifest import sha256
from simgen.errors import DamagedError, MissingError, UsageError
from simgen.ground.ir import PAGE
from simgen.ground.storage.files import PART
from simgen.targets.cuda import Cuda
from simgen.tensors import block_io, data_file

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(name="made")
def made_bundle(tmp_path):
    return build(tmp_path / "softmax_fwd", small())


# ------------------------------------------------------------------ places that are refused

FOREIGN = {
    "no manifest": {"precious.txt": "mine"},
    "an empty manifest": {"manifest.json": "", "precious.txt": "mine"},
    "a manifest that is no JSON": {"manifest.json": "// mine\n{", "precious.txt": "mine"},
    "a manifest that is not text": {"manifest.json": "\udcff\udcfe", "precious.txt": "mine"},
    "another program's manifest": {"manifest.json": '{"name": "app"}', "precious.txt": "mine"},
    "a list": {"manifest.json": "[1]", "precious.txt": "mine"},
    "a later format": {"manifest.json": '{"format": "simgen bundle 2"}'},
}


@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN)
def test_a_folder_that_is_no_bundle_is_refused_and_left_as_it_is(tmp_path, files):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    before = tree(folder)
    refused = r"(exists and is not a bundle|a bundle of format 2, .*); choose another folder"
    with pytest.raises(UsageError, match=refused):
        build(folder, small())
    assert tree(folder) == before
    assert os.listdir(tmp_path) == ["mine"]


def test_a_file_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="exists and is not a bundle"):
        build(tmp_path / "file", small())
    for inside in ("file/bundle", "file/deep/bundle"):
        with pytest.raises(UsageError, match=r"cannot be written \(.+\); choose another folder"):
            build(tmp_path / inside, small())
    assert (tmp_path / "file").read_text() == "mine"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("place", ["/proc/simgen_bundle", "/sys/simgen_bundle"])
def test_a_read_only_place_is_refused(place, tmp_path):
    with pytest.raises(UsageError, match=rf"^{place}: cannot be written \("):
        bundles.write(Path(place), small(), (Cuda(),), None, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(UsageError, match="cannot be written"):
            build(tmp_path / "bundle", small())
    finally:
        tmp_path.chmod(0o755)


def test_a_full_disk_leaves_the_old_bundle_and_nothing_else(made, monkeypatch):
    whole = tree(made.path)

    def full(path, content, executable):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(bundles, "_write", full)
    with pytest.raises(MissingError, match="no space left on the disk; free some"):
        build(made.path, small(seed=1))
    assert tree(made.path) == whole
    assert os.listdir(made.path.parent) == ["softmax_fwd"]


def test_a_disk_that_is_too_small_for_the_data_is_told_by_the_name_of_the_bundle(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(block_io, "_free_space", lambda path: 4096)
    with pytest.raises(MissingError) as caught:
        build(tmp_path / "b", small())
    assert str(caught.value).startswith(f"{tmp_path}/b/data.h5: needs ")
    assert os.listdir(tmp_path) == []


def test_a_bundle_that_cannot_be_extended_stays_as_it_is(made, monkeypatch):
    whole = tree(made.path)

    def read_only(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(bundles, "write_atomic", read_only)
    with pytest.raises(UsageError, match=r"cannot be written .*; make the bundle's folder writ"):
        bundles.extend(made, "cuda/gpus-2", {})
    assert bundles.load(made.path).manifest == made.manifest
    assert tree(made.path) == whole


def test_behind_a_link_the_folder_is_replaced_and_not_the_link(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "b"
    link.symlink_to("disk/real")
    for seed in (1, 2):
        build(link, small(seed=seed))
        assert link.readlink() == Path("disk/real")
        assert bundles.load(tmp_path / "disk" / "real").workload.seed == seed
    assert os.listdir(tmp_path / "disk") == ["real"]
    assert sorted(os.listdir(tmp_path)) == ["b", "disk"]


@pytest.mark.parametrize("name", ["x" * 300, "loop/b"])
def test_a_place_with_an_impossible_name_is_refused(tmp_path, name):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match=r"cannot be written \(.+\); choose another folder"):
        build(tmp_path / name, small())
    assert os.listdir(tmp_path) == ["loop"]


# ------------------------------------------------------------------ killed builds

KILLED = """
import importlib, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from handmade import build, small
def kill(*args, **options):
    os.kill(os.getpid(), getattr(signal, sys.argv[4]))
    raise SystemExit("the signal did not end it")
owner, name = sys.argv[3].rsplit(".", 1)
setattr(importlib.import_module(f"simgen.{owner}"), name, kill)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
build(Path(sys.argv[2]), small(seed=7))
"""
MOMENTS = ["bundle.writing._write", "tensors.data_file.write_data", "ground.storage.files._place"]
AGAIN = [*MOMENTS[:2], "ground.storage.files._replace"]


def killed_build(path, moment, by="SIGKILL"):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", KILLED, str(HERE), str(path), moment, by]
    return subprocess.run(command, env=environment, capture_output=True).returncode


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_build_leaves_nothing_under_the_bundle_s_name(tmp_path, moment):
    assert killed_build(tmp_path / "b", moment) == -signal.SIGKILL
    assert not (tmp_path / "b").exists()
    assert all(name.startswith(PART) for name in os.listdir(tmp_path))
    build(tmp_path / "b", small(seed=7))
    bundles.verify(bundles.load(tmp_path / "b"), "cuda")


@pytest.mark.parametrize("moment", AGAIN)
def test_a_killed_rebuild_leaves_the_old_bundle_whole(made, moment):
    whole = tree(made.path)
    assert killed_build(made.path, moment) == -signal.SIGKILL
    assert tree(made.path) == whole


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_build_cleans_up(tmp_path, moment):
    assert killed_build(tmp_path / "b", moment, "SIGTERM") == 143
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------ damage


def test_no_bundle_is_a_wrong_argument(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match="make one with: simgen build"):
            bundles.load(path)


def edit(manifest, **changes):
    return json.dumps({**manifest, **changes}).encode()


DAMAGED_MANIFESTS = {
    "cut": lambda m: json.dumps(m).encode()[:-9],
    "empty": lambda m: b"",
    "binary": lambda m: b"\xff\xfe",
    "without files": lambda m: edit({k: v for k, v in m.items() if k != "files"}),
    "without targets": lambda m: edit({k: v for k, v in m.items() if k != "targets"}),
    "without data": lambda m: edit({k: v for k, v in m.items() if k != "data"}),
    "files a list": lambda m: edit(m, files=[]),
    "data without id": lambda m: edit(m, data={}),
    "a file outside": lambda m: edit(m, files={**m["files"], "../../x": "0"}),
    "a target outside": lambda m: edit(m, targets={"../cuda": {}}),
    "another workload": lambda m: edit(m, files={**m["files"], "workload.json": "0" * 64}),
    "a target that is a list": lambda m: edit(m, targets={"cuda": []}),
    "a key twice": lambda m: b'{"format": 1,' + json.dumps(m).encode()[1:],
    "no number": lambda m: edit(m, config={"x": float("nan")}),
    "a number of thousands of digits": lambda m: b'{"x":' + b"9" * 5000 + b"," + edit(m)[1:],
    "a digest that is none": lambda m: edit(m, files={**m["files"], "x": 1}),
    "data of another id": lambda m: edit(m, data={"id": "x"}),
    "mapped without a size": lambda m: edit(m, mapped={"file": "mmap.bin", "seed": 1}),
    "nested without end": lambda m: b'{"x":' + b"[" * 10**5 + b"]" * 10**5 + b"," + edit(m)[1:],
    "no config": lambda m: edit(m, config=None),
    "a version that is not text": lambda m: edit(m, simgen={"version": 1}),
    "no compiler": lambda m: edit(m, compiler=3),
    "no name": lambda m: edit(m, name=None),
}


@pytest.mark.parametrize("damage", DAMAGED_MANIFESTS.values(), ids=DAMAGED_MANIFESTS)
def test_a_damaged_manifest_is_told(made, damage):
    (made.path / "manifest.json").write_bytes(damage(dict(made.manifest)))
    with pytest.raises(DamagedError, match="build it again") as caught:
        bundles.load(made.path)
    assert caught.value.exit_code == 7
    cleared = "remove the folder and build" in str(caught.value)
    if cleared:  # a build refuses the folder, which may be anybody's
        with pytest.raises(UsageError, match="exists and is not a bundle"):
            build(made.path, made.workload)
    else:
        assert bundles.load(build(made.path, made.workload).path).targets


def test_a_manifest_of_another_program_is_a_wrong_argument(made):
    (made.path / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match="not the manifest of a simgen bundle"):
        bundles.load(made.path)


@pytest.mark.parametrize(
    "damage", [lambda t: t[:-2], lambda t: b"", lambda t: t.replace(b"4", b"5")]
)
def test_a_damaged_workload_is_told(made, damage):
    path = made.path / "workload.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedError, match=r"workload\.json: differs from its digest; build it"):
        bundles.load(made.path)


def test_a_missing_workload_is_told(made):
    (made.path / "workload.json").unlink()
    with pytest.raises(DamagedError, match=r"workload\.json is damaged"):
        bundles.load(made.path)


def test_a_workload_that_fits_its_digest_must_still_be_one(made):
    text = b'{"name": "x"}'
    (made.path / "workload.json").write_bytes(text)
    with_manifest(made, files={**made.manifest["files"], "workload.json": sha256(text)})
    with pytest.raises(DamagedError, match="expected the fields"):
        bundles.load(made.path)


@pytest.mark.parametrize("name", ["cuda/run.py", "cuda/run.sh", "src/prelude.h"])
@pytest.mark.parametrize("damage", [Path.unlink, lambda p: p.write_bytes(p.read_bytes() + b" ")])
def test_a_run_refuses_files_that_are_not_what_was_built(made, name, damage):
    damage(made.path / name)
    with pytest.raises(DamagedError, match=rf"{name}: missing or changed since it was built"):
        bundles.verify(made, "cuda")


@pytest.mark.parametrize("name", ["data.h5", "src/prelude.h", "cuda/run.py", "workload.json"])
def test_whatever_is_missing_in_a_bundle_is_damage(made, name):
    (made.path / name).unlink()
    with pytest.raises(DamagedError, match=r"build (it|the bundle) again"):
        bundles.verify(bundles.load(made.path), "cuda")


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("damage", [cut, lambda p: os.truncate(p, 10), lambda p: os.truncate(p, 0)])
def test_a_truncated_data_file_is_told(made, damage):
    damage(made.path / "data.h5")
    with pytest.raises(DamagedError, match=r"data\.h5: .*; build the bundle again"):
        bundles.verify(made, "cuda")


def test_the_cure_for_damaged_values_helps(made):
    path = made.path / "data.h5"
    whole = path.read_bytes()
    path.write_bytes(whole[:-PAGE] + bytes(PAGE))
    with pytest.raises(DamagedError, match=r"data\.h5: .*; build the bundle again"):
        data_file.verify(path, made.workload)
    build(made.path, made.workload)
    assert path.read_bytes() == whole


def test_the_data_of_another_workload_are_told(made, tmp_path):
    other = build(tmp_path / "other", small(seed=1))
    shutil.copy(other.path / "data.h5", made.path / "data.h5")
    with pytest.raises(DamagedError, match="holds the data of another workload"):
        bundles.verify(made, "cuda")


@pytest.mark.parametrize(
    "targets",
    [
        {"cuda": {"speed": 1}},
        {"future": {}},
        {"cuda": {"l1": "doubled"}},
        {"host": {"sanitize": "x"}},
        {"gem5-se": {"arch": []}},
        {"mgpusim": {"gpus": 99}},
    ],
)
def test_a_target_of_another_version_of_simgen_is_told(made, targets):
    with_manifest(made, targets=targets)
    with pytest.raises(DamagedError, match="built by another version of simgen; build it again"):
        finding.target_of(bundles.load(made.path), next(iter(targets)))


def open_and_close(path):
    with bundles.opened(path):
        pass


@pytest.mark.parametrize("name", ["results", "results/cuda", "data.h5", "src", "manifest.json"])
@pytest.mark.parametrize("use", [open_and_close, lambda path: build(path, small(seed=8)), None])
def test_no_link_leads_out_of_a_bundle(made, tmp_path, name, use):
    """Somebody else may have made it: what lies elsewhere is neither read nor replaced."""
    place, elsewhere = made.path / name, tmp_path / "elsewhere"
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "mine").write_text("mine")
    before = tree(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()
    place.symlink_to(elsewhere)
    if use is None:  # run.sh
        script = ["sh", str(made.path / "cuda/run.sh")]
        env = {**os.environ, "SIMGEN_PYTHON": "/bin/true"}
        done = subprocess.run(script, env=env, capture_output=True, text=True)
        assert done.returncode == 7 or name != "results"
    else:
        with pytest.raises(DamagedError, match="a link that leads out of the bundle; put there"):
            use(made.path)
    assert (tree(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()) == before
