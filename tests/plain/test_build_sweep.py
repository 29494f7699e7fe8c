"""Sweeps over settings of a build: the bundles beside the one that is swept, and their points."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from command_line import fails
from handmade import build, lowered, run_by_hand, tree, with_manifest

from simgen import api
from simgen.ask.run import RunCommand
from simgen.bundle import recipe, result_names
from simgen.bundle import writing as bundles
from simgen.bundle.planning import Plan
from simgen.errors import RefusedError, RunError, UsageError
from simgen.running import siblings, sweep_points
from simgen.running.sweep_points import SweepPoint
from simgen.targets import TARGETS
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim.target import MGPUSim

NET = """
[Activation]  # $NOT_A_VARIABLE
name=a
n=$BATCH
c=3
[Softmax]
name=s
previous_layer=a
"""
SOFTMAX = "build softmax_fwd -t null --set c=10 -q -o net"


def settable():
    return ["n", "algo", "mode", "a-b.n"]


# ------------------------------------------------------------------ grids


def test_settings_of_a_build_vary_more_slowly_than_options_of_the_run():
    grid = ["gpus=1,2", "n=4,8", "mode=emu", "a-b.n=3"]
    found = sweep_points.points(
        MGPUSim(), RunCommand(grid=grid, options={"tcp_latency": 5}), settable
    )
    assert [point.name for point in found] == [
        f"mgpusim@n={n},a-b.n=3,mode=emu,tcp_latency=5,gpus={gpus}"
        for n in (4, 8)
        for gpus in (1, 2)
    ]
    assert {point.result for point in found} == {
        "mgpusim@mode=emu,tcp_latency=5,gpus=1", "mgpusim@mode=emu,tcp_latency=5,gpus=2",
    }  # fmt: skip
    assert len({point.home for point in found}) == 2
    assert SweepPoint("host", {}, {"n": "4"}).result == "host"


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (["alg=1"], "no setting of a build, nor of gem5-se; did you mean 'algo'?"),
        (["num_compute_unit=1"], "did you mean 'num_compute_units'?"),
        (["n=1", "n=2"], "n is given twice; leave one out"),
    ],
)
def test_what_is_neither_is_refused_with_what_it_might_have_been(grid, words):
    with pytest.raises(UsageError, match="--sweep") as raised:
        sweep_points.points(Gem5Se(), RunCommand(grid=grid, options={}), settable)
    assert words in str(raised.value)


def test_no_option_of_a_run_has_the_name_of_one_of_a_build():
    for target in TARGETS.values():
        assert not siblings.SWEPT.keys() & target.run_options.keys()


def test_a_point_is_found_in_the_sweep_that_its_bundle_is_of():
    at = result_names.in_sweep
    assert at("net@n=4", "host@mode=x") == ("net", "host@n=4,mode=x")
    assert at("net@n=4", "host") == ("net", "host@n=4")
    assert at("net@n=4", "host@a..b") == ("net@n=4", "host@a..b")
    assert at("net", "host@mode=x") == ("net", "host@mode=x")
    assert at("net@n=4", "host@representatives") == ("net", "host@n=4,representatives")
    assert at("net@n=4", "host@mode=x,pieces") == ("net", "host@n=4,mode=x,pieces")


# ------------------------------------------------------------------ what a bundle keeps


@pytest.mark.parametrize(
    "words",
    [
        "lenet5 --pass fwd,bwd,sgd --layers conv1..pool1 --algo direct --rate 0.5 --training",
        "lenet5 --fuse --reuse-memory --seed 7 --plan-for h200",
        "softmax_bwd --set n=3 --type f16",
        "conv_fwd --values exact --set n=1",
        "gemm:m=35,n=12,k=20",
        "net.dnnmark --set BATCH=5 --set s.softmax_algo=log",
    ],
)
def test_a_bundle_can_be_planned_again_without_its_config(simgen, tmp_path, words):
    (tmp_path / "net.dnnmark").write_text(NET)
    done = simgen(f"build {words} -t null -q -o made")
    assert (done.code, done.err) == (0, "")
    (tmp_path / "net.dnnmark").unlink()
    made = bundles.load(tmp_path / "made")
    found = recipe.of_bundle(made)
    again = Plan(found, found.choices, [TARGETS["null"]()])
    assert again.workload == made.workload
    kept = {key: made.manifest[key] for key in ("simgen", "config", "config_text")}
    assert again.provenance() == kept


def test_a_bundle_without_its_config_or_with_a_damaged_one_says_so(simgen, tmp_path):
    simgen(SOFTMAX)
    made = bundles.load(tmp_path / "net")
    with_manifest(made, config={**made.manifest["config"], "passes": ["fvd"]})
    fails(
        simgen("run net --on null --sweep n=1"), 7, "net/manifest.json: damaged", "build it again"
    )
    with_manifest(made, config_text=5)
    fails(simgen("run net --on null --sweep n=1"), 7, "config_text: not a text")
    with_manifest(made, config_text="[Softmax]\nn=")
    fails(simgen("run net --on null --sweep n=1"), 2, "softmax:2")
    old = {name: value for name, value in made.manifest.items() if name != "config_text"}
    with_manifest(type(made)(made.path, old, made.workload))
    fails(simgen("run net --on null --sweep n=1"), 2, "net: built by an earlier version", "again")


# ------------------------------------------------------------------ sweeps


def test_points_are_bundles_beside_it_with_one_table_and_one_report(simgen, tmp_path):
    simgen(SOFTMAX)
    before = tree(tmp_path / "net")
    done = simgen("run net --on null --sweep n=1,4 --sweep softmax_mode=instance,channel")
    assert (done.code, done.err) == (0, ""), done
    assert tree(tmp_path / "net") == before
    names = [f"net@n={n},softmax_mode={mode}" for n in (1, 4) for mode in ("instance", "channel")]
    assert sorted(path.name for path in tmp_path.glob("net@*")) == sorted(names)
    assert done.out.splitlines()[-1] == f"next: simgen report {' '.join(names)} -o report"
    assert "4 points, 0 done before" in done.out
    assert [line.split()[:2] for line in done.out.splitlines()[-6:-2]] == [
        ["1", "instance"], ["1", "channel"], ["4", "instance"], ["4", "channel"],
    ]  # fmt: skip
    simgen(
        "build softmax_fwd -t null --set c=10 --set n=4 --set softmax_mode=instance -q -o by_hand"
    )
    by_hand, made = (bundles.load(tmp_path / name) for name in ("by_hand", names[2]))
    assert (by_hand.workload, by_hand.targets) == (made.workload, made.targets)


def test_the_report_draws_the_time_against_what_was_swept(simgen, tmp_path):
    for n in ("1", "4"):
        made = build(tmp_path / f"net@n={n}", lowered("softmax_fwd", ("n", n), ("c", "10")))
        for name in ("cuda@repeats=2", "cuda@repeats=10", "cuda"):
            run_by_hand(made, target=name)
    assert simgen("report net@n=1 net@n=4 -o out -q").code == 0
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("Time against n: cuda<") == 2  # with the option of the run, and without
    assert "Time against repeats: cuda<" in page


def test_what_is_done_is_not_done_again_and_a_sweep_grows(simgen, tmp_path):
    simgen(SOFTMAX)
    simgen("run net --on null --sweep n=1,4 -q")
    left = tree(tmp_path / "net@n=4")
    done = simgen("run net --on null --sweep n=1,4,8")
    assert "3 points, 2 done before" in done.out
    assert tree(tmp_path / "net@n=4") == left
    simgen("run net@n=4 --on null --sweep c=20")
    assert bundles.load(tmp_path / "net@n=4,c=20").workload.nodes[0].inputs[0].shape == (
        4,
        20,
        1,
        1,
    )


def test_bundles_of_another_sweep_s_workload_are_not_lost(simgen, tmp_path):
    simgen(SOFTMAX)
    simgen("run net --on null --sweep n=1,4 -q")
    shutil.rmtree(tmp_path / "net")
    simgen(f"{SOFTMAX} --seed 3")
    (tmp_path / "net@n=8").mkdir()
    (tmp_path / "net@n=8/mine").write_text("")
    done = simgen("run net --on null --sweep n=1,8,16 -q")
    assert done.code == 5
    lost, mine, last = done.err.splitlines()
    assert lost.startswith("failed: net@n=1: net@n=1: ")
    assert "the workload changes; sweep a copy of the bundle in another folder, or remove" in lost
    assert mine.startswith("failed: net@n=8: net@n=8: exists and is not a bundle; ")
    assert "2 of 3 points failed: null@n=1, null@n=8; " in last
    assert api.load("net@n=16").ran == ["null"]
    assert simgen("run net --on null --sweep n=1 --again -q").code == 0
    assert bundles.load(tmp_path / "net@n=1").workload.seed == 3


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ("n=4,x", "--sweep net@reuse_memory=yes,n=x: --set n=x: n is 'x'; write a whole number"),
        ("m=4", "--sweep 'm=4': no setting of a build, nor of null; known: algo, c, fuse, h, "),
        ("softmax.nn=4", "did you mean 'softmax.n'?"),
        (
            "fuse=maybe",
            "--sweep net@reuse_memory=yes,fuse=maybe: --fuse 'maybe': write yes or no",
        ),
        ("seed=x", "--seed 'x': write a whole number"),
        ("seed=-1", "--seed '-1': write a whole number"),
        ("algo=direct", "no layer here has a choice of algorithms"),
        ("plan_for=h20", "did you mean 'h200'?"),
        ("type=f6", "did you mean"),
        ("n=../../x", "not a value that the name of a folder can have"),
    ],
)
def test_what_is_no_value_is_refused_before_anything_is_built(simgen, tmp_path, grid, words):
    simgen(SOFTMAX)
    before = tree(tmp_path)
    fails(simgen(f"run net --on null --sweep reuse_memory=yes --sweep {grid}"), 2, words)
    assert tree(tmp_path) == before


def test_siblings_are_planned_for_the_bundle_s_machine_unless_that_is_swept(simgen, tmp_path):
    simgen("build fc_fwd -t null --set c=8 --set h=1 --set num_output=8 --plan-for h200 -q -o net")
    assert simgen("run net --on null --sweep n=2 --sweep plan_for=h200,mgpusim-r9nano -q").code == 0
    assert simgen("run net --on null --sweep n=3 -q").code == 0
    machines = {
        path.name: bundles.load(path).workload.machine.name for path in tmp_path.glob("net@*")
    }
    assert machines == {
        "net@n=2,plan_for=h200": "h200",
        "net@n=2,plan_for=mgpusim-r9nano": "mgpusim-r9nano",
        "net@n=3": "h200",
    }


def test_settings_of_the_target_are_swept_too(own_folder, tmp_path, monkeypatch):
    def folder(self, job, builder):
        return {"run.sh": TARGETS["null"]().package.folder(job, builder)["run.sh"]}

    monkeypatch.setattr(type(MGPUSim().package), "folder", folder)
    made = api.plan("softmax_fwd", set={"n": 4}).build("net", ["mgpusim", "null"])
    family = siblings.Family(bundles.load(made.path), MGPUSim())
    assert {"arch", "n", "softmax.n", "algo"} <= set(family.settings())
    found = family.sibling({"arch": "gfx803", "n": "2"})
    assert found.path.name == "net@arch=gfx803,n=2"
    assert [(t.name, t.settings().get("arch")) for t in found.targets] == [
        ("mgpusim", "gfx803"), ("null", None),
    ]  # fmt: skip
    assert found.plan.workload.machine.name == MGPUSim(arch="gfx803").machine
    with pytest.raises(UsageError, match=r"--sweep net@arch=gfx1: mgpusim: --arch 'gfx1': unknown"):
        family.sibling({"arch": "gfx1"})


def test_a_bundle_that_cannot_be_built_fails_its_points_alone(own_folder, monkeypatch):
    made = api.plan("softmax_fwd", set={"n": 4}).build("net", "null")
    null = type(TARGETS["null"]().package)
    make = null.folder

    def folder(self, job, builder):
        if job.workload.nodes[0].inputs[0].shape[0] == 2:
            raise RefusedError("null: two is too many; take one")
        return make(self, job, builder)

    monkeypatch.setattr(null, "folder", folder)
    told = []
    with pytest.raises(RunError, match=r"1 of 3 points failed: null@n=2; "):
        made.sweep("null", {"n": [1, 2, 3]}, notice=told.append)
    assert "failed: net@n=2: null: two is too many; take one" in told
    assert list(made.sweep("null", {"n": [1, 3]})) == ["null@n=1", "null@n=3"]


def test_own_values_stay_those_of_the_tensors_that_had_them(own_folder, tmp_path):
    sizes = {"n": 4, "c": 27, "h": 1, "w": 1, "num_output": 10}
    shape = api.plan("fc_fwd", set=sizes).workload.buffer("fc.w").spec.shape
    np.save("fc.w.npy", np.full(shape, 0.5, "f4"))
    made = api.plan("fc_fwd", set=sizes, values="fc.w.npy").build("net", "null")
    found = made.sweep("null", {"n": [2]})
    assert list(found) == ["null@n=2"]
    other = bundles.load(tmp_path / "net@n=2").workload
    assert other.buffer("fc.w").values == bundles.load(made.path).workload.buffer("fc.w").values
    assert other.buffer("fc.x").values is None
    with pytest.raises(UsageError, match=r"net@c=13: values .*data.h5: .fc\.w.: has shape"):
        made.sweep("null", {"c": [13]})


def test_the_manifest_s_text_has_no_comments(own_folder, tmp_path):
    (tmp_path / "net.dnnmark").write_text(NET)
    made = api.plan("net.dnnmark", set={"BATCH": 2}).build("made", "null")
    text = json.loads((made.path / "manifest.json").read_text())["config_text"]
    assert "$BATCH" in text
    assert "#" not in text
    assert set(made.sweep("null", {"BATCH": [1, 3]})) == {"null@BATCH=1", "null@BATCH=3"}
