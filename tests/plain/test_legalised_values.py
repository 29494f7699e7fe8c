"""What stands for instructions that MGPUSim lacks computes the same: it is executed here, wavefront
by wavefront, and compared with NumPy, exact fractions and the manual's words in integers."""

from __future__ import annotations

import math
import operator
import re
from fractions import Fraction

import numpy as np
import pytest
from test_legalise import after

from simgen.isa.legalise import expression

LANES = np.arange(64)
ALL = (1 << 64) - 1
RNG = np.random.default_rng(7)
COMPARES = {"lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne,
            "gt": operator.gt, "ge": operator.ge}  # fmt: skip
KINDS = {"u": np.uint32, "i": np.int32, "f": np.float32}
FLOATS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
BITS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor,
        "andn2": lambda a, b: a & ~b}  # fmt: skip


def stored(address):
    """What a word of memory holds, by its address."""
    return (address * np.uint64(2654435761) >> np.uint64(7)).astype(np.uint32)


def mask_of(flags):
    return sum(1 << int(n) for n in np.flatnonzero(flags))


class Wavefront:
    """Registers and LDS; the number of a lane is in v0."""

    def __init__(self, exec_=ALL):
        self.v = {0: LANES.astype(np.uint32)}
        self.s = {}
        self.masks = {"exec": exec_, "vcc": 0}
        self.scc = 1
        self.lds = np.zeros(1 << 17, np.uint8)

    def pair(self, text):
        return [int(n) for n in re.findall(r"\d+", text)]

    def scalar(self, text):
        if text in self.masks:
            return self.masks[text]
        if text.startswith("s["):
            low, high = self.pair(text)
            return self.s.get(low, 0) | self.s.get(high, 0) << 32
        return self.s.get(int(text[1:]), 0) if text[0] == "s" else int(text, 0)

    def put_scalar(self, text, value):
        if text in self.masks:
            self.masks[text] = value & ALL
        elif text.startswith("s["):
            for at, number in enumerate(self.pair(text)):
                self.s[number] = value >> 32 * at & 0xFFFFFFFF
        else:
            self.s[int(text[1:])] = value & 0xFFFFFFFF

    def vector(self, text, kind=np.uint32):
        if text.startswith("v["):
            low, high = (self.v[n].astype(np.uint64) for n in self.pair(text))
            return (low | high << np.uint64(32)).view(kind)
        if text[0] == "v" and text != "vcc":
            return self.v.get(int(text[1:]), np.zeros(64, np.uint32)).view(kind)
        if "." in text:
            return np.full(64, float(text), np.float32).view(kind)
        return np.full(64, self.scalar(text) & 0xFFFFFFFF, np.uint32).view(kind)

    def put(self, text, value):
        on = self.active()
        words = np.ascontiguousarray(value)
        numbers = self.pair(text)
        words = words.view(np.uint32).reshape(64, -1)
        for at, number in enumerate(range(numbers[0], numbers[-1] + 1)):
            old = self.v.get(number, np.zeros(64, np.uint32))
            self.v[number] = np.where(on, words[:, at], old)

    def active(self, mask="exec"):
        return self.scalar(mask) >> LANES.astype(object) & 1 == 1

    def run(self, *lines, arch="gfx942"):
        for line in after(*lines, arch=arch):
            word, _, rest = line.partition(" ")
            word = re.sub(r"_e(32|64)$", "", word)
            offset = int((re.findall(r" offset:(\d+)", rest) or ["0"])[0])
            self.execute(word, re.sub(r" offset:\d+", "", rest).split(", "), offset)
        return self

    def execute(self, word, operands, offset):
        to, *sources = operands
        kind, name, *more = word.split("_")
        if kind == "s":
            self.execute_scalar(name, to, sources)
        elif kind == "ds":
            self.execute_lds(word, operands, offset)
        elif kind == "global":
            address, base = sources
            at = self.vector(address, np.uint64 if base == "off" else np.uint32).astype(np.uint64)
            at = at + np.uint64(0 if base == "off" else self.scalar(base)) + np.uint64(offset)
            words = {"dword": 1, "dwordx2": 2}[more[-1]]
            self.put(to, np.stack([stored(at + np.uint64(4 * n)) for n in range(words)], axis=1))
        elif name == "cmp":
            type_ = {"u64": np.uint64}.get(more[1], KINDS[more[1][0]])
            found = COMPARES[more[0]](*(self.vector(each, type_) for each in sources))
            found = found & self.active()
            self.put_scalar(to, mask_of(found))
        elif name == "cndmask":
            a, b, mask = sources
            self.put(to, np.where(self.active(mask), self.vector(b), self.vector(a)))
        elif name == "mov":
            self.put(to, self.vector(sources[0]))
        elif word == "v_readfirstlane_b32":
            first = int(np.flatnonzero(self.active())[0])
            self.put_scalar(to, int(self.vector(sources[0])[first]))
        elif more and more[-1] == "f32" and name in FLOATS:
            with np.errstate(all="ignore"):
                self.put(to, FLOATS[name](*(self.vector(each, np.float32) for each in sources)))
        elif word == "v_add_f64":
            with np.errstate(all="ignore"):
                self.put(to, np.add(*(self.vector(each, np.float64) for each in sources)))
        elif word == "v_cvt_f32_f64":
            with np.errstate(all="ignore"):
                self.put(to, self.vector(sources[0], np.float64).astype(np.float32))
        elif (op := word.removeprefix("v_")) in expression.VOP3:
            values = [int(x, 0) if op[:3] == "bfe" and x.isdigit() else self.vector(x)
                      for x in sources]  # fmt: skip
            self.put(to, expression.VOP3[op](*values))
        elif len(sources) > 2:
            self.put_with_carry(name, to, *sources)
        else:
            of = {**expression.VOP2, **expression.SUMS, **expression.VOP1}
            self.put(to, of[op](*(self.vector(each) for each in sources)))

    def put_with_carry(self, name, to, out, a, b, carried=""):
        if name == "subbrev":
            a, b = b, a
        other = self.vector(b).astype(np.int64) + (self.active(carried) if carried else 0)
        found = self.vector(a).astype(np.int64) + (-other if name[:3] == "sub" else other)
        self.put(to, (found & 0xFFFFFFFF).astype(np.uint32))
        self.put_scalar(out, mask_of((found >> 32 != 0) & self.active()))

    def execute_scalar(self, name, to, sources):
        if name == "waitcnt":
            return
        values = [self.scalar(each) for each in sources]
        if name == "mov":
            self.put_scalar(to, *values)
        elif name == "cselect":
            self.put_scalar(to, values[not self.scc])
        elif name == "lshl":
            most = 63 if to.startswith("s[") else 31
            self.put_scalar(to, values[0] << (values[1] & most))
        else:
            self.put_scalar(to, BITS[name](*values))

    def execute_lds(self, word, operands, offset):
        if word == "ds_read_b32":
            to, address = operands
            at = self.vector(address).astype(np.int64) + offset
            self.put(to, np.stack([self.lds[at + n] for n in range(4)], axis=1))
            return
        address, value = operands
        for lane in np.flatnonzero(self.active()):
            at = int(self.vector(address)[lane]) + offset
            nbytes = {"ds_write_b8": 1, "ds_write_b32": 4}[word]
            held = int(self.vector(value)[lane]).to_bytes(4, "little")[:nbytes]
            self.lds[at : at + nbytes] = np.frombuffer(held, np.uint8)


def words(seed=0):
    """64 words: corners and others."""
    corners = [0, 1, 2, 3, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 0x00010000, 0xFFFF0000, 0x8000]
    more = np.random.default_rng(seed).integers(0, 1 << 32, 64 - len(corners), np.uint64)
    return np.concatenate([np.array(corners, np.uint32), more.astype(np.uint32)])


HALVES = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3C01, 0x7BFF, 0xFBFF,
                   0x7C00, 0xFC00, 0x7E00, 0x1400, 0x9400, 0x0C00, 0x5800], np.uint16)  # fmt: skip


def halves(seed):
    """64 halves: any, and of some corners each with each over seeds 0 to 2."""
    rng = np.random.default_rng(seed)
    return np.where(
        rng.random(64) < 0.5, rng.choice(HALVES, 64), rng.integers(0, 1 << 16, 64)
    ).astype(np.uint16)


@np.errstate(all="ignore")
def rounded(exact: Fraction) -> float:
    """The half that is nearest, of two the even one."""
    near = np.float16(float(exact))
    if math.isinf(near):
        return float(near) if abs(exact) >= 65520 else math.copysign(65504, near)
    tried = {near, np.nextafter(near, np.float16(np.inf)), np.nextafter(near, np.float16(-np.inf))}
    finite = [each for each in tried if np.isfinite(each)]
    return min(finite, key=lambda h: (abs(Fraction(float(h)) - exact), int(h.view(np.uint16)) & 1))


@np.errstate(all="ignore")
def fused(a, b, c):
    """a b + c, rounded once."""
    found = []
    for x, y, z in zip(*(each.view(np.float16).tolist() for each in (a, b, c)), strict=True):
        if all(map(math.isfinite, (x, y, z))):
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            found.append(rounded(exact) if exact else x * y + z)
        else:
            found.append(x * y + z)
    return np.array(found, np.float16).view(np.uint16)


def same(found, right):
    nan = np.isnan(right.view(np.float16))
    assert (np.isnan(found.view(np.float16)) == nan).all()
    differ = np.flatnonzero((found != right) & ~nan)
    assert not differ.size, (found[differ], right[differ])


@pytest.mark.parametrize("seed", range(4))
def test_fused_multiply_adds_of_halves(seed):
    """One, and two in a register."""
    given = [[halves(10 * seed + 2 * n + half) for half in range(2)] for n in range(3)]
    wave = Wavefront()
    for at, (low, high) in enumerate(given):
        wave.v[at + 1] = low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)
    single = wave.run("v_fma_f16 v6, v1, v2, v3").v[6]
    same(single.astype(np.uint16), fused(*(low for low, _ in given)))
    assert (single >> np.uint32(16) == 0).all()
    both = wave.run("v_pk_fma_f16 v6, v1, v2, v3").v[6]
    for half in range(2):
        part = (both >> np.uint32(16 * half)).astype(np.uint16)
        same(part, fused(*(each[half] for each in given)))


def test_sums_and_products_of_two_halves():
    low, high = [halves(n) for n in range(2)], [halves(n + 2) for n in range(2)]
    wave = Wavefront()
    for at in range(2):
        wave.v[at + 1] = low[at].astype(np.uint32) | high[at].astype(np.uint32) << np.uint32(16)
    for name, does in (("add", np.add), ("mul", np.multiply)):
        found = wave.run(f"v_pk_{name}_f16 v6, v1, v2").v[6]
        for part, given in ((found & np.uint32(0xFFFF), low), (found >> np.uint32(16), high)):
            with np.errstate(all="ignore"):
                right = does(*(each.view(np.float16) for each in given))
            same(part.astype(np.uint16), right.view(np.uint16))


@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_halves_are_widened_and_rounded(arch):
    wave = Wavefront()
    for start in range(0, 1 << 16, 1 << 12):
        given = np.arange(start, start + 64 * 63, 63).astype(np.uint16)
        wave.v[1] = given.astype(np.uint32) | np.uint32(0xABCD0000)
        found = wave.run("v_cvt_f32_f16_e32 v6, v1", arch=arch).v[6].view(np.float32)
        np.testing.assert_array_equal(found, given.view(np.float16).astype(np.float32))
    for scale in (1e-8, 6e-8, 1e-5, 1.0, 7e4):
        numbers = (RNG.standard_normal(64) * scale).astype(np.float32)
        numbers[:4] = 2.0**-25, -3 * 2.0**-25, np.inf, np.nan
        wave.v[1] = numbers.view(np.uint32)
        found = wave.run("v_cvt_f16_f32_e32 v6, v1", arch=arch).v[6].astype(np.uint16)
        with np.errstate(all="ignore"):
            same(found, numbers.astype(np.float16).view(np.uint16))


DOUBLES = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "gt": np.greater,
           "ge": np.greater_equal, "neq": np.not_equal,
           "lg": lambda a, b: (a < b) | (a > b),
           "nlg": lambda a, b: ~((a < b) | (a > b))}  # fmt: skip


@pytest.mark.parametrize("name", DOUBLES)
def test_comparisons_of_64_bit_floats(name):
    corners = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324])
    a, b = np.repeat(corners, 8), np.tile(corners, 8)
    wave = Wavefront()
    for at, each in ((1, a), (3, b)):
        wave.v[2 * at], wave.v[2 * at + 1] = each.view(np.uint32).reshape(64, 2).T.copy()
    wave.run(f"v_cmp_{name}_f64_e64 s[2:3], v[2:3], v[6:7]")
    assert wave.scalar("s[2:3]") == mask_of(DOUBLES[name](a, b))


def test_a_lane_is_read_and_execution_goes_on_as_before():
    """Of lanes that are not active, too."""
    wave = Wavefront(0xF0)
    wave.v[1] = words(8)
    wave.s[4] = 37
    assert wave.run("v_readlane_b32 s6, v1, 5").s[6] == int(wave.v[1][5])
    assert wave.run("v_readlane_b32 s6, v1, s4").s[6] == int(wave.v[1][37])
    assert wave.masks["exec"] == 0xF0


@pytest.mark.parametrize("result", ["s[2:3]", "s[4:5]"])
def test_execution_without_some_lanes(result):
    """S_ANDN1_SAVEEXEC_B64: D = EXEC, EXEC = ~S0 & EXEC; D may be S0."""
    wave = Wavefront(0xFF00FF)
    wave.put_scalar("s[4:5]", 0x0F0F0F)
    wave.run(f"s_andn1_saveexec_b64 {result}, s[4:5]")
    assert (wave.scalar(result), wave.masks["exec"]) == (0xFF00FF, 0xFF00FF & ~0x0F0F0F)


@pytest.mark.parametrize("picks", [(3, 2, 1, 0), (1, 0, 3, 2), (2, 2, 0, 3)])
def test_lanes_of_a_quad_are_exchanged(picks):
    wave = Wavefront()
    wave.v[1], wave.v[6] = words(9), words(10)
    order = ",".join(map(str, picks))
    wave.run(f"v_mov_b32_dpp v6, v1 quad_perm:[{order}] row_mask:0xf bank_mask:0xf")
    assert (wave.v[6] == wave.v[1][LANES // 4 * 4 + np.array(picks)[LANES % 4]]).all()


@pytest.mark.parametrize("offset", [0, 6, 65534, 65535])
def test_two_bytes_of_lds_are_written(offset):
    wave = Wavefront()
    wave.v[1], wave.v[2] = (LANES * 4).astype(np.uint32), words(11)
    wave.run(f"ds_write_b16 v1, v2 offset:{offset}")
    at = offset + 4 * LANES
    low, high = wave.lds[at].astype(np.uint32), wave.lds[at + 1].astype(np.uint32)
    assert (low | high << np.uint32(8) == wave.v[2] & np.uint32(0xFFFF)).all()
    assert not wave.lds[at + 2].any()


@pytest.mark.parametrize("offset", [0, 8, 4084, 4088, 4092])
def test_three_words_of_memory_are_read(offset):
    wave = Wavefront()
    wave.v[1] = (LANES * 12).astype(np.uint32)
    wave.v[2], wave.v[3] = np.uint32(0xFFFFFFF8) - wave.v[1], np.full(64, 3, np.uint32)
    wave.put_scalar("s[2:3]", 0x700000000)
    bases = {"v1, s[2:3]": np.uint64(0x700000000) + wave.v[1],
             "v[2:3], off": np.uint64(3 << 32) + wave.v[2]}  # fmt: skip
    for words_, base in bases.items():
        wave.run(f"global_load_dwordx3 v[4:6], {words_} offset:{offset}")
        for at in range(3):
            assert (wave.v[4 + at] == stored(base + np.uint64(offset + 4 * at))).all()


@pytest.mark.parametrize("place", ["s3", "5"])
def test_a_bit_of_a_scalar_is_set(place):
    """S_BITSET: the bit that the low five bits of the source name."""
    for value in (0, 0xFFFFFFFF, 0xF0F0):
        wave = Wavefront()
        wave.s |= {2: value, 3: 32 + 5}
        assert wave.run(f"s_bitset1_b32 s2, {place}").s[2] == value | 32
        assert wave.run(f"s_bitset0_b32 s2, {place}").s[2] == value & ~32


@pytest.mark.parametrize("scc", [0, 1])
def test_a_scalar_is_moved_if(scc):
    wave = Wavefront()
    wave.s |= {2: 7, 3: 9}
    wave.scc = scc
    assert wave.run("s_cmov_b32 s2, s3").s[2] == (9 if scc else 7)
    assert wave.run("s_cmovk_i32 s3, 0xfffe").s[3] == (0xFFFFFFFE if scc else 9)


def test_words_of_two_pairs_are_moved():
    """V_PK_MOV_B32: op_sel says which word of each, also where the result is a source."""
    wave = Wavefront()
    for at in range(2, 6):
        wave.v[at] = words(at)
    right = wave.v[3].copy(), wave.v[4].copy()
    wave.run("v_pk_mov_b32 v[4:5], v[2:3], v[4:5] op_sel:[1,0]")
    assert (wave.v[4] == right[0]).all()
    assert (wave.v[5] == right[1]).all()
