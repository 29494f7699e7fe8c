"""Findings of PTX told: where the manual has it, and lines that show it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen_examine.conform.page import InstructionSet
from simgen_examine.conform.ptx import description
from simgen_examine.conform.ptx.kernels import IN, INDEX, NAME, OUT

if TYPE_CHECKING:
    from simgen_examine.conform.judging import Seen
    from simgen_examine.conform.ptx.forms import PtxForm

MOST_LINES = 15

# A pattern of an opcode, and what kernels notice. The first that matches counts.
_KNOWN = (
    (r"^(shfl|vote|match|redux)", "reductions within a warp: softmax, norms, sums of losses"),
    (r"^(ex2|lg2|tanh)", "softmax, sigmoid, tanh, GELU and losses"),
    (r"^(sin|cos)", "positional encodings, Box-Muller random numbers"),
    (r"^(rcp|rsqrt|sqrt|div\.\S*f\d)", "divisions and norms: softmax, layer normalisation"),
    (r"^(fma|mad\.\S*f\d)", "every product of matrices"),
    (r"^(min|max)\S*\.(f|bf)\d", "ReLU, max pooling, the maximum of softmax"),
    (r"^(setp|set|selp|slct)", "bounds checks, masks and choices"),
    (r"^cvt\S*\.(f|bf)\d", "conversions between types: mixed precision, quantisation, labels"),
    (r"^(cvt|ld\.\S*[su]8|ld\.\S*s16)", "8- and 16-bit integers: quantised layers, labels"),
    (r"^(mul\.hi|mad\.hi|mul\.wide|addc|subc|madc|add\.cc|sub\.cc|mad\S*\.cc)",
     "divisions by constants, 64-bit products, Philox random numbers"),
    (r"^(dp4a|dp2a)", "quantised products"),
    (r"^(atom|red)", "histograms, gradients of gathers and poolings, counters"),
    (r"^(bar|barrier)", "every kernel that shares memory in a block"),
    (r"\.(f16|bf16)(x2)?$", "half precision"),
    (r"[sub]64$", "64-bit arithmetic: addresses, random numbers"),
)  # fmt: skip


def manual(_: str) -> str:
    """The vendor's document."""
    return description.manual()


def source(seen: Seen, _: str) -> tuple[str, str]:
    """What differs, and the manual's section."""
    return "threads", f"{seen.form.instruction.section} in {description.manual()}"


def consequence(form: PtxForm) -> str:
    """In words; empty where nobody has told."""
    opcode = form.instruction.op.name
    return next((told for pattern, told in _KNOWN if re.search(pattern, opcode)), "")


def reproducer(seen: Seen) -> list[str]:
    """PTX that shows a finding, at most MOST_LINES, and what comes out of it as a comment."""
    form: PtxForm = seen.form
    example = seen.examples[0] if seen.examples else None
    lines = [*form.constants, *form.variables]
    given = zip(form.sources, form.signature, example.sources, strict=True) if example else ()
    for register, type_, bits in given:
        if register:
            short = type_ in ("i16", "u16", "b16", "f16", "bf16")
            value = f"0x{bits[-4:]}" if short else bits
            lines.append(f"mov.b{16 if short else 4 * (len(bits) - 2)} {register}, {value};")
        else:
            lines.append(f"// in memory at {IN}: {bits}")
    lines += [*form.setup, form.text, *form.after]
    told = {IN: "the sources", OUT: "the results", INDEX: "the thread"}
    named = [f"{each} is the address of {what}" for each, what in told.items()
             if each != INDEX and any(each in line for line in lines)]  # fmt: skip
    if any(INDEX in line for line in lines):
        named.append(f"{INDEX} is the thread's number")
    lines = [line.replace(NAME, "kernel") for line in lines]
    if named:
        lines.insert(0, f"// {', '.join(named)}")
    if not example:
        return lines[:MOST_LINES]
    holder, expected, found = example.first
    comment = f"// thread {example.number}, {holder}: expected {expected}, found {found}"
    return [*lines[: MOST_LINES - 1], comment]


PTX = InstructionSet("ptx", manual, source, reproducer, consequence)
