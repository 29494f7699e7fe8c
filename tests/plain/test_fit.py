"""Kernels that no compute unit of the planned machine has room for are refused, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.errors import RefusedError
from simgen.isa.code_object import KernelInfo
from simgen.targets import fit

if TYPE_CHECKING:
    from simgen.ground.ir import Workload


def planned(machine: str) -> Workload:
    return simgen.plan("softmax_fwd", plan_for=machine).workload


def takes(lds: int = 2048, vgprs: int = 64) -> KernelInfo:
    return KernelInfo(0, lds, 0, 16, 16, vgprs)


def check(machine: str, info: KernelInfo, arch: str = "gfx902") -> None:
    workload = planned(machine)
    fit.check("gem5-se", arch, workload, workload.kernels[0].name, info)


@pytest.mark.parametrize(
    ("machine", "info", "message"),
    [
        ("gem5-gfx902,lds_size=1KiB", takes(), "2048 bytes of LDS, and .* has 1024"),
        ("gem5-gfx902,vreg_file_size=32", takes(), "64 vector registers of a SIMD unit, .* has 32"),
    ],
)
def test_what_does_not_fit_is_refused_with_layer_and_cure(
    machine: str, info: KernelInfo, message: str
) -> None:
    with pytest.raises(RefusedError, match=rf"\(layer \"softmax\", fwd\).* takes {message}") as it:
        check(machine, info)
    assert str(it.value).endswith("plan for another machine with --plan-for")
    assert "\n" not in str(it.value)


def test_what_just_fits_is_taken() -> None:
    check("gem5-gfx902,lds_size=2KiB,vreg_file_size=64", takes())


def test_code_for_another_architecture_is_not_what_was_planned() -> None:
    check("gem5-gfx902,lds_size=1KiB", takes(), "gfx942")
