"""Modules of PTX for GPGPU-Sim: one of several, and what their kernels take.

GPGPU-Sim reads one file of PTX, and asks NVIDIA's ptxas what each kernel takes of a multiprocessor:
how many work-groups that holds follows from it. Here it is told without ptxas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simgen.isa.legalise.ptx_statements import registers, statement, width


def joined(modules: Mapping[str, str]) -> str:
    """One module of several, by kernel: GPGPU-Sim reads one file.

    Names at module scope, which several may have, get the kernel's number.
    """
    head, bodies = "", []
    for number, text in enumerate(modules.values()):
        start = re.search(r"(?m)^\.address_size \d+\n", text)
        if start is None:
            raise ValueError("no module of LLVM's")
        head = head or text[: start.end()]
        body = text[start.end() :]
        declared = re.findall(
            r"(?m)^\.(?:visible |weak |extern )*\.?(?:global|const|shared)\b[^\n;={]*?"
            r"([A-Za-z_$][\w$]*)(?:\[\d*\])*\s*(?:=|;)",
            body,
        )
        for name in declared:
            body = re.sub(rf"(?<![\w$%]){re.escape(name)}(?![\w$])", f"{name}_{number}", body)
        bodies.append(body)
    return head + "".join(bodies)


@dataclass(frozen=True)
class Resources:
    """What a kernel takes, as ptxas would say it."""

    registers: int  # 32-bit registers of a work-item
    shared_nbytes: int
    stack_nbytes: int


OWN_REGISTERS = 6  # beside those that values live in: addresses of parameters, scratch
MOST_REGISTERS = 255


def needs(text: str) -> Resources:
    """What the kernel of a module takes.

    ptxas gives registers, and is not here: it is the most values that live at once, by liveness
    over the control flow graph, and OWN_REGISTERS. Shared bytes are exact.
    """
    shared = stack = 0
    for kind, align, bits, dimensions in re.findall(
        r"\.(shared|local) \.align (\d+) \.[bfsu](\d+) [\w$]+((?:\[\d+\])*);", text
    ):
        size = int(bits) // 8
        for count in re.findall(r"\d+", dimensions):
            size *= int(count)
        if kind == "shared":
            shared = -(-shared // int(align)) * int(align) + size
        else:
            stack += size
    registers = min(MOST_REGISTERS, _most_live(text) + OWN_REGISTERS)
    return Resources(registers, shared, stack)


_NO_RESULT = {"st", "bra", "bar", "barrier", "ret", "exit", "membar", "red", "trap"}


def _most_live(text: str) -> int:
    """Words of 32 bits that live at once, at most."""
    numbers: dict[str, int] = {}
    weights: list[int] = []

    def bits(names: list[str]) -> int:
        made = 0
        for name in names:
            if _is_value(name):
                if name not in numbers:
                    numbers[name] = len(weights)
                    weights.append(2 if width(name) == 64 else 1)
                made |= 1 << numbers[name]
        return made

    labels: dict[str, int] = {}
    flow: list[tuple[int, int, str, bool]] = []  # uses, results, jump, whether it goes on
    for line in text.split("\n"):
        if found := re.match(r"^([$\w]+):", line):
            labels[found[1]] = len(flow)
        this = statement(line)
        if this is None:
            continue
        opcode = this.words[0]
        plain = opcode not in _NO_RESULT and bool(this.operands)
        result = bits(registers(this.operands[0])) if plain else 0
        uses = bits([r for each in this.operands[plain:] for r in registers(each)])
        if this.guard:
            uses |= result  # what it had stays where the guard is false
        jump = this.operands[0] if opcode == "bra" else ""
        goes_on = bool(this.guard) or opcode not in ("bra", "ret", "exit")
        flow.append((uses, result, jump, goes_on))
    live = [0] * (len(flow) + 1)
    changed = True
    while changed:
        changed = False
        for at in range(len(flow) - 1, -1, -1):
            uses, result, jump, goes_on = flow[at]
            after = live[at + 1] if goes_on else 0
            after |= live[labels[jump]] if jump in labels else 0
            now = (after & ~result) | uses
            changed |= now != live[at]
            live[at] = now
    return max((_weight(each, weights) for each in live), default=0)


def _is_value(name: str) -> bool:
    return bool(re.fullmatch(r"%(?:r|rd|rs|f|fd|sgr|sgd|sgh)\d+", name))


def _weight(live: int, weights: list[int]) -> int:
    total = at = 0
    while live:
        if live & 1:
            total += weights[at]
        live >>= 1
        at += 1
    return total


def resource_lines(kernels: Mapping[str, Resources], arch: str) -> str:
    """What `ptxas -v` would print of kernels, as GPGPU-Sim reads it (cuda-sim/ptxinfo.l)."""
    return "ptxas info    : 0 bytes gmem\n" + "".join(_lines(kernels, arch))


def _lines(kernels: Mapping[str, Resources], arch: str) -> Iterator[str]:
    for name, of in kernels.items():
        yield f"ptxas info    : Compiling entry function '{name}' for '{arch}'\n"
        yield f"ptxas info    : Function properties for {name}\n"
        spilled = "0 bytes spill stores, 0 bytes spill loads"
        yield f"    {of.stack_nbytes} bytes stack frame, {spilled}\n"
        shared = f", {of.shared_nbytes} bytes smem" if of.shared_nbytes else ""
        yield f"ptxas info    : Used {of.registers} registers{shared}, 352 bytes cmem[0]\n"
