"""Runs by pieces on the host: side by side, equal launches once, and on after an interruption."""

from __future__ import annotations

from dataclasses import replace

import pytest

import simgen
from simgen.bundle import results, run_record
from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, RunError, UsageError
from simgen.running import pieces as running
from simgen.running import status
from simgen.targets.host import Host

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
CONFIG = """
[DNNMark]
run_mode=composed
"""
FIRST = "n=1\nc=4\nh=12\nw=12\n"
BLOCK = """
[Convolution]
name=conv{at}
previous_layer={before}
{size}num_output=4
kernel_size=3
pad=1
bias=true

[Activation]
name=relu{at}
previous_layer=conv{at}
activation_mode=relu
"""


@pytest.fixture(scope="module", name="bundle")
def repeated_blocks(tmp_path_factory):
    """Four blocks, three of them equal."""
    folder = tmp_path_factory.mktemp("host")
    blocks = [
        BLOCK.format(at=at, before=f"relu{at - 1}" if at else "null", size="" if at else FIRST)
        for at in range(4)
    ]
    config = folder / "blocks.dnnmark"
    config.write_text(CONFIG + "".join(blocks))
    return simgen.plan(config).build(folder / "b", targets=["host"])


def right(bundle, name):
    return bundle.diff(name).outcome == "same"


def test_equal_launches_run_once_and_count_as_often_as_they_are(bundle):
    whole = bundle.run("host", replace=True)
    told = []
    found = bundle.run("host", representatives=True, jobs=2, replace=True, notice=told.append)
    assert found.name == "host@representatives"
    inferred = found.inferred
    assert len(inferred) >= 3
    assert len(found.launches) == len(whole.launches)
    assert all(found.launches)
    for at, like in inferred.items():
        for name, value in found.launches[at].items():
            assert value == found.launches[like][name]
    assert any(f"{len(inferred)} are like them" in line for line in told)
    assert right(bundle, found.name)
    judged = bundle.diff(found.name).reports[0]
    assert {each.layer for each in judged.verdicts} == {
        bundles.load(bundle.path).workload.steps[at].layer
        for at in found.provenance["part"]["steps"]
    }
    assert any("were not run" in note for note in judged.notes)


def asked(made, result):
    record = run_record.read_run(made.path / "results" / result.name, made.workload)
    return record.choices.words()


def test_all_layers_side_by_side_leave_all_tensors(bundle):
    found = bundle.run("host", jobs=3, warm="none", replace=True)
    assert found.name == "host@warm=none,pieces"
    assert found.outputs.keys() == bundle.run("host", replace=True).outputs.keys()
    assert right(bundle, found.name)
    file = bundle.path / "results/host@warm=none,pieces/results.h5"
    assert right(bundle, str(file))  # what steps read travels with the file
    opened = bundles.load(bundle.path)
    assert asked(opened, found) == ["--on", "host", "--jobs", "3", "--warm", "none"]


def test_some_layers_and_points_of_a_sweep_run_by_pieces_too(bundle):
    found = bundle.run("host", layers="conv1..relu3", representatives=True, replace=True)
    assert found.name == "host@conv1..relu3,representatives"
    ran = [at for at, launch in enumerate(found.launches) if launch]
    whole = range(len(found.launches))
    assert ran == list(whole)[-len(ran) :]
    assert found.inferred
    assert right(bundle, found.name)
    swept = bundle.sweep("host", {"n": [2]}, representatives=True, jobs=2)
    assert [bool(point.inferred) for point in swept.values()] == [True]
    swept = bundle.sweep("host", {"n": [2]})  # whole: another result, which is not done yet
    assert [bool(point.inferred) for point in swept.values()] == [False]
    first = bundle.run(
        "host", layers="conv0", jobs=2, replace=True
    )  # reads nothing of other layers
    assert not first.given
    words = asked(bundles.load(bundle.path), first)
    assert words == ["--on", "host", "--layers", "conv0", "--jobs", "2"]
    assert right(bundle, first.name)


def test_finished_pieces_are_kept_until_all_have_ended(bundle, monkeypatch):
    once = running._once
    failing = []

    def fail(work, piece, start):
        if failing:
            once(work, piece, start)
        else:
            failing.append(piece)
            raise RunError("a simulator that died")

    monkeypatch.setattr(running, "_once", fail)
    with pytest.raises(RunError, match=r"1 of .* pieces failed: a simulator that died"):
        bundle.run("host", representatives=True, jobs=4, warm="none", replace=True)
    home = bundle.path / "results/stopped-host@warm=none,representatives"
    kept = sorted((home / "pieces").glob("*.h5"))
    assert len(kept) > 1
    kept[0].write_bytes(kept[0].read_bytes()[:-100])  # damaged meanwhile: it runs again
    stopped = [each for each in status.of_bundle(bundles.load(bundle.path)) if each.steps]
    assert "the command that began it goes on" in [each.fact for each in stopped]
    with pytest.raises(UsageError, match=r"pieces? of another cut .* use the same jobs"):
        bundle.run("host", representatives=True, warm="none", replace=True)
    assert sorted((home / "pieces").glob("*.h5")) == kept
    told = []
    again = {"representatives": True, "jobs": 4, "warm": "none"}
    found = bundle.run("host", **again, replace=True, notice=told.append)
    assert any(f"; {len(kept) - 1} pieces were simulated before" in line for line in told)
    assert right(bundle, found.name)
    assert not home.exists()
    assert not list((bundle.path / "results").glob(".part-*"))


def test_pieces_of_different_simulators_are_no_result(bundle, monkeypatch):
    again = {"jobs": 2, "warm": "none", "replace": True}
    with monkeypatch.context() as patched:
        patched.setattr(running, "_finish", raises(RunError("no end")))
        with pytest.raises(RunError, match="no end"):
            bundle.run("host", **again)
    folder = bundle.path / "results/stopped-host@warm=none,pieces"
    opened = bundles.load(bundle.path)
    file = sorted((folder / "pieces").glob("*.h5"))[0]
    part = results.load(file, opened.workload)
    machine = {**part.provenance["machine"], "simulator": "other", "other_version": "2"}
    told = {**part.provenance, "machine": machine}
    results.save(replace(part, provenance=told), opened.workload, file)
    with pytest.raises(DamagedError, match="different versions or settings"):
        bundle.run("host", **again)


def raises(error):
    def fail(*_):
        raise error

    return fail


def test_a_result_of_pieces_has_none_of_their_files_and_tells_of_damage(bundle):
    found = bundle.run("host", representatives=True, replace=True)
    folder = bundle.path / "results/host@representatives"
    assert found.given
    assert not (folder / "pieces").exists()
    file = folder / "results.h5"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(DamagedError, match="changed since the run"):
        bundle.diff("host@representatives")
