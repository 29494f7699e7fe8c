"""What gem5 ignores or computes wrongly in anybody's code -> what it executes right.

By the tables of data/lint, so for each version what its sources say:

* signs of sources (`abs`, `neg`) that `execute()` does not read, of comparisons of f32 and of
  v_cndmask_b32: the source with its sign goes through a register
* `clamp` and `omod` of results in f32: a maximum and a minimum behind, a product behind. Of a NaN,
  a clamp makes 0, as it does in kernels whose descriptor has DX10_CLAMP, as compilers set it
* v_ffbh_u32: the lowest bit of the reversed word
* ds_write_b8_d16_hi: a shift before, and ds_write_b8
* scalar loads with a constant below zero, or beside a register: the base is moved

simgen's own kernels have none of those. The other rewritings for gem5 are those of `compile`, which
come behind.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.compile.legalise.assembly import (
    Instruction,
    integer,
    is_vgpr,
    parse,
    raise_counts,
    registers,
    source_modifiers,
)
from simgen.compile.legalise.flow import Flow
from simgen.compile.legalise.memory import further
from simgen.compile.legalise.rewritten import Legalised
from simgen.compile.legalise.site import Registers, Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.compile.legalise.assembly import AssemblyKernel
    from simgen.compile.legalise.facts import Table

# Results in f32 in one vector register.
_F32 = re.compile(r"v_(?!cmp|cvt|div_scale|pk_)\w+_f32(_e64)?\Z|v_cvt_f32_\w+_e64\Z")
_SCALAR_LOAD = re.compile(r"s_load_dword(x\d+)?\Z")
_FACTORS = {"mul:2": "2.0", "mul:4": "4.0", "div:2": "0.5"}
_SIGNS = ("abs", "neg")


def has_rule(word: str, modifier: str = "") -> bool:
    """Whether `rewrite` replaces an instruction that gem5 executes wrongly, or a modifier of it."""
    if modifier in _SIGNS:
        return word.endswith("_e64") and "f64" not in word and "f16" not in word
    if modifier in ("clamp", "omod"):
        return bool(_F32.match(word))
    if modifier == "negative":
        return bool(_SCALAR_LOAD.match(word))
    return word in _RULES


def rewrite(text: str, table: Table, arch: str, *, edges: bool = True) -> Legalised:
    """Assembly text (in the layout of clang's) without what the table says is wrong, as far as
    there are rules; with `edges`, without what is wrong for a few values, too.

    Raises:
        NoRuleError: what stands for an instruction needs more registers than there are.
    """
    lines = text.split("\n")
    count: Counter[str] = Counter()
    added = 0
    edits: dict[int, list[str]] = {}
    kernels = parse(lines)
    mended = frozenset(table.wrong) | (frozenset(table.edges) if edges else frozenset())
    for kernel in kernels:
        added += _kernel(kernel, table, mended, arch, edits, count, lines)
    for at, new in edits.items():
        lines[at] = "\n".join(new)
    before = sum(isinstance(i, Instruction) for k in kernels for i in k.items.values())
    return Legalised("\n".join(lines), before, dict(sorted(count.items())), added)


def _kernel(
    kernel: AssemblyKernel, table: Table, mended: frozenset[str], arch: str,
    edits: dict[int, list[str]], count: Counter[str], lines: list[str],
) -> int:  # fmt: skip
    flow, pool, added = Flow(kernel, arch), Registers(kernel), 0
    for at, item in kernel.items.items():
        if not isinstance(item, Instruction):
            continue
        site = Site(arch, item, at, flow, pool)
        _replace(site, table, mended)
        if list(map(str, site.out)) == [str(item)]:
            continue
        count[item.mnemonic] += 1
        added += sum(not new.mnemonic.endswith(":") for new in site.out) - 1  # no labels
        edits[at] = [f"\t{new}" for new in site.out]
        edits[at][0] += f"  ; for {item}"
    raise_counts(lines, kernel, pool.vgprs, pool.sgprs)
    return added


def _replace(site: Site, table: Table, mended: frozenset[str]) -> None:
    """Put what stands for the site's instruction into `site.out`."""
    word = site.item.mnemonic

    def ignores(modifier: str) -> bool:
        return word in table.ignores.get(modifier, ()) and has_rule(word, modifier)

    if word in mended and word in _RULES:
        _RULES[word](site)
        return
    if _SCALAR_LOAD.match(word):
        _scalar_load(site, signed=word in table.ignores.get("negative", ()))
        return
    result, *sources = site.item.operands or ("",)
    plain = []
    for source in sources:
        neg, absolute, _ = source_modifiers(source)
        lost = (neg and ignores("neg")) or (absolute and ignores("abs"))
        plain.append(site.plain(source) if lost else source)
    tail = site.item.tail
    output = is_vgpr(result)
    clamped = output and "clamp" in tail and ignores("clamp")
    factor = next((w for w in tail if w in _FACTORS and output and ignores("omod")), "")
    kept = tuple(w for w in tail if w != factor and not (clamped and w == "clamp"))
    operands = (result, *plain) if site.item.operands else ()
    site.out.append(replace(site.item, operands=operands, tail=kept))
    if factor:
        site.put("v_mul_f32_e32", result, _FACTORS[factor], result)
    if clamped:
        site.put("v_max_f32_e32", result, "0", result)
        site.put("v_min_f32_e32", result, "1.0", result)


def _zeros_above(site: Site) -> None:
    result, source = site.item.operands
    site.put("v_bfrev_b32_e32", result, source)
    site.put("v_ffbl_b32_e32", result, result)


def _upper_byte(site: Site) -> None:
    address, data = site.item.operands
    held = site.vgpr()
    site.put("v_lshrrev_b32_e32", held, "16", data)
    site.put("ds_write_b8", address, held, tail=site.item.tail)


def _scalar_load(site: Site, *, signed: bool) -> None:
    """gem5 adds no register to a constant, and of gfx9's constants it reads no sign."""
    result, base, offset = site.item.operands
    number = integer(offset)
    constant = integer(site.item.modifier("offset") or "0")
    if number is not None and number < 0 and signed:
        base, offset = further(site, base, number), "0x0"
    elif number is None and constant and registers(offset):
        base = further(site, base, constant)
    else:
        site.out.append(site.item)
        return
    tail = tuple(word for word in site.item.tail if not word.startswith("offset:"))
    site.put(site.item.mnemonic, result, base, offset, tail=tail)


_RULES: dict[str, Callable[[Site], None]] = {
    "v_ffbh_u32_e32": _zeros_above,
    "v_ffbh_u32_e64": _zeros_above,
    "ds_write_b8_d16_hi": _upper_byte,
}
