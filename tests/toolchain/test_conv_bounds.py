"""Bounds of convolutions: they hold where sums are shared out, and wrong transforms exceed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant

from simgen.ground.ir import Pass
from simgen.kernels import render
from simgen.layers.conv import algorithms, fft, implicit_gemm
from simgen.layers.conv.convolution import Convolution
from simgen.layers.conv.geometry import to_image, to_result
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

F, BD, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT


def convolved(shape: tuple[int, int, int, int], **settings: str | int) -> Problem:
    given = {"kernel_size": 3, "pad": 1, "conv_mode": "cross_correlation", **settings}
    return Problem(Variant("conv", tuple((k, str(v)) for k, v in given.items())), shape)


@pytest.mark.parametrize("algo", ["implicit_gemm", "im2col"])
def test_a_bias_takes_part_in_the_sum_of_partial_sums(
    tmp_path: Path, builder: Builder, algo: str
) -> None:
    """A partial sum of half a unit in the last place of the bias is lost, and so are all."""
    problem = convolved((1, 96, 4, 4), num_output=6, bias="true", algo=algo)
    layer = problem.variant.layer
    assert isinstance(layer, Convolution)
    split = implicit_gemm.gather_split(to_result(layer.geometry(problem.shape)))
    assert split.splits > 4
    made = make(tmp_path, plan({"conv": problem}, F), builder)
    made.rewrite("conv.b", lambda b: b.fill(1))
    made.rewrite("conv.x", lambda x: x.fill(1))
    made.rewrite("conv.w", lambda w: w.fill(2.0**-24 / split.chunk))
    assert made.good()["conv"].comparison.outside == 0
    # In the middle, of a sum of more than 1 + (splits - 1) 2^-24.
    assert (made.outputs()["conv.y"] == 1).all()


# ---- Transforms ----

# By T. Winograd's has so many tiles that their sum is shared out.
WINOGRAD = convolved((2, 2, 39, 37), num_output=4, algo="winograd")
SIZES: dict[int, Problem] = {
    8: convolved((2, 3, 5, 7), num_output=4, algo="fft", bias="true"),
    16: convolved((2, 5, 9, 12), num_output=4, kernel_size=7, pad=3, algo="fft", bias="true"),
    32: convolved((1, 3, 40, 44), num_output=4, kernel_size=11, pad=5, algo="fft", bias="true"),
}


@dataclass(frozen=True)
class Mutant:
    """A change in the text of one kernel of a pass."""

    kernel: str
    size: int  # of SIZES; 0: Winograd's
    direction: Pass
    old: str
    new: str
    nth: int = 0

    def __str__(self) -> str:
        return f"{self.kernel}-{self.size}-{self.direction}-{self.old[:24]}-{self.nth}"


MUTANTS = (
    # The transform.
    Mutant("fft_source", 16, F, "0.923879533f", "0.92f"),
    Mutant("fft_target", 16, F, "0.382683432f", "0.38f"),
    Mutant("fft_source", 32, F, "0.98078528f", "0.98f"),
    Mutant("fft_source", 8, F, "0.707106781f", "0.7f"),
    Mutant("fft_image", 32, BW, "x * -sine", "x * sine"),
    Mutant("fft_filters", 16, F, "b_im = turned", "b_im = -turned"),
    Mutant("fft_target", 16, BD, "level<1>(re, im);", ""),
    Mutant("fft_source", 16, F, "k < r", "k < r && k != 1"),
    Mutant("fft_source", 16, F, "re[k] += re[k]", "re[k] += im[k]"),
    Mutant("fft_gradient", 8, BW, "re[T - k] = a + d", "re[T - k] = a - d"),
    # Which frequency lies where.
    Mutant("fft_source", 16, F, "if (item == 0)", "if (item == 1)"),
    Mutant("fft_filters", 16, F, "u % HALF == 0 && item == 0", "u == 0 && item == 0"),
    Mutant("fft_result", 16, BW, "(item == 0 ? SCALE", "(item == 1 ? SCALE"),
    Mutant("fft_image", 16, BW, "(SECOND + u / HALF)", "(SECOND + 1 - u / HALF)"),
    Mutant("fft_target", 32, BD, "(SECOND + u / HALF)", "(SECOND + 1 - u / HALF)", 1),
    # Complex products.
    Mutant("fft_products", 16, F, "-left[1][i]", "left[1][i]"),
    Mutant("fft_products", 8, BW, ": left[0][i]", ": left[1][i]"),
    Mutant("fft_products", 32, BD, "sum[2 * i + part][j]", "sum[2 * i + 1 - part][j]"),
    # Where tiles are.
    Mutant("fft_source", 16, F, "START_H = -3", "START_H = -2"),
    Mutant("fft_source", 32, F, "STEP_H = 22", "STEP_H = 21"),
    Mutant("fft_target", 32, F, "STEP_W = 22", "STEP_W = 23"),
    Mutant("fft_result", 32, BW, "2 * item < TAKEN_H", "2 * item < TAKEN_H + 2"),
    Mutant("fft_source", 32, BD, "inside && lower", "inside"),
    # What is added and stored.
    Mutant("fft_target", 16, F, "value + bias[of]", "value"),
    Mutant("fft_target", 16, F, "2 * item < ROWS_COUNT", "2 * item < ROWS_COUNT + 2"),
    Mutant("fft_gradient", 16, BW, "DILATION_H + 1 &&", "DILATION_H &&"),
    # Winograd's.
    Mutant("winograd_result", 0, BW, "(a - b) * 0.5f", "(b - a) * 0.5f"),
    Mutant("winograd_result", 0, BW, "below && right ?", "below ?"),
    Mutant("winograd_gradient", 0, BW, "b + c - d", "b + c + d"),
    Mutant("winograd_gradient", 0, BW, "split = 1", "split = 2"),
    Mutant("winograd_products", 0, BW, "? first + CHUNK", "? first + 16"),
)


def changed(text: str, mutant: Mutant) -> str:
    parts = text.split(mutant.old)
    assert len(parts) > mutant.nth + 1, f"the kernel no longer holds {mutant.old!r}"
    head = mutant.old.join(parts[: mutant.nth + 1])
    return head + mutant.new + mutant.old.join(parts[mutant.nth + 1 :])


def test_the_problems_have_tiles_of_all_sizes() -> None:
    for size, problem in SIZES.items():
        layer = problem.variant.layer
        assert isinstance(layer, Convolution)
        g = layer.geometry(problem.shape)
        gathers = (*to_result(g), *to_image(g))
        assert {fft.tiles_of(each).size for each in gathers} == {size}
        assert fft.filter_tiles(g).size == size
    assert set(SIZES) == set(fft.SIZES)


@pytest.mark.parametrize("direction", [F, BD, BW])
def test_the_unchanged_kernels_pass(tmp_path: Path, builder: Builder, direction: Pass) -> None:
    problems = {f"t{size}": problem for size, problem in (SIZES | {0: WINOGRAD}).items()}
    for sanitize in (False, True):
        work, options = plan(problems, direction), {"sanitize": sanitize}
        assert not failures(make(tmp_path / str(sanitize), work, builder, **options).good())


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_wrong_transform_exceeds_its_bound(
    tmp_path: Path, builder: Builder, mutant: Mutant
) -> None:
    workload = plan({"conv": SIZES.get(mutant.size, WINOGRAD)}, mutant.direction)
    (kernel,) = (k for k in workload.kernels if k.name.startswith(f"conv_{mutant.kernel}_"))
    sources = {kernel.name: changed(render.kernel(kernel), mutant)}
    made = make(tmp_path, workload, builder, sources=sources, optimise=False)
    done = made.run()
    assert done.returncode in (0, 5)
    assert done.returncode == 5 or failures(made.verdicts())


# Three are for each direction of the transform, and two for what is stored row by row.
BARRIERS = [("source", nth) for nth in range(3)] + [("target", nth) for nth in range(3, 8)]


@pytest.mark.parametrize(("kernel", "nth"), BARRIERS)
def test_a_transform_without_one_of_its_barriers_is_a_race(
    tmp_path: Path, builder: Builder, kernel: str, nth: int
) -> None:
    workload = plan({"conv": SIZES[16]}, F)
    (found,) = (k for k in workload.kernels if k.name.startswith(f"conv_fft_{kernel}_"))
    text = render.kernel(found)
    assert text.count("__syncthreads") == {"source": 6, "target": 8}[kernel]
    without = changed(text, Mutant(kernel, 16, F, "    __syncthreads();", "", nth))
    done = make(tmp_path, workload, builder, sources={found.name: without}, sanitize=True).run(
        processes=1
    )
    assert done.returncode == 5
    assert "data race" in done.stderr or "before it is written" in done.stderr


def test_the_bound_of_a_deep_layer_is_far_below_its_values() -> None:
    """64 channels of 28 x 28 pixels: a bound that anything passes would be no check."""
    layer = Convolution(num_output=8, kernel_h=5, kernel_w=5, algo=algorithms.ConvAlgo.FFT)
    rng = np.random.default_rng(1)
    shape = (2, 64, 28, 28)
    x, w = rng.standard_normal(shape), rng.standard_normal((8, 64, 5, 5)) * 0.04
    dy = rng.standard_normal((2, 8, 28, 28))
    for direction, tensors in (
        (F, {"x": x, "w": w}),
        (BD, {"dy": dy, "w": w, "dx": np.full(shape, np.nan)}),
        (BW, {"x": x, "dy": dy}),
    ):
        made, bound = layer.reference(tensors, direction), layer.tolerance(tensors, direction)
        for name, values in made.items():
            assert bound[name].max() < 2.0**-6 * np.sqrt(np.square(values).mean())
