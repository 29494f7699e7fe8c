"""What tells of a difference between registers of two targets, and what does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simgen.isa.legalise import assembly
from simgen_examine.bisect import states, telling
from simgen_examine.bisect.instrumented import LANES, MARK
from simgen_examine.bisect.states import Planes

NAMES = Planes(
    ("mark", "point", "visits", "scc", "base_lo", "base_hi", "vcc_lo", "vcc_hi", "exec_lo",
     "exec_hi", "given0", "given1", "s0", "s1", "v0", "v1", "v2", "v3")
)  # fmt: skip
APART = {"base_lo": 0x1000, "base_hi": 7}


def moments(*changes: dict[str, Any]) -> Any:
    """Registers at moments, each with all changes up to it."""
    made = np.zeros((len(changes), len(NAMES.all), LANES), np.uint32)
    for at, change in enumerate(changes):
        made[at:, NAMES.places["mark"]] = MARK
        for name, value in change.items():
            made[at:, NAMES.places[name]] = value
    return made


def found(items: list[str], a: list[dict[str, Any]], b: list[dict[str, Any]], ulps: int = 0) -> Any:
    read = [assembly.instruction(each) for each in items]
    other = moments({**APART, **b[0]}, *b[1:])
    return states.first(moments(*a), other, NAMES, read, "gfx942", ulps)


def test_the_first_instruction_with_equal_sources_is_to_blame() -> None:
    items = ["v_mul_f32_e32 v1, v0, v0", "v_add_f32_e32 v2, v1, v1", "v_mov_b32_e32 v3, 0"]
    values = np.arange(LANES, dtype=np.uint32)
    other = values.copy()
    other[[5, 9]] += 3
    difference = found(items, [{}, {"v1": values}, {"v2": 1}, {}],
                       [{}, {"v1": other}, {"v2": 2}, {}])  # fmt: skip
    assert (difference.number, difference.register, difference.lanes) == (0, "v1", (5, 9))
    assert (difference.a, difference.b) == (5, 8)


def test_addresses_and_what_comes_of_them_differ_innocently() -> None:
    items = ["v_add_co_u32_e32 v1, vcc, s0, v0", "v_addc_co_u32_e32 v2, vcc, 0, v2, vcc",
             "v_mul_f32_e32 v3, v0, v0"]  # fmt: skip
    a = [{"s0": 0x100}, {"v1": 0x100, "vcc_lo": 0}, {"v2": 0}, {"v3": 1}]
    b = [{"s0": 0x1100}, {"v1": 0x1100, "vcc_lo": 0xFF}, {"v2": 9}, {"v3": 1}]
    assert found(items, a, b) is None
    b[3] = {"v3": 2}
    assert found(items, a, b).register == "v3"


def test_what_a_load_brings_may_not_differ() -> None:
    items = ["global_load_dword v2, v[0:1], off"]
    a = [{"v0": 0x100}, {"v2": 5}]
    b = [{"v0": 0x1100}, {"v2": 6}]
    difference = found(items, a, b)
    assert (difference.number, difference.register) == (0, "v2")


@pytest.mark.parametrize(("ulps", "seen"), [(0, True), (1, True), (2, False)])
def test_ulps(ulps: int, seen: bool) -> None:
    difference = found(["v_exp_f32_e32 v1, v0"], [{}, {"v1": 7}], [{}, {"v1": 9}], ulps)
    assert (difference is not None) == seen


def test_a_wavefront_that_came_on_one_side_alone_differs() -> None:
    a, b = moments({}), moments({})
    b[0, NAMES.places["mark"]] = 0
    assert states.unlike(a, b, NAMES, 0).any()
    assert not states.unlike(a, a, NAMES, 0).any()


def test_the_step_of_a_launch() -> None:
    steps = [SimpleNamespace(layer=name, direction="fwd", launches=[None] * n)
             for name, n in (("a", 2), ("b", 1), ("c", 3))]  # fmt: skip
    made: Any = SimpleNamespace(steps=steps, first_launches=(0, 2, 3))
    assert "".join(telling._step_name(made, at)[0] for at in range(6)) == "aabccc"
