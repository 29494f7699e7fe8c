"""`complete`: what closes a result, and sees that its files are still those of the run."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import replace

import h5py
import numpy as np
import pytest
from command_line import fails
from handmade import build, run_by_hand, small, tree

from simgen.bundle import finding, results, verdict_file
from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, UsageError
from simgen.ground.storage import seal
from simgen.targets.cuda import Cuda, NvidiaGpu
from simgen.tensors import data_file

DIGEST = "a" * 64


@pytest.fixture(name="closed")
def closed_result(tmp_path):
    """A folder with three files, closed."""
    (tmp_path / "earlier/1").mkdir(parents=True)
    for name in ("outputs.bin", "ü b", "earlier/1/log.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / seal.FILE).write_text(f"{DIGEST}\n")
    seal.write(tmp_path, DIGEST)
    return tmp_path


def test_a_closed_result_tells_all_of_its_files(closed):
    found = seal.read_seal(closed)
    assert found.workload == DIGEST
    assert set(found.files) == {"outputs.bin", "ü b", "earlier/1/log.txt"}
    seal.check(closed, found)
    (closed / "new").write_text("later")
    seal.check(closed, seal.read_seal(closed))


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_sha256sum_understands_it(closed):
    lines = (closed / seal.FILE).read_text().splitlines()[1:-1]
    done = subprocess.run(
        ["sha256sum", "-c"], input="\n".join(lines), cwd=closed, capture_output=True, text=True
    )
    assert done.returncode == 0, done


@pytest.mark.parametrize("name", ["outputs.bin", "ü b", "earlier/1/log.txt"])
def test_a_file_that_changed_or_is_gone_is_damage(closed, name):
    path = closed / name
    text = path.read_bytes()
    path.write_bytes(text[:-1] + b"?")
    with pytest.raises(DamagedError, match=rf"{name}: changed since the run; run it again"):
        seal.check(closed, seal.read_seal(closed))
    path.unlink()
    with pytest.raises(DamagedError, match=rf"{name}: missing; run it again"):
        seal.check(closed, seal.read_seal(closed))
    os.mkfifo(path)
    with pytest.raises(DamagedError, match=name):
        seal.check(closed, seal.read_seal(closed))


def test_every_change_of_a_bit_of_it_is_seen(closed):
    path = closed / seal.FILE
    text = path.read_bytes()
    for at in range(len(text)):
        path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        with pytest.raises(DamagedError, match="run it again"):
            seal.check(closed, seal.read_seal(closed))


def test_every_cut_but_that_to_the_first_line_is_seen(closed):
    path = closed / seal.FILE
    text = path.read_bytes()
    for size in range(len(text)):
        path.write_bytes(text[:size])
        if size in (64, 65):  # as where there was no sha256sum
            assert seal.read_seal(closed) == seal.Seal(DIGEST, {})
            continue
        with pytest.raises(DamagedError, match="run it again"):
            seal.read_seal(closed)


def test_what_results_h5_holds_is_a_line_of_its_own(closed):
    ended = (closed / seal.FILE).stat().st_mtime_ns
    (closed / "results.h5").write_text("1")
    made = seal.write(closed, DIGEST, "c" * 64, ("outputs.bin",))
    assert (closed / seal.FILE).stat().st_mtime_ns == ended
    assert f"results.h5: {'c' * 64}" in (closed / seal.FILE).read_text().splitlines()
    assert (made.contents, set(made.files)) == ("c" * 64, {"ü b", "earlier/1/log.txt"})
    assert seal.read_seal(closed) == made
    test_every_change_of_a_bit_of_it_is_seen(closed)


# ------------------------------------------------------------------ results that are read


@pytest.fixture(name="made")
def compared_bundle(simgen, tmp_path):
    """A bundle whose result came without digests; `simgen diff` has closed it."""
    made = build(tmp_path / "net", small())
    folder = run_by_hand(made)
    assert seal.read_seal(folder).files == {}
    assert simgen("diff net").code == 0
    assert set(seal.read_seal(folder).files) == {"outputs.bin", "launches.csv", "machine.json"}
    return made


def test_zeroed_outputs_and_edited_statistics_are_told_by_diff_and_report(simgen, made):
    folder = made.path / "results/cuda"
    for name in ("outputs.bin", "launches.csv"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(bytes(len(whole)))
        for command in ("diff net", "diff net cuda", "report net -o r"):
            fails(simgen(command), 7, f"net/results/cuda/{name}: changed since the run; run it")
        (folder / name).write_bytes(whole)
    assert simgen("report net -o r").code == 0


def kept(made):
    """The folder of a result as `simgen run` leaves it."""
    folder = made.path / "results/cuda"
    results.keep(made, Cuda(), folder, "cuda")
    return folder


def test_damage_of_results_h5_in_a_bundle_is_told(simgen, made):
    folder = kept(made)
    assert simgen("diff net").code == 0
    with h5py.File(folder / results.FILE, "r+") as h5:
        h5["tensors/softmax.y"][0] = 0.25
    for command in ("diff net", "report net -o r"):
        fails(simgen(command), 7, "net/results/cuda/results.h5: changed since the run; run it")
    (folder / results.FILE).unlink()
    fails(simgen("diff net"), 7, "net/results/cuda/results.h5: missing; run it again")


def test_a_whole_results_h5_of_another_run_is_told(simgen, made):
    folder = kept(made)
    found = results.load(folder / results.FILE)
    other = replace(found, launches=tuple({"seconds": 1.0} for _ in found.launches))
    results.save(other, made.workload, folder / results.FILE)
    assert results.load(folder / results.FILE).launches == other.launches
    fails(simgen("diff net"), 7, "net/results/cuda/results.h5: changed since the run; run it")


def test_what_a_run_leaves_lies_on_the_disk_once(made):
    folder = made.path / "results/cuda"
    before = results.collect(made, Cuda(), folder)
    arrays = {name: np.array(each.values) for name, each in before.outputs.items()}
    assert kept(made) == folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "complete", "launches.csv", "machine.json", "results.h5", "verdict.json",
    ]  # fmt: skip
    after = results.collect(made, Cuda(), folder)
    assert after.provenance == json.loads(json.dumps(before.provenance))
    assert (after.launches, after.name) == (before.launches, before.name)
    for name, each in after.outputs.items():
        np.testing.assert_array_equal(each.values, arrays[name])
        left = before.outputs[name]
        assert (each.untouched, each.guard_intact) == (left.untouched, left.guard_intact)


def test_a_run_that_is_killed_leaves_the_result_in_one_form_or_the_other(made, monkeypatch):
    """Whatever step of it is the last one."""

    class KilledError(BaseException):
        pass

    folder = made.path / "results/cuda"
    want = np.array(results.collect(made, Cuda(), folder).outputs["softmax.y"].values)
    for owner, name in ((results, "save"), (seal, "write"), (results, "_tidy")):
        for late in (False, True):
            first = getattr(owner, name)

            def dies(*given, first=first, late=late, **more):
                if late:
                    first(*given, **more)
                raise KilledError

            with monkeypatch.context() as patched:
                patched.setattr(owner, name, dies)
                with pytest.raises(KilledError):
                    results.keep(made, Cuda(), folder, "cuda")
            found = finding.find_result(made, "cuda")
            np.testing.assert_array_equal(found.outputs["softmax.y"].values, want)
            if seal.read_seal(folder).contents:
                assert not (folder / results.OUTPUTS).exists()
                shutil.rmtree(folder)
                run_by_hand(made)


def test_a_result_of_an_earlier_version_is_read(simgen, made):
    """The outputs in two files, both closed as files, with digests of whole tensors."""
    folder = made.path / "results/cuda"
    found = results.collect(made, Cuda(), folder)
    results.save(found, made.workload, folder / results.FILE)
    with h5py.File(folder / results.FILE, "r+") as h5:
        told = json.loads(bytes(h5["digests"][()]))
        told.pop("block_nbytes")
        for name, output in found.outputs.items():
            head = [str(output.values.dtype), list(output.values.shape), 0, True]
            whole = json.dumps(head).encode() + output.values.tobytes()
            told["outputs"][name] = hashlib.sha256(whole).hexdigest()
        del h5["digests"]
        h5["digests"] = np.frombuffer(json.dumps(told, sort_keys=True).encode(), np.uint8)
    np.testing.assert_array_equal(
        results.load(folder / results.FILE, made.workload).outputs["softmax.y"].values,
        found.outputs["softmax.y"].values,
    )
    seal.write(folder, made.digest)
    assert {"outputs.bin", "results.h5"} <= seal.read_seal(folder).files.keys()
    assert simgen("diff net").code == 0
    assert simgen("report net -o r").code == 0
    (folder / results.FILE).write_bytes(b"")
    fails(simgen("diff net"), 7, "results.h5: changed since the run")


def test_a_results_file_that_travels_alone_sees_every_change(made, tmp_path):
    found = results.collect(made, Cuda(), made.path / "results/cuda")
    path = tmp_path / "r.h5"
    results.save(found, made.workload, path)
    told = json.loads(bytes(h5py.File(path)["digests"][()]))
    assert set(told) == {"block_nbytes", "inputs", "outputs", "statistics", "provenance"}
    assert told["inputs"] == made.manifest["data"]["sha256"]
    whole = path.read_bytes()
    harmless = 0
    for at in range(0, len(whole), 29):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            back = results.load(path)
        except (DamagedError, UsageError):
            continue
        harmless += 1
        np.testing.assert_array_equal(
            back.outputs["softmax.y"].values, found.outputs["softmax.y"].values
        )
        assert back.launches == found.launches
        assert back.provenance == json.loads(json.dumps(found.provenance))
    assert harmless < len(whole) // 29  # HDF5 does not use all of its bytes


def test_a_result_of_other_settings_is_refused(made):
    from simgen.bundle import run_record

    folder = made.path / "results/cuda"
    run_record.write(folder, run_record.Run(made.digest, {"l1": "bypass"}, {}, (0,)))
    (folder / seal.FILE).write_text(made.digest)
    with pytest.raises(DamagedError, match="a result of another build; run it again"):
        results.collect(made, Cuda(), folder)


def test_a_bundle_that_can_only_be_read_is_compared(simgen, tmp_path, monkeypatch):
    made = build(tmp_path / "net", small())
    folder = run_by_hand(made)
    before = tree(made.path)

    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(seal, "write_atomic", read_only)
    monkeypatch.setattr(verdict_file, "write_atomic", read_only)
    assert simgen("diff net").code == 0
    assert tree(made.path) == before
    assert seal.read_seal(folder).files == {}


# ------------------------------------------------------------------ verdicts in reports


def marks(tmp_path):
    with (tmp_path / "r/metrics.csv").open(newline="") as table:
        return [row["verdict"] for row in csv.DictReader(table)]


def test_a_report_marks_what_diff_has_not_passed(simgen, tmp_path):
    made = build(tmp_path / "net", small())
    folder = run_by_hand(made)
    done = simgen("report net -o r")
    assert marks(tmp_path) == ["not checked"]
    assert "not checked: 1 of 1 rows, net on cuda\n" in done.out
    assert "not checked: 1 of 1" in (tmp_path / "r/report.html").read_text()
    assert simgen("diff net").code == 0
    done = simgen("report net -o r")
    assert marks(tmp_path) == ["same"]
    assert "checked" not in done.out
    assert "not checked" not in (tmp_path / "r/report.html").read_text()

    def wrong(tensors):
        tensors["softmax.y"][0, 0] = 2.0

    run_by_hand(made, wrong)  # again: the verdict was on other outputs
    simgen("report net -o r")
    assert marks(tmp_path) == ["not checked"]
    assert simgen("diff net").code == 6
    done = simgen("report net -o r")
    assert marks(tmp_path) == ["different"]
    assert "different: 1 of 1 rows, net on cuda\n" in done.out
    path = folder / verdict_file.FILE
    path.write_text(path.read_text().replace("different", "same"))
    fails(simgen("report net -o r"), 7, "verdict.json: damaged", "compare it again with")
    simgen("diff net")
    assert simgen("report net -o r").code == 0
    assert marks(tmp_path) == ["different"]


# ------------------------------------------------------------------ input data


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("where", ["values", "canary", "HDF5"])
def test_a_run_reads_all_of_the_data_and_a_build_repairs_it(simgen, tmp_path, monkeypatch, where):
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])
    assert simgen("build softmax_fwd --target cuda --set n=4 --set c=10 -o net").code == 0
    path = tmp_path / "net/data.h5"
    whole = path.read_bytes()
    entries = data_file.read_header(path).entries
    at = {"values": entries[0].offset, "canary": entries[-1].offset + 9, "HDF5": 4096 + 100}[where]
    flip(path, at)
    for command in ("run net", "run net --sweep repeats=1,2", "diff net cuda"):
        run_by_hand(bundles.load(tmp_path / "net")) if "diff" in command else None
        fails(simgen(command), 7, "net/data.h5: ", "build the bundle again")
    assert simgen("build softmax_fwd --target cuda --set n=4 --set c=10 -o net").code == 0
    assert path.read_bytes() == whole
    assert bundles.load(tmp_path / "net").results("cuda")


def test_the_data_are_read_once_for_a_sweep(simgen, tmp_path, monkeypatch):
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])
    simgen("build softmax_fwd --target cuda --set n=4 --set c=10 -o net")
    seen = []
    verify = data_file.verify
    monkeypatch.setattr(data_file, "verify", lambda *a, **k: seen.append(a) or verify(*a, **k))
    simgen("run net --sweep repeats=1,2,3")
    assert len(seen) == 1


def test_a_manifest_tells_of_itself(made):
    path = made.path / "manifest.json"
    path.write_text(path.read_text().replace('"l1": "cached"', '"l1": "bypass"'))
    with pytest.raises(DamagedError, match=r"damaged .not what was written.; build"):
        bundles.load(made.path)
