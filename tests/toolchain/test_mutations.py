"""Deliberately wrong kernels: each is caught by `diff`, by the sanitizer or by both.

A mutant is a rendered kernel with one change in its text. It runs on the host target with and
without `sanitize`; what catches it is part of the table, so that neither check grows weaker unseen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant

from simgen.ground.ir import Pass
from simgen.kernels import render
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

F, B = Pass.FORWARD, Pass.BACKWARD
RACE = "data race: "
PAST = "past the end of buffer "
UNWRITTEN = "before it is written: "
INPUT = "writes an input of the workload: "


def softmax(algo: str, *shape: int) -> Problem:
    variant = Variant("softmax", (("softmax_algo", algo), ("softmax_mode", "channel")))
    return Problem(variant, (shape[0], shape[1], shape[2], shape[3]))


def activation(mode: str, size: int) -> Problem:
    return Problem(Variant("activation", (("activation_mode", mode),)), (1, 1, 1, size))


ROWS = softmax("accurate", 11, 100, 1, 1)  # 8 rows in a work-group, 2 barriers in a reduction
WIDE = softmax("accurate", 2, 60004, 1, 1)  # rows that a work-group cannot hold
STRIDED = softmax("accurate", 2, 17, 9, 9)
LOG = softmax("log", 11, 100, 1, 1)
RELU = activation("relu", 1030)  # two elements after the last vector
SIGMOID = activation("sigmoid", 1030)
TANH = activation("tanh", 1030)
SOFT_RELU = activation("soft_relu", 1030)
GELU = activation("gelu", 1030)
GELU_TANH = activation("gelu_tanh", 1030)
SILU = activation("silu", 1030)
GATE = Problem(Variant("gate", (("gate_packed", "true"),)), (5, 40))
ROUTER = Problem(Variant("router", (("top_k", "4"), ("groups", "3"), ("top_groups", "2"))), (9, 48))
ADDED = Problem(Variant("add_rms_norm", ()), (5, 72))
MX = Problem(Variant("quantise", (("format", "mxfp6"),)), (5, 128))
SCALED = Problem(
    Variant("scaled_fc", (("format", "mxfp4"), ("scaled_x", "true"), ("block_rows", "3"))), (5, 128)
)
TOKENS = Problem(Variant("quantised_add_rms_norm", ()), (5, 72))
ROOT = Problem(Variant("rms_norm", ()), (5, 72))

PASSES = {
    "rows-fwd": (ROWS, F), "rows-bwd": (ROWS, B), "wide-fwd": (WIDE, F), "wide-bwd": (WIDE, B),
    "strided-fwd": (STRIDED, F), "strided-bwd": (STRIDED, B), "log-fwd": (LOG, F),
    "log-bwd": (LOG, B), "relu-fwd": (RELU, F), "relu-bwd": (RELU, B), "sigmoid-fwd": (SIGMOID, F),
    "sigmoid-bwd": (SIGMOID, B), "tanh-fwd": (TANH, F), "tanh-bwd": (TANH, B),
    "soft_relu-fwd": (SOFT_RELU, F), "soft_relu-bwd": (SOFT_RELU, B),
    "gelu-fwd": (GELU, F), "gelu-bwd": (GELU, B), "gelu_tanh-bwd": (GELU_TANH, B),
    "gate-fwd": (GATE, F), "gate-bwd": (GATE, B), "router-fwd": (ROUTER, F),
    "added-fwd": (ADDED, F), "root-bwd": (ROOT, Pass.BACKWARD_DATA),
    "mx-fwd": (MX, F), "scaled-fwd": (SCALED, F), "tokens-fwd": (TOKENS, F),
    "silu-fwd": (SILU, F), "silu-bwd": (SILU, B),
}  # fmt: skip
BARRIER = "    __syncthreads();\n"
# Of a reduction: the second one is there where a work-group's items reduce in two steps.
BARRIERS = {
    "rows-fwd": 2, "rows-bwd": 2, "wide-fwd": 2, "wide-bwd": 2, "strided-fwd": 1, "strided-bwd": 1,
    "log-fwd": 2, "log-bwd": 2, "added-fwd": 2, "root-bwd": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    what: str
    kernel: str  # key of PASSES
    old: str
    new: str
    fails: bool  # without sanitizer: diff fails, or the run itself
    sanitizer: str = ""  # what the sanitizer says; empty: nothing
    nth: int = 0  # which of the places where `old` stands

    def __str__(self) -> str:
        return f"{self.kernel}-{self.what}".replace(" ", "-")

    def apply(self, text: str) -> str:
        places = [match.start() for match in re.finditer(re.escape(self.old), text)]
        assert len(places) > self.nth, f"the kernel no longer holds {self.old!r}"
        at = places[self.nth]
        return text[:at] + self.new + text[at + len(self.old) :]


MUTANTS = (
    # Arithmetic.
    Mutant("constant", "rows-fwd", "1.44269504f", "1.44269f", True),
    Mutant("constant", "strided-fwd", "1.44269504f", "1.4427f", True),
    Mutant("constant", "log-fwd", "0.693147181f", "0.6931f", True),
    Mutant("constant", "sigmoid-fwd", "1.44269504f", "1.44270f", True),
    Mutant("sum for maximum", "rows-fwd", "{ return maximum(a, b); }", "{ return a + b; }", True),
    Mutant("no maximum", "rows-fwd", "CENTRED ? x - most : x", "CENTRED ? x : x", True),
    Mutant("no reciprocal", "rows-fwd", "fast_rcp(sum)", "sum", True),
    Mutant("no reciprocal", "sigmoid-fwd", "fast_rcp(1.0f + ", "(1.0f + ", True),
    Mutant("coefficient", "tanh-fwd", "-1.0f / 3", "-1.0f / 4", True),
    # Without relative accuracy in the tails: the formulas as they stand.
    Mutant("logarithm", "soft_relu-fwd", "fused(s, fused(square, fused(square, tail, 0.66666317f), "
           "2.0f), maximum(x, 0.0f))",
           "fused(0.693147181f, fast_log2(1.0f + e), maximum(x, 0.0f + 0.0f * tail))", True),
    Mutant("coefficient", "soft_relu-fwd", "0.400249094f", "0.39f", True),
    Mutant("coefficient", "gelu-fwd", "0.0772021785f", "0.0773f", True),
    Mutant("no maximum", "gelu-fwd", "maximum(x, 0.0f) -", "x -", True),
    Mutant("constant", "gelu-bwd", "-0.398942280f", "-0.39895f", True),
    Mutant("one side", "gelu-bwd", "x > 0.0f ? 1.0f - low : low", "low", True),
    Mutant("other half", "gate-fwd", "load4(x1 + from + OTHER)", "load4(x1 + from)", True),
    Mutant("no slope", "gate-bwd", "dy * up * unit_slope<FUNCTION>(x)", "dy * up", True),
    Mutant("all groups", "router-fwd", "before >= TOP_GROUPS", "before > TOP_GROUPS", True),
    Mutant("not the best", "router-fwd", "rank[k] += theirs > score[k]",
           "rank[k] += theirs < score[k]", True),
    Mutant("no sum", "router-fwd", "sum += chosen[own * TOP_K + k];",
           "sum += 0.0f * chosen[own * TOP_K + k];", True),
    Mutant("one tensor", "added-fwd", "part[j] += more[j];", "part[j] += 0.0f * more[j];", True),
    Mutant("cut off", "mx-fwd", "(1u << (SHIFT - 1)) - 1 +", "0 *", True, nth=1),
    Mutant("larger scale", "mx-fwd", "exponent - top :", "exponent - top + 1 :", True),
    Mutant("other scales", "scaled-fwd", "row / ROWS_OF_SCALE *", "row % 2 *", True),
    Mutant("no sign", "scaled-fwd", "| (word & SIGN) << (32 - BITS)", "", True, nth=1),
    Mutant("largest", "tokens-fwd", "1.0f / MOST", "1.0f / 440.0f", True),
    Mutant("no mean", "root-bwd", "* -INVERSE * scale", "* -scale", True),
    Mutant("constant", "silu-fwd", "? -1.44269504f", "? -1.4427f", True),
    Mutant("steepness", "silu-bwd", "? 1.0f : fused", "? 0.999f : fused", True),
    Mutant("constant", "gelu_tanh-bwd", "0.214064499f", "0.2141f", True),
    Mutant("cancels", "soft_relu-bwd", "y > 0.25f", "y > 0.01f", True),
    Mutant("cancels", "tanh-bwd", "(1.0f - y) * (1.0f + y)", "(1.0f - (y * y))", True),
    Mutant("minimum for maximum", "relu-fwd", "maximum(x, 0.0f)", "minimum(x, 0.0f)", True),
    Mutant("not strict", "relu-bwd", "y > 0.0f", "y >= 0.0f", True),
    Mutant("sign", "sigmoid-bwd", "1.0f - y", "1.0f + y", True),
    Mutant("lost term", "rows-fwd", "unsigned k = 1; k < LAST", "unsigned k = 2; k < LAST", True),
    # Arguments.
    Mutant("swapped", "rows-bwd", "Element* __restrict__ y, const Element* __restrict__ dy",
           "Element* __restrict__ dy, const Element* __restrict__ y", True),
    Mutant("swapped", "tanh-bwd", "Element* __restrict__ y, const Element* __restrict__ dy",
           "Element* __restrict__ dy, const Element* __restrict__ y", True),
    Mutant("one for both", "wide-bwd", "read(dy, base, at)", "read(y, base, at)", True),
    # Barriers, each in its turn. Without the first of two (or the only one), work-items read what
    # is not there yet.
    *(
        Mutant(f"barrier {i}", kernel, BARRIER, "", True, RACE if i else UNWRITTEN, i)
        for kernel, count in BARRIERS.items()
        for i in range(count)
    ),
    # Two of a reduction; then of the scores, the groups' best, the groups left out and the weights.
    # Without that of the groups' best, work-items read what the reduction left there.
    *(
        Mutant(f"barrier {i}", "router-fwd", BARRIER, "", i != 3, said, i)
        for i, said in enumerate((UNWRITTEN, RACE, UNWRITTEN, RACE, RACE, UNWRITTEN))
    ),
    *(
        Mutant(f"barrier {i}", "tokens-fwd", BARRIER, "", True, RACE if i % 2 else UNWRITTEN, i)
        for i in range(4)
    ),
    Mutant("barrier 0", "mx-fwd", BARRIER, "", True, UNWRITTEN),
    Mutant("barrier 2", "mx-fwd", BARRIER, "", True, UNWRITTEN, 2),
    # Short writes.
    Mutant("last vector", "relu-fwd", "keep4(y + at, out);",
           "{ if (at + 8 <= SIZE) keep4(y + at, out); }", True),
    Mutant("last vector", "rows-fwd", "write(y, base, row, at, four);",
           "if (at + 4 < AXIS) write(y, base, row, at, four);", True),
    Mutant("last vector", "wide-bwd", "write(dx, base, row, at, gradient(out, ",
           "if (at + 4 < AXIS) write(dx, base, row, at, gradient(out, ", True),
    Mutant("last elements", "relu-fwd", "k < SIZE; k++", "k < SIZE - 1; k++", True),
    Mutant("last elements", "tanh-bwd", "k < SIZE; k++", "k < SIZE - 1; k++", True),
    Mutant("last row", "rows-fwd", "if (!inside(row, at))", "if (!inside(row + 1, at))", True),
    Mutant("last row", "rows-bwd", "if (!inside(row, at))", "if (!inside(row + 1, at))", True),
    Mutant("last row", "wide-fwd", "if (row < ROWS)", "if (row < ROWS - 1)", True, nth=2),
    Mutant("nothing", "strided-bwd", "if (!inside(row, at))", "if (true)", True),
    # Wrong places.
    Mutant("off by one", "strided-fwd", "store(y, base + at * INNER, value)",
           "store(y, base + at * INNER + 1, value)", True, PAST),
    Mutant("off by one", "relu-fwd", "store(y, k, activate", "store(y, k + 1, activate", True,
           PAST),
    Mutant("off by one load", "relu-bwd", "gradient(load(y, k), ", "gradient(load(y, k + 1), ",
           True, PAST),
    Mutant("read past the end", "strided-fwd", "at < AXIS +", "at <= AXIS +", True, PAST),
    Mutant("read past the end", "wide-fwd", "at < end;", "at <= end;", True, PAST, nth=1),
    Mutant("read past the end unused", "rows-fwd", "float sum = 0;",
           "float sum = 0; if (x[base + AXIS] > 1e30f) sum = 1;", False, PAST),
    # What it computes from the canary behind x is the canary again, so that diff sees no write.
    Mutant("no row check", "rows-fwd", "|| row < ROWS;", "|| true;", False, PAST),
    Mutant("lanes overlap", "rows-fwd", "lane * SLICES + slice", "slice", True, RACE),
    # Writes that are one too many.
    Mutant("written twice", "strided-fwd", "store(y, base + at * INNER, value);",
           "store(y, base % INNER, 1.0f), store(y, base + at * INNER, value);", True, RACE),
    Mutant("written twice", "relu-fwd", "store(y, k, activate(load(x, k)));",
           "{ store(y, 0, 7.0f); store(y, k, activate(load(x, k))); }", True, RACE),
    Mutant("tails overlap", "relu-fwd", "together<Element>(at, SIZE)", "at + 8 <= SIZE", False,
           RACE),
    Mutant("written twice the same", "relu-fwd", "store(y, k, activate(load(x, k)));",
           "{ store(y, 0, activate(load(x, 0))); store(y, k, activate(load(x, k))); }", False,
           RACE),
    Mutant("written to an input", "sigmoid-bwd", "store(dx, k, gradient(load(y, k), ",
           "store(const_cast<float*>(y), k, 7.0f), store(dx, k, gradient(load(y, k), ", True,
           INPUT),
    # Reads of what nobody wrote.
    Mutant("read before written", "rows-bwd", "partial[place(slice)] = value;", ";", True,
           UNWRITTEN),
    Mutant("read own output", "tanh-fwd", "store(y, k, activate(load(x, k)))",
           "store(y, k, load(y, k) + activate(load(x, k)))", True, UNWRITTEN),
)  # fmt: skip


def workload(kernel: str) -> Workload:
    problem, direction = PASSES[kernel]
    return plan({"layer": problem}, direction)


@pytest.fixture(scope="module")
def renderings() -> dict[str, tuple[Workload, str, str]]:
    """Key of PASSES -> (workload, kernel name, text)."""
    found = {}
    for key in PASSES:
        planned = workload(key)
        (kernel,) = planned.kernels
        found[key] = (planned, kernel.name, render.kernel(kernel))
    return found


@pytest.mark.parametrize("direction", [F, B])
@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitize"])
def test_the_unchanged_kernels_pass(
    tmp_path: Path, builder: Builder, direction: Pass, sanitize: bool
) -> None:
    problems = {key: problem for key, (problem, d) in PASSES.items() if d is direction}
    assert not failures(
        make(tmp_path, plan(problems, direction), builder, sanitize=sanitize).good()
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_caught(
    tmp_path: Path,
    builder: Builder,
    renderings: dict[str, tuple[Workload, str, str]],
    mutant: Mutant,
) -> None:
    assert mutant.fails or mutant.sanitizer
    planned, name, text = renderings[mutant.kernel]
    sources = {name: mutant.apply(text)}

    fast = make(tmp_path / "fast", planned, builder, sources=sources, optimise=False)
    done = fast.run()
    assert done.returncode in (0, 5)
    assert (done.returncode == 5 or bool(failures(fast.verdicts()))) == mutant.fails

    checked = make(tmp_path / "checked", planned, builder, sources=sources, sanitize=True)
    done = checked.run(processes=1)
    if mutant.sanitizer:
        assert done.returncode == 5, done.stderr
        assert done.stderr.startswith(f"simgen: error: kernel {name}: work-group ")
        assert mutant.sanitizer in done.stderr
        assert done.stderr.count("\n") == 1
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert failures(checked.verdicts())


def test_each_barrier_of_each_kernel_has_a_mutant(
    renderings: dict[str, tuple[Workload, str, str]],
) -> None:
    for key, (_, _, text) in renderings.items():
        count = text.count("__syncthreads()")
        if "struct Product" in text:  # tile.h's, which is every product's
            continue
        slices, finals = (
            int(found[1]) if (found := re.search(rf"{name} = (\d+);", text)) else 0
            for name in ("SLICES", "FINALS")
        )
        there = set(range(count))
        if slices:  # nothing but reductions, whose second steps may not be there
            assert count in (2, 4), key
            there = {each for each in there if each % 2 == 0 or slices > finals}
        lanes = re.search(r"LANES = (\d+);", text)
        if lanes and int(lanes[1]) <= 16 and "reduce<Maximum, LANES, 16>" in text:
            there -= {1}  # a reduction without its second step
        mutants = {m.nth for m in MUTANTS if (m.kernel, m.old, m.new) == (key, BARRIER, "")}
        assert mutants == there, key
