"""The rewriting for MGPUSim: each instruction stays, or a rule of the table puts others for it.

The model's row says which mnemonics are right as they are (`native`), `table.RULES` has the rules.
What has neither is refused before anything runs.

SCC, VCC and EXEC are intact behind every replacement: a rule that has to write SCC or VCC saves
them, unless a walk over the kernel's paths shows that nobody reads them any more.

What stays different from hardware, by intent: fused multiply-adds are rounded twice except where
they cancel (`fused`; the tolerance of each layer covers that), subnormals are never flushed, the
sign of zero that a minimum or maximum picks from two zeros is free, and signalling NaNs are not
quietened.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.ask.build import Destination

# Importing them registers the rules:
from simgen.isa.legalise import (
    compare,
    division,
    double_compare,
    doubles,
    fused,
    half,
    halves,
    lanes,
    local_bytes,
    memory,
    one_by_one,
    overlap,
    packed_halves,
    replacements,
    roles,
    scalar,
    scalar_bits,
    simulators,
    trigonometry,
    vector_float,
    vector_integer,
)
from simgen.isa.legalise.assembly import (
    AssemblyKernel,
    Instruction,
    is_vgpr,
    parse,
    raise_counts,
    raise_lds,
    registers,
)
from simgen.isa.legalise.flow import Flow
from simgen.isa.legalise.rewritten import Legalised
from simgen.isa.legalise.site import INFINITY, NoRuleError, Registers, Site
from simgen.isa.legalise.table import RULES

if TYPE_CHECKING:
    from simgen.isa.legalise.simulators import Model

TITLE = "MGPUSim"  # in messages

_RULES = (
    compare, division, double_compare, doubles, fused, half, lanes, local_bytes, memory,
    one_by_one, packed_halves, replacements, scalar, scalar_bits, trigonometry, vector_float,
    vector_integer,
)  # fmt: skip
_OTHER_FORMS = (
    "gds", "lds", "quad_perm", "row_shl", "row_shr", "row_bcast", "wave_shr", "row_mask", "dst_sel",
    "src0_sel",
)  # fmt: skip
_OMODS = ("mul:2", "mul:4", "div:2")
_CURES = (
    ("scratch_", "keep local arrays out of the kernel: index them by constants only"),
    ("buffer_", "keep local arrays out of the kernel: index them by constants only"),
    ("v_div_", "divide in 32 bits"),
    ("v_mfma", "use fused()"),
)


def rewrite(text: str, model: Model) -> Legalised:
    """Rewrite the kernels of a module (clang's assembly text) for a simulator.

    Raises:
        NoRuleError: an instruction is not there in the simulator and has no rule, or its rule needs
            more registers than there are. Its `item` tells the source line, if `text` has lines.
    """
    lines = text.split("\n")
    count: Counter[str] = Counter()
    added = 0
    kernels = parse(lines)
    edits: dict[int, list[str]] = {}
    emulated: dict[str, str] = {}
    for kernel in kernels:
        added += _kernel(kernel, model, edits, count, emulated, lines)
    for at, new in edits.items():
        lines[at] = "\n".join(new)
    before = sum(isinstance(i, Instruction) for k in kernels for i in k.items.values())
    return Legalised("\n".join(lines), before, dict(sorted(count.items())), added, emulated)


def _kernel(
    kernel: AssemblyKernel,
    model: Model,
    edits: dict[int, list[str]],
    count: Counter[str],
    emulated: dict[str, str],
    lines: list[str],
) -> int:
    """Rewrite one kernel: its new lines go to `edits`. Returns how many instructions were added."""
    flow, pool, added = Flow(kernel, model.arch), Registers(kernel), 0
    table = _Table(model)
    for at, item in kernel.items.items():
        if not isinstance(item, Instruction):
            continue
        site = Site(model.arch, item, at, flow, pool)
        table.replace_one(site)
        if list(map(str, site.out)) == [str(item)]:
            continue
        count[item.mnemonic] += 1
        added += sum(not new.mnemonic.endswith(":") for new in site.out) - 1  # no labels
        edits[at] = [f"\t{new}" for new in site.out]
        edits[at][0] += f"  ; for {item}"
    first = [f"s_mov_b32 {pool.infinity}, {INFINITY}"] * pool.uses_infinity
    first += pool.numbering(model.arch, lines) if pool.uses_thread else []
    if first:
        edits[kernel.start] = [lines[kernel.start], *(f"\t{new}" for new in first)]
    if pool.uses_thread:
        pool.own(vgprs=kernel.vgprs + 1)
    if pool.uses_lane_words:
        raise_lds(lines, kernel, pool.lane_words + pool.lane_nbytes - pool.asked_lds)
    else:  # rules read the word around a byte
        raise_lds(lines, kernel, pool.own_lds + -pool.all_lds % 4)
    raise_counts(lines, kernel, pool.vgprs, pool.sgprs)
    emulated |= pool.emulated
    return added + len(first)


def planned_rewrites(text: str, model: Model) -> dict[int, str]:
    """What a rewriting would do: by the index of an instruction's line, why it has no replacement,
    or nothing where it has one. Instructions that would stay are not there.
    """
    found: dict[int, str] = {}
    table = _Table(model)
    for kernel in parse(text.split("\n")):
        flow, pool = Flow(kernel, model.arch), Registers(kernel)
        for at, item in kernel.items.items():
            if not isinstance(item, Instruction):
                continue
            site = Site(model.arch, item, at, flow, pool)
            try:
                table.replace_one(site)
            except NoRuleError as refusal:
                found[at] = str(refusal)
                continue
            if list(map(str, site.out)) != [str(item)]:
                found[at] = ""
    return found


class _Table:
    """What a model executes right, and the rules for the rest."""

    def __init__(self, model: Model) -> None:
        row = simulators.support(model)
        self.name = f"{TITLE} {model.version}"
        self.native = simulators.native(model)
        self.rules = {
            name: rule
            for name, rule in RULES.get(model.arch, {}).items()
            if name not in row.learnt and not (rule is replacements.replace and self._has(name))
        }

    def _has(self, name: str) -> bool:
        """Whether an instruction, or the short encoding of a long one, is right as it is."""
        short = name.removesuffix("_e64") + "_e32"
        if name in replacements.PARTLY:
            return False
        return name in self.native or (short in self.native and not name.startswith("v_cmp"))

    def replace_one(self, site: Site) -> None:
        """Put what stands for the site's instruction into `site.out`."""
        form = roles.roles_of(site.item, site.arch)
        if form is None:
            if roles.forms(site.item.mnemonic, site.arch):
                count = len(site.item.operands)
                raise site.refusal(
                    f"the form with {count} operands has no replacement",
                    "write the kernel without it",
                )
            raise self._unknown(site)
        site.native = self.native
        back = halves.copied_out(site, form)
        omod = next((w for w in site.item.tail if w in _OMODS), "")
        clamped = "clamp" in site.item.tail
        result = site.item.operands[0] if site.item.operands else ""
        if clamped and replacements.key_of(site.item.mnemonic, site.item.tail):
            clamped = False  # what stands for it does that
        elif omod or clamped:
            other = "_f32" not in site.item.mnemonic or "_cvt_f16" in site.item.mnemonic
            if other or len(registers(result)) != 1 or not is_vgpr(result):
                raise site.refusal(
                    "an output modifier has no replacement",
                    "write the limits as minimum and maximum",
                )
            tail = tuple(w for w in site.item.tail if w not in (*_OMODS, "clamp"))
            site.item = replace(site.item, tail=tail)
        overlap.mended(site, self._by_table)
        for part in registers(result):
            if omod:
                vector_float.scale(site, part, omod)
            if clamped:
                vector_float.clamp(site, part)
        halves.copied_back(site, back)

    def _by_table(self, site: Site) -> None:
        item = site.item
        name, short = item.mnemonic, item.mnemonic.removesuffix("_e64") + "_e32"
        self._refuse_forms(site)
        if "clamp" in item.tail and replacements.key_of(name, item.tail):
            replacements.replace(site)
        elif name in self.rules:
            self.rules[name](site)
        elif name in self.native:
            site.out.append(item)
        elif name.endswith("_e64") and short in (self.native | self.rules.keys()):
            self._shorten(site, short)
        else:
            raise self._unknown(site)

    def _unknown(self, site: Site) -> NoRuleError:
        name = site.item.mnemonic
        if name == "s_getpc_b64" and (symbol := site.named_place()):
            return site.refusal(
                f"it calls {symbol}, or reads it, and {TITLE} loads the code of a kernel alone",
                "inline functions (__forceinline__, no recursion), pass constants as a tensor, or "
                f"build with {Destination.targets} gem5-se",
            )
        cure = next((c for prefix, c in _CURES if name.startswith(prefix)), "")
        return site.refusal(
            f"{self.name} does not execute it right, and simgen has no replacement",
            cure or "write the kernel without it, or run it on another target",
        )

    def _shorten(self, site: Site, short: str) -> None:
        """The long form of an instruction as its short one: sources lose modifiers and scalars."""
        result, *sources = site.item.operands
        if len(sources) == 1:
            site.item = replace(
                site.item, mnemonic=short, operands=(result, site.plain(sources[0]))
            )
            self._by_table(site)
        elif len(sources) == 2 and short in self.native and not short.startswith("v_cmp"):
            site.binary(short.removeprefix("v_").removesuffix("_e32"), result, *sources)
        else:
            raise site.refusal(
                f"{self.name} lacks this form", "write the kernel without it, or run it elsewhere"
            )

    def _refuse_forms(self, site: Site) -> None:
        """Forms that MGPUSim decodes as something else."""
        if site.item.mnemonic in self.rules and site.item.mnemonic.endswith("_dpp"):
            return
        for word in site.item.tail:
            key = word.partition(":")[0]
            packed = site.item.mnemonic.startswith("v_pk_")
            if key in _OTHER_FORMS or (key.startswith("op_sel") and not packed):
                raise site.refusal(
                    f"the form with {word} has no replacement", "write the kernel without it"
                )
        if site.item.mnemonic.endswith(("_sdwa", "_dpp")):
            raise site.refusal("this form has no replacement", "build without SDWA and DPP forms")
