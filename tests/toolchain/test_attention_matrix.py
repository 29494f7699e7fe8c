"""Attention by matrix instructions: right on the host, which emulates each lane.

What a GPU makes of the same kernels is in tests/gpu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant
from test_written import cut_short, different, outputs

from simgen.ground.ir import DType, Pass
from simgen.ground.machine import find
from simgen.kernels import render
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)


def problem(shape: tuple[int, ...], **keys: str) -> Problem:
    return Problem(Variant("attention", tuple(keys.items())), shape)


# Rows of several heads in a tile, rests of rows and keys, panels that are not full, two panels, all
# masks, and chunks; of f16 and of bf16.
PROBLEMS = {
    ("a100", "f16"): {
        "plain": problem((2, 4, 70, 72), kv_heads="2", value_size="96", causal="true"),
        "split": problem((1, 2, 20, 64), keys="150", sinks="true", algo="split"),
        "masked": problem((2, 3, 9, 16), kv_heads="1", keys="70", mask="keep", softcap="0.75"),
    },
    ("a100", "bf16"): {
        "window": problem(
            (1, 2, 140, 128), keys="200", causal="true", window="21", sinks="true", algo="flash"
        ),
        "paged": problem(
            (2, 6, 5, 40), kv_heads="2", keys="140", page="3", lengths="true", causal="true"
        ),
        "added": problem((1, 2, 33, 24), mask="bias", value_size="136", keys="70", scale="0.5"),
    },
    # what wgmma multiplies on a GPU, and here the same steps
    ("h200", "bf16"): {
        "causal": problem((1, 2, 140, 64), keys="200", causal="true", algo="flash"),
        "wide": problem((1, 1, 70, 40), keys="129", value_size="136", algo="split"),
    },
    # a decode step, of a warp
    ("h200", "f16"): {
        "decode": problem((2, 8, 1, 64), kv_heads="2", keys="300", lengths="true", algo="split"),
    },
}


def planned(of: tuple[str, str]) -> Workload:
    machine, name = of
    found = plan(PROBLEMS[of], Pass.FORWARD, dtype=DType.table[name], machine=find(machine, "test"))
    kernels = [each for each in found.kernels if each.template != "attention_join.hip"]
    assert all(each.template == "attention_matrix.hip" for each in kernels)
    assert all(bool(each.maps) == (of == ("h200", "bf16")) for each in kernels)
    return found


@pytest.mark.parametrize("of", PROBLEMS, ids="-".join)
def test_attention_is_right(tmp_path: Path, builder: Builder, of: tuple[str, str]) -> None:
    assert not failures(make(tmp_path, planned(of), builder).good())


# Changes of a kernel's text, each of which makes something wrong.
MUTANTS = (
    ("", ""),
    ("key0 + step > by_all.last", "key0 > by_all.last + step"),
    ("further % 64 * 2)", "further % 32 * 2)"),
    ("weights[2 * i + word % 2]", "weights[2 * i + 1 - word % 2]"),
    ("+ 4 * j + word / 2 * 2)", "+ 4 * j + 2 - word / 2 * 2)"),
    ("y[i][j] *= shrink[i]", "y[i][j] *= 1.0f"),
    ("of_lane(most, 2)", "of_lane(most, 1)"),
    ("total += of_lane(total, 2)", "total += total"),
)


@pytest.mark.parametrize(("old", "new"), MUTANTS)
def test_a_mutant_is_caught(tmp_path: Path, builder: Builder, old: str, new: str) -> None:
    whole = plan(
        {"all": problem((1, 2, 70, 72), keys="150", causal="true", algo="flash")},
        Pass.FORWARD,
        dtype=DType.table["f16"],
        machine=find("a100", "test"),
    )
    ((kernel, text),) = render.kernels(whole).items()
    assert old in text
    made = make(tmp_path, whole, builder, sources={kernel: text.replace(old, new)})
    wrong = failures(made.good())
    assert bool(wrong) == bool(old)


def test_half_of_a_grid_writes_what_is_declared(tmp_path: Path, builder: Builder) -> None:
    """Tiles of rows begin with the last one."""
    whole = planned(("a100", "f16"))
    short = cut_short(whole, dict.fromkeys(PROBLEMS["a100", "f16"], 0))
    made = make(tmp_path, short, builder, optimise=False)
    assert made.run().returncode == 0
    left = outputs(made.bundle.path, short)
    assert not [each for step in short.steps for each in different(short, step.launches, left)]
