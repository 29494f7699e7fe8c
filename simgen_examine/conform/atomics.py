"""Atomics in memory and LDS: each lane has a window of its own, as stores have.

The first word or two of the window are the first source (v4, v5), which the instruction changes
with the second (v6, v7) and, where it takes one more, the third (v8, v9); what it returns goes to
v10 and v11.
Lanes do not meet, so that each has one right answer; all other bytes have to stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform.arithmetic import KEPT, Computed, Wanted, bits_of
from simgen_examine.conform.expected import TYPES, BrainFloats, Expected, is_subnormal
from simgen_examine.conform.forms import Form, form, span
from simgen_examine.conform.stores import ALL, SOME_LANES, WINDOW, adding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simgen_examine.conform.values import Words

    # What was there, and two sources -> what is there then.
    Changes = Callable[[Any, Any, Any], Any]

_BACK = 32  # the first of the registers to which a window of LDS comes back


def _signed(values: Any) -> Any:
    return values.view(f"i{values.dtype.itemsize}")


COMMON: dict[str, Changes] = {
    "add": lambda old, a, _: old + a,
    "sub": lambda old, a, _: old - a,
    "rsub": lambda old, a, _: a - old,
    "smin": lambda old, a, _: np.where(_signed(a) < _signed(old), a, old),
    "smax": lambda old, a, _: np.where(_signed(a) > _signed(old), a, old),
    "umin": lambda old, a, _: np.minimum(a, old),
    "umax": lambda old, a, _: np.maximum(a, old),
    "and": lambda old, a, _: old & a,
    "or": lambda old, a, _: old | a,
    "xor": lambda old, a, _: old ^ a,
    "inc": lambda old, a, _: np.where(old >= a, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, a, _: np.where((old == 0) | (old > a), a, old - old.dtype.type(1)),
    "swap": lambda _, a, __: a,
    "cmpswap": lambda old, a, b: np.where(old == b, a, old),
    "cmpst": lambda old, a, b: np.where(old == a, b, old),  # LDS: what is compared comes first
    "mskor": lambda old, a, b: old & ~a | b,
}
# The same of floats, of the type that the name ends with.
_FLOATS: dict[str, Changes] = {
    "add": lambda old, a, _: old + a,
    "min": lambda old, a, _: np.where(a < old, a, old),
    "max": lambda old, a, _: np.where(a > old, a, old),
    "cmpst": lambda old, a, b: np.where(old == a, b, old),
}
_FLOATS_IN_MEMORY = ("add_f32", "add_f64", "min_f64", "max_f64", "pk_add_f16", "pk_add_bf16")
IN_MEMORY = ("add", "sub", "smin", "smax", "umin", "umax", "and", "or", "xor", "inc", "dec", "swap",
           "cmpswap")  # fmt: skip
# LDS atomics: the mnemonic's words, before and behind "rtn", and the operation.
_LDS = (
    ("add", "u", "add"), ("sub", "u", "sub"), ("rsub", "u", "rsub"), ("inc", "u", "inc"),
    ("dec", "u", "dec"), ("min", "i", "smin"), ("max", "i", "smax"), ("min", "u", "umin"),
    ("max", "u", "umax"), ("and", "b", "and"), ("or", "b", "or"), ("xor", "b", "xor"),
    ("mskor", "b", "mskor"), ("cmpst", "b", "cmpst"), ("wrxchg", "b", "swap"),
)  # fmt: skip
_LDS_FLOATS = ("add_f32", "min_f32", "max_f32", "cmpst_f32", "add_f64", "min_f64", "max_f64",
               "cmpst_f64", "pk_add_f16", "pk_add_bf16")  # fmt: skip
PAIRS = ("cmpswap", "cmpst", "mskor", "cmpst_f32", "cmpst_f64")  # they take two sources


@dataclass(frozen=True)
class Atomic(Computed):
    """What an atomic returns, if it does, and leaves in the windows."""

    change: str = ""
    wide: bool = False  # 64 bits
    returns: bool = False

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`.

        Whether memory keeps subnormals is not the kernel's to say: those are free, as is which of
        two zeros, or of a number and a NaN, is the lesser.
        """
        active = bits_of(lanes, words.shape[2])
        old, a, b = (whole_bits(words[at], wide=self.wide) for at in range(3))
        found = []
        if self.returns:
            found += [Wanted("b32", Expected(np.where(active, each, np.uint32(KEPT))))
                      for each in parts(old)]  # fmt: skip
        if type_ := float_type(self.change):
            found.append(self._of_floats(type_, (old, a, b), active))
        else:
            new = np.where(active, COMMON[self.change](old, a, b), old)
            found += [Wanted("b32", Expected(each)) for each in parts(new)]
        kept = np.full(words.shape[2], KEPT, np.uint32)
        found += [Wanted("b32", Expected(kept))] * (WINDOW - 1 - self.wide)
        return found

    def _of_floats(self, type_: str, words: tuple[Any, ...], active: Any) -> Wanted:
        if type_ == "bf16":
            return _brain_sum(words, active)
        old, a, b = (_halves(each) if type_ == "f16" else each.view(TYPES[type_]) for each in words)
        change = self.change.removeprefix("pk_").partition("_")[0]
        with np.errstate(all="ignore"):
            new = np.where(active, _FLOATS[change](old, a, b), old)
        small = [is_subnormal(each) for each in (old, a, new)]
        free = small[0] | small[1] | small[2]
        if change in ("min", "max"):
            free |= np.isnan(old) | np.isnan(a) | (old == 0) & (a == 0)
        return Wanted(type_, Expected(new, active & free))


def float_type(change: str) -> str:
    """The type of the floats that an atomic changes; empty of integers."""
    type_ = change.rpartition("_")[2]
    return type_ if type_ in ("f16", "bf16", "f32", "f64") else ""


def _halves(words: Any) -> Any:
    """The lower and the upper halves of words as floats of 16 bits."""
    return _parts_of(words).view(np.float16)


def _parts_of(words: Any) -> Any:
    low, high = words & np.uint32(0xFFFF), words >> np.uint32(16)
    return np.stack([low, high]).astype(np.uint16)


def _brain_sum(words: tuple[Any, ...], active: Any) -> Wanted:
    """Sums of both halves as bf16. Those of float32 are exact to more than twice its places and
    two, so that to round them once more is to round the exact ones."""
    halves = [_parts_of(each) for each in words[:2]]
    old, a = ((each.astype(np.uint32) << np.uint32(16)).view(np.float32) for each in halves)
    with np.errstate(all="ignore"):
        total = old + a
    whole = total.view(np.uint32)
    nearest = whole + np.uint32(0x7FFF) + (whole >> np.uint32(16) & np.uint32(1))
    new = np.where(np.isnan(total), np.uint32(0x7FC0), nearest >> np.uint32(16)).astype(np.uint16)
    small = is_subnormal(old) | is_subnormal(a) | is_subnormal(total)
    return Wanted("b16", BrainFloats(np.where(active, new, halves[0]), active & small))


def whole_bits(source: Any, *, wide: bool) -> Any:
    if not wide:
        return source[0]
    return source[0].astype(np.uint64) | source[1].astype(np.uint64) << np.uint64(32)


def parts(values: Any) -> list[Any]:
    if values.dtype == np.uint32:
        return [values]
    low = values & np.uint64(0xFFFFFFFF)
    return [low.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)]


def atomics(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    for each in (*_in_memory(arch), *_in_lds()):
        if each.mnemonic in known:
            yield each


def signature(change: str, *, wide: bool) -> tuple[str, ...]:
    type_ = float_type(change) or ("b64" if wide else "b32")
    return (f"pk_{type_}" if type_.endswith("f16") else type_,) * 3


def filled(arch: str) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """What atomics in memory change, whether 64 bits, and lines that put the first source into the
    window at v[14:15], and what is compared behind what is swapped in."""
    old = arch.startswith("gfx8")
    add, addc = adding(arch)
    tail = "" if old else ", off"
    store = "flat_store_dword" if old else "global_store_dword"
    kinds = [(change, wide) for change in IN_MEMORY for wide in (False, True)]
    for change, wide in [*kinds, *((each, each.endswith("64")) for each in _FLOATS_IN_MEMORY)]:
        setup = [f"{store} v[14:15], v4{tail}"]
        if wide:
            setup += [f"{add} v30, vcc, 4, v14", f"{addc} v31, vcc, 0, v15, vcc",
                      f"{store} v[30:31], v5{tail}"]  # fmt: skip
        setup.append("s_waitcnt vmcnt(0) lgkmcnt(0)")
        if change in PAIRS and not wide:
            setup.append("v_mov_b32_e32 v7, v8")
        yield change, wide, tuple(setup)


def _in_memory(arch: str) -> Iterator[Form]:
    old = arch.startswith("gfx8")
    returning = " sc0" if arch == "gfx942" else " glc"
    places = [("flat", "v[14:15], {}")]
    if not old:
        places += [("global", "v[14:15], {}, off"), ("global", "v18, {}, s[6:7]")]
    for change, wide, setup in filled(arch):
        pair = change in PAIRS
        data = span(6, (1 + wide) * (1 + pair))
        for segment, operands in places:
            word = f"{segment}_atomic_{change}{'_x2' if wide and not float_type(change) else ''}"
            base = "scalar base" if "s[" in operands else "address"
            for returns in (False, True):
                to = f"{span(10, 1 + wide)}, " if returns else ""
                line = f"{word} {to}{operands.format(data)}{returning if returns else ''}"
                what = f"{base}, {'returning' if returns else 'not returning'}"
                for lanes in (ALL, SOME_LANES) if base == "address" else (ALL,):
                    yield form(
                        Atomic, line, what + (", some lanes" if lanes != ALL else ""), "FLAT",
                        signature(change, wide=wide), setup,
                        tuple(f"v{10 + n}" for n in range((1 + wide) * returns)), lanes=lanes,
                        window=WINDOW, change=change, wide=wide, returns=returns,
                    )  # fmt: skip


def _in_lds() -> Iterator[Form]:
    rows = [(word, f"{kind}{bits}", change, bits == 64)
            for word, kind, change in _LDS for bits in (32, 64)]  # fmt: skip
    for each in _LDS_FLOATS:
        word, _, type_ = each.rpartition("_")
        rows.append((word, type_, each, type_ == "f64"))
    for word, type_, change, wide in rows:
        setup = (
            "v_lshlrev_b32_e32 v14, 5, v0", f"v_mov_b32_e32 v15, {KEPT:#x}", "ds_write_b32 v14, v4",
            *(f"ds_write_b32 v14, v{5 if wide and n == 1 else 15} offset:{4 * n}"
              for n in range(1, WINDOW)), "s_waitcnt lgkmcnt(0)",
        )  # fmt: skip
        after = (*(f"ds_read_b32 v{_BACK + n}, v14 offset:{4 * n}" for n in range(WINDOW)),
                 "s_waitcnt lgkmcnt(0)")  # fmt: skip
        data = span(6, 1 + wide)
        if change in PAIRS:
            data += f", {span(8, 1 + wide)}"
        for returns in (False, True):
            if word == "wrxchg" and not returns:
                continue
            name = f"ds_{word}_rtn_{type_}" if returns else f"ds_{word}_{type_}"
            to = f"{span(10, 1 + wide)}, " if returns else ""
            for lanes in (ALL, SOME_LANES):
                outputs = (*(f"v{10 + n}" for n in range((1 + wide) * returns)),
                           *(f"v{_BACK + n}" for n in range(WINDOW)))  # fmt: skip
                yield form(
                    Atomic, f"{name} {to}v14, {data}", "all lanes" if lanes == ALL else
                    "some lanes", "DS", signature(change, wide=wide), setup, outputs, lanes=lanes,
                    after=after, change=change, wide=wide, returns=returns,
                )  # fmt: skip
