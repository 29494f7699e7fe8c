"""A replacement of an instruction as an expression of its sources.

An expression is a graph of operations on 32-bit words, masks of lanes and 64-bit floats. Given a
`Site`, it becomes instructions that the simulator's table calls native: `emit`. Given arrays, it is
computed: `compute`. What is known becomes constants, equal parts are computed once, and temporaries
are free again behind their last use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.isa.legalise.assembly import is_constant, is_inline, is_vgpr, registers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simgen.isa.legalise.site import Site

    Array = NDArray[Any]

Word = Any  # a term, or a number
ALL = 0xFFFFFFFF
SIGN = 0x80000000


@dataclass(frozen=True, eq=False)
class Term:
    """An operation on other terms and constants. Equal ones are the same object (`term`)."""

    op: str
    args: tuple[Any, ...]

    def __add__(self, other: Word) -> Term:
        return self if other == 0 else term("add_u32", self, other)

    def __sub__(self, other: Word) -> Term:
        return self if other == 0 else term("sub_u32", self, other)

    def __rsub__(self, other: int) -> Term:
        return term("sub_u32", other, self)

    def __mul__(self, other: Word) -> Term:
        return term("mul_lo_u32", self, other)

    def __and__(self, other: Word) -> Word:
        other = plain(other)
        if isinstance(other, int):
            other &= ALL
            if other in (0, ALL):
                return self if other else 0
            if self.op == "lshrrev_b32" and isinstance(self.args[0], int):
                width, first = other.bit_length(), self.args[0]
                if other == (1 << width) - 1:
                    whole = first + width >= 32
                    return self if whole else term("bfe_u32", self.args[1], first, width)
        return term("and_b32", self, other)

    def __or__(self, other: Word) -> Term:
        other = plain(other)
        return self if other == 0 else term("or_b32", self, other)

    def __xor__(self, other: Word) -> Term:
        return self if other == 0 else term("xor_b32", self, other)

    def __invert__(self) -> Term:
        return term("s_andn2_b64" if self.is_mask else "not_b32", self)

    def __lshift__(self, count: Word) -> Word:
        count = plain(count)
        if not isinstance(count, int):
            return term("lshlrev_b32", count, self)
        count &= 31
        if self.op == "lshlrev_b32" and isinstance(self.args[0], int):
            count, self = count + self.args[0], self.args[1]
        if count == 0 or count > 31:
            return 0 if count else self
        return term("lshlrev_b32", count, self)

    def __rshift__(self, count: Word) -> Word:
        count = plain(count)
        count = count & 31 if isinstance(count, int) else count
        return self if count == 0 else term("lshrrev_b32", count, self)

    def __rlshift__(self, other: int) -> Term:
        return term("lshlrev_b32", self, other)

    __radd__, __rand__, __ror__, __rxor__, __rmul__ = __add__, __and__, __or__, __xor__, __mul__

    @property
    def is_mask(self) -> bool:
        return self.op.startswith(("cmp_", "s_")) or self.op == "carry"


def plain(value: Word) -> Word:
    """The number that a term is, or the term."""
    return value.args[0] if isinstance(value, Term) and value.op == "number" else value


def term(op: str, *args: Any) -> Term:
    """An operation; of numbers alone, their result."""
    words = [a & ALL if type(a) is int else a for a in map(plain, args)]
    if op in FOLDED and all(type(a) is int for a in words):
        return _term("number", int(COMPUTED[op](*words)))
    return _term(op, *words)


@lru_cache(maxsize=1 << 14)
def _term(op: str, *args: Any) -> Term:
    return Term(op, args)


# What an operation computes ------------------------------------------------------------------


def _u(x: Any) -> Array:
    return np.asarray(x, np.uint32)


def _i(x: Any) -> Array:
    return _u(x).view(np.int32)


def _f(x: Any) -> Array:
    return _u(x).view(np.float32)


def _bits(x: Any) -> Array:
    return np.asarray(x, np.float32).view(np.uint32)


def _signed(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda *args: np.asarray(function(*map(_i, args)), np.int32).view(np.uint32)


def _float(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda *args: _bits(function(*map(_f, args)))


def _count(n: Any) -> Array:
    return _u(n) & np.uint32(31)


def _reversed(x: Any) -> Array:
    x, found = _u(x), np.zeros_like(_u(x))
    for at in range(32):
        found |= (x >> np.uint32(at) & np.uint32(1)) << np.uint32(31 - at)
    return found


def _low_bits(width: int) -> np.uint32:
    return np.uint32((1 << width) - 1)


def _sign_extended(x: Any, first: int, width: int) -> Array:
    at = np.int32(32 - first - width)
    return (_i(x) << at >> np.int32(32 - width)).view(np.uint32)


def _mul_i24(a: Any, b: Any) -> Array:
    a, b = (_i(x) << np.int32(8) >> np.int32(8) for x in (a, b))
    return np.asarray(a * b).view(np.uint32)


def _to_unsigned(x: Any) -> Array:
    x = _f(x).astype(np.float64)
    return np.where(np.isnan(x), 0, np.clip(x, 0, ALL)).astype(np.int64).astype(np.uint32)


def _byte_distances(a: Any, b: Any, c: Any) -> Array:
    bytes_ = ([_i(x) >> np.int32(at) & np.int32(255) for at in range(0, 32, 8)] for x in (a, b))
    far = [abs(x - y).astype(np.uint32) for x, y in zip(*bytes_, strict=True)]
    return np.asarray(_u(c) + np.add.reduce(far))


VOP2: dict[str, Callable[..., Array]] = {
    "and_b32": lambda a, b: _u(a) & _u(b),
    "or_b32": lambda a, b: _u(a) | _u(b),
    "xor_b32": lambda a, b: _u(a) ^ _u(b),
    "min_u32": lambda a, b: np.minimum(_u(a), _u(b)),
    "max_u32": lambda a, b: np.maximum(_u(a), _u(b)),
    "min_i32": _signed(np.minimum),
    "max_i32": _signed(np.maximum),
    "mul_u32_u24": lambda a, b: (_u(a) & _low_bits(24)) * (_u(b) & _low_bits(24)),
    "lshlrev_b32": lambda n, x: _u(x) << _count(n),
    "lshrrev_b32": lambda n, x: _u(x) >> _count(n),
    "ashrrev_i32": lambda n, x: (_i(x) >> _count(n).view(np.int32)).view(np.uint32),
    "add_f32": _float(np.add),
    "sub_f32": _float(np.subtract),
    "mul_f32": _float(np.multiply),
    "min_f32": _float(lambda a, b: np.where(np.isnan(a), a, np.fmin(a, b))),
}
SUMS: dict[str, Callable[..., Array]] = {
    "add_u32": lambda a, b: _u(a) + _u(b),
    "sub_u32": lambda a, b: _u(a) - _u(b),
}
VOP1: dict[str, Callable[..., Array]] = {
    "not_b32": lambda x: ~_u(x),
    "bfrev_b32": _reversed,
    "trunc_f32": _float(np.trunc),
    "cvt_f32_ubyte0": lambda x: _bits((_u(x) & np.uint32(255)).astype(np.float32)),
    "cvt_u32_f32": _to_unsigned,
}
VOP3: dict[str, Callable[..., Array]] = {
    "mul_lo_u32": lambda a, b: _u(a) * _u(b),
    "mad_i32_i24": lambda a, b, c: _mul_i24(a, b) + _u(c),
    "mul_hi_u32": lambda a, b: (_u(a).astype(np.uint64) * _u(b) >> np.uint64(32)).astype(np.uint32),
    "sad_u8": _byte_distances,
    "bfe_u32": lambda x, first, width: _u(x) >> np.uint32(first) & _low_bits(width),
    "bfe_i32": _sign_extended,
}
COMPARES: dict[str, Callable[..., Array]] = {
    **{
        f"cmp_{name}_{kind}": lambda a, b, of=of, view=view: of(view(a), view(b))
        for name, of in {
            "lt": np.less, "le": np.less_equal, "eq": np.equal,
            "ge": np.greater_equal, "gt": np.greater, "ne": np.not_equal,
        }.items()
        for kind, view in {"u32": _u, "i32": _i, "f32": _f}.items()
    },
    "cmp_lt_u64": lambda a, b: a < b,
}  # fmt: skip
MASKS: dict[str, Callable[..., Array]] = {
    "s_andn2_b64": np.logical_not,  # in the active lanes
}


def _carried(sign: int) -> Callable[..., Array]:
    def of(a: Any, b: Any, carry: Any = None) -> Array:
        more = 0 if carry is None else np.asarray(carry).astype(np.int64)
        return _u(a).astype(np.int64) + sign * (_u(b).astype(np.int64) + more)

    return of


CARRIED = {"add_co": _carried(1), "sub_co": _carried(-1)}


def _pair(low: Any, high: Any) -> Array:
    return _u(low).astype(np.uint64) | _u(high).astype(np.uint64) << np.uint64(32)


OTHERS: dict[str, Callable[..., Array]] = {
    "select": lambda mask, a, b: np.where(mask, _u(a), _u(b)),
    "carry": lambda total: (total < 0) | (total > ALL),
    "pair": _pair,
}
FOLDED = frozenset({**VOP2, **SUMS, **VOP1, **VOP3})
COMPUTED = {**VOP2, **SUMS, **VOP1, **VOP3, **COMPARES, **MASKS, **CARRIED, **OTHERS}


@np.errstate(all="ignore")
def compute(value: Word, sources: Mapping[str, Array]) -> Array:
    """The value of an expression of which the sources are arrays; a mask is one of truth values."""
    found: dict[Term, Array] = {}
    for each in order([value]):
        if each.op in ("source", "number"):
            found[each] = sources[each.args[0]] if each.op == "source" else _u(each.args[0])
            continue
        args = [found[a] if isinstance(a, Term) else a for a in each.args]
        if each.op not in ("carry",) and each.op not in CARRIED:
            args = [a.astype(np.uint32) if isinstance(a, np.ndarray) and a.dtype == np.int64 else a
                    for a in args]  # fmt: skip
        found[each] = np.asarray(COMPUTED[each.op](*args))
    made = found[value] if isinstance(value, Term) else _u(value)
    return made.astype(np.uint32) if made.dtype == np.int64 else made


def order(values: Sequence[Word]) -> list[Term]:
    """All terms that some values need, operands first."""
    found: dict[Term, None] = {}

    def visit(each: Word) -> None:
        if isinstance(each, Term) and each not in found:
            for arg in each.args:
                visit(arg)
            found[each] = None

    for value in values:
        visit(value)
    return list(found)


# What expressions are written with -----------------------------------------------------------


def operation(name: str) -> Callable[..., Any]:
    """A function of that name: of constants alone, a constant."""

    def call(*args: Any) -> Any:
        if any(isinstance(a, Term) for a in args):
            return term(name, *args)
        made = np.asarray(COMPUTED[name](*args))
        return bool(made) if made.dtype == bool else int(made)

    return call


sar_by = operation("ashrrev_i32")
umin, umax = operation("min_u32"), operation("max_u32")
smin, smax = operation("min_i32"), operation("max_i32")
mul24, mulhi = operation("mul_u32_u24"), operation("mul_hi_u32")
imad24, rev = operation("mad_i32_i24"), operation("bfrev_b32")
sad_u8 = operation("sad_u8")
lt_64, pair = operation("cmp_lt_u64"), operation("pair")
eq, ne = operation("cmp_eq_u32"), operation("cmp_ne_u32")
lt, le, gt, ge = (operation(f"cmp_{c}_u32") for c in ("lt", "le", "gt", "ge"))
slt, sle, sgt, sge = (operation(f"cmp_{c}_i32") for c in ("lt", "le", "gt", "ge"))
add_co, sub_co, carry = operation("add_co"), operation("sub_co"), operation("carry")


flt, fgt = operation("cmp_lt_f32"), operation("cmp_gt_f32")
fadd, fsub, fmul, fmin = (operation(f"{o}_f32") for o in ("add", "sub", "mul", "min"))
trunc, to_u32, from_byte = (operation(o) for o in ("trunc_f32", "cvt_u32_f32", "cvt_f32_ubyte0"))


def sar(x: Word, count: Word) -> Word:
    """x >> count, with its sign."""
    if isinstance(x, Term) and isinstance(count, int):
        if count == 0:
            return x
        if x.op == "lshlrev_b32" and isinstance(x.args[0], int) and x.args[0] <= count:
            return term("bfe_i32", x.args[1], count - x.args[0], 32 - count)
    return sar_by(count, x)


def where(mask: Any, a: Word, b: Word) -> Word:
    """a in the lanes of a mask, else b."""
    return term("select", mask, a, b) if isinstance(mask, Term) else a if mask else b


# Instructions --------------------------------------------------------------------------------


FLOATS = {"0x3f800000": "1.0", "0xbf800000": "-1.0"}  # as inline constants


def text_of(value: int) -> str:
    """A constant as the assembler has it."""
    if value <= 64:
        return str(value)
    return str(value - 2**32) if value >= 2**32 - 16 else hex(value)


class Emission:
    """Puts what computes some values into a site."""

    def __init__(self, site: Site, texts: Mapping[Term, str], made: Sequence[tuple[str, Word]]):
        self.site = site
        self.texts = dict(texts)  # where values are
        self.constants: dict[int, str] = {}  # vector registers of constants
        self.free: dict[str, list[str]] = defaultdict(list)
        self.owned: dict[Term, list[str]] = defaultdict(list)
        self.made = made
        self.terms = order([value for _, value in made])
        self.last: dict[Term, int] = {}
        for at, each in enumerate(self.terms):
            for arg in each.args:
                if isinstance(arg, Term):
                    self.last[arg] = at
        for _, value in made:
            if isinstance(value, Term):
                self.last[value] = len(self.terms)
        self.targets: dict[Term, str] = {}
        self.pairs: dict[Term, str] = {}

    def run(self) -> None:
        self._choose_targets()
        for at, each in enumerate(self.terms):
            if each.op == "number":
                self.texts[each] = text_of(each.args[0])
            elif each not in self.texts:
                self._put(each, at)
        self._move()

    def _choose_targets(self) -> None:
        """Let values be made where they belong, unless a source is still needed there."""
        users = Counter(a for each in self.terms for a in each.args if isinstance(a, Term))
        for each in self.terms:
            if each.op == "pair" and each not in self.texts:
                self.pairs[each], *halves = self.site.vgpr_pair()
                for arg, half in zip(each.args, halves, strict=True):
                    if isinstance(arg, Term) and users[arg] == 1 and arg not in self.texts:
                        self.targets[arg] = half
        places = {each: at for at, each in enumerate(self.terms)}
        for target, value in self.made:
            if not isinstance(value, Term) or value in self.texts or value in self.targets:
                continue
            if value.op == "number":
                continue
            mine = set(registers(target))
            begin = places[value if value.op != "carry" else value.args[0]]
            needed = any(
                mine & set(registers(text)) and self.last.get(each, -1) > begin
                for each, text in self.texts.items()
            )
            if not needed:
                self.targets[value] = target

    def _move(self) -> None:
        moves = [(t, self._text(v)) for t, v in self.made if self._text(v) != t]
        while moves:
            target, source = moves.pop(0)
            if any(target == other for _, other in moves):
                held = self._new("v")
                self.site.put("v_mov_b32_e32", held, target)
                moves = [(t, held if other == target else other) for t, other in moves]
            mnemonic = "v_mov_b32_e32" if is_vgpr(target) else "s_mov_b64"
            self.site.put(mnemonic, target, source)

    # Operands

    def _text(self, value: Word) -> str:
        return self.texts[value] if isinstance(value, Term) else text_of(value)

    def _vector(self, value: Word) -> str:
        """A value in a vector register."""
        text = self._text(value)
        if is_vgpr(text):
            return text
        if isinstance(value, int) and value in self.constants:
            return self.constants[value]
        held = self._new("v")
        self.site.put("v_mov_b32_e32", held, text)
        if isinstance(value, Term):
            self.texts[value] = held
        else:
            self.constants[value] = held
        return held

    def _long(self, *values: Word, negative: bool = False) -> list[str]:
        """Sources of a long encoding: no literal, one scalar register. MGPUSim extends `negative`
        constants to 64 bits, which does not harm where the lower half counts alone."""
        found, scalars = [], set[str]()
        negative = negative or self.site.native is None
        for value in values:
            text = self._text(value)
            if is_vgpr(text):
                found.append(text)
            elif is_constant(text):
                plain = is_inline(text) and (text[0] != "-" or negative)
                found.append(text if plain else self._vector(value))
            elif scalars <= {text}:
                scalars.add(text)
                found.append(text)
            else:
                found.append(self._vector(value))
        return found

    # Registers

    def _new(self, kind: str) -> str:
        if self.free[kind]:
            return self.free[kind].pop()
        return self.site.vgpr() if kind == "v" else self.site.sgpr_pair()[0]

    def _target(self, value: Term) -> str:
        if value in self.targets:
            return self.targets[value]
        kind = "s" if value.is_mask else "v"
        made = self._new(kind)
        self.owned[value].append(made)
        return made

    def _release(self, args: Sequence[Any], at: int) -> None:
        for arg in set(args):
            if isinstance(arg, Term) and self.last[arg] == at:
                for held in self.owned.pop(arg, ()):
                    self.free["v" if is_vgpr(held) else "s"].append(held)

    # Operations

    def _put(self, each: Term, at: int) -> None:
        args = each.args
        if each.op == "carry":
            return
        for mnemonic, operands in self._instructions(each, args, at):
            self.site.put(mnemonic, *operands)

    def _instructions(
        self, each: Term, args: tuple[Any, ...], at: int
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        op, site = each.op, self.site
        if op in VOP2 or (op in SUMS and not site.gcn3):
            a, b = args
            if op in VOP2 and not is_vgpr(self._text(b)):
                if op in COMMUTES and (is_vgpr(self._text(a)) or isinstance(b, int)):
                    a, b = b, a
                elif op == "sub_f32" and is_vgpr(self._text(a)):
                    a, b, op = b, a, "subrev_f32"
            elif op == "sub_u32" and isinstance(b, int):
                a, b, op = -b & ALL, a, "add_u32"
            elif op == "add_u32" and not is_vgpr(self._text(b)):
                a, b = b, a
            if self._may_be_long(op, a, b):
                yield f"v_{op}_e64", self._with_target(each, at, self._long(a, b))
                return
            texts = [self._text(a), self._vector(b)]
            yield f"v_{op}_e32", self._with_target(each, at, texts)
        elif op in SUMS:
            texts, carried = self._long(*args), self._new("s")
            self.free["s"].append(carried)
            target, *rest = self._with_target(each, at, texts)
            yield f"v_{op}_e64", (target, carried, *rest)
        elif op in VOP1:
            yield f"v_{op}_e32", self._with_target(each, at, [self._text(args[0])])
        elif op in ("bfe_u32", "bfe_i32"):
            yield from self._field(each, at)
        elif op in VOP3:
            yield (
                f"v_{op}",
                self._with_target(each, at, self._long(*args, negative=op != "mul_hi_u32")),
            )
        elif op in COMPARES:
            yield f"v_{op}_e64", self._with_target(each, at, self._long(*args))
        elif op == "select":
            mask, a, b = args
            texts = [self._beside_mask(b), self._beside_mask(a), self._text(mask)]
            yield "v_cndmask_b32_e64", self._with_target(each, at, texts)
        elif op in CARRIED:
            yield self._sum(each, at)
        elif op == "pair":
            yield from self._paired(each, at)
        elif op in MASKS:
            texts = ["exec" if op == "s_andn2_b64" else self._text(args[0]), self._text(args[-1])]
            with site.saving_scc():
                yield op, self._with_target(each, at, texts)
        else:
            raise NotImplementedError(op)

    def _may_be_long(self, op: str, a: Word, b: Word) -> bool:
        """Whether the long encoding takes a second source that the short one does not."""
        first, second = self._text(a), self._text(b)
        if is_vgpr(second) or not self.site.has(f"v_{op}_e64") or self.site.native is not None:
            return False
        return all(not is_constant(text) or is_inline(text) for text in (first, second))

    def _with_target(self, each: Term, at: int, texts: Sequence[str]) -> tuple[str, ...]:
        """The operands of an instruction that makes a term."""
        self._release(each.args, at)
        self.texts[each] = target = self._target(each)
        return (target, *texts)

    def _beside_mask(self, value: Word) -> str:
        text = self._text(value)
        text = FLOATS.get(text, text)
        return text if is_inline(text) else self._vector(value)

    def _field(self, each: Term, at: int) -> Iterator[tuple[str, tuple[str, ...]]]:
        x, first, width = each.args
        whole = first + width == 32 and self.site.gcn3 and self.site.native is not None
        if self.site.has(f"v_{each.op}") and not (each.op == "bfe_i32" and whole):
            text, *_ = self._long(x)
            yield f"v_{each.op}", self._with_target(each, at, [text, str(first), str(width)])
            return
        text = self._vector(x)
        held, *_ = self._with_target(each, at, [])
        if each.op == "bfe_u32":
            yield "v_lshrrev_b32_e32", (held, str(first), text)
            yield "v_and_b32_e32", (held, text_of((1 << width) - 1), held)
        else:
            yield "v_lshlrev_b32_e32", (held, str(32 - first - width), text)
            yield "v_ashrrev_i32_e32", (held, str(32 - width), held)

    def _sum(self, each: Term, at: int) -> tuple[str, tuple[str, ...]]:
        a, b, *more = each.args
        texts = self._long(a, b)
        into = [self._text(mask) for mask in more]
        if more:
            texts = [t if is_vgpr(t) or is_constant(t) else self._vector(v)
                     for t, v in zip(texts, (a, b), strict=True)]  # fmt: skip
        names = {"add_co": ("v_add_co_u32_e64", "v_addc_co_u32_e64"),
                 "sub_co": ("v_sub_co_u32_e64", "v_subb_co_u32_e64")}  # fmt: skip
        name = names[each.op][bool(more)]
        if name == "v_subb_co_u32_e64" and self.site.native is not None:
            name, texts = "v_subbrev_co_u32_e64", texts[::-1]
        name = name.replace("_co", "") if self.site.gcn3 else name
        self._release(each.args, at)
        self.texts[each] = target = self._target(each)
        out = term("carry", each)
        carried = self.targets.get(out, "")
        if not carried:
            carried = self._new("s")
            if out in self.last:
                self.owned[out].append(carried)
            else:
                self.free["s"].append(carried)
        self.texts[out] = carried
        return name, (target, carried, *texts, *into)

    def _paired(self, each: Term, at: int) -> Iterator[tuple[str, tuple[str, ...]]]:
        """A pair of registers with two words, which are there already if that is their place."""
        whole = self.texts[each] = self.pairs[each]
        for half, value in zip(registers(whole), each.args, strict=True):
            if (text := self._text(value)) != half:
                yield "v_mov_b32_e32", (half, text)
        self._release(each.args, at)


# A NaN wins as the first source of MGPUSim's v_min_f32.
COMMUTES = frozenset(VOP2) - {
    "lshlrev_b32", "lshrrev_b32", "ashrrev_i32", "sub_f32", "min_f32",
}  # fmt: skip


def emit(site: Site, texts: Mapping[Term, str], made: Sequence[tuple[str, Word]]) -> None:
    """Put instructions that compute values (register, value) of sources, whose operands are
    `texts`, into a site."""
    Emission(site, texts, made).run()
