"""DeepBench's problems by name."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from functools import cache

import pytest
from census import census
from command_line import fails

import simgen as api
from simgen.frontend import deepbench, operation
from simgen.frontend.drivers.deepbench_programs import DeepBenchPrograms
from simgen.ground import resources
from simgen.ground.ir import Pass


@cache
def every():
    return [each for family in operation.FAMILIES for each in deepbench.problems(family)]


# How many problems DeepBench's lists have, at da81ba7.
COUNTS = {
    ("gemm", "training"): 160, ("gemm", "server"): 75, ("gemm", "device"): 13,
    ("conv", "training"): 94, ("conv", "server"): 107, ("conv", "device"): 16,
    ("rnn", "training"): 53, ("rnn", "server"): 69, ("rnn", "device"): 3,
    ("sparse", "server"): 24, ("sparse", "device"): 8, ("allreduce", "training"): 7,
}  # fmt: skip


def test_all_problems_are_there():
    assert Counter((each.family, each.set) for each in every()) == COUNTS
    assert len(every()) == 629
    assert all(deepbench.find(each.name) is each for each in every())


# SHA-256 of the tuples in DeepBench's headers: a line each, with blanks between its values, and 0
# and 1 for false and true.
DIGESTS = {
    "gemm": "88005c3c84ac8f39",
    "conv": "290224f5b0497d40",
    "rnn": "34048727d5f41a9b",
    "sparse": "eca34eb5c94f86e2",
}


@pytest.mark.parametrize("family", DIGESTS)
def test_lists_are_those_of_the_original(family):
    text = (resources.folder("data") / "deepbench" / f"{family}.csv").read_text()
    _, *rows = csv.reader(text.splitlines())
    lines = "\n".join(" ".join(row[2:-1]) for row in rows)
    assert hashlib.sha256(lines.encode()).hexdigest().startswith(DIGESTS[family])


def test_what_is_there_twice_and_what_is_a_slip_says_so():
    for family in operation.FAMILIES:
        seen = {}
        for each in deepbench.problems(family):
            first = seen.setdefault((each.set, each.operation), each)
            if family != "sparse" or first is not each:
                assert each.note == ("" if first is each else f"the same as {first.name}")
    slips = [each for each in deepbench.problems("sparse") if each.operation.m == 7860]
    assert len(slips) == 8
    assert all(each.note == "m is 7860, where 7680 is meant" for each in slips)


def test_the_list_is_printed_by_family(simgen):
    assert len(simgen("list deepbench --json").json()["rows"]) == 629
    (*_, last) = simgen("list deepbench conv --json").json()["rows"]
    assert last["problem"] == "deepbench/conv/217"
    assert last["types"] == "f32 f16 i8"
    fails(simgen("list deepbench cov"), 2, "did you mean 'conv'?")
    fails(simgen("list layers conv"), 2, "layers has no parts")


@census("each", lambda: every()[::40])
def test_every_fortieth_problem_is_planned_in_each_pass(each):
    for direction in each.passes:
        made = api.plan(each.name, passes=None if each.family == "gemm" else direction)
        (step,) = made.workload.steps
        assert step.direction is Pass(direction)
        assert step.launches


REFUSED = [
    ("deepbench/gem/17", "did you mean 'gemm'?"),
    ("deepbench/gemm/249", "gemm has the problems 1 to 248"),
    ("deepbench/gemm/017", "gemm has the problems 1 to 248"),
    ("deepbench/gemm", "gemm has the problems 1 to 248"),
    ("depbench/gemm/17", "did you mean 'deepbench/gemm/1'?"),
    ("deepbench/gemm/17 --type i8", "training set, which has f32, f16; take one of them"),
    ("deepbench/sparse/17 --type f16", "server set, which has f32"),
    ("deepbench/conv/217 --pass bwd_data", "device set, which has fwd"),
    ("deepbench/gemm/17 --pass bwd", "training set, which has fwd"),
    ("deepbench/rnn/54 --pass bwd_data", "server set, which has fwd"),
    ("deepbench/rnn/54 --type i8", "[Recurrent] has floating-point types up to 32 bits"),
    ("sparse:m=9,n=4,k=7,sparsity=0.5,tb=1", "but [SparseGemm] transposes nothing; write 0"),
]


@pytest.mark.parametrize(("words", "fact"), REFUSED)
def test_what_a_list_does_not_have_is_one_line(simgen, words, fact):
    fails(simgen(f"show {words}"), 2, fact)


def test_show_says_what_the_problem_is(simgen):
    shown = simgen("show deepbench/conv/73 --json").json()
    assert shown["notes"][0].startswith("deepbench/conv/73, training set, the same as")
    assert shown["name"] == "deepbench_conv_73"
    assert (
        simgen("show deepbench/conv/73 --pass bwd_data --json").json()["name"].endswith("_bwd_data")
    )
    notes = simgen("show deepbench/gemm/17 --json").json()["notes"]
    assert "by columns, as in BLAS" in notes[1]


def test_sides_that_lie_transposed_are_0_and_1_in_a_line_for_its_programs():
    """By gemm_bench.cu: M, N and K, then whether a and b are transposed."""
    given = {"m": "32", "n": "16", "k": "8", "ta": "0", "tb": "1", "beta": "1", "type": "f16"}
    made = operation.FAMILIES["gemm"].read(given.items(), "gemm")
    assert DeepBenchPrograms().lines(made) == ["gemm_bench inference half 32 16 8 0 1"]
