"""Products of matrices, whose elements lie in the registers of all lanes.

Of D = A B + C with `blocks` products of M x K by K x N side by side, lane l has these elements:

    A     row l % M of block l / M % blocks, from column l / (M blocks) `each` on, `each` of them
    B     the same with columns for rows and N for M
    C, D  column l % N; groups of H rows of a block (4, or 1 of f64) go from lane to lane first,
          then from register to register, then from block to block

Elements are whole numbers whose products and sums are exact in the type of the result, and whose
products are not in that of the sources: so what is right does not depend on the order of sums.

Source: AMD, Instinct MI300 (CDNA3) Instruction Set Architecture Reference Guide, section 7.1; for
CBSZ, ABID and BLGP the same, and AMD's Matrix Instruction Calculator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simgen.conform import values
from simgen.conform.arithmetic import Computed, Modifiers, Wanted
from simgen.conform.description import Described
from simgen.conform.expected import TYPES, Expected
from simgen.conform.forms import Form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.conform.expected import Values
    from simgen.conform.values import Words

FORMAT = "MFMA"
RESULT = 40  # the first register of D
SOME = 0x0F35A5C396C3FF01  # lanes that a form is tried with: EXEC is ignored
# gfx90a's names, and gfx942's; assemblers take the old ones there, too.
_NAMES = {
    "gfx90a": re.compile(r"v_mfma_([fi]\d+)_(\d+)x(\d+)x(\d+)(bf16|[fi]\d+)(_1k)?"),
    "gfx942": re.compile(r"v_mfma_([fi]\d+)_(\d+)x(\d+)x(\d+)_(?:\d+b_)?(bf16|xf32|[fi]\d+)"),
}
_ONE = {"f32": "1.0", "f64": "1.0", "i32": "1"}
# Wait states until what reads the result of the longest product sees it.
_AFTER = ("s_nop 15", "s_nop 15")


@dataclass(frozen=True)
class MatrixShape:
    """What an instruction multiplies."""

    result: str  # type
    source: str  # type of an element
    m: int
    n: int
    k: int
    each: int  # elements of a source that a lane has

    @property
    def blocks(self) -> int:
        return values.LANES * self.each // (self.m * self.k)

    @property
    def held(self) -> int:
        """Elements of the result that a lane has."""
        return self.m * self.n * self.blocks // values.LANES

    @property
    def signature(self) -> tuple[str, str, str]:
        source = f"{self.each}x{self.source}"
        return source, source, "1xf64" if self.result == "f64" else f"2x{self.result}"


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


def products(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    for name in sorted(known if arch in _NAMES else ()):
        if of := product(name, arch):
            yield from _forms(name, of)


def product(name: str, arch: str) -> MatrixShape | None:
    """What an instruction of this name multiplies; None: it is another one, or of 8-bit floats."""
    if not (found := _NAMES[arch].fullmatch(name)):
        return None
    result, *extents, source = found.groups()[:5]
    m, n, k = map(int, extents)
    if source == "bf16":
        return MatrixShape(result, source, m, n, k, 4 if name.endswith(("_1k", "_bf16")) else 2)
    # i8: of as many columns as 64 lanes have with one register each, or two
    each = {"f16": 4, "xf32": 2, "i8": max(4, m * k // values.LANES)}.get(source, 1)
    return MatrixShape(result, source, m, n, k, each)


def _forms(name: str, of: MatrixShape) -> Iterator[Form]:
    count = of.held * values.words(of.result)
    last = values.words(of.signature[2])
    copied = tuple(
        f"v_mov_b32_e32 v{RESULT + at}, v{8 + at % (2 if of.result != 'f64' else last)}"
        for at in range(count)
    )
    to = f"v[{RESULT}:{RESULT + count - 1}]"
    a, b = (_registers(first, values.words(of.signature[0])) for first in (4, 6))
    made = f"{name} {to}, {a}, {b}"

    def form(what: str, plan: Multiplied, text: str, lanes: int = Form.lanes) -> Form:
        setup = () if plan.ones else copied
        outputs = tuple(f"v{RESULT + at}" for at in range(count))
        return Form(plan.instruction, text, what, of.signature, setup, outputs, plan, lanes=lanes,
                    after=_AFTER, registers=RESULT + 32)  # fmt: skip

    def plan(broadcast: int = 0, chosen: int = 0, pattern: int = 0, *, ones: bool = False):  # type: ignore[no-untyped-def]
        described = Described(name, FORMAT, (of.result,), of.signature, "")
        return Multiplied(described, Modifiers(), None, False, None, None, of,
                          broadcast, chosen, pattern, ones)  # fmt: skip

    yield form("registers", plan(), f"{made}, {to}")
    yield form("c constant", plan(ones=True), f"{made}, {_ONE[of.result]}")
    yield form("some lanes", plan(), f"{made}, {to}", SOME)
    if of.result == "f64":
        return
    for size in range(1, of.blocks.bit_length()):
        at = (1 << size) - 1 - size // 2
        yield form(f"cbsz {size}, abid {at}", plan(size, at), f"{made}, {to} cbsz:{size} abid:{at}")
    for at in range(1, 8):
        yield form(f"blgp {at}", plan(pattern=at), f"{made}, {to} blgp:{at}")


def _registers(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


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
