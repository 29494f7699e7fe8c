"""The judge of whole tensors and the bounds of long sums, on results of simgen's own kernels.

A mutant is a result of the host target moved by what a mistake changes in float64, or a result of a
kernel whose text is changed. benchmarks/mutants has the whole table, with sums of up to 10^6 terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from layer_bundles import Problem, make, plan
from layer_variants import Variant

from simgen.frontend.network import make_layer
from simgen.ground.ir import Pass
from simgen.kernels import render
from simgen.targets.host import Host
from simgen.tensors import data_file
from simgen.verdict.compare import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.kernels.build import Builder

    Array = NDArray[np.float64]

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

F, BD, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT
ALGORITHMS = ("direct", "implicit_gemm", "im2col", "winograd", "fft")


def convolved(shape: tuple[int, int, int, int], algo: str, out: int) -> Problem:
    given = {"kernel_size": 3, "pad": 1, "conv_mode": "cross_correlation", "algo": algo}
    settings = tuple((k, str(v)) for k, v in (given | {"num_output": out}).items())
    return Problem(Variant("conv", settings), shape)


# 512 channels forward, 512 filters backward; 100,352 pixels for the gradient of the filters.
PROBLEMS = {
    F: {algo: convolved((1, 512, 7, 7), algo, 6) for algo in ALGORITHMS},
    BD: {algo: convolved((1, 6, 7, 7), algo, 512) for algo in ALGORITHMS},
    BW: {algo: convolved((8, 3, 112, 112), algo, 4) for algo in ALGORITHMS},
}


def tf32(values: Array) -> Array:
    """10 bits behind the leading one."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(fraction * 2**11) / 2**11, exponent)


def without(values: Array, *place: int | slice) -> Array:
    changed = values.copy()
    changed[place] = 0
    return changed


def mistakes(direction: Pass) -> dict[str, tuple[str, Callable[[Array], Array]]]:
    """What -> the port, and what stands in place of its values."""
    whole = slice(None)
    if direction is BW:
        return {
            "TF32 inputs": ("x", tf32),
            "one product": ("dy", lambda t: without(t, 3, whole, 50, 50)),
            "last tile": ("dy", lambda t: without(t, -1, whole, -1, slice(104, None))),
            "last pixel": ("dy", lambda t: without(t, whole, whole, -1, -1)),
        }
    at = (slice(None), 100) if direction is F else (100, slice(None))
    last = (slice(None), slice(-1, None)) if direction is F else (slice(-1, None),)
    source = "x" if direction is F else "dy"
    return {
        "TF32 inputs": (source, tf32),
        "one product": ("w", lambda t: without(t, *at, 1, 1)),
        "last tile": ("w", lambda t: without(t, *last)),
        "last pixel": (source, lambda t: without(t, whole, whole, -1, -1)),
    }


@pytest.mark.parametrize("direction", [F, BD, BW])
def test_mistakes_that_no_bound_sees(tmp_path: Path, builder: Builder, direction: Pass) -> None:
    """Rounded inputs pass the bound of most of these sums; the judge sees all mistakes in all."""
    made = make(tmp_path, plan(PROBLEMS[direction], direction), builder)
    for name, verdict in made.good().items():
        assert verdict.passed, name
        assert verdict.comparison.statistic is not None
        assert verdict.comparison.statistic < 0.5, name
    outputs = made.outputs()
    workload = made.bundle.workload
    inputs = data_file.load(made.bundle.path / "data.h5", workload)
    unseen = 0
    for step in workload.steps:
        layer = make_layer(workload.node(step.layer), workload.machine)
        read = {port: np.array(inputs[name], np.float64) for port, name in step.reads}
        ((written, name),) = step.writes
        if written in layer.shape_given:
            read[written] = np.full(workload.buffer(name).spec.shape, np.nan)
        (reference,) = layer.reference(read, direction).values()
        tolerance = layer.tolerance(read, direction)
        (spread,) = layer.spread(read, direction, tolerance).values()
        for what, (port, change) in mistakes(direction).items():
            (wrong,) = layer.reference(read | {port: change(read[port])}, direction).values()
            moved = (outputs[name] + (wrong - reference)).astype(np.float32)
            found = Comparison(moved.shape)
            found.add(0, moved, reference, reference, tolerance[written], spread)
            assert not found.passed, f"{step.layer}: {what}"
            assert max(found.statistic or 0, found.peak or 0) > 3, f"{step.layer}: {what}"
            unseen += found.outside == 0
    assert unseen >= 3


@pytest.mark.parametrize(
    ("algo", "direction", "kernel", "old", "new"),
    [
        ("fft", F, "conv_fft_source", "0.707106781f", "0.707206781f"),
        ("fft", BW, "conv_fft_image", "0.707106781f", "0.707206781f"),
        ("winograd", F, "conv_winograd_filters", "0.5f", "0.50005f"),
        ("winograd", BW, "conv_winograd_result", "0.5f", "0.50005f"),
    ],
)
def test_a_constant_that_is_off_by_a_ten_thousandth(
    tmp_path: Path, builder: Builder, algo: str, direction: Pass, kernel: str, old: str, new: str
) -> None:
    workload = plan({algo: PROBLEMS[direction][algo]}, direction)
    (found,) = (each for each in workload.kernels if each.name.startswith(kernel))
    text = render.kernel(found)
    assert old in text
    sources = {found.name: text.replace(old, new)}
    made = make(tmp_path, workload, builder, sources=sources, optimise=False)
    assert made.run().returncode == 0
    comparison = made.verdicts()[algo].comparison
    assert comparison.outside == 0  # no bound sees it
    assert not comparison.passed


def test_variances_that_are_off_by_little(tmp_path: Path, builder: Builder) -> None:
    """Another epsilon, and M in place of M - 1, of 16,384 elements in each of 16 channels."""
    problem = Problem(Variant("bn", (("batchnorm_mode", "spatial"),)), (4, 16, 64, 64))
    workload = plan({"bn": problem}, F)
    (found,) = (each for each in workload.kernels if "moments_end" in each.name)
    text = render.kernel(found)
    for name, old, new in (
        ("right", "", ""),
        ("epsilon", "EPSILON = 9.999999747378752e-06f", "EPSILON = 1e-06f"),
        ("biased", "UNBIASED = ", "UNBIASED = FACTOR, IGNORED = "),
    ):
        assert old in text
        sources = {found.name: text.replace(old, new) if old else text}
        made = make(tmp_path / name, workload, builder, sources=sources, optimise=False)
        assert made.run().returncode == 0
        assert made.verdicts()["bn"].comparison.passed == (name == "right")


STRUCTURED: dict[str, Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]] = {
    "rectified": lambda rng, shape: np.maximum(rng.standard_normal(shape), 0),
    "positive": lambda rng, shape: rng.uniform(size=shape),
    "offset": lambda rng, shape: 100 + rng.standard_normal(shape),
    "sorted": lambda rng, shape: np.sort(rng.standard_normal(shape), axis=None).reshape(shape),
    "constant": lambda rng, shape: np.full(shape, 0.1),
    "planes": lambda rng, shape: np.broadcast_to(rng.standard_normal((*shape[:2], 1, 1)), shape),
    "8 bits": lambda rng, shape: np.round(255 * rng.uniform(size=shape)) / 255,
    "ramp": lambda rng, shape: np.arange(np.prod(shape)).reshape(shape) % 1013 / 1013,
}


@pytest.mark.parametrize("direction", [F, BW])
def test_honest_results_pass_whatever_the_data(
    tmp_path: Path, builder: Builder, direction: Pass
) -> None:
    problems = {
        f"{algo}_{kind.replace(' ', '_')}": convolved((1, 24, 20, 20), algo, 8)
        for algo in ALGORITHMS
        for kind in STRUCTURED
    }
    made = make(tmp_path, plan(problems, direction), builder)
    for buffer in made.bundle.workload.inputs:
        layer, port = buffer.name.split(".")
        kind = next(k for k in STRUCTURED if layer.endswith(k.replace(" ", "_")))
        if port == "w":  # against random weights: then there is no plane to be constant
            continue
        values = STRUCTURED[kind](np.random.default_rng(1), buffer.spec.shape)
        made.rewrite(buffer.name, lambda place, values=values: place.__setitem__(..., values))
    for name, verdict in made.good().items():
        comparison = verdict.comparison
        assert comparison.passed, f"{name}: {comparison.statistic}, {comparison.peak}"
