"""What a search has found: lines for a reader, JSON, and a reproducer in assembly."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from simgen.ask.checks import ConformChoices
from simgen.errors import kernel_name
from simgen.ground.examined import Bisection
from simgen.isa.legalise import roles
from simgen_examine.bisect.instrumented import LANES

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen_examine.bisect.replay import Side
    from simgen_examine.bisect.searching import Divergence, Search

MOST_LINES = 15  # lines of a reproducer, at most
_MEMORY = ("global_", "flat_", "s_load", "ds_")


def lines(place: Divergence, run: Search) -> list[str]:
    """What to print."""
    of, a, b, arch = run.of, run.a, run.b, run.arch
    launch, step = of.launches[place.launch], _step_name(of, place.launch)
    told = [
        f"launch {place.launch} ({step}), kernel {kernel_name(launch.kernel)}: {place.words} words "
        f"of {place.tensor} differ, first word {place.element}: {a.name} {place.sizes[0]:#010x}, "
        f"{b.name} {place.sizes[1]:#010x}"
    ]
    if place.wave is not None:
        told.append(f"{_wave(place, of)}, its block {place.visit}")
    if place.item is not None:
        told.append(f"instruction {place.number} of the kernel: {place.item}")
    if found := place.difference:
        more = f" and {len(found.lanes) - 1} more" if len(found.lanes) > 1 else ""
        told.append(
            f"{found.register} in lane {found.lanes[0]}{more}: {a.name} {found.a:#010x}, "
            f"{b.name} {found.b:#010x}"
        )
        told += ["reproducer:", *(f"    {line}" for line in reproducer(place, a, b, arch))]
        if place.item is not None and not place.item.mnemonic.startswith(_MEMORY):
            word = re.sub(r"_(e32|e64|dpp|sdwa)$", "", place.item.mnemonic)
            sides = dict.fromkeys((a.target.name, b.target.name))
            told += [
                "which one is right: "
                + shlex.join(ConformChoices(on=name, arch=arch, only=f"^{word}").command())
                for name in sides
            ]
    if place.said:
        told.append(place.said)
    return told


def bisection(place: Divergence | None, run: Search) -> Bisection:
    """The same as a value."""
    found = as_json(place, run)
    several = {name: tuple(each) for name, each in found.items() if isinstance(each, list)}
    told = tuple(lines(place, run)) if place else ()
    return Bisection(**{**found, **several, "lines": told})


def as_json(place: Divergence | None, run: Search) -> dict[str, Any]:
    """The same for programs."""
    of, a, b, arch = run.of, run.a, run.b, run.arch
    told: dict[str, Any] = {
        "a": a.name, "b": b.name, "arch": arch, "runs": a.runs + b.runs,
        "seconds": round(a.seconds + b.seconds, 1), "differ": place is not None,
    }  # fmt: skip
    if place is None:
        return told
    launch = of.launches[place.launch]
    told |= {
        "launch": place.launch, "step": _step_name(of, place.launch), "kernel": launch.kernel,
        "tensor": place.tensor, "element": place.element, "words": place.words,
        "wavefront": place.wave, "block": place.visit, "instruction": place.number,
        "text": str(place.item) if place.item else None, "said": place.said,
    }  # fmt: skip
    if found := place.difference:
        told |= {
            "register": found.register, "lanes": found.lanes,
            "values": [f"{found.a:#010x}", f"{found.b:#010x}"],
            "reproducer": reproducer(place, a, b, arch),
        }  # fmt: skip
    return told


def reproducer(place: Divergence, a: Side, b: Side, arch: str) -> list[str]:
    """The instruction with what its sources hold in the first lane that differs."""
    found, item = place.difference, place.item
    assert found is not None
    assert item is not None
    effect = roles.effect(item, arch)
    if effect is None:
        kept = [name for name in place.before if re.search(rf"\b{name}\b", str(item))]
    else:
        kept = [name for name in place.before if name in effect.reads]
    made = []
    for name in kept:
        value = place.before[name][0]
        if name == "scc":
            made.append(f"s_cmp_lg_u32 {value}, 0")
        elif name.startswith("exec"):
            continue
        else:
            move = "v_mov_b32" if name.startswith("v") and name[1:].isdigit() else "s_mov_b32"
            made.append(f"{move} {name}, {value:#x}")
    made += [
        str(item),
        f"; {found.register} in lane {found.lanes[0]}: {a.name} {found.a:#010x}, "
        f"{b.name} {found.b:#010x}",
    ]
    return made[-MOST_LINES:]


def _step_name(of: Workload, launch: int) -> str:
    for step, first in zip(of.steps, of.first_launches, strict=True):
        if first <= launch < first + len(step.launches):
            return f"{step.layer} {step.direction}"
    raise AssertionError(launch)


def _wave(place: Divergence, of: Workload) -> str:
    assert place.wave is not None
    launch = of.launches[place.launch]
    x, y, z = of.kernel(launch.kernel).extents
    waves = -(-x * y * z // LANES)
    group, wave = divmod(place.wave, waves)
    at = (group % launch.grid[0], group // launch.grid[0] % launch.grid[1],
          group // launch.grid[0] // launch.grid[1])  # fmt: skip
    return f"work-group {','.join(map(str, at))}, its wavefront {wave}"
