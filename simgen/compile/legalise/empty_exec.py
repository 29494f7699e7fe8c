"""Memory instructions that a wavefront may come to with no active lane.

A compiler lets a wavefront branch around what none of its lanes does, except where that is cheaper
to run through: a few instructions, such as one store to LDS. A GPU then does nothing there.

The VEGA model of gem5 counts the request when it issues it (`Wavefront::reserveLmResource`), and
execute() returns without taking it back: in ds.cc, flat.cc and mubuf.cc, `exec_mask.none()`; GCN3's
took it back. The count stays with the wavefront's place. From 23.1 on, the next launch that takes
that place ends the simulation ("LM write counter for wavefront non-zero"); in all versions,
instructions wait for good once the queue of requests seems to be full.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from simgen.compile.legalise.assembly import Instruction, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MEMORY = ("ds_", "flat_", "global_", "scratch_", "buffer_", "tbuffer_")
_SAVES = re.compile(r"s_(\w+)_saveexec_b64\Z")


class MaskStep(NamedTuple):
    """What of an instruction matters here."""

    at: int  # line or offset
    mnemonic: str
    result: str  # "exec", or anything else
    source: str  # the first one: "-1", "exec", or anything else


def unguarded(steps: Iterable[MaskStep]) -> Iterator[int]:
    """Places that access memory where EXEC may be empty.

    EXEC is narrowed and widened as brackets are, which is how compilers write structured control
    flow. A branch that is not taken while EXEC is empty ends the doubt.
    """
    narrowed = 0  # how often, since it was known to have a lane
    for step in steps:
        if step.mnemonic.startswith(_MEMORY):
            if narrowed:
                yield step.at
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
        if verb in ("s_or_saveexec_b64", "s_or_b64"):
            return max(narrowed - 1, 0)
        return narrowed + 1
    return narrowed + 1 if verb.startswith("v_cmpx") else narrowed


def guard(lines: list[str]) -> None:
    """Let wavefronts branch around those in a module's assembly text (clang's).

    A few in a row share a branch.
    """
    for kernel in parse(lines):
        items = {at: i for at, i in kernel.items.items() if isinstance(i, Instruction)}
        found = set(unguarded(_steps(items)))
        before = None
        for at, following in zip(kernel.items, [*list(kernel.items)[1:], None], strict=True):
            if at in found and before not in found:
                first = at
                lines[at] = f"\ts_cbranch_execz .Lno_lane{first}\n{lines[at]}"
            if at in found and following not in found:
                lines[at] += f"\n.Lno_lane{first}:"
            before = at


def _steps(items: dict[int, Instruction]) -> Iterator[MaskStep]:
    for at, item in items.items():
        result, source, *_ = (*item.operands, "", "")
        yield MaskStep(at, item.mnemonic, result.removesuffix("_lo").removesuffix("_hi"), source)
