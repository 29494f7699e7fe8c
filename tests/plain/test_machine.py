"""Machines as data: what every file must tell, and naming one with other hardware."""

import dataclasses
import re

import pytest
from census import census

from simgen.errors import UsageError
from simgen.ground import machine
from simgen.ground.storage.schema import from_json, to_json
from simgen.targets.gem5 import apu_se
from simgen.targets.mgpusim.target import GPUS

DESCRIPTIONS = machine.descriptions()


@census("name", DESCRIPTIONS)
def test_a_file_tells_a_machine_of_its_name_and_where_each_number_comes_from(name):
    told = DESCRIPTIONS[name]
    assert told.machine.name == name
    fields = {each.name for each in dataclasses.fields(told.machine)}
    words = {word for key in told.sources for word in re.split(r",\s*", key)}
    assert words <= fields
    # What follows from the architecture, or has no source but itself.
    implied = {"name", "arch", "wavefront", "simds", "options", "item_registers", "line_nbytes"}
    implied |= {"use_matrix", "rounds_products", "asked_lds_nbytes"}
    implied |= {"group_lds_nbytes", "matrix"} if not told.machine.matrix else {"group_lds_nbytes"}
    implied |= set() if told.machine.joins_groups else {"joins_groups"}
    assert fields - words - implied == set()


@census("name", DESCRIPTIONS)
def test_a_machine_is_the_same_after_a_file(name):
    one = DESCRIPTIONS[name].machine
    assert from_json(machine.Machine, to_json(one)) == one
    assert machine.find(one.label, "here") == one


def test_an_amd_machine_has_a_known_architecture_and_one_way_to_simulate_it_each():
    for told in DESCRIPTIONS.values():
        if told.machine.arch.startswith("gfx"):
            known = machine.architectures()[told.machine.arch]
            assert known.wavefront == told.machine.wavefront
    simulated = [d for d in DESCRIPTIONS.values() if d.gem5_se]
    assert len(apu_se.GPUS) == len(simulated) == 6
    assert GPUS == {"mi300a": "gfx942", "r9nano": "gfx803"}


def test_options_make_another_machine_that_its_label_makes_again():
    made = machine.find("gem5-gfx902,tcc-size=1MiB,num_compute_units=16,lds_size=32KiB", "here")
    assert (made.units, made.l2_nbytes) == (16, 2**20)
    assert made.lds_nbytes == made.group_lds_nbytes == 2**15
    assert made.label == "gem5-gfx902,num_compute_units=16,lds_size=32KiB,tcc_size=1MiB"
    assert machine.find(made.label, "here") == made
    again = made.with_options({"num_compute_units": 8}, "here")
    assert (again.units, dict(again.options)["num_compute_units"]) == (8, "8")
    for clock in ("1.5GHz", "1500MHz", "1500000kHz"):
        assert machine.find(f"h200,gpu_clock={clock}", "here").clock == 1.5e9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h300", "no machine 'h300'; did you mean 'h200'?"),
        ("", "no machine ''; known: "),
        ("h200,units=4", "'units' is not an option of a machine; "),
        ("h200,num_compute_unit=4", "did you mean 'num_compute_units'?"),
        ("h200,num_compute_units", "'num_compute_units' is not an option; write OPTION=VALUE"),
        ("h200,num_compute_units=0", "num_compute_units is '0'; write a whole number"),
        ("h200,num_compute_units=4KiB", "num_compute_units is '4KiB'; write a whole number"),
        ("h200,lds_size=1.5", "lds_size is '1.5'; write a whole number, or a size"),
        ("h200,gpu_clock=3", "gpu_clock is '3'; write a clock such as 1.5GHz"),
        ("h200,tcp_size=1GHz", "tcp_size is '1GHz'; write a whole number, or a size"),
    ],
)
def test_a_wrong_machine_is_refused_with_a_cure(text, said):
    with pytest.raises(UsageError) as caught:
        machine.find(text, "--plan-for")
    assert str(caught.value).startswith("--plan-for: ")
    assert said in str(caught.value)


def test_versions_of_gem5_have_the_gpus_that_they_simulate():
    assert apu_se.VERSIONS["21.0"].gpus == ("gfx801",)
    assert apu_se.VERSIONS["21.1"].gpus == ("gfx801", "gfx803")
    assert apu_se.VERSIONS["23.1"].gpus == ("gfx902", "gfx900", "gfx801", "gfx803")
    assert apu_se.VERSIONS["24.0"].gpus == ("gfx902", "gfx900", "gfx90a", "gfx942")
    assert next(name for name, v in apu_se.VERSIONS.items() if v.dumps) == "24.0"
