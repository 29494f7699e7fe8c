"""Memory instructions that a wavefront may come to with no active lane.

A compiler lets a wavefront branch around what none of its lanes does, except where that is cheaper
to run through: a few instructions, such as one store to LDS. A GPU then does nothing there, and
executes scalar instructions as ever.

The VEGA model of gem5 counts the request when it issues it (`Wavefront::reserveLmResource`), and
execute() returns without taking it back: in ds.cc, flat.cc and mubuf.cc, `exec_mask.none()`; GCN3's
took it back. The count stays with the wavefront's place. From 23.1 on, the next launch that takes
that place ends the simulation ("LM write counter for wavefront non-zero"); in all versions,
instructions wait for good once the queue of requests seems to be full.

From 23.1 on (9f4d3346), `Wavefront::exec` returns a token of the coalescer behind each access to
global memory without active lanes. Scalar loads and stores, and what empties L1, took none
(`ScheduleStage::fillDispatchList`): where none is out, the simulation ends ("More tokens available
than the maximum after recvTokens!"). Read up to 24.0.0.1; later versions are taken to do the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simgen.isa.legalise.assembly import AssemblyKernel, Instruction, Label, parse
from simgen.isa.legalise.rewritten import Legalised

VECTOR = ("ds_", "flat_", "global_", "scratch_", "buffer_", "tbuffer_")
SCALAR = ("s_load_", "s_buffer_load_", "s_store_", "s_buffer_store_", "buffer_wbinvl1")
_SAVES = re.compile(r"s_(\w+)_saveexec_b64\Z")


class MaskStep(NamedTuple):
    """What of an instruction, or of a label, matters here."""

    at: int  # line or offset
    mnemonic: str  # empty for a label
    result: str  # "exec", or anything else
    source: str  # the first one: "-1", "exec", or anything else
    target: int | None  # where a branch goes: line or offset


def unguarded(steps: Iterable[MaskStep], memory: tuple[str, ...]) -> Iterator[int]:
    """Places of instructions that begin so, where EXEC may be empty.

    EXEC is narrowed and widened as brackets are, which is how compilers write structured control
    flow. A branch that is not taken while EXEC is empty ends the doubt, up to where it goes.
    """
    narrowed = 0  # how often, since it was known to have a lane
    saved: list[int] = []  # the same where all lanes were activated for a while
    skipped: dict[int, int] = {}  # by where branches go: how often it was there
    for step in steps:
        narrowed = max(narrowed, skipped.get(step.at, 0))
        if step.target is not None and step.mnemonic != "s_cbranch_execnz":
            skipped[step.target] = max(narrowed, skipped.get(step.target, 0))
        if step.mnemonic.startswith(memory):
            if narrowed:
                yield step.at
        elif step.source == "-1" and _SAVES.match(step.mnemonic):
            saved.append(narrowed)
            narrowed = _after(narrowed, step)
        elif saved and (step.mnemonic, step.result) == ("s_mov_b64", "exec"):
            narrowed = saved.pop()
        else:
            narrowed = _after(narrowed, step)


def _after(narrowed: int, step: MaskStep) -> int:
    verb, result, source = step.mnemonic, step.result, step.source
    if verb in ("s_cbranch_execz", "s_branch", "s_endpgm"):
        return 0
    if verb == "s_cbranch_execnz":
        return max(narrowed, 1)
    saves = _SAVES.match(verb)
    if saves or result == "exec":
        if source == "-1" and verb in ("s_or_saveexec_b64", "s_mov_b64"):
            return 0
        if verb == "s_andn2_saveexec_b64":  # from one side of a condition to the other
            return max(narrowed, 1)
        if verb in ("s_or_saveexec_b64", "s_or_b64"):
            return max(narrowed - 1, 0)
        return narrowed + 1
    return narrowed + 1 if verb.startswith("v_cmpx") else narrowed


def guard(lines: list[str]) -> None:
    """Let wavefronts branch around those in a module's assembly text (clang's).

    A few in a row share a branch.
    """
    for kernel in parse(lines):
        for run in _runs(kernel, VECTOR):
            lines[run[0]] = f"\ts_cbranch_execz .Lno_lane{run[0]}\n{lines[run[0]]}"
            lines[run[-1]] += f"\n.Lno_lane{run[0]}:"


def guard_scalar(text: str) -> Legalised:
    """Have wavefronts without active lanes execute scalar accesses with all lanes, behind the
    function; others go on to a branch that is not taken."""
    lines, replaced, added = text.split("\n"), Counter[str](), 0
    for kernel in parse(lines):
        runs = _runs(kernel, SCALAR)
        apart = []
        for run in runs:
            name, same = f".Llaneless{run[0]}", [lines[at] for at in run]
            apart += [f"{name}:", "\ts_mov_b64 exec, -1", *same, "\ts_mov_b64 exec, 0"]
            apart += [f"\ts_branch {name}_end"]
            replaced.update(line.split()[0] for line in same)
            added += 4 + len(run)
        for run in runs:
            lines[run[0]] = f"\ts_cbranch_execz .Llaneless{run[0]}\n{lines[run[0]]}"
            lines[run[-1]] += f"\n.Llaneless{run[0]}_end:"
        if apart:
            lines[max(kernel.items)] += "\n" + "\n".join(apart)
    return Legalised("\n".join(lines), 0, dict(sorted(replaced.items())), added)


def _runs(kernel: AssemblyKernel, memory: tuple[str, ...]) -> list[list[int]]:
    """Lines of what is not guarded, those in a row together."""
    found = set(unguarded(_steps(kernel), memory))
    runs: list[list[int]] = []
    before = None
    for at in kernel.items:
        if at in found:
            if before not in found:
                runs.append([])
            runs[-1].append(at)
        before = at
    return runs


def _steps(kernel: AssemblyKernel) -> Iterator[MaskStep]:
    labels = {item.name: at for at, item in kernel.items.items() if isinstance(item, Label)}
    for at, item in kernel.items.items():
        if isinstance(item, Instruction):
            result, source, *_ = (*item.operands, "", "")
            register = result.removesuffix("_lo").removesuffix("_hi")
            yield MaskStep(at, item.mnemonic, register, source, labels.get(result))
        else:
            yield MaskStep(at, "", "", "", None)
