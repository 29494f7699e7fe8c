"""Products of matrices, whose elements lie in the registers of all lanes.

Of D = A B + C with `blocks` products of M x K by K x N side by side, lane l has these elements:

    A     row l % M of block l / M % blocks, from column l / (M blocks) `each` on, `each` of them
    B     the same with columns for rows and N for M
    C, D  column l % N; groups of H rows of a block (4, or 1 of f64) go from lane to lane first,
          then from register to register, then from block to block

Of a sparse product (`v_smfmac_*`), A has two of each four elements of a row: a lane has A as if K
were half of it, and twice as many elements of B. Which two they are is told by two bits for each
element of A in a register of its own, from bit 0 on or, by ABID, from a later one. D is C.

Elements are whole numbers whose products and sums are exact in the type of the result, and whose
products are not in that of the sources: so what is right does not depend on the order of sums.

Source: AMD, Instinct MI300 (CDNA3) Instruction Set Architecture Reference Guide, section 7.1; for
CBSZ, ABID and BLGP the same, and AMD's Matrix Instruction Calculator, which also tells where sparse
products have elements and indices, and which instructions of gfx942 know BLGP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.arithmetic import Computed, Wanted
from simgen_examine.conform.description import Described
from simgen_examine.conform.expected import TYPES, Expected
from simgen_examine.conform.forms import Form, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.expected import Values
    from simgen_examine.conform.values import Words

FORMAT = "MFMA"
RESULT = 40  # the first register of D
SOME_LANES = 0x0F35A5C396C3FF01  # lanes that a form is tried with: EXEC is ignored
# gfx90a's names, and gfx942's; assemblers take the old ones there, too.
_NAMES = {
    "gfx90a": re.compile(r"v_mfma_([fi]\d+)_(\d+)x(\d+)x(\d+)(bf16|[fi]\d+)(_1k)?"),
    "gfx942": re.compile(r"v_(?:mfma|smfmac)_([fi]\d+)_(\d+)x(\d+)x(\d+)_(?:\d+b_)?"
                         r"((?:fp8|bf8)_(?:fp8|bf8)|bf16|xf32|[fi]\d+)"),
}  # fmt: skip
_ONE = {"f32": "1.0", "f64": "1.0", "i32": "1"}
# Wait states until what reads the result of the longest product sees it.
_AFTER = ("s_nop 15", "s_nop 15")
_INDEX = "v15"  # register of indices for sparse products
_PAIRS = 0x489CDE8C  # eight pairs of 2-bit indices, the lower one first
_C = ("v12", -4)  # what the results of sparse products have before: the lane's number, or -4


@dataclass(frozen=True)
class MatrixShape:
    """What an instruction multiplies."""

    result: str  # type
    source: str  # type of an element
    m: int
    n: int
    k: int
    each: int  # elements of A that a lane has
    other: str = ""  # type of an element of B, if that is another one
    sparse: bool = False

    @property
    def blocks(self) -> int:
        return 1 if self.sparse else values.LANES * self.each // (self.m * self.k)

    @property
    def held(self) -> int:
        """Elements of the result that a lane has."""
        return self.m * self.n * self.blocks // values.LANES

    @property
    def signature(self) -> tuple[str, str, str]:
        b = f"{self.each}x{self.other or self.source}"
        c = "1xf64" if self.result == "f64" else f"2x{self.result}"
        return f"{self.each}x{self.source}", b, b if self.sparse else c

    @property
    def patterns(self) -> bool:
        """Whether BLGP moves lanes of B; of others, it changes signs, or nobody tells."""
        narrow = self.source in ("xf32", "fp8", "bf8")
        return self.result != "f64" and not self.sparse and not narrow


@dataclass(frozen=True)
class Multiplied(Computed):
    """What a product leaves.

    `broadcast` and `chosen` are CBSZ and ABID, `pattern` is BLGP; `ones` instead of C.
    """

    product: MatrixShape = MatrixShape("f32", "f32", 16, 16, 4, 1)
    broadcast: int = 0
    chosen: int = 0
    pattern: int = 0
    ones: bool = False

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`; of all lanes, whatever EXEC is."""
        of = self.product
        sources = (values.elements(words[at], of.signature[at]) for at in (0, 1))
        a, b = (each.reshape(-1, values.LANES, of.each) for each in sources)
        b = b[:, _pattern(self.pattern)]
        a = _blocks(a, of.m, of.blocks)
        size = 1 << self.broadcast
        block = np.arange(of.blocks)
        a = a[:, block // size * size + self.chosen]
        found = a @ _blocks(b, of.n, of.blocks).swapaxes(2, 3)
        c = values.elements(words[2], of.signature[2]).reshape(
            -1, values.LANES, 1 if of.result == "f64" else 2
        )
        wanted = []
        for at in range(of.held):
            block, row, column = _place(of, at)
            one = found[:, block, row, column]
            one = one + (1 if self.ones else c[:, :, at % c.shape[2]])
            wanted.append(Wanted(of.result, Expected(one.reshape(-1).astype(TYPES[of.result]))))
        return wanted


@dataclass(frozen=True)
class Thinned(Computed):
    """What a sparse product leaves, whose indices begin at those of set `chosen`."""

    product: MatrixShape = MatrixShape("f32", "f16", 16, 16, 32, 4)
    chosen: int = 0

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`; of all lanes, whatever EXEC is."""
        of = self.product
        sources = [values.elements(words[at], of.signature[at]) for at in range(3)]
        a, *b = (each.reshape(-1, values.LANES, of.each) for each in sources)
        dense = _blocks(_spread(a, of, _indices(of, self.chosen)), of.m, 1)
        found = dense @ _blocks(np.concatenate(b, 2), of.n, 1).swapaxes(2, 3)
        wanted = []
        for at in range(of.held):
            block, row, column = _place(of, at)
            before = _C[1] if at % 2 else np.arange(values.LANES)
            one = (found[:, block, row, column] + before).reshape(-1)
            wanted.append(Wanted(of.result, Expected(one.astype(TYPES[of.result]))))
        return wanted


def _held_indices(lane: int) -> int:
    """The register of indices: the pairs of one lane, turned by one for each lane."""
    return (_PAIRS << 32 | _PAIRS) >> 32 - lane % 8 * 4 & 0xFFFFFFFF


def _indices(of: MatrixShape, chosen: int) -> Values:
    """Which of four elements each lane's elements of A are: (lane, element)."""
    first = 2 * of.each * chosen
    bits = range(first, first + 2 * of.each, 2)
    return np.array([[_held_indices(n) >> at & 3 for at in bits] for n in range(values.LANES)])


def _spread(a: Values, of: MatrixShape, indices: Values) -> Values:
    """Elements of A among the zeros that they stand for: (wavefront, lane, of twice as many)."""
    dense = np.zeros((len(a), values.LANES, 2 * of.each))
    lane = np.arange(values.LANES)
    for element in range(of.each):
        dense[:, lane, element // 2 * 4 + indices[:, element]] = a[:, :, element]
    return dense


def products(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    for name in sorted(known if arch in _NAMES else ()):
        if of := product(name, arch):
            yield from _thinned_forms(name, of) if of.sparse else _forms(name, of, arch)


def product(name: str, arch: str) -> MatrixShape | None:
    """What an instruction of this name multiplies; None: it is another one."""
    if not (found := _NAMES[arch].fullmatch(name)):
        return None
    result, *extents, source = found.groups()[:5]
    m, n, k = map(int, extents)
    if "smfmac" in name:
        a, _, b = source.partition("_")
        return MatrixShape(result, a, m, n, k, m * k // 2 // values.LANES, b, sparse=True)
    if source[1:3] in ("p8", "f8"):
        a, _, b = source.partition("_")
        return MatrixShape(result, a, m, n, k, m * k // values.LANES, b)
    if source == "bf16":
        return MatrixShape(result, source, m, n, k, 4 if name.endswith(("_1k", "_bf16")) else 2)
    # i8: of as many columns as 64 lanes have with one register each, or two
    each = {"f16": 4, "xf32": 2, "i8": max(4, m * k // values.LANES)}.get(source, 1)
    return MatrixShape(result, source, m, n, k, each)


def _forms(name: str, of: MatrixShape, arch: str) -> Iterator[Form]:
    count = of.held * values.words(of.result)
    last = values.words(of.signature[2])
    copied = tuple(
        f"v_mov_b32_e32 v{RESULT + at}, v{8 + at % (2 if of.result != 'f64' else last)}"
        for at in range(count)
    )
    to = f"v[{RESULT}:{RESULT + count - 1}]"
    a, b = (span(first, values.words(of.signature[0])) for first in (4, 6))
    made = f"{name} {to}, {a}, {b}"

    def form(what: str, plan: Multiplied, text: str, lanes: int = Form.lanes) -> Form:
        setup = () if plan.ones else copied
        outputs = tuple(f"v{RESULT + at}" for at in range(count))
        return Form(plan.instruction, text, what, of.signature, setup, outputs, plan, lanes=lanes,
                    after=_AFTER, registers=RESULT + 32)  # fmt: skip

    def plan(broadcast: int = 0, chosen: int = 0, pattern: int = 0, *, ones: bool = False):  # type: ignore[no-untyped-def]
        described = Described(name, FORMAT, (of.result,), of.signature, "")
        return Multiplied(described, product=of, broadcast=broadcast, chosen=chosen,
                          pattern=pattern, ones=ones)  # fmt: skip

    yield form("registers", plan(), f"{made}, {to}")
    yield form("c constant", plan(ones=True), f"{made}, {_ONE[of.result]}")
    yield form("some lanes", plan(), f"{made}, {to}", SOME_LANES)
    if not of.patterns:
        return
    for size in range(1, of.blocks.bit_length()):
        at = (1 << size) - 1 - size // 2
        yield form(f"cbsz {size}, abid {at}", plan(size, at), f"{made}, {to} cbsz:{size} abid:{at}")
    # gfx942 has no BLGP where one block is of narrow elements.
    known = arch != "gfx942" or of.blocks > 1 or of.source == "f32"
    for at in range(1, 8) if known else ():
        yield form(f"blgp {at}", plan(pattern=at), f"{made}, {to} blgp:{at}")


def _thinned_forms(name: str, of: MatrixShape) -> Iterator[Form]:
    last = RESULT + of.held - 1
    made = f"{name} v[{RESULT}:{last}], v[4:5], v[6:9], {_INDEX}"
    number = "v_cvt_f32_u32_e32" if of.result == "f32" else "v_mov_b32_e32"
    below = f"{_C[1]}.0" if of.result == "f32" else f"{_C[1]}"
    setup = (
        "v_and_b32_e32 v14, 7, v0", "v_lshlrev_b32_e32 v14, 2, v14",
        f"v_mov_b32_e32 v13, {_PAIRS:#x}", f"v_lshlrev_b32_e32 {_INDEX}, v14, v13",
        "v_sub_u32_e32 v14, 0, v14", "v_lshrrev_b32_e32 v14, v14, v13",
        f"v_or_b32_e32 {_INDEX}, {_INDEX}, v14", f"{number} {_C[0]}, v0",
        *(f"v_mov_b32_e32 v{RESULT + at}, {below if at % 2 else _C[0]}" for at in range(of.held)),
    )  # fmt: skip
    sets = 4 if "16" in of.source else 2
    described = Described(name, FORMAT, (of.result,), of.signature, "")
    outputs = tuple(f"v{RESULT + at}" for at in range(of.held))
    for what, tail, chosen, lanes in (
        ("registers", "", 0, Form.lanes), ("some lanes", "", 0, SOME_LANES),
        *((f"abid {at}", f" abid:{at}", at, Form.lanes) for at in range(1, sets)),
        ("cbsz 1, abid 1", " cbsz:1 abid:1", 0, Form.lanes),
    ):  # fmt: skip
        plan = Thinned(described, product=of, chosen=chosen)
        yield Form(described, made + tail, what, of.signature, setup, outputs, plan, lanes=lanes,
                   after=_AFTER, registers=RESULT + 32)  # fmt: skip


def setup(form: Form, lane: int, holder: set[str]) -> list[str]:
    """What comes before a product in a reproducer of `lane`: of C, what `holder` is made of."""
    others = set(form.outputs) - holder
    lines = [line for line in form.setup if not others & set(re.findall(r"\bv\d+\b", line))]
    if isinstance(form.plan, Thinned):
        made = next(n for n, line in enumerate(lines) if f"or_b32_e32 {_INDEX}," in line)
        lines[: made + 1] = [f"v_mov_b32_e32 {_INDEX}, {_held_indices(lane):#x}"]
    return lines


def _pattern(number: int) -> Values:
    """The lanes whose elements of B each lane has."""
    lane = np.arange(values.LANES)
    if number in (1, 2):
        return lane % 32 + 32 * (number - 1)
    if number == 3:
        return (lane + 16) % values.LANES
    return lane % 16 + 16 * (number - 4) if number else lane


def _blocks(elements: Values, rows: int, blocks: int) -> Values:
    """Elements of lanes, (wavefront, lane, of each), as (wavefront, block, row, column)."""
    groups = values.LANES // (rows * blocks)
    each = elements.reshape(-1, groups, blocks, rows, elements.shape[2])
    return each.transpose(0, 2, 3, 1, 4).reshape(len(elements), blocks, rows, -1)


def _place(of: MatrixShape, at: int) -> tuple[Values, Values, Values]:
    """Block, row and column of each lane's element of the result with this number."""
    rows = 1 if of.result == "f64" else 4
    lane = np.arange(values.LANES)
    group = at // rows * (values.LANES // of.n) + lane // of.n
    block, first = np.divmod(group, of.m // rows)
    return block, rows * first + at % rows, lane % of.n
