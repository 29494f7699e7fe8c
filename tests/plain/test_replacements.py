"""Expressions that stand for instructions: what they compute is what conform has from the manuals,
which was found equal to the vendor's own pseudocode; what they become is native."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from test_legalise import module
from test_legalised_values import Wavefront, mask_of

from simgen.isa.legalise import NoRuleError, expression, instruction_rules, replacements, roles
from simgen.isa.legalise.assembly import Instruction, parse, registers
from simgen.isa.legalise.expression import term
from simgen.isa.legalise.flow import Flow
from simgen.isa.legalise.replacements import EXPRESSIONS, Wide, flattened
from simgen.isa.legalise.simulators import native
from simgen.isa.legalise.site import Registers, Site
from simgen.isa.legalise.table import RULES
from simgen.targets.mgpusim.target import model
from simgen_examine.conform.catalogue import catalogue

TUPLES = 40_000
CORNERS = np.array(
    [0, 1, 2, 3, 7, 8, 12, 13, 15, 16, 31, 32, 33, 63, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x3C00,
     0x7C00, 0x7C01, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x3F800000, 0x477FE000, 0x47800000, 0x4F000000,
     0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0x80000001,
     0xC0490FDB, 0xCF000000, 0xFF800000, 0x05040100, 0x0C0D0B08, 0xFFFFFFF0, 0xFFFFFFFE,
     0xFFFFFFFF], np.uint32,
)  # fmt: skip
CLAMPED = {
    f"v_{name}_{kind}16 clamp": of
    for name, of in {"add": np.add, "sub": np.subtract}.items()
    for kind in "iu"
}
OTHERS = {  # no form of conform's
    "v_swap_b32",
    "v_subrev_u16 clamp",
    *CLAMPED,
}
OLD = {"v_dot4c_i32_i8": 2, "v_dot2c_i32_i16": 2, "v_dot8c_i32_i4": 2}  # a source and result
LIKE = {"v_mad_legacy_u16": "v_mad_u16", **{name: name.replace("c_", "_") for name in OLD}}


def drawn(rng):
    """Words of three sources, (source, word, tuple): half of them corners, some of them equal."""
    words = rng.integers(0, 1 << 32, (3, 2, TUPLES), np.uint32)
    words = np.where(rng.random(words.shape) < 0.5, rng.choice(CORNERS, words.shape), words)
    words[1, :, ::7], words[2, :, ::11] = words[0, :, ::7], words[1, :, ::11]
    return words


def plain_forms():
    """Name in the table -> a form of it with registers alone."""
    found = {}
    for arch in ("gfx942", "gfx803"):
        for form in catalogue(arch):
            what = form.what.removeprefix("e64").removeprefix("e32")
            if what in ("", ", clamp"):
                found.setdefault(form.instruction.name + what.replace(",", ""), form)
    return found


FORMS = plain_forms()


def bound(name, sources):
    """An expression's results, for sources of one word or two; and the arrays by their names."""
    names = list(inspect.signature(EXPRESSIONS[name]).parameters)
    count = len(sources[0][0])
    arrays, given = {"lane": np.arange(count, dtype=np.uint32) % 64}, []
    for parameter, words in zip(names, sources, strict=False):
        keys = [f"{parameter}{n}" for n in range(2)] if len(words) == 2 else [parameter]
        arrays |= dict(zip(keys, words, strict=True))
        terms = [term("source", key) for key in keys]
        given.append(Wide(*terms) if len(words) == 2 else terms[0])
    if name.startswith("v_pk_"):
        given = [Wide(each, each >> 16) for each in given]
    if "lane" in names:
        given.append(term("source", "lane"))
    results = flattened(EXPRESSIONS[name](*given))
    return [expression.compute(value, arrays) for value in results]


def as_words(result):
    """Words of a result: of a mask, those of each wavefront, in all of its lanes."""
    if result.dtype != bool:
        return [result.astype(np.uint32)]
    bits = result.reshape(-1, 64).astype(np.uint64) << np.arange(64, dtype=np.uint64)
    whole = np.repeat(np.bitwise_or.reduce(bits, axis=1), 64)
    return [(whole >> np.uint64(32 * n)).astype(np.uint32) for n in range(2)]


@pytest.mark.parametrize("name", sorted(EXPRESSIONS.keys() - OTHERS))
@np.errstate(all="ignore")
def test_an_expression_computes_what_the_manual_says(name):
    form = FORMS[LIKE.get(name, name)]
    words = drawn(np.random.default_rng(sum(map(ord, name))))
    types = [each for each in form.instruction.sources if "vcc" not in each]
    first = sorted(range(len(types)), key=lambda n: types[n][0] != "=" and n != OLD.get(name))
    computed = bound(name, [words[n, : 1 + types[n].endswith("64")] for n in first])
    found = np.stack([word for each in computed for word in as_words(each)])
    at = 0
    for wanted in form.outcome(words):
        right = wanted.right(found[at : at + wanted.words])
        bad = np.flatnonzero(~right)[:3]
        assert right.all(), [[hex(w) for w in (*words[:, :, lane].ravel(), *found[:, lane])]
                             for lane in bad]  # fmt: skip
        at += wanted.words
    assert at == len(found) or "u32 clamp" in name  # gfx8 has an operand more


@pytest.mark.parametrize("name", CLAMPED)
def test_a_sum_of_16_bits_stays_in_their_range(name):
    a, b = drawn(np.random.default_rng(5))[:2, 0]
    value = EXPRESSIONS[name](term("source", "a"), term("source", "b"))
    found = expression.compute(value, {"a": a, "b": b})
    kind = np.int16 if "_i16" in name else np.uint16
    limits = np.iinfo(kind)
    exact = CLAMPED[name](*(x.astype(kind).astype(np.int32) for x in (a, b)))
    assert (found == np.clip(exact, limits.min, limits.max).astype(np.uint16)).all()


def operands_of(name, arch, form=None):
    """Each operand of an instruction in registers of its own, the first in v2 or v[2:3]."""
    found, free, kind = [], 2, "s" if name.startswith("s_") else "v"
    for role in (form or roles.forms(name, arch)[0]).operands:
        width = role.width or 2  # an address without a base
        free += free % 2 if width > 1 and not role.lane_mask else 0
        found.append(f"{kind}{free}" if width == 1 else f"{kind}[{free}:{free + width - 1}]")
        if role.lane_mask:
            found[-1] = "vcc" if name.endswith("e32") else "s[4:5]"
        else:
            free += width
    return found


def words_of(operands):
    return [r for o in operands for r in ([o] if o[0] == "s" or o == "vcc" else registers(o))]


@pytest.mark.parametrize("arch", ["gfx942", "gfx803"])
@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
@np.errstate(all="ignore")
def test_what_is_put_computes_the_same(name, arch):
    """Also where the result lies in a source's register."""
    base, _, clamp = name.partition(" ")
    right = native(model(arch))
    spellings = [
        n
        for n in (base, f"{base}_e64", f"{base}_e32")
        if RULES[arch].get(n) is replacements.replace or (clamp and n in RULES[arch])
    ]
    for spelling in spellings:
        if spelling in right or (spelling.replace("_e64", "_e32") in right and "cmp" not in name):
            continue
        form = roles.forms(base, arch)[0].operands
        operands = operands_of(spelling, arch)
        shared = [
            n
            for n, role in enumerate(form)
            if n
            and role.is_read
            and form[0].role == "d"
            and role.width == form[0].width
            and not form[0].lane_mask
        ]
        for result in (operands[0], *(operands[n] for n in shared)):
            wave = Wavefront()
            drawn_words = drawn(np.random.default_rng(3)).reshape(6, -1)
            for number in range(2, 10):
                wave.v[number] = drawn_words[number % 6, 64 * number :][:64].copy()
            line = [result, *operands[1:]]
            read = [o for o, role in zip(line, form, strict=True) if role.is_read]
            computed = bound(name, [[wave.v[int(r[1:])] for r in registers(o)] for o in read])
            wave.run(f"{spelling} {', '.join(line)} {clamp}".rstrip(), arch=arch)
            written = words_of(o for o, role in zip(line, form, strict=True) if role.is_written)
            for register, value in zip(written, computed, strict=False):
                if value.dtype == bool:
                    assert wave.scalar(register) == mask_of(np.broadcast_to(value, 64)), line
                else:
                    assert (wave.v[int(register[1:])] == value).all(), line


class AllLive(Flow):
    """Every register is needed behind every place."""

    def live_after(self, at, register):
        return True


SAVED = {"scc": ("s_cselect_b32", ("1", "0")), "vcc": ("s_mov_b64", ("vcc",)),
         "exec": ("s_mov_b64", ("exec",))}  # fmt: skip


def kept(special, out, arch):
    """Whether something that is written holds in the end what it held before."""
    (word, sources), holders, is_kept = SAVED[special], set(), True
    for item in out:
        if item.mnemonic == word and item.operands[1:] == sources:
            holders |= {item.operands[0]} if is_kept else set()
        elif any(r.startswith(special) for r in roles.effect(item, arch).writes):
            back = item.operands[special != "scc" :][:1]
            restores = item.mnemonic in ("s_cmp_lg_u32", "s_mov_b64")
            is_kept = restores and back[0] in holders
    return is_kept


@pytest.mark.parametrize("arch", ["gfx942", "gfx803"])
def test_what_is_put_changes_nothing_but_results_and_temporaries(arch):
    """SCC, VCC and EXEC are as before where somebody needs them, or the instruction sets them."""
    bad = []
    for name in sorted(RULES[arch]):
        for form in roles.forms(name, arch):
            text = ", ".join("off" if r.role == "o" else "7" if r.role == "i" else o
                             for r, o in zip(form.operands, operands_of(name, arch, form),
                                             strict=True))  # fmt: skip
            (kernel,) = parse(module(f"{name} {text}", arch=arch, vgprs=40, sgprs=40).split("\n"))
            at, item = next((n, i) for n, i in kernel.items.items() if isinstance(i, Instruction))
            site = Site(arch, item, at, AllLive(kernel, arch), Registers(kernel))
            try:
                instruction_rules._Table(model(arch)).replace_one(site)
            except NoRuleError:
                continue
            mine = roles.effect(item, arch).writes
            out = [i for i in site.out if not i.mnemonic.endswith(":")]
            for each in out:
                for register in roles.effect(each, arch).writes - mine:
                    special = register.partition("_")[0]
                    temporary = register[0] in "sv" and register[1:].isdigit() and (
                        int(register[1:]) >= 40)  # fmt: skip
                    if not temporary and not (special in SAVED and kept(special, out, arch)):
                        bad.append((name, text, str(each), register))
    assert bad == []
