"""Forms as PTX: a kernel for each, which tries it with a tuple of values in each thread.

A kernel gets two addresses: where the sources lie, and where results go. Each source and each
result has SLOT bytes for each thread, one source after the other. Threads are numbered as
`%tid` and `%ctaid` of one dimension tell; forms that look at these have launches of their own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.ptx import description

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from simgen_examine.conform.ptx.forms import PtxForm
    from simgen_examine.conform.values import Words

SLOT = 8  # bytes of a value
PLANE = SLOT * values.TUPLES
KEPT = 0x5CA1AB1E  # what results' memory holds before
NAME = "<kernel>"  # in lines that need the kernel's
_REGISTER = re.compile(r"%(rs|rd|r|fd|f|p)(\d+)\b")
_DECLARED = {"rs": "b16", "r": "b32", "rd": "b64", "f": "f32", "fd": "f64", "p": "pred"}
IN, OUT, INDEX, HERE = "%rd91", "%rd92", "%r93", "%rd94"


def header(arch: str) -> list[str]:
    """The first lines of a file."""
    return [f".version {description.version(arch)}", f".target {arch}", ".address_size 64"]


def lines(name: str, form: PtxForm) -> list[str]:
    """A kernel, and what has to be declared outside it."""
    body = [*_start(form), *form.setup, form.text, *form.after, *_stores(form), "ret;"]
    parameters = ", ".join((".param .u64 p_in", ".param .u64 p_out", *form.parameters))
    return [
        *(each.replace(NAME, name) for each in form.constants),
        f".visible .entry {name}({parameters})", "{",
        *(f"\t{each}" for each in (*_registers(body), *form.variables)),
        *(f"\t{each.replace(NAME, name)}" for each in body), "}",
    ]  # fmt: skip


def _start(form: PtxForm) -> Iterator[str]:
    yield f"ld.param.u64 {IN}, [p_in];"
    yield f"ld.param.u64 {OUT}, [p_out];"
    if form.place != "ids":
        yield "mov.u32 %r91, %ctaid.x;"
        yield "mov.u32 %r92, %tid.x;"
        yield f"mad.lo.u32 {INDEX}, %r91, {form.block[0]}, %r92;"
    else:
        yield from _flat(form)
    yield f"mul.wide.u32 {HERE}, {INDEX}, {SLOT};"
    yield f"add.u64 {IN}, {IN}, {HERE};"
    yield f"add.u64 {OUT}, {OUT}, {HERE};"
    for n, (register, type_) in enumerate(zip(form.sources, form.signature, strict=True)):
        if register:  # else it is read from memory by what is tried
            yield f"ld.global.{_load(type_)} {register}, [{IN}+{n * PLANE}];"


def _flat(form: PtxForm) -> Iterator[str]:
    """The thread's number in a launch of three dimensions, or the last one, should ids be large."""
    terms = []
    for axis, block in zip("zyx", reversed(form.block), strict=True):
        terms.append((f"%tid.{axis}", block))
    yield "mov.u32 %r93, 0;"
    for axis, extent in zip("zyx", reversed(form.grid), strict=True):
        yield f"mov.u32 %r91, %ctaid.{axis};"
        yield f"mad.lo.u32 %r93, %r93, {extent}, %r91;"
    for name, extent in terms:
        yield f"mov.u32 %r91, {name};"
        yield f"mad.lo.u32 %r93, %r93, {extent}, %r91;"
    yield f"min.u32 %r93, %r93, {values.TUPLES - 1};"


def _load(type_: str) -> str:
    of = type_.partition("_")[0]  # f64_f32: an f64 next to those of f32
    return of if of in ("f32", "f64") else f"u{values.bits(type_)}"


def _stores(form: PtxForm) -> Iterator[str]:
    for n, result in enumerate(form.results):
        if result.register.startswith("%"):
            yield f"st.global.{result.type} [{OUT}+{n * PLANE}], {result.register};"


def _registers(body: Sequence[str]) -> list[str]:
    """Declarations of the registers that lines name."""
    named = sorted({found for line in body for found in _REGISTER.findall(line)})
    by_class: dict[str, list[str]] = {}
    for prefix, number in named:
        by_class.setdefault(prefix, []).append(f"%{prefix}{number}")
    return [f".reg .{_DECLARED[prefix]} {', '.join(of)};" for prefix, of in by_class.items()]


def module(names: Sequence[str], tried: Sequence[PtxForm], arch: str) -> tuple[str, list[int]]:
    """A file of kernels, and the line at which each begins."""
    text, starts = header(arch), []
    for name, form in zip(names, tried, strict=True):
        starts.append(len(text) + 1)
        text += lines(name, form)
    return "\n".join(text) + "\n", starts


def inputs(signature: tuple[str, ...]) -> bytes:
    """The sources of a signature as kernels read them."""
    return np.ascontiguousarray(values.tuples(signature).transpose(0, 2, 1)).tobytes()


def words(form: PtxForm, left: NDArray[np.uint32]) -> Words:
    """What a kernel left, (word, tuple)."""
    planes = left.reshape(-1, values.TUPLES, SLOT // 4)
    return np.stack([
        planes[n, :, word] for n, each in enumerate(form.results) for word in range(each.words)
    ])  # fmt: skip
