"""Every function of OpenCL C that users' kernels have (data/own_functions.txt), with edge values of its
types, and each vector of them as its elements: what NumPy, mpmath and Python's whole numbers give."""

# ruff: noqa: E501  (rows of tables)
from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_own_functions import (
    FLOATS,
    MATHS,
    PI,
    PUBLISHED,
    TYPES,
    WHOLE,
    N,
    apart,
    away,
    decoded,
    low,
    nearest,
    scaled,
    signed,
)  # fmt: skip

import simgen
from simgen.ground import resources
from simgen.targets.mgpusim.target import MGPUSim

pytestmark = [
    pytest.mark.skipif(bool(MGPUSim().needs.missing()), reason="MGPUSim is not here"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NaN and infinity are among the values
]
NAMES = {"f": "float", "d": "double", "c": "char", "e": "uchar", "s": "short", "t": "ushort", "i": "int",
         "u": "uint", "n": "long", "k": "ulong"}  # fmt: skip
INTEGERS = "cestiunk"
UNSIGNED = dict(zip(INTEGERS, "eettuukk", strict=True))
SIGNED = dict(zip(INTEGERS, "ccssiinn", strict=True))
SIZES = (2, 3, 4, 8, 16)
F = np.float32
# What it takes and gives: T is each whole type, U and S the unsigned and signed ones of its size.
KINDS = """
f>f: acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi degrees erf erfc exp exp10 exp2 expm1 fabs floor
 lgamma log log10 log1p log2 radians rint round rsqrt sign sin sinh sinpi sqrt tan tanh tgamma trunc half_cos
 half_exp half_exp10 half_exp2 half_log half_log10 half_log2 half_recip half_rsqrt half_sin half_sqrt half_tan
 native_cos native_exp native_exp10 native_exp2 native_log native_log10 native_log2 native_recip native_rsqrt
 native_sin native_sqrt native_tan fract_part fract_whole modf_part modf_whole sincos_sine sincos_cosine
ff>f: atan2 copysign fdim fmax fmin fmod hypot max min maxmag minmag pow powr remainder step native_divide
 native_powr
fff>f: bitselect clamp fma mad mix smoothstep
fi>f: ldexp pown
d>d: fabs
ddd>d: mad mix
f>i: isfinite isinf isnan isnormal signbit
ff>i: isequal isgreater isgreaterequal isless islessequal islessgreater isnotequal isordered isunordered
T>U: abs
TT>U: abs_diff
T>T: clz ctz popcount
TT>T: add_sat hadd max min mul_hi rhadd rotate sub_sat
TTT>T: bitselect clamp mad_hi mad_sat
S>i: all any
ii>i uu>u: mul24
iii>i uuu>u: mad24
ce>s ee>t st>i tt>u iu>n uu>k: upsample
"""
# From one type to another: casts of the bits, conversions to the nearest number of a type, selections.
CASTS = [
    (f"as_{NAMES[b]}", f"{a}>{b}") for a, b in product(NAMES, NAMES) if TYPES[a][1] == TYPES[b][1]
]
CASTS += [(f"convert_{NAMES[b]}_sat", f"{a}>{b}") for a, b in product("fdcestiun", "cestiu")]
CASTS += [
    (f"convert_{NAMES[b]}{sat}_{way}", f"f>{b}")
    for b, sat, way in product("cestiu", ("", "_sat"), ("rte", "rtz", "rtn", "rtp"))
]
CASTS += [
    ("select", f"{a}{a}{c}>{a}")
    for a in (*INTEGERS, "f")
    for c in dict.fromkeys((SIGNED.get(a, "i"), UNSIGNED.get(a, "u")))
]
# Pointers, work-groups and vectors alone: below, test_own_kernel_numbers.py and tests/simulator.
OTHERS = re.compile(
    r"get_\w+|\w*(barrier|fence|pipe)|cross|distance|dot|length|normalize|fast_\w+|fract|modf|sincos|shuffle2?|vec_step|as_\w*|select"
)
HEAVY = re.compile(
    r"l?gamma|t?gamma|erfc?$|cbrt|a?(sin|cos|tan)h?|pow|exp|log|atan2|fmod|remainder|hypot|rsqrt|smoothstep"
)
HELPERS = "".join(
    f"float {name}_{part}(float x) {{ float w; const float r = {name}(x, &w); return {value}; }}\n"
    for name, parts in (("fract", {"part": "r", "whole": "w"}), ("modf", {"part": "r", "whole": "w"}),
                        ("sincos", {"sine": "r", "cosine": "w"}))
    for part, value in parts.items()
)  # fmt: skip


def calls() -> list[tuple[str, str]]:
    made = []
    for line in KINDS.strip().replace("\n ", " ").splitlines():
        kinds, _, names = line.partition(":")
        for kind in kinds.split():
            each = [kind.replace("T", t).replace("U", UNSIGNED[t]).replace("S", t) for t in INTEGERS
                    if "S" not in kind or SIGNED[t] == t] if set(kind) & set("TUS") else [kind]  # fmt: skip
            made += [(name, k) for name in names.split() for k in each]
    return made + CASTS


def wrapped(x: int, kind: str) -> int:
    bits = TYPES[kind][1]
    return signed(x, bits) if kind in "csin" else x % 2**bits


def ends(kind: str) -> tuple[int, int]:
    bits = TYPES[kind][1]
    return (-(2 ** (bits - 1)), low(bits - 1)) if kind in "csin" else (0, low(bits))


def clamped(x: int, kind: str) -> int:
    return min(max(x, ends(kind)[0]), ends(kind)[1])


def whole(name: str, kind: str, *x: int) -> int | None:
    """A value of whole numbers; None where the specification has none."""
    t = kind[0]
    bits = TYPES[t][1]
    a, b, c = (*x, 0, 0, 0)[:3]
    word = a % 2**bits
    if name == "clamp":
        return None if b > c else min(max(a, b), c)
    if name == "bitselect":
        return a & ~c | b & c
    if name == "rotate":
        return word << b % bits | word >> bits - b % bits
    if name == "upsample":
        return a << bits | b
    if name.endswith("24"):
        cut = (lambda v: signed(v, 24)) if t == "i" else (lambda v: v % 2**24)
        return cut(a) * cut(b) + c
    return {
        "abs": abs(a), "abs_diff": abs(a - b), "clz": bits - word.bit_length(),
        "ctz": (word & -word).bit_length() - 1 if word else bits, "popcount": word.bit_count(),
        "add_sat": clamped(a + b, t), "sub_sat": clamped(a - b, t), "hadd": a + b >> 1, "rhadd": a + b + 1 >> 1,
        "max": max(a, b), "min": min(a, b), "mul_hi": a * b >> bits, "mad_hi": (a * b >> bits) + c,
        "mad_sat": clamped(a * b + c, t), "any": int(a < 0), "all": int(a < 0), "select": b if c else a,
    }[name]  # fmt: skip


def step_by_step(name: str, kind: str, args: list[Any]) -> Any:
    """Sums and products that the specification writes out, each rounded."""
    real = F if kind[0] == "f" else np.float64
    a, b, c = (np.asarray(each).astype(real) for each in args)
    if name == "mad":
        return a * b + c
    if name == "mix":
        return a + (b - a) * c
    t = np.fmin(np.fmax((c - a) / (b - a), real(0)), real(1))
    return np.where(
        (a < b) & np.isfinite(a) & np.isfinite(b) & ~np.isnan(c),
        t * t * (real(3) - real(2) * t),
        np.nan,
    )


def powr(x: Any, y: Any) -> Any:
    none = (
        (x < 0)
        | np.isnan(x)
        | np.isnan(y)
        | ((y == 0) & ((x == 0) | np.isinf(x)))
        | ((x == 1) & np.isinf(y))
    )
    return np.where(none, np.nan, np.power(np.abs(x), y))


FLOATING: dict[str, Any] = {
    "degrees": lambda x: x * 180 / PI, "radians": lambda x: x * PI / 180, "round": away, "ldexp": scaled,
    "sign": lambda x: np.where(np.isnan(x), 0, np.where(x == 0, x, np.sign(x))),
    "step": lambda edge, x: np.where(x < edge, 0.0, 1.0), "recip": lambda x: 1 / x, "divide": np.divide, "powr": powr,
    "pown": np.power, "max": np.fmax, "min": np.fmin, "clamp": lambda x, a, b: np.fmin(np.fmax(x, a), b),
    "maxmag": lambda a, b: np.where(abs(a) > abs(b), a, np.where(abs(b) > abs(a), b, np.fmax(a, b))),
    "minmag": lambda a, b: np.where(abs(a) < abs(b), a, np.where(abs(b) < abs(a), b, np.fmin(a, b))),
    "fract_part": lambda x: np.where(np.isinf(x), 0, np.minimum(x - np.floor(x), np.nextafter(F(1), F(0)))),
    "fract_whole": np.floor, "modf_part": lambda x: np.where(np.isinf(x), 0, x - np.trunc(x)), "modf_whole": np.trunc,
    "sincos_sine": np.sin, "sincos_cosine": np.cos, "isnormal": lambda x: np.isfinite(x) & (abs(x) >= 2.0**-126),
    "isequal": np.equal, "isnotequal": np.not_equal, "isless": np.less, "isgreater": np.greater,
    "islessequal": np.less_equal, "isgreaterequal": np.greater_equal, "islessgreater": lambda a, b: (a < b) | (a > b),
    "isordered": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "isunordered": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip
ROUNDED = {"rte": np.rint, "rtz": np.trunc, "rtn": np.floor, "rtp": np.ceil, "sat": np.trunc}
OWN_ULPS = {
    "degrees": 2,
    "radians": 2,
    "smoothstep": 4,
    "pown": 1,
    "sincos_sine": 1,
    "sincos_cosine": 1,
}


def judged(name: str, kind: str, bits: list[Any], found: Any) -> Any:
    """Whether each result is not what it may be, and the right ones."""
    takes, gives = kind.split(">")
    args = [decoded(b, t) for b, t in zip(bits, takes, strict=True)]
    if name.startswith("as_"):
        return found != bits[0], bits[0]
    if name.startswith("convert_"):
        x = args[0] if takes not in "fd" else ROUNDED[name.rpartition("_")[2]](args[0])
        held = [v == v and ends(gives)[0] <= v <= ends(gives)[1] for v in x]
        right = [0 if v != v else int(max(min(v, ends(gives)[1]), ends(gives)[0])) for v in x]
        off = found != nearest(right, gives)
        return off & (np.array(held) if "_sat" not in name else True), nearest(right, gives)
    if name == "select":
        return found != np.where(args[2] != 0, bits[1], bits[0]), bits[0]
    if name == "bitselect" and gives == "f":
        right = bits[0] & ~bits[2] | bits[1] & bits[2]
        return (found != right) & ~np.isnan(decoded(right, "f")), right
    if gives not in "fd" and takes[0] in INTEGERS:
        values = [whole(name, kind, *each) for each in zip(*args, strict=True)]
        right = nearest([wrapped(v or 0, gives) for v in values], gives)
        return (found != right) & np.array([v is not None for v in values]), right
    free = np.zeros(len(found), bool)
    if name in ("mad", "mix", "smoothstep"):
        value = step_by_step(name, kind, args)
        free = np.isnan(value) if name == "smoothstep" else free
    else:
        plain = re.sub("^(half|native)_", "", name)
        wide = [np.asarray(a, np.longdouble) for a in args]
        value = (FLOATING.get(plain) or MATHS[plain])(*wide)
        if name in ("max", "min", "clamp"):  # of NaN, or of limits that are none
            free = np.any(np.isnan(np.stack(wide)), 0) | (
                wide[1] > wide[-1] if name == "clamp" else False
            )
        elif plain != name:  # what an implementation makes of it: near 1 alone
            free = (wide[0] < 0.1) | (np.max(np.abs(np.stack(wide)), 0) > 30)
    if gives == "i":
        return found != nearest(value, "i"), nearest(value, "i")
    right = nearest(value, gives)
    most = (
        8192
        if re.match("half_|native_", name)
        else OWN_ULPS.get(name, PUBLISHED.get(f"{name}f", PUBLISHED.get(name, 0)))
    )
    return (apart(found, right, gives) > most) & ~free, right


def edges(letter: str, place: int, count: int) -> Any:
    """Bits: all pairs of two edge values; of a third, some."""
    values = nearest(FLOATS, letter) if letter in "fd" else nearest([int(v) for v in WHOLE], letter)
    order = (
        np.arange(N) % 16,
        np.arange(N) // 16,
        (np.arange(N) * 7 + np.arange(N) // 16 * 3) % 16,
    )
    return values[order[place]]


def built(rows: list[tuple[str, str]], vectors: bool) -> tuple[list[Any], Any]:
    """Arguments of each call, and what a run of all gives: results, or how many elements of vectors
    are not what the function of one number gives."""
    places: dict[tuple[str, int], int] = {}
    given: list[Any] = []
    body, taken = "", []
    for at, (name, kind) in enumerate(rows):
        takes, gives = kind.split(">")
        for key in ((t, p) for p, t in enumerate(takes)):
            if key not in places:
                places[key] = len(given)
                given.append(edges(*key, len(takes)))
        taken.append([given[places[t, p]] for p, t in enumerate(takes)])

        def read(t: str, p: int, i: str) -> str:
            bits = NAMES[UNSIGNED.get(t, {"f": "u", "d": "k"}.get(t, t))]
            return f"as_{NAMES[t]}(({bits})x[{places[t, p] * N} + {i}])"

        put = NAMES[UNSIGNED.get(gives, {"f": "u", "d": "k"}.get(gives, gives))]
        if not vectors:
            words = ", ".join(read(t, p, "i") for p, t in enumerate(takes))
            body += f"    y[{at * N} + i] = as_{put}({name}({words}));\n"
            continue
        sizes = SIZES[at % 2 :][:1] if HEAVY.search(name) else (SIZES[at % 5], SIZES[(at + 2) % 5])
        body += f"    y[{at * N} + i] = 0;\n"
        for n in sizes:
            is_told = re.match("is|signbit", name)
            loop = f'_Pragma("unroll") for (int j = 0; j < {n}; j++)'
            turned = f"(i + 37 * j) % {N}"
            function = re.sub(r"^(as|convert)_(u?[a-z]+)", rf"\1_\g<2>{n}", name)
            made = "".join(
                f"{NAMES[t]}{n} a{p}; {loop} a{p}[j] = {read(t, p, turned)}; "
                for p, t in enumerate(takes)
            )
            vector = f"{function}({', '.join(f'a{p}' for p in range(len(takes)))})"
            one = f"{name}({', '.join(f'a{p}[j]' for p in range(len(takes)))})"
            one = f"(({NAMES[gives]})-(int)({one}))" if is_told else one
            if name == "select":  # of the sign's bit, and not of the whole number
                one = "(a2[j] >> (sizeof(a2[j]) * 8 - 1) & 1 ? a1[j] : a0[j])"
            body += (f"    {{ {made}{NAMES[gives]}{n} r = {vector}; {loop} "
                     f"y[{at * N} + i] += as_{put}(({NAMES[gives]})r[j]) != as_{put}(({NAMES[gives]})({one})); }}\n")  # fmt: skip
    Path("k.cl").write_text(
        f"{HELPERS}__kernel void k(__global const ulong* x, __global ulong* y)\n"
        f"{{\n    const int i = get_global_id(0);\n{body}}}\n"
    )
    Path("k.toml").write_text(
        f'source = "k.cl"\ninputs = {{ x = "u64[{len(given) * N}]" }}\n'
        f'outputs = {{ y = "u64[{len(rows) * N}]" }}\nargs = ["x", "y"]\nitems = {N}\nblock = 64\n'
        f'reference = "np.zeros({len(rows) * N})"\n'
    )
    np.savez("k.npz", **{"k.x": np.concatenate(given)})
    bundle = simgen.plan("k.toml", values=["k.npz"]).build("made", "mgpusim")
    bundle.run(timeout=300.0)
    return taken, bundle.result("mgpusim").outputs["k.y"].values.reshape(-1, N)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_function_of_opencl() -> None:
    rows = calls()
    taken, found = built(rows, vectors=False)
    wrong = []
    for row, (name, kind), bits in zip(found, rows, taken, strict=True):
        with np.errstate(all="ignore"):
            off, right = judged(name, kind, bits, row)
        if off.any():
            takes, gives = kind.split(">")
            i = int(np.argmax(off))
            shown = [decoded(a[i : i + 1], t)[0] for a, t in zip(bits, takes, strict=True)]
            wrong.append(f"{name} {kind}: {shown}: {decoded(row[i : i + 1], gives)[0]}, not "
                         f"{decoded(right[i : i + 1], gives)[0]} ({off.sum()} of {N})")  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_the_list_is_the_documents_own() -> None:
    text = (resources.folder("data") / "own_functions.txt").read_text().replace("\n  ", " ")
    (listed,) = [line.split()[2:] for line in text.splitlines() if line.startswith("O = ")]
    called = {name for name, _ in calls()}
    assert [each for each in listed if each not in called and not OTHERS.fullmatch(each)] == []


@pytest.mark.parametrize("part", range(3))
def test_vectors_are_as_their_elements(part: int) -> None:
    one = re.compile("fract_|modf_|sincos_")
    rows = [
        (name, kind)
        for name, kind in calls()
        if not one.match(name) and kind[0] != "d" and ">d" not in kind
    ]
    rows = [
        each for each in rows if not (each[0].startswith("convert") and not each[0].endswith("sat"))
    ]
    rows = [each for each in rows if each[0] not in ("any", "all")][part::3]
    taken, found = built(rows, vectors=True)
    assert len(taken) > 50
    wrong = [
        f"{name} {kind}: {row.sum()}"
        for row, (name, kind) in zip(found, rows, strict=True)
        if row.any()
    ]
    assert not wrong, "\n".join(wrong)
