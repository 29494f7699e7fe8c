"""What gem5 ignores or computes wrongly in anybody's code -> what it executes right.

By the tables of data/lint, so for each version what its sources say:

* signs of sources (`abs`, `neg`) that `execute()` does not read, of comparisons of f32 and of
  v_cndmask_b32: the source with its sign goes through a register
* `clamp` and `omod` of results in f32 and f64: a maximum and a minimum behind, a product behind. Of
  a NaN, a clamp makes 0, as it does in kernels whose descriptor has DX10_CLAMP, as compilers set it
* v_ffbh_u32: the lowest bit of the reversed word
* sines, cosines, and quotients: `gem5_floats`; floats of 64 bits: `gem5_doubles`; of 16 bits, of
  which gem5 has packed arithmetic only: `gem5_halves`; whole numbers: `gem5_whole`,
  `gem5_integers`; memory:
  `gem5_memory`

simgen's own kernels have none of what is wrong for more than a few values. The other rewritings for
gem5 (`gem5`, `empty_exec`) come behind.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.isa.legalise import (
    gem5_doubles,
    gem5_floats,
    gem5_halves,
    gem5_integers,
    gem5_lanes,
    gem5_memory,
    gem5_operands,
    gem5_whole,
    halves,
    memory,
    replacements,
)
from simgen.isa.legalise.assembly import (
    AssemblyKernel,
    Instruction,
    is_vgpr,
    parse,
    raise_counts,
    raise_lds,
    source_modifiers,
)
from simgen.isa.legalise.flow import Flow
from simgen.isa.legalise.gem5_floats import FACTORS
from simgen.isa.legalise.gem5_memory import SCALAR_LOAD
from simgen.isa.legalise.rewritten import Legalised
from simgen.isa.legalise.site import Registers, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from simgen.isa.legalise.facts import Table

# Results in floats of 32 and 64 bits in vector registers.
_FLOAT = re.compile(r"v_(?!cmp|cvt|div_scale|pk_)\w+_f(32|64)(_e64)?\Z|v_cvt_f(32|64)_\w+_e64\Z")
_SIGNS = ("abs", "neg")


def has_rule(word: str, modifier: str = "", lost: Container[str] = ()) -> bool:
    """Whether `rewrite` replaces an instruction that gem5 executes wrongly, or a modifier of it;
    `lost` are those that a version has wrong or not at all."""
    if modifier in _SIGNS:
        long = word.endswith("_e64") or word == "v_ldexp_f32"
        return long and "f64" not in word and "f16" not in word
    if modifier in ("clamp", "omod"):
        whole = modifier == "clamp" and word in gem5_integers.SATURATING
        return whole or bool(_FLOAT.match(word))
    if modifier == "negative" and not word.startswith("global_"):
        return bool(SCALAR_LOAD.match(word) or gem5_operands.WIDENED.match(word))
    if modifier in ("negative", "base"):
        return word.startswith("global_")
    return word in RULES and NEED.get(word) not in lost


def rewrite(text: str, table: Table, arch: str, *, edges: bool = True) -> Legalised:
    """Assembly text (in the layout of clang's) without what the table says is wrong or ends the
    simulation, as far as there are rules; with `edges`, without what is wrong for a few values.

    Raises:
        NoRuleError: what stands for an instruction needs more registers than there are.
    """
    lines = text.split("\n")
    count: Counter[str] = Counter()
    added = 0
    edits: dict[int, list[str]] = {}
    kernels = parse(lines)
    mended = {*table.ends, *table.wrong, *(table.edges if edges else ())}
    mended |= {word for word, of in gem5_doubles.WITH.items() if of in mended}
    for kernel in kernels:
        added += _kernel(kernel, table, mended, arch, edits, count, lines)
    for at, new in edits.items():
        lines[at] = "\n".join(new)
    before = sum(isinstance(i, Instruction) for k in kernels for i in k.items.values())
    return Legalised("\n".join(lines), before, dict(sorted(count.items())), added)


def _kernel(
    kernel: AssemblyKernel, table: Table, mended: set[str], arch: str,
    edits: dict[int, list[str]], count: Counter[str], lines: list[str],
) -> int:  # fmt: skip
    flow, pool, added = Flow(kernel, arch), Registers(kernel), 0
    lost = {*table.wrong, *table.ends}
    for at, item in kernel.items.items():
        if not isinstance(item, Instruction):
            continue
        site = Site(arch, item, at, flow, pool)
        site.lost, site.infinities = lost, table.infinities
        _replace_all(site, table, mended)
        if list(map(str, site.out)) == [str(item)]:
            continue
        count[item.mnemonic] += 1
        added += sum(not new.mnemonic.endswith(":") for new in site.out) - 1  # no labels
        edits[at] = [f"\t{new}" for new in site.out]
        edits[at][0] += f"  ; for {item}"
    if pool.uses_thread:
        first = pool.numbering(arch, lines)
        edits[kernel.start] = [lines[kernel.start], *(f"\t{new}" for new in first)]
        pool.own(vgprs=kernel.vgprs + 1)
        added += len(first)
    if pool.uses_lane_words:
        raise_lds(lines, kernel, pool.lane_words + pool.lane_nbytes - pool.asked_lds)
    raise_counts(lines, kernel, pool.vgprs, pool.sgprs)
    return added


def _replace_all(site: Site, table: Table, mended: set[str]) -> None:
    """The same, and what stands for what the version has wrong in what was put there."""
    form = site.item.mnemonic
    back = gem5_operands.readable(site, table)
    if not gem5_operands.replaced(site, table):
        _replace(site, table, mended)
    made, site.out = site.out, []
    for each in made:
        if each.mnemonic != form and each.mnemonic in site.lost and each.mnemonic in RULES:
            site.item = each
            _replace(site, table, mended)
        else:
            site.out.append(each)
    halves.copied_back(site, back)


def _replace(site: Site, table: Table, mended: set[str]) -> None:
    """Put what stands for the site's instruction into `site.out`."""
    word = site.item.mnemonic

    def ignores(modifier: str) -> bool:
        return word in table.ignores.get(modifier, ()) and has_rule(word, modifier)

    if SCALAR_LOAD.match(word):
        gem5_memory.scalar_load(site, signed=word in table.ignores.get("negative", ()))
        return
    if word in gem5_integers.SATURATING:
        if "clamp" in site.item.tail and ignores("clamp"):
            replacements.replace(site)
        elif word in table.ends:
            gem5_integers.short(site)
        else:
            site.out.append(site.item)
        return
    result, *sources = site.item.operands or ("",)
    tail, output = site.item.tail, is_vgpr(result)
    clamped = output and "clamp" in tail and ignores("clamp")
    factor = next((w for w in tail if w in FACTORS and output and ignores("omod")), "")
    kept = tuple(w for w in tail if w != factor and not (clamped and w == "clamp"))
    site.item = replace(site.item, tail=kept)
    needs = {*table.wrong, *table.ends} if word in NEED else set[str]()
    if word in mended and has_rule(word, "", needs) and not _in_a_form(site.item):
        RULES[word](site)
    else:
        plain = []
        for source in sources:
            neg, absolute, _ = source_modifiers(source)
            lost = (neg and ignores("neg")) or (absolute and ignores("abs"))
            plain.append(site.plain(source) if lost else source)
        operands = (result, *plain) if site.item.operands else ()
        site.out.append(replace(site.item, operands=operands))
    if factor:
        gem5_floats.scale(site, result, factor)
    if clamped:
        gem5_floats.clamp(site, result)


def _in_a_form(item: Instruction) -> bool:
    """Whether an instruction has what no rule reads: half of a register."""
    packs = item.mnemonic.startswith(("v_pack_b32_f16", "v_pk_", "v_dot2"))
    return not packs and any(word.startswith("op_sel") for word in item.tail)


def _zeros_above(site: Site) -> None:
    result, source = site.item.operands
    site.put("v_bfrev_b32_e32", result, source)
    site.put("v_ffbl_b32_e32", result, result)


def _fused(site: Site) -> None:
    """v_fmac_f32, in the encoding that has modifiers."""
    result, *factors = site.item.operands
    site.put("v_fma_f32", result, *factors, result, tail=site.item.tail)


RULES: dict[str, Callable[[Site], None]] = {
    "v_ffbh_u32_e32": _zeros_above,
    "v_ffbh_u32_e64": _zeros_above,
    "v_fmac_f32_e64": _fused,
    "ds_read2st64_b32": memory.lds_read_strided,
    "ds_write2st64_b64": memory.lds_write_strided,
    **gem5_floats.RULES,
    **gem5_doubles.RULES,
    **gem5_halves.RULES,
    **gem5_integers.RULES,
    **gem5_whole.RULES,
    **gem5_memory.RULES,
    **gem5_lanes.RULES,
}
# What a rule makes of an instruction, and a version may not have, or have wrong:
NEED = gem5_memory.NEED
