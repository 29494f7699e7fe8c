"""Which matrix instructions a plan uses, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from math import floor, frexp, trunc
from typing import TYPE_CHECKING

import numpy as np
import pytest

import simgen
from simgen.bundle import planning
from simgen.errors import ConfigError, RefusedError, UsageError
from simgen.ground.ir import DType
from simgen.ground.machine import descriptions, find, named
from simgen.ground.numerics.rounding import U
from simgen.isa.legalise import Model, as_it_says, support
from simgen.layers.product import fragment
from simgen.targets import matrix

if TYPE_CHECKING:
    from typing import Any

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.product.tile import Tile


def forms(**choices: Any) -> set[str]:
    """The matrix instructions of a product's kernels."""
    found = [matrix.instruction(k) for k in simgen.plan("gemm_fwd", **choices).workload.kernels]
    return {f"{each.m}x{each.n}x{each.k} {each.factors}" for each in found if each}


@pytest.mark.parametrize(
    ("machine", "words"),  # CDNA multiplies by v_mfma, RDNA by v_wmma, NVIDIA's GPUs by mma.sync
    [("mi210", "mfma"), ("rx7900xtx", "wmma"), ("a100", "mma"), ("gem5-gfx902", "scalars")],
)
def test_what_multiplies(machine: str, words: str) -> None:
    made = simgen.plan("gemm_fwd", plan_for=machine, type="f16", set={"m": 256, "n": 256})
    assert {dict(kernel.constants).get("multiply") for kernel in made.workload.kernels} == {words}


def test_f32_has_them_where_they_are_asked_for() -> None:
    for machine in ("mi210", "mi300a", "gem5-gfx90a"):
        assert forms(plan_for=machine) == set()
        assert forms(plan_for=machine, matrix="no") == set()
        (form,) = forms(plan_for=machine, matrix="yes")
        assert form in ("16x16x4 f32", "32x32x2 f32")


def test_narrow_types_have_them_where_the_machine_has() -> None:
    assert forms(plan_for="mi210", type="f16") == {"16x16x16 f16"}
    assert forms(plan_for="gem5-se-gfx942", type="bf16") == {"32x32x8 bf16"}
    assert forms(plan_for="gem5-se-gfx90a", type="bf16") == set()  # gem5 has MI300's opcodes
    assert forms(plan_for="mi210", type="f16", matrix="no") == set()
    assert forms(plan_for="gem5-gfx902", type="f16") == set()


def test_nvidia_has_warpgroups_and_tf32_where_it_is_asked_for() -> None:
    assert forms(plan_for="a100", type="bf16") == {"16x8x16 bf16"}
    assert forms(plan_for="h200", type="bf16", matrix="no") == set()
    along_k = {"m": 4096, "n": 4096, "k": 4096, "transb": "true"}
    assert forms(plan_for="h200", set={**along_k, "type": "bf16"}) == {"64x256x16 bf16"}
    assert forms(plan_for="h200", set={**along_k, "type": "i8"}) == {"64x256x32 i8"}
    f8 = {**along_k, "type": "f8e4m3fn"}
    assert forms(plan_for="h200", set=f8) == set()  # on request only
    assert forms(plan_for="h200", set=f8, matrix="yes") == {"64x128x32 f8e4m3fn"}
    with pytest.raises(UsageError, match=r"matrix yes: a100 has no matrix instruction for f8"):
        simgen.plan("gemm_fwd", plan_for="a100", set=f8, matrix="yes")
    with pytest.raises(UsageError, match=r"a100 multiplies i8 where .* set transb=true"):
        simgen.plan("gemm_fwd", plan_for="a100", set={"type": "i8"}, matrix="yes")
    assert forms(plan_for="rtx4090", set=f8, matrix="yes") == {"16x8x32 f8e4m3fn"}
    assert forms(plan_for="rtx4090", set={**along_k, "type": "bf16"}) == {"16x8x16 bf16"}
    assert forms(plan_for="h200", set=along_k) == set()
    assert forms(plan_for="h200", set=along_k, matrix="tf32") == {"64x256x8 tf32"}
    assert forms(plan_for="a100", set=along_k, matrix="tf32") == {"16x8x8 tf32"}
    assert forms(plan_for="a100", matrix="tf32") == set()  # b does not lie along k
    with pytest.raises(UsageError, match=r"matrix tf32: mi210 has no matrix instructions"):
        simgen.plan("gemm_fwd", plan_for="mi210", matrix="tf32")


def test_tf32_says_of_which_numbers_it_has_all_bits() -> None:
    machine = find("h200,matrix=tf32", "test")
    kept = np.array([0.0, 1.0, -2047.0, 2047 * 2.0**-130, 2.0**100])
    assert fragment.keeps_factors(machine, kept)
    assert not fragment.keeps_factors(machine, kept, np.array([2049.0]))
    assert fragment.keeps_factors(named("h200"), np.array([2049.0]))


def test_the_choice_is_part_of_the_machine_and_of_what_results_say() -> None:
    made = simgen.plan("gemm_fwd", plan_for="mi210", matrix="yes").workload
    assert made.machine.label == "mi210,matrix=yes"
    assert find(made.machine.label, "test") == made.machine
    assert simgen.plan("gemm_fwd", plan_for="mi210,matrix=yes").workload == made


@pytest.mark.parametrize("direction", ["fwd", "bwd_data", "bwd_weight"])
def test_convolution_multiplies_by_them_too(direction: str) -> None:
    settings = {"n": 2, "c": 64, "h": 14, "w": 14, "num_output": 64, "kernel_size": 3, "pad": 1}
    planned = simgen.plan(f"conv_{direction}", set=settings, plan_for="mi210", matrix="yes")
    assert any(matrix.instruction(kernel) for kernel in planned.workload.kernels)
    settings["algo"] = "implicit_gemm"
    narrow = simgen.plan(f"conv_{direction}", set=settings, plan_for="mi210", type="bf16").workload
    found = {each.factors for kernel in narrow.kernels if (each := matrix.instruction(kernel))}
    assert found == {"bf16"}


def test_a_machine_without_is_refused() -> None:
    with pytest.raises(UsageError, match=r"matrix yes: gem5-gfx902 has no matrix instructions"):
        simgen.plan("gemm_fwd", plan_for="gem5-gfx902", matrix="yes")
    with pytest.raises(UsageError, match=r"matrix 'ye': .*did you mean 'yes'\?"):
        simgen.plan("gemm_fwd", plan_for="mi210", matrix="ye")
    with pytest.raises(ConfigError, match=r"has no matrix instruction for f32 that kernels use"):
        simgen.plan("gemm_fwd", plan_for="h200", matrix="yes")


@pytest.mark.parametrize("name", ["mgpusim", "gem5-se", "cuda"])
def test_a_target_whose_machine_lacks_them_is_refused(name: str) -> None:
    planned = simgen.plan("gemm_fwd", plan_for="mi210", matrix="yes").workload
    (target,) = planning.chosen_targets([name], {})
    with pytest.raises(RefusedError, match=r"has no matrix instruction (16x16x4|32x32x2) f32"):
        matrix.check(target, planned)
    (host,) = planning.chosen_targets(["host"], {})
    matrix.check(host, planned)


def rounded(product: float, dtype: DType, version: str) -> float:
    """A product as gem5 rounds it to a type: by hand, as its convertMXFP does it."""
    bits = int(np.float32(abs(product)).view(np.uint32))
    exponent, dropped = bits >> 23, 23 - dtype.mantissa
    mantissa = bits & 0x7FFFFF | (1 << 23 if exponent else 0)
    exponent += dtype.bias - 127
    more = 1 - exponent if exponent < 1 else 0
    shift = 0 if version == "25.1" and not bits >> 23 else more  # of what is subnormal in float32
    kept = mantissa >> dropped >> shift % 32 & (1 << dtype.mantissa) - 1
    test = mantissa >> dropped - 3 >> more % 32
    sticky = int(mantissa & (1 << dropped - 2) - 1 != 0)
    made = max(exponent, 0) << dtype.mantissa | kept
    if version == "24.0":
        made += rounds_up_24_0(bits & 0x7FFFFF, exponent, kept, dtype)
    elif (test & 7) + sticky > 4:
        made += 1
    elif version != "25.1" and (test & 7) + sticky == 4 and test & 8:
        made -= 1
    found = int(made & (1 << dtype.exponent + dtype.mantissa) - 1)
    step = 2.0 ** (dtype.least_exponent - dtype.mantissa)
    whole, part = found >> dtype.mantissa, found & (1 << dtype.mantissa) - 1
    if whole == 0:
        return part * step
    return float((part | 1 << dtype.mantissa) * step * 2.0 ** (whole - 1))


def rounds_up_24_0(mantissa: int, exponent: int, kept: int, dtype: DType) -> bool:
    dropped = 23 - dtype.mantissa
    if exponent >= 1:
        return bool(mantissa >> dropped - 1 & 1)
    if -exponent >= (1 << dtype.exponent) - 1:
        return -exponent == (1 << dtype.exponent) - 1
    up = mantissa >> dropped >> -exponent & 1
    return bool(up and (kept & 1 or mantissa & (1 << dropped) - 1))


@pytest.mark.parametrize("version", ["24.0", "24.1", "25.0", "25.1"])
@pytest.mark.parametrize(("name", "about"), [("f16", 0), ("bf16", 0), ("bf16", -58)])
def test_products_that_gem5_rounds_are_within_their_bound(
    name: str, about: int, version: str
) -> None:
    """Of bf16, whose exponents are those of float32, numbers whose products are subnormal too."""
    dtype = DType.table[name]
    of_version = support(Model("gem5", version, "gfx942")).rounds_products
    draw = np.random.default_rng(0)
    factors = draw.standard_normal((2, 4000)) * 2.0 ** (about + draw.integers(-20, 6, (2, 4000)))
    a, b = np.abs(factors.astype(dtype.array).astype(np.float64))
    machine = replace(named("gem5-se-gfx942"), rounds_products=of_version)
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        bound = np.asarray(fragment.lost(np.array([[x]]), np.array([[y]]), dtype, machine))
        if x and y and np.isfinite(bound[0, 0]):
            worst = max(worst, abs(rounded(x * y, dtype, version) - x * y) / bound[0, 0])
    assert 0.6 < worst <= 1
    said = as_it_says(Model("gem5", "24.0", "gfx942"), f"DEVELOP-FOR-{version}")
    assert support(said).rounds_products == of_version
    assert fragment.lost(np.ones((1, 1)), np.ones((1, 1)), dtype, named("mi300a")) == 0


@pytest.mark.parametrize("version", ["24.0", "24.1", "25.0", "25.1", "develop"])
def test_builds_for_the_full_system_say_how_products_are_rounded(version: str) -> None:
    planned = simgen.plan("gemm_fwd", plan_for="gem5-gfx942", type="bf16").workload
    given = {"arch": "gfx942", "gem5_version": version}
    (target,) = planning.chosen_targets(["gem5-fs"], given)
    (note,) = matrix.notes(target, planned)
    assert note.startswith(f"gem5-fs: gem5 {version} rounds each product of bf16 ")
    (rounds,) = matrix.rounds_products(target, planned, "25.1.0.1")
    assert (rounds.relative, rounds.absolute) == (0.5, 1.0)


def cut_off(x: float, at: int) -> float:
    """Down to a multiple of 2^at."""
    return floor(x * 2.0**-at) * 2.0**at


def as_cdna3(a: Array, b: Array, total: float, dtype: DType) -> float:
    """A sum of 8 products of 16 bits or 16 of 8, and what it is added to, as fragment.py says."""

    def exponent(x: float, least: int) -> int:
        return max(frexp(x)[1] - 1, least) if x else -126

    least = dtype.least_exponent
    of = [exponent(x, least) + exponent(y, least) for x, y in zip(a, b, strict=True)]
    parts = []
    for first in range(2 if dtype.nbytes == 1 else 1):
        step = 2 if dtype.nbytes == 1 else 1
        top = max(of[first::step])
        products = (a * b)[first::step]
        parts.append((sum(trunc(p * 2.0 ** (24 - top)) for p in products) * 2.0 ** (top - 24), top))
    top = max(top for _, top in parts)
    dot = sum(cut_off(x, top - 24) if len(parts) > 1 else x for x, _ in parts)
    top = max(top, exponent(total, -126))
    return float(np.float32(cut_off(dot, top - 31) + cut_off(total, top - 24)))


@pytest.mark.parametrize("name", ["f16", "bf16", "f8e4m3fnuz", "f8e5m2fnuz"])
def test_sums_of_cdna3_are_within_their_bound(name: str) -> None:
    """Of subnormal factors too, whose exponents say more than they are."""
    dtype, machine = DType.table[name], named("mi300a")
    draw, count, worst = np.random.default_rng(0), 16 // dtype.nbytes, 0.0
    for _ in range(2000):
        sides = draw.standard_normal((2, count)) * 2.0 ** draw.integers(-9, 3, (2, count))
        sides *= 2.0 ** (max(dtype.least_exponent, -14) + draw.integers(0, 12, (2, 1)))
        a, b = sides.astype(dtype.array).astype(np.float64)
        total = float(np.float32(draw.standard_normal() * 2.0 ** draw.integers(-20, 4)))
        bound = 2 * count * U * (np.abs(a) @ np.abs(b) + abs(total))
        more = fragment.lost(np.abs(a)[None], np.abs(b)[:, None], dtype, machine)
        error = abs(as_cdna3(a, b, total, dtype) - (a @ b + total))
        worst = max(worst, error / float(bound + np.max(more)))
    assert 0.02 < worst <= 1  # it rounds


def test_cdna2_takes_subnormal_factors_for_zeros() -> None:
    """PyTorch, "Numerical accuracy": on MI200, MFMA of f16 and bf16 flushes its inputs."""
    dtype = DType.table["bf16"]
    small, one = np.array([[2.0**-130]]), np.array([[1.0]])
    for left, right in ((small, one), (one, small)):
        assert fragment.lost(left, right, dtype, named("mi210"))[0, 0] == 2.0**-130
        assert fragment.lost(left, right, dtype, named("h200")) == 0
    assert fragment.lost(one, one, dtype, named("mi210")) == 0


def test_tiles_of_matrix_instructions_are_whole() -> None:
    every: list[Tile] = []
    for name in descriptions():
        for kind in ("f32", "f16", "bf16"):
            machine = find(f"{name},matrix=yes", "test")
            if fragment.instructions(machine, kind):
                every += fragment.tiles(machine, kind)
    assert every
    for each in every:
        assert each.matrix is not None
        assert each.block in (64, 128, 256)
        assert each.matrix.m != each.matrix.n or each.item_rows * each.matrix.m <= each.rows
        assert each.item_rows * each.item_columns * each.block == each.rows * each.columns
        assert each.lds_nbytes <= 65536
