"""The contract of targets, for all of them: settings, four roles, and the table of simulators."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from handmade import small

from simgen import api
from simgen.cli import doctor, inventory
from simgen.errors import DamagedError
from simgen.ground import metrics, resources
from simgen.isa import legalise
from simgen.isa.legalise import REWRITINGS, Model, facts, simulators
from simgen.targets import TARGETS
from simgen.targets.base import EVERYTHING, Package, Reader, Requirements, Watcher
from simgen.targets.gem5.launcher import LAUNCHERS
from simgen_rocm import gem5_dnnmark, gem5_fs, gem5_hip, hip

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.targets import Target

every = pytest.mark.parametrize("target", [kind() for kind in TARGETS.values()], ids=list(TARGETS))


@every
def test_a_target_has_four_roles(target: Target):
    roles = (target.needs, target.package, target.watcher, target.reader)
    kinds = (Requirements, Package, Watcher, Reader)
    assert all(isinstance(role, kind) for role, kind in zip(roles, kinds, strict=True))
    assert type(target)(**target.settings()) == target
    assert target.summary[-1] not in ".;"


@every
def test_what_is_missing_has_a_cure(target: Target, monkeypatch: pytest.MonkeyPatch):
    for name in ("GEM5", "GEM5_DISK_IMAGE", "GEM5_KERNEL", "DNNMARK", "SIMGEN_GO", "GPGPUSIM_ROOT"):
        monkeypatch.delenv(name, raising=False)
    assert all(lack.fact and lack.cure for lack in target.needs.missing())


@every
def test_an_empty_folder_is_damage_and_no_result(target: Target, tmp_path: Path):
    with pytest.raises(DamagedError, match=re.escape(str(tmp_path))):
        target.reader.metrics(tmp_path, small())


@every
def test_a_run_of_which_nothing_is_known_is_not_explained(target: Target, tmp_path: Path):
    look = target.watcher.watch(tmp_path, small())
    assert look is None or look().launches == 0
    assert target.watcher.launches_done("") is None
    assert target.watcher.diagnosis("") is None
    assert target.watcher.located("fact", tmp_path, small()) == "fact"


@every
def test_options_have_variables_of_their_own(target: Target):
    variables = [option.variable for option in target.run_options.values()]
    assert len(set(variables)) == len(variables)
    assert all(name.startswith("SIMGEN_") for name in variables)


@every
def test_a_kernel_begins_as_source(target: Target):
    stages = target.package.stages()
    assert stages[:1] == ("source",)
    assert len(set(stages)) == len(stages)


def test_what_lies_among_the_untested_says_so_and_nothing_else():
    apart = {gem5_fs.Gem5Fs, hip.Hip}
    assert {kind for kind in TARGETS.values() if kind.unseen() == EVERYTHING} == apart
    launchers = {gem5_hip.HipLauncher, gem5_dnnmark.DnnMark}
    unseen = {type(each) for each in LAUNCHERS.values() if not each.seen_running}
    assert unseen == launchers
    for kind in (*apart, *launchers):
        assert kind.__module__.startswith("simgen_rocm.")
    for kind in {*TARGETS.values(), *map(type, LAUNCHERS.values())} - apart - launchers:
        assert not kind.__module__.startswith("simgen_rocm.")


def test_the_list_of_targets_says_what_was_seen_running():
    rows = {row["target"]: row for row in inventory._list_targets()}
    assert {name: row["seen_running"] for name, row in rows.items()} == {
        "gem5-se": "yes, not --launcher dnnmark, --launcher hip",
        "gem5-fs": "no", "hip": "no",
        "gpgpusim": "yes", "mgpusim": "yes", "host": "yes", "cuda": "yes",
    }  # fmt: skip
    assert "null" not in rows  # an example for those who write targets
    assert rows["host"]["stages"] == ["source", "program"]
    assert not any(check.what == "target null" for check in doctor.check())


def test_the_null_target_keeps_the_contract_from_build_to_diff(tmp_path: Path):
    """With a shell and nothing else, so that what differs on other targets is theirs."""
    bundle = api.plan("softmax_fwd", set={"n": 3, "c": 5}).build(tmp_path / "b", targets=["null"])
    told: list[tuple[str, int, int]] = []
    result = bundle.run("null", progress=lambda *step: told.append(step))
    (launch,) = result.launches
    assert launch.keys() <= metrics.METRICS.keys()
    (output,) = result.outputs.values()
    assert output.untouched == output.values.size == 15
    assert output.guard_intact
    assert result.provenance["gpus"] == 1
    judged = bundle.diff("null")
    assert not judged
    assert "were never written" in " ".join(judged.reports[0].verdicts[0].reasons)


# The table of simulators ---------------------------------------------------------------------


@pytest.mark.parametrize("simulator", simulators.simulators())
def test_every_row_names_rewritings_that_there_are(simulator: str):
    for version, made in legalise.versions(simulator).items():
        for arch, row in made.architectures.items():
            assert set(row.rewritings) <= REWRITINGS.keys()
            model = Model(simulator, version, arch)
            read = facts.table_of(model) is not None
            assert read is (simulator == "gem5" and version != "develop")
            for edges, first in ((False, legalise.WRONG), (True, legalise.EDGES)):
                chosen = legalise.names(model, edges=edges)
                assert chosen == (first,) * read + row.rewritings


@pytest.fixture(name="isa")
def own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the table, to which files can be added."""
    data = tmp_path / "data"
    shutil.copytree(resources.folder("data") / "isa", data / "isa")
    monkeypatch.setattr(resources, "folder", lambda name: tmp_path / name)
    for cached in (simulators.versions, simulators.support, simulators.native):
        cached.cache_clear()
        monkeypatch.setattr(simulators, cached.__name__, cached.__wrapped__)
    return data / "isa"


def test_a_new_version_of_a_simulator_is_a_file(isa: Path):
    made = json.loads((isa / "gem5-25.0.json").read_text())
    made["version"] = "25.2"
    made["architectures"]["gfx902"]["rewritings"] = ["scalar_offset"]
    (isa / "gem5-25.2.json").write_text(json.dumps(made))
    assert list(simulators.versions("gem5"))[-3:] == ["25.1", "25.2", "develop"]
    text = "\t.type\tk,@function\nk:\n; %bb.0:\n\tv_add_u16_e32 v0, v1, v2\n\ts_endpgm\n"
    changed = {
        version: legalise.rewrite(text, Model("gem5", version, "gfx902")).text != text
        for version in ("25.0", "25.2")
    }
    assert changed == {"25.0": True, "25.2": False}


def test_what_a_version_has_learnt_needs_no_rule(isa: Path):
    text = "\t.type\tk,@function\nk:\n; %bb.0:\n\tv_floor_f32_e32 v0, v1\n\ts_endpgm\n"
    made = json.loads((isa / "mgpusim-4.2.0.json").read_text())
    row = made["architectures"]["gfx942"]
    row["native"] += ["v_floor_f32_e32"]
    row["learnt"] = ["v_floor_f32_e32"]
    (isa / "mgpusim-4.10.0.json").write_text(json.dumps({**made, "version": "4.10.0"}))
    assert list(simulators.versions("mgpusim")) == ["4.2.0", "4.10.0"]
    replaced = {
        version: legalise.rewrite(text, Model("mgpusim", version, "gfx942")).replaced
        for version in ("4.2.0", "4.10.0")
    }
    assert replaced == {"4.2.0": {"v_floor_f32_e32": 1}, "4.10.0": {}}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"simulator": "gem5"}', '{"simulator": "x", "version": "y", "more": 1}']
)
def test_a_damaged_file_of_the_table_is_named(isa: Path, text: str):
    (isa / "gem5-26.0.json").write_text(text)
    with pytest.raises(DamagedError, match=r"gem5-26\.0\.json: damaged"):
        simulators.versions("gem5")


def test_a_file_of_another_version_is_refused(isa: Path):
    shutil.copy(isa / "gem5-25.0.json", isa / "gem5-26.0.json")
    with pytest.raises(DamagedError, match=r"holds the table of gem5 25\.0; rename it so"):
        simulators.versions("gem5")
