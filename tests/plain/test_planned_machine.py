"""Which machine a bundle is planned for, what depends on it, and what does not fit."""

import dataclasses
import json

import pytest
from census import census

from simgen.ask.build import BuildChoices
from simgen.bundle.planned_machine import choose
from simgen.bundle.planning import Plan, chosen_targets
from simgen.errors import ConfigError, UsageError
from simgen.ground.ir import from_json, to_json
from simgen.ground.machine import descriptions, find, fitted, named
from simgen.layers.product import tile
from simgen.targets import TARGETS
from simgen.workload import costs

FC = (("n", "16"), ("c", "1024"), ("num_output", "4096"))
BN = (("n", "8"), ("c", "32"), ("h", "28"), ("w", "28"), ("batchnorm_mode", "spatial"))


def planned(word, settings=(), targets=("gem5-se", "host"), **choices):
    chosen = chosen_targets(targets, {})
    return Plan(word, BuildChoices(set=tuple(settings), **choices), chosen)


@pytest.mark.parametrize(
    ("targets", "machine"),
    [
        ((), "gem5-gfx902"),
        (("host",), "gem5-gfx902"),
        (("cuda",), "h200"),
        (("host", "cuda", "mgpusim"), "mgpusim-mi300a"),
        (("mgpusim", "gem5-se"), "mgpusim-mi300a"),
        (("hip", "host"), "mi210"),
    ],
)
def test_the_plan_is_for_the_first_simulated_machine_else_the_gpu(targets, machine):
    assert choose(None, chosen_targets(targets, {}) if targets else ()).machine == named(machine)


def test_each_target_has_a_machine_of_the_data_for_all_its_architectures():
    for name, target in TARGETS.items():
        archs = [f.metadata["choices"] for f in dataclasses.fields(target) if f.name == "arch"]
        for arch in archs[0] if archs else ():
            gone = name == "gem5-se" and arch in ("gfx801", "gfx803")  # since 24.0
            old = {"gem5_version": "23.1"} if gone else {}
            made = target(arch=arch, **old)
            if target.simulates or made.machine:
                assert named(made.machine).arch == arch, name
    assert choose("h100", chosen_targets(["gem5-se"], {})).machine.name == "h100"


def test_few_units_need_no_partial_sums_and_many_do():
    few, many = planned("fc_fwd", FC).workload, planned("fc_fwd", FC, ["cuda"]).workload
    assert (len(few.launches), len(many.launches)) == (1, 2)
    assert few.machine.name == "gem5-gfx902"
    assert costs.memory(few)["workspaces"] == 0 < costs.memory(many)["workspaces"]
    assert len(planned("bn_fwd", BN).workload.launches) == 1
    assert len(planned("bn_fwd", BN, ["cuda"]).workload.launches) == 3


def test_a_workload_brings_its_machine_back_and_reproduces_the_plan():
    made = planned("fc_fwd", FC, plan_for="mgpusim-mi300a,num_compute_units=64").workload
    again = from_json(type(made), json.loads(json.dumps(to_json(made))))
    assert again == made
    assert again.machine.label == "mgpusim-mi300a,num_compute_units=64"
    assert len(again.launches) == 2
    assert [c.chosen for each in costs.choices(again) for c in each.choices] == [
        c.chosen for each in costs.choices(made) for c in each.choices
    ]


def test_the_fitted_machine_is_what_layers_have_by_default():
    assert planned("fc_fwd", FC, ["cuda"]).workload.machine == fitted() == named("h200")
    assert tile.partial(fitted()) == 2**23


@census("machine", descriptions())
def test_every_machine_gets_a_plan_with_reasons(machine):
    made = planned("lenet5", passes="fwd,bwd", plan_for=machine).workload
    told = costs.choices(made)
    assert {"conv1", "ip1"} & {each.layer for each in told}
    assert all(c.what and c.chosen and c.why for each in told for c in each.choices)


@pytest.mark.parametrize(
    ("word", "machine", "algorithm", "said"),
    [
        ("fc_fwd", "gem5-gfx902,lds_size=1KiB", None, "layer 'fc': the smallest tile of a product"),
        ("conv_fwd", "gem5-gfx902,lds_size=4KiB", "fft", "layer 'conv', fwd: the smallest tile of"),
        ("conv_fwd", "gem5-gfx902,lds_size=256", "direct", "256 bytes of LDS of gem5-gfx902,"),
    ],
)
def test_a_machine_without_room_is_refused_in_one_line_with_its_place(
    word, machine, algorithm, said
):
    with pytest.raises(ConfigError) as caught:
        _ = planned(word, plan_for=machine, algo=algorithm).workload
    text = str(caught.value)
    assert said in text
    assert machine in text
    assert text.count("; ") == 1
    assert "\n" not in text


def test_an_unknown_machine_is_a_wrong_use():
    with pytest.raises(
        UsageError, match=r"--plan-for h300: no machine 'h300'; did you mean 'h200'"
    ):
        planned("fc_fwd", plan_for="h300")


def test_more_memory_waits_let_a_product_stay_in_one_piece():
    sides = (16, 512, 512)
    slow = find("gem5-gfx902", "here")
    fast = dataclasses.replace(slow, dram_rate=1e15, l2_nbytes=2**25)
    assert tile.best_cut(*sides, machine=slow).splits == 1
    assert tile.best_cut(*sides, machine=fast).splits > 1
