"""The bundle folder: what is in it, and what stays when it is built again."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from handmade import BOTH, build, lowered, lowered_text, run_by_hand, small, tree

from simgen.bundle import writing as bundles
from simgen.bundle.folder import digest_of
from simgen.errors import DamagedError, RefusedError
from simgen.ground.ir import to_json
from simgen.ground.storage.files import PART
from simgen.targets.base import TARGETS, File, Package, Target, setting
from simgen.targets.cuda import Cuda
from simgen.targets.launch_rows import RowsReader
from simgen.tensors import data_file

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Files(Package):
    """Of the target below."""

    level: int

    def folder(self, job, builder):
        return {"run.sh": File(f"# {self.level}\n".encode(), True), "sub/note": File(b"note")}


@dataclass(frozen=True)
class Other(Target):
    """A second target that needs no compiler either."""

    name: ClassVar[str] = "other"
    summary: ClassVar[str] = "for tests"
    level: int = setting(1, "a number")

    @property
    def package(self):
        return Files(self.level)

    @property
    def reader(self):
        return RowsReader()


TARGETS.pop("other")  # other tests must not see it


@pytest.fixture(name="made")
def made_bundle(tmp_path):
    return build(tmp_path / "softmax_fwd", small())


def leftovers(folder):
    return [p.name for p in folder.iterdir() if p.name.startswith(PART)]


# ------------------------------------------------------------------ what is in it


def test_it_holds_what_it_says(made):
    assert set(tree(made.path)) == {
        "manifest.json", "workload.json", "data.h5", "src/prelude.h",
        "src/softmax_fwd_accurate_4x10x1.hip", "cuda/run.sh", "cuda/run.py",
    }  # fmt: skip
    files = made.manifest["files"]
    assert set(files) == set(tree(made.path)) - {"manifest.json", "data.h5"}
    assert all(digest_of(made.path / name) == digest for name, digest in files.items())
    assert os.access(made.path / "cuda" / "run.sh", os.X_OK)
    assert not os.access(made.path / "cuda" / "run.py", os.X_OK)
    assert leftovers(made.path.parent) == []


def test_it_names_no_place_of_this_machine(made, tmp_path):
    for name, content in tree(made.path).items():
        assert str(tmp_path).encode() not in content, name
        assert str(ROOT).encode() not in content, name


def test_load_gives_back_what_write_returned(made):
    found = bundles.load(made.path)
    assert found.workload == made.workload
    assert found.manifest == made.manifest
    assert found.digest == made.digest
    assert dict(found.targets) == {"cuda": {"l1": "cached", "gpus": 1}}


def test_the_same_bundle_has_the_same_bytes_anywhere(made, tmp_path):
    again = build(tmp_path / "elsewhere" / "other_name", small())
    assert tree(again.path) == tree(made.path)


def test_it_can_be_moved(made, tmp_path):
    shutil.move(made.path, tmp_path / "moved here")
    moved = bundles.load(tmp_path / "moved here")
    bundles.verify(moved, "cuda")
    assert data_file.load(moved.path / "data.h5", moved.workload)["softmax.x"].shape == (
        4,
        10,
        1,
        1,
    )


# ------------------------------------------------------------------ built again


def test_building_again_changes_nothing(made):
    before = {p: p.stat().st_mtime_ns for p in made.path.rglob("*")}
    build(made.path, small())
    assert {p: p.stat().st_mtime_ns for p in made.path.rglob("*")} == before


def test_another_target_joins_and_the_first_stays_with_its_results(made):
    run_by_hand(made)
    results = tree(made.path / "results")
    again = build(made.path, small(), Other())
    assert list(again.targets) == ["cuda", "other"]
    assert tree(made.path / "results") == results
    assert again.results("cuda") == made.path / "results" / "cuda"
    assert (made.path / "other" / "sub" / "note").read_bytes() == b"note"
    bundles.verify(bundles.load(made.path), "cuda")
    assert leftovers(made.path.parent) == []


def test_data_is_not_written_twice(made):
    inode = (made.path / "data.h5").stat().st_ino
    build(made.path, small(), Other())
    assert (made.path / "data.h5").stat().st_ino == inode


def test_a_target_that_comes_out_the_same_keeps_its_results(made):
    run_by_hand(made)
    again = build(made.path, small(), Cuda(), Other())
    assert again.results("cuda")


def test_a_target_that_changed_loses_its_results_and_no_other(made):
    build(made.path, small(), Other(level=1))
    both = bundles.load(made.path)
    for name in ("cuda", "other"):
        run_by_hand(both, target=name)
    before = tree(made.path)
    with pytest.raises(RefusedError, match="results of other would be lost, because the target ch"):
        build(made.path, small(), Other(level=2))
    assert tree(made.path) == before
    again = build(made.path, small(), Other(level=2), replace_results=True)
    assert again.gone == ("results of other",)
    assert again.targets["other"] == {"level": 2}
    assert again.results("other") is None
    assert not (made.path / "results" / "other").exists()
    assert again.results("cuda")


@pytest.mark.parametrize("target", [Cuda(), Other()])
def test_changed_kernels_start_anew(made, monkeypatch, target):
    run_by_hand(made)
    text = bundles.render.prelude()
    monkeypatch.setattr(bundles.render, "prelude", lambda: text + "/* changed */\n")
    with pytest.raises(RefusedError, match="results of cuda would be lost, because the workload"):
        build(made.path, small(), target)
    again = build(made.path, small(), target, replace_results=True)
    assert list(again.targets) == [target.name]
    assert not (made.path / "results").exists()


@pytest.mark.parametrize(
    "workload", [small(seed=1), small("softmax_bwd"), lowered("softmax_fwd", ("n", "3"))]
)
def test_another_workload_starts_anew(made, workload):
    run_by_hand(made)
    before = tree(made.path)
    with pytest.raises(
        RefusedError, match="would be lost, because the workload changes; choose an"
    ):
        build(made.path, workload, Other())
    assert tree(made.path) == before
    again = build(made.path, workload, Other(), replace_results=True)
    assert list(again.targets) == ["other"]
    assert not (made.path / "results").exists()
    assert not (made.path / "cuda").exists()
    assert data_file.is_current(made.path / "data.h5", workload)
    assert bundles.load(made.path).workload == workload


def test_a_damaged_target_is_not_carried_along(made):
    both = build(made.path, small(), Other())
    (both.path / "cuda" / "run.py").unlink()
    again = build(made.path, small(), Other(level=2))
    assert list(again.targets) == ["other"]
    assert not (made.path / "cuda").exists()
    bundles.verify(bundles.load(made.path), "other")


def test_half_a_result_is_not_carried_along(made):
    folder = run_by_hand(made)
    shutil.copytree(folder, made.path / "results" / f"{PART}cuda.7")
    (made.path / "src/prelude.h").unlink()  # so that the folder is replaced
    build(made.path, small(), Other())
    assert sorted(p.name for p in (made.path / "results").iterdir()) == ["cuda"]


@pytest.mark.parametrize("name", ["workload.json", "data.h5", "cuda/run.py", "src/prelude.h"])
def test_building_again_repairs_what_was_damaged(made, name):
    whole = tree(made.path)
    (made.path / name).write_bytes(b"damaged")
    build(made.path, small())
    assert tree(made.path) == whole


def test_a_new_bundle_takes_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    assert build(tmp_path / "empty", small()).path == tmp_path / "empty"
    bundles.load(tmp_path / "empty")


# ------------------------------------------------------------------ results


def test_a_finished_run_of_this_workload_is_found(made):
    assert made.results("cuda") is None
    folder = run_by_hand(made)
    assert made.results("cuda") == folder
    assert made.results("gem5-se") is None


@pytest.mark.parametrize("content", [b"", b"0" * 64, b"\xff\xfe"])
def test_an_unfinished_run_or_one_of_another_workload_is_told_and_not_used(made, content):
    folder = run_by_hand(made)
    (folder / "complete").write_bytes(content)
    for _ in range(2):
        with pytest.raises(DamagedError, match="run it again"):
            made.results("cuda")
        assert not made.has("cuda")
        assert made.ran() == ["cuda"]
        (folder / "complete").unlink(missing_ok=True)


def test_a_network_s_bundle_has_all_of_its_kernels(tmp_path):
    text = "[Activation]\nname=a\nn=2\nc=8\n[Softmax]\nname=s\nprevious_layer=a\n"
    made = build(tmp_path / "net", lowered_text(text, BOTH))
    kernels = {f"src/{kernel.name}.hip" for kernel in made.workload.kernels}
    assert len(kernels) == 4
    assert kernels < set(made.manifest["files"])
    assert json.loads((made.path / "workload.json").read_text()) == to_json(made.workload)


def test_a_run_does_not_care_for_the_files_of_other_targets(made):
    both = build(made.path, small(), Other())
    (made.path / "other" / "run.sh").unlink()
    bundles.verify(both, "cuda")
