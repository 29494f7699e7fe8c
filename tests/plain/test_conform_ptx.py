"""PTX: what instructions compute, against NumPy and vectors worked out by hand; texts of kernels;
and a probe on a machine that ends, refuses and errs where it is told to."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from census import census

from simgen.errors import MissingError, UsageError
from simgen_examine.conform import judging, lint_table, page, values
from simgen_examine.conform.judging import Found
from simgen_examine.conform.ptx import description, exact, kernels, telling, warps
from simgen_examine.conform.ptx.catalogue import catalogue
from simgen_examine.conform.ptx.exact import FORMATS, decoded, encoded
from simgen_examine.conform.ptx.machines import GpgpuSimMachine, nearest
from simgen_examine.conform.ptx.operation import FUNCTIONS, Either, OpcodeText
from simgen_examine.conform.ptx.running import REFUSED, PtxProbe
from simgen_examine.conform.ptx.warps import shuffled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen_examine.conform.ptx.forms import PtxForm

NUMPY = {"f16": (np.float16, np.uint16), "f32": (np.float32, np.uint32),
         "f64": (np.float64, np.uint64)}  # fmt: skip
M32, M64 = (1 << 32) - 1, (1 << 64) - 1
NOT_FOUND = M32


def bits(type_: str, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, M64, count, np.uint64, endpoint=True).astype(NUMPY[type_][1])


@pytest.mark.parametrize("type_", NUMPY)
def test_floats_are_those_of_numpy(type_: str):
    kind, whole = NUMPY[type_]
    of = FORMATS[type_]
    a = bits(type_, 4000, 1)
    b = np.concatenate([bits(type_, 2000, 2), a[2000:] ^ bits(type_, 2000, 3) % whole(512)])
    x, y = a.view(kind), b.view(kind)
    with np.errstate(all="ignore"):
        told = {"plus": x + y, "times": x * y, "over": x / y, "root": np.sqrt(x)}
    for name, right in told.items():
        does = getattr(exact, name)
        for n, (left, other) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            sources = (
                (decoded(left, of),) if name == "root" else (decoded(left, of), decoded(other, of))
            )
            found = encoded(does(*sources), of)
            if np.isnan(right[n]):
                assert found == of.nan
            else:
                assert found == int(right.view(whole)[n]), (name, hex(left), hex(other))


def value(found: int, type_: str) -> Fraction:
    number = decoded(found, FORMATS[type_])
    sized = Fraction(number.whole) * Fraction(2) ** number.exponent
    return -sized if number.sign else sized


@pytest.mark.parametrize("type_", NUMPY)
def test_directed_roundings_are_the_neighbours_of_the_exact_value(type_: str):
    of = FORMATS[type_]
    a, b = bits(type_, 600, 4).tolist(), bits(type_, 600, 5).tolist()
    for left, right in zip(a, b, strict=True):
        x, y = decoded(left, of), decoded(right, of)
        if x.nan or y.nan or x.infinite or y.infinite:
            continue
        product = exact.times(x, y)
        told = value(left, type_) * value(right, type_)
        found = {how: encoded(product, of, how) for how in ("rn", "rz", "rm", "rp")}
        if any(each & of.sign - 1 >= of.infinity for each in found.values()):
            continue
        low, high = value(found["rm"], type_), value(found["rp"], type_)
        assert low <= told <= high
        assert (low == high) == (told == low)
        assert found["rz"] == found["rm" if told > 0 else "rp"] or told == 0
        assert found["rn"] in (found["rm"], found["rp"])
        near = value(found["rn"], type_)
        assert abs(near - told) <= min(told - low, high - told)


def test_overflows_end_at_infinity_or_the_largest_number():
    of = FORMATS["f32"]
    largest = decoded(of.infinity - 1, of)
    twice = exact.plus(largest, largest)
    assert encoded(twice, of, "rn") == encoded(twice, of, "rp") == of.infinity
    assert encoded(twice, of, "rz") == encoded(twice, of, "rm") == of.infinity - 1
    assert encoded(twice.negated(), of, "rm") == of.sign | of.infinity
    assert encoded(twice.negated(), of, "rp") == of.sign | of.infinity - 1


# (opcode, function, sources, result)
VECTORS = [
    ("add.s32", "add", (5, -7), -2), ("add.sat.s32", "add", (0x7FFFFFFF, 1), 0x7FFFFFFF),
    ("add.u16x2", "add", (0xFFFF0001, 0x0001FFFF), 0),
    ("sub.sat.s32", "sub", (-(1 << 31), 1), -(1 << 31)), ("mul.hi.s32", "mul", (-2, 3), -1),
    ("mul.hi.u64", "mul", (M64, M64), M64 - 1), ("mul.wide.s16", "mul", (-3, 5), -15),
    ("mad.hi.u32", "mad", (M32, M32, 5), M32 - 1 + 5),
    ("mul24.lo.u32", "mul24", (0xFF000003, 0x01000005), 15),
    ("mul24.hi.u32", "mul24", (0xFFFFFF, 0xFFFFFF), 0xFFFFFE00),
    ("mul24.lo.s32", "mul24", (0xFFFFFF, 5), -5), ("sad.s32", "sad", (-3, 4, 10), 17),
    ("div.s32", "div", (-7, 2), -3), ("rem.s32", "rem", (-7, 2), -1),
    ("div.u32", "div", (1, 0), None), ("rem.s32", "rem", (-(1 << 31), -1), None),
    ("bfind.s32", "bfind", (-1,), NOT_FOUND), ("bfind.s32", "bfind", (-2,), 0),
    ("bfind.shiftamt.u32", "bfind", (1,), 31), ("bfind.u64", "bfind", (1 << 40,), 40),
    ("clz.b64", "clz", (1,), 63), ("brev.b32", "brev", (1,), 1 << 31),
    ("popc.b64", "popc", (M64,), 64), ("bfe.u32", "bfe", (0xABCD1234, 8, 8), 0x12),
    ("bfe.u32", "bfe", (M32, 32, 8), 0), ("bfe.s32", "bfe", (0x80, 4, 4), -8),
    ("bfe.s32", "bfe", (-1, 40, 4), -1), ("bfe.s32", "bfe", (-(1 << 31), 24, 255), -128),
    ("bfe.s32", "bfe", (5, 0, 0), 0), ("bfi.b32", "bfi", (0xF, 0, 4, 8), 0xF0),
    ("bfi.b32", "bfi", (M32, 7, 32, 4), 7), ("bfi.b32", "bfi", (M32, 0, 28, 255), 0xF0000000),
    ("fns.b32", "fns", (0b10110, 0, 2), 2), ("fns.b32", "fns", (0b10110, 4, -2), 2),
    ("fns.b32", "fns", (0b10110, 3, 0), NOT_FOUND), ("fns.b32", "fns", (1, 40, 1), None),
    ("szext.clamp.s32", "szext", (0x80, 8), -128), ("szext.wrap.u32", "szext", (0xFF, 36), 0xF),
    ("szext.clamp.u32", "szext", (0xFF, 36), 0xFF), ("bmsk.clamp.b32", "bmsk", (4, 8), 0xFF0),
    ("bmsk.wrap.b32", "bmsk", (36, 40), 0xFF0), ("bmsk.clamp.b32", "bmsk", (28, 40), 0xF0000000),
    ("dp4a.u32.s32", "dp4a", (0x01020304, 0xFFFFFFFF, 100), 90),
    ("dp2a.hi.s32.u32", "dp2a", (0xFFFF0002, 0x03050000, 1), 1 + 10 - 3),
    ("lop3.b32", "lop3", (0xF0, 0xCC, 0xAA), 0xF0 & 0xCC & 0xAA),
    ("shf.l.wrap.b32", "shf", (0x80000000, 1, 33), 3), ("shf.l.clamp.b32", "shf", (7, 1, 33), 7),
    ("shf.r.clamp.b32", "shf", (7, 9, 40), 9), ("shl.b32", "shl", (1, 40), 1 << 32),
    ("shr.s32", "shr", (-8, 99), -1), ("shr.u16", "shr", (0x8000, 15), 1),
    ("prmt.b32", "prmt", (0x33221100, 0x77665544, 0x7410), 0x77441100),
    ("prmt.b32", "prmt", (0x80, 0, 0x0008), 0x808080FF),
    ("prmt.b32.b4e", "prmt", (0x33221100, 0x77665544, 1), 0x66770011),
    ("prmt.b32.rc16", "prmt", (0x33221100, 0, 1), 0x33223322),
    ("prmt.b32.ecl", "prmt", (0x33221100, 0, 1), 0x33221111),
    ("cvt.sat.u8.s32", "convert", (-5,), 0), ("cvt.s8.s32", "convert", (0x1FF,), -1),
    ("add.cc.u32", "carry_out", (M32, 1), (1 << 32, 1)),
    ("sub.cc.u32", "carry_out", (0, 1), (-1, -1)), ("addc.u32", "carry_in", (1, 2, 9), 4),
    ("subc.u32", "carry_in", (1, 2, 1), -2),
    ("madc.hi.u32", "carry_in", (M32, M32, 1, 1), M32 - 1 + 2),
    ("set.lt.and.u32.s32", "set_", (-1, 1, 1), -1), ("setp.hi.u32", "compare", (2, 1), 1),
    ("setp.ltu.f32", "fcompare", (0x7FC00000, 0), 1),
    ("setp.ne.f32", "fcompare", (0x7FC00000, 0), 0),
    ("setp.eq.ftz.f32", "fcompare", (1, 0x80000000), 1), ("setp.eq.f32", "fcompare", (1, 0), 0),
    ("min.f32", "fmin", (0, 0x80000000), 0x80000000), ("max.f32", "fmax", (0x7FC00000, 1), 1),
    ("min.NaN.f32", "fmin", (0x7FC00000, 1), 0x7FFFFFFF),
    ("min.xorsign.abs.f32", "fmin", (0xBF800000, 0x40000000), 0xBF800000),
    ("copysign.f32", "copysign", (0x80000000, 0x3F800000), 0xBF800000),
    ("fma.rn.f32", "fma", (0x40400000, 0x3EAAAAAB, 0xBF800000), 0x33000000),
    ("add.rm.f32", "fadd", (0x3F800000, 0xBF800000), 0x80000000),
    ("add.sat.f32", "fadd", (0x7FC00000, 0), 0),
    ("add.sat.f32", "fadd", (0x40000000, 0), 0x3F800000),
    ("mul.ftz.f32", "fmul", (0x00800000, 0x3F000000), 0),
    ("mul.ftz.f32", "fmul", (0x40000000, 0xBFC00000), 0xC0400000),
    ("fma.rn.relu.f16", "fma", (0xBC00, 0x3C00, 0), 0),
    ("add.f16x2", "fadd", (0x3C003C00, 0x3C00BC00), 0x40000000),
    ("cvt.rni.s32.f32", "to_integer", (0x40200000,), 2),
    ("cvt.rpi.s8.f32", "to_integer", (0x43800000,), 127),
    ("cvt.rzi.u32.f32", "to_integer", (0xBF800000,), 0),
    ("cvt.rni.s32.f32", "to_integer", (0x7FC00000,), 0),
    ("cvt.rni.u32.f64", "to_integer", (0x7FF8 << 48,), 1 << 31),
    ("cvt.rz.f32.s32", "from_integer", (0x7FFFFFFF,), 0x4EFFFFFF),
    ("cvt.rp.f32.s32", "from_integer", (-0x7FFFFFFF,), 0xCEFFFFFF),
    ("cvt.rn.f16.f32", "float_to_float", (0x477FF000,), 0x7C00),
    ("cvt.rz.f16.f32", "float_to_float", (0x477FF000,), 0x7BFF),
    ("cvt.rmi.f32.f32", "float_to_float", (0xBF000000,), 0xBF800000),
    ("cvt.rn.bf16x2.f32", "two_to_packed", (0x3F800000, 0x40000000), 0x3F804000),
    ("testp.normal.f32", "testp", (0,), 1), ("testp.subnormal.f32", "testp", (1,), 1),
    ("slct.s32.f32", "fslct", (1, 2, 0x80000000), 1),
    ("slct.s32.f32", "fslct", (1, 2, 0x7FC00000), 2),
]  # fmt: skip


@census("name, function, sources, result", VECTORS)
def test_vectors_of_the_manual(name: str, function: str, sources: tuple[int, ...], result: object):
    op = OpcodeText(name, ", 0x80" if function == "lop3" else "")
    found = FUNCTIONS[function](op, *sources)
    if isinstance(found, Either):  # zeros of either sign, after a limit
        assert result in (found.first, found.second)
    elif isinstance(found, int) and isinstance(result, int):  # who calls cuts it to the type
        mask = M64 if "64" in name or "wide" in name else M32
        assert found & mask == result & mask
    else:
        assert found == result


def test_conversions_of_whole_numbers_are_those_of_numpy():
    for to, kind in (("f32", np.float32), ("f64", np.float64)):
        for of, integer in (("s64", np.int64), ("u64", np.uint64), ("s32", np.int32)):
            given = values.tuples((f"{'i' if of[0] == 's' else 'u'}{of[1:]}",))[0]
            whole = (
                given[0].astype(np.uint64) | given[1].astype(np.uint64) << np.uint64(32)
            ).view()
            told = whole.astype(integer)
            op = OpcodeText(f"cvt.rn.{to}.{of}")
            found = [FUNCTIONS["from_integer"](op, int(each)) for each in told]
            assert found == told.astype(kind).view(NUMPY[to][1]).tolist()


def test_what_may_be_flushed_or_not_is_both_right():
    op = OpcodeText("mul.ftz.f32")
    # (1 - 2^-24) 2^-126 rounds up to the least normal number.
    found = FUNCTIONS["fmul"](op, 0x3F7FFFFF, 0x00800000)
    assert found == Either(0x00800000, 0) or found == 0
    assert FUNCTIONS["fmul"](OpcodeText("mul.f32"), 0x3F7FFFFF, 0x00800000) == 0x00800000


@pytest.mark.parametrize(
    ("mode", "lane", "b", "c", "to"),
    [("up", 5, 2, 0, 3), ("up", 1, 2, 0, None), ("down", 30, 1, 0x1F, 31),
     ("down", 31, 1, 0x1F, None), ("bfly", 5, 1, 0x1F, 4), ("idx", 9, 3, 0x181F, 11),
     ("down", 7, 1, 0x181F, None), ("up", 8, 1, 0x1800, None), ("idx", 0, 35, 0x1F, 3)],
)  # fmt: skip
def test_lanes_of_shuffles(mode: str, lane: int, b: int, c: int, to: int | None):
    assert shuffled(mode, lane, b, c) == to


def some(arch: str, step: int) -> list[PtxForm]:
    return list(catalogue(arch))[::step]


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90"])
def test_kernels_declare_what_they_name_and_forms_are_told_apart(arch: str):
    every = some(arch, 1)
    assert len(every) > 3500
    assert len({(form.text, form.what) for form in every}) == len(every)
    text, starts = kernels.module([f"k{n}" for n in range(len(every))], every, arch)
    lines = text.splitlines()
    assert lines[:2] == [f".version {description.version(arch)}", f".target {arch}"]
    for n, (start, form) in enumerate(zip(starts, every, strict=True)):
        end = starts[n + 1] - 1 if n + 1 < len(starts) else len(lines)
        body = lines[start - 1 : end]
        if any(".func" in line or ".reg" in form.text for line in body):
            continue  # scopes of their own
        named = set(re.findall(r"%(?:rs|rd|r|fd|f|p)\d+\b", " ".join(body)))
        declared = {each for line in body if line.startswith("\t.reg")
                    for each in re.findall(r"%\w+", line)}  # fmt: skip
        assert named == declared, form.text
        assert len(form.sources) == len(form.signature)
        assert kernels.NAME not in " ".join(body)


def test_what_a_warp_reduces_to():
    of = {name: function([0b1100, 0b1010, 0b0001]) for name, (_, function) in warps._SUMS.items()}
    assert of == {"add": 23, "min": 1, "max": 12, "and": 0, "or": 15, "xor": 7}


def test_each_kind_of_operand_is_tried():
    """Registers that follow each other, and literals as the manual's section 4.5 writes them."""
    texts = {form.text for form in some("sm_70", 1)}
    assert {
        "fma.rn.f32 %f11, %f1, %f2, %f3;", "mad.lo.s32 %r11, %r1, %r2, %r3;",
        "add.u32 %r11, %r1, 017;", "mov.u64 %rd11, 4294967296;", "mov.f32 %f11, 0f3f8ccccd;",
        "mov.f32 %f11, -2.5;",
    } <= texts  # fmt: skip


def test_machines_have_what_they_are_described_to_have():
    old, new = ({form.instruction.op.name for form in catalogue(a)} for a in ("sm_70", "sm_90"))
    assert {"add.bf16", "redux.sync.add.u32", "tanh.approx.f32"} <= new - old
    assert old < new
    assert nearest("sm_100") == "sm_90"
    assert nearest("sm_87") == "sm_86"
    with pytest.raises(MissingError, match="too old a GPU"):
        nearest("sm_61")
    with pytest.raises(UsageError, match="sm_71"):
        description.version("sm_71")


def held(form: PtxForm) -> np.ndarray:
    """What a machine that is right leaves: planes of 8 bytes for each thread."""
    planes = np.full((len(form.results), values.TUPLES, 2), kernels.KEPT, np.uint32)
    outcomes = iter(form.outcome(values.tuples(form.signature)))
    for n, result in enumerate(form.results):
        expected = next(outcomes).expected.value
        if expected.ndim == 2:
            expected = np.ascontiguousarray(expected.T).view(np.uint32)[:, 0]
        if expected.dtype.itemsize == 2:
            planes[n, :, 0] = expected.view(np.uint16)
        else:
            planes[n, :, : result.words] = expected.view(np.uint32).reshape(values.TUPLES, -1)
    return planes


def test_what_is_expected_is_right_and_a_bit_of_it_is_not():
    for form in some("sm_90", 23):
        planes = held(form)
        given = values.tuples(form.signature)
        right = judging.judged(form, kernels.words(form, planes.ravel()), given)
        assert right.found is Found.RIGHT, form.text
        if "approx" in form.text or form.instruction.op.root in ("div", "rem", "fns"):
            continue  # some threads are free
        planes[0, 77, 0] ^= 1
        seen = judging.judged(form, kernels.words(form, planes.ravel()), given)
        if seen.found is Found.RIGHT:
            continue  # a NaN, or a value that is free
        assert seen.wrong == 1
        assert seen.examples[0].number == 77
        lines = telling.reproducer(seen)
        assert len(lines) <= telling.MOST_LINES
        text = form.text.replace(kernels.NAME, "kernel")
        assert text in lines or len(lines) == telling.MOST_LINES


class Faulty:
    """A machine that is right, but for forms that a pattern names."""

    name, library, unit, processes, environment = "gpgpusim", "", 40, 1, {}
    said = GpgpuSimMachine.said
    lacks = GpgpuSimMachine.lacks

    def prepare(self, folder: Path, arch: str) -> None:
        pass


REFUSES, ENDS, LACKS, HANGS, ERRS = "max.u32", "max.s32", "min.s32", "min.u32", "xor.b32"


class FaultyProbe(PtxProbe):
    def _launched(self, place: Path, folders: Sequence[Path]) -> dict[str, object]:
        codes: dict[str, object] = {}
        for folder in folders:
            self.units += 1
            codes[str(folder)] = self._one(folder)
        return codes

    units = 0

    def _one(self, folder: Path) -> object:
        text = (folder / "kernels.ptx").read_text().splitlines()
        for n, line in enumerate(text, 1):
            if REFUSES in line:
                (folder / "log").write_text(f"./kernels.ptx:{n} Syntax error:\n\n   {line}\n")
                return REFUSED
        log, code = "", 0
        with (folder / "results.bin").open("wb") as results, (folder / "done").open("w") as done:
            for each in json.loads((folder / "kernels.json").read_text()):
                form = self.forms[int(each["name"].removeprefix("conform_"))]
                if ENDS in form.text:
                    log, code = "python: instructions.cc:9: Assertion `0' failed.\n", -6
                elif LACKS in form.text:
                    log, code = 'ERROR instruction "min" not (yet) implemented\n', -6
                elif HANGS in form.text:
                    code = "late"  # type: ignore[assignment]
                if code:
                    break
                planes = held(form)
                if ERRS in form.text:
                    planes[0, 5, 0] ^= 4
                results.write(planes.tobytes())
                print(each["name"], file=done)
        (folder / "log").write_text(log)
        return code


def test_what_ends_a_machine_does_not_end_the_probe(tmp_path: Path):
    tried = [form for form in catalogue("sm_70")
             if re.search(r"^(add|max|min|xor|and|not)\.[usb]32", form.text)]  # fmt: skip
    told: list[str] = []
    probe = FaultyProbe(Faulty(), "sm_70", tried, 1.0, told.append)
    found = probe.findings(tmp_path)
    assert [each.form for each in found] == tried
    kinds = {}
    for each in found:
        kinds.setdefault(each.form.instruction.op.name, set()).add(
            (each.found, each.reason.partition("; as")[0])
        )
    assert kinds.pop(REFUSES) == {(Found.MISSING, "not accepted: syntax error")}
    assert kinds.pop(ENDS) == {(Found.ENDS, "instructions.cc:9: Assertion `0' failed.")}
    assert {each for each, _ in kinds.pop(LACKS)} == {Found.MISSING}
    assert kinds.pop(HANGS) == {(Found.ENDS, "it hangs")}
    assert {each for each, _ in kinds.pop(ERRS)} == {Found.WRONG}
    assert {each for kind in kinds.values() for each, _ in kind} == {Found.RIGHT}
    assert len(kinds) > 5
    lost = [each for each in found if each.found in (Found.MISSING, Found.ENDS)]
    assert len(told) == 4  # each told once, of many
    assert len(lost) > len(told)
    assert probe.units < 2 * len(told) + len(tried) // 40 + 3

    whole = page.Told("a machine", "sm_70", tuple(found), 1.0, "simgen conform", telling.PTX)
    text = page.text(whole)
    assert "### xor.b32" in text
    assert "Logic and Shift Instructions in NVIDIA" in text
    assert "```ptx" in text
    assert f"- `{next(f.text for f in tried if ENDS in f.text)}`" in text
    (table,) = lint_table.opcodes(whole, "gpgpusim", "4.2")["tables"]
    assert table["ends"] == sorted([REFUSES, ENDS, LACKS, HANGS])
    assert set(table["edges"]) == {"xor.b32"}
    assert page.rows(whole)["manual"].startswith("NVIDIA, Parallel Thread Execution")


def test_a_loop_with_two_ends_adds_up_the_numbers_before_its_end():
    """5 and 0 + 1 + ... + (rounds - 1); 1000 more where twelve rounds are the end."""
    (form,) = (each for each in catalogue("sm_70") if each.what == "loop with two ends")
    given = values.tuples(form.signature)
    (found,) = form.answers(given)
    last = given[0, 0] & 15
    rounds = np.minimum(last + 1, 12)
    right = 5 + rounds * (rounds - 1) // 2 + np.where(last >= 12, 1000, 0)
    assert set(last.tolist()) == set(range(16))
    assert (found.expected.value == right).all()


def test_loads_are_of_variables_in_the_state_space_that_they_name():
    """The manual, "State Spaces": an address of one space is that of a variable declared in it."""
    count = 0
    for form in catalogue("sm_70"):
        space = re.match(r"ld\.(shared|local|const)\.", form.text)
        if space and form.instruction.family.startswith("ld"):
            count += 1
            declared = " ".join((*form.variables, *form.constants))
            assert re.findall(r"\.(shared|local|const) ", declared) == [space[1]], form.text
    assert count > 20
