"""benchdnn of oneDNN: `benchdnn --conv --dir=FWD_D mb8ic64ih56oc64kh3ph1`, and --matmul.

    conv    [gX][mbX]icXihXiwXocX[ohXowX]khXkwX[shXswX][phXpwX][dhXdwX][nNAME], _ anywhere
    matmul  [Bx...]MxK:[Bx...]KxN[:...][nNAME]

What has no width has the height's; a dilation of 0 is 1 elsewhere; a pad that is not given follows
from the extents of the result, or is 0. --dir=FWD_B, the default of --conv, adds a bias. Matrices
are by rows unless --stag, --wtag or --dtag say `ba`; the post-operation `sum` is beta.

Source: doc/driver_conv.md, doc/driver_matmul.md and conv/conv_aux.cpp of oneDNN's tests/benchdnn.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.drivers.base import MEASURING, MOST_DIGITS, Driver, GivenOptions, read_options
from simgen.frontend.operation import ConvOperation, FilterMode, GemmOperation
from simgen.ir import Pass

if TYPE_CHECKING:
    from simgen.frontend.operation import LibraryOperation

TYPES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "s8": "i8"}
NAMES = {each: name for name, each in TYPES.items()}
RESULTS = {**{name: name for name in TYPES}, "s8": "s32"}
DIRECTIONS = {  # pass, bias
    "FWD_D": (Pass.FORWARD, False),
    "FWD_I": (Pass.FORWARD, False),
    "FWD_B": (Pass.FORWARD, True),
    "BWD_D": (Pass.BACKWARD_DATA, False),
    "BWD_W": (Pass.BACKWARD_WEIGHT, False),
    "BWD_WB": (Pass.BACKWARD_WEIGHT, True),
}
LAYOUTS = ("any", "abcd", "acdb", "abx", "axb", "nchw", "nhwc", "oihw", "ohwi", "hwio")
MEASURED = (
    *("mode", "mode-modifier", "engine", "alg", "perf-template", "fix-times-per-prb"),
    *("max-ms-per-prb", "repeats-per-prb", "cold-cache", "skip-impl", "impl", "canonical"),
    *("mem-check", "allow-enum-tags-only", "attr-scratchpad", "attr-fpmath", "verbose"),
)
_ITEM = re.compile(rf"(mb|g|[io]c|[iokspd][dhw])(\d{{1,{MOST_DIGITS}}})")
_MATMUL = re.compile(r"(\d[\dx]*):(\d[\dx]*)(?::(\d[\dx]*))?(?:n.*)?")


class Benchdnn(Driver):
    name = "benchdnn"
    program = "benchdnn"

    def read(self, words: list[str], program: str) -> LibraryOperation:
        readers = {"--conv": _conv, "--matmul": _matmul}
        drivers = [word for word in words if word in readers]
        if len(drivers) != 1:
            cure = did_you_mean(words[0] if words else "", readers)
            raise UsageError(f"{self.program}: one of --conv and --matmul is needed; {cure}")
        place = f"{self.program} {drivers[0]}"
        options = [w for w in words if w.startswith("-") and w not in readers and w[:2] != "-v"]
        problems = [word for word in words if not word.startswith("-")]
        if len(problems) != 1:
            raise UsageError(f"{place}: {len(problems)} problems are given; give one")
        names = ("dt", "cfg", "dir", "stag", "wtag", "dtag", "mb", "bia-dt", "attr-post-ops")
        spelled = {f"--{name}": f"--{name}" for name in names}
        spelled |= {f"--{name}": MEASURING for name in MEASURED}
        given = read_options(options, spelled, place, joined=True)
        return readers[drivers[0]](given, problems[0])

    def lines(self, operation: LibraryOperation) -> list[str]:
        if isinstance(operation, GemmOperation):
            if operation.alpha != 1:
                raise self.cannot("factor of a product")
            return [f"{self.program} --matmul {_matmul_text(operation)}"]
        if not isinstance(operation, ConvOperation):
            raise self.cannot(f"line for {operation.title}")
        if operation.mode is not FilterMode.CROSS:
            raise self.cannot("convolution with turned filters")
        if operation.bias and operation.passes == (Pass.BACKWARD_DATA,):
            raise self.cannot("bias where only the gradient of the image is computed")
        return [f"{self.program} --conv {each}" for each in _conv_texts(operation)]


def _type(given: GivenOptions) -> str:
    """The element type, if those of all tensors are what simgen gives them.

    Raises:
        UsageError: they are not.
    """
    option = "--cfg" if "--cfg" in given.found else "--dt"
    text = given.text(option, "f32")
    for name, each in TYPES.items():
        three = (name, name, RESULTS[name])
        same = [name] if name == RESULTS[name] else []
        if text in (*same, ":".join(three), "".join(three)):
            return each
    known = ", ".join(f"{name}:{name}:{RESULTS[name]}" for name in TYPES)
    raise given.refuse(option, f"simgen has {known}")


def _conv(given: GivenOptions, problem: str) -> ConvOperation:
    direction, bias = given.one_of("--dir", DIRECTIONS, "FWD_B")
    for name in ("--stag", "--wtag", "--dtag"):
        given.only(name, LAYOUTS, f"take one of {', '.join(LAYOUTS)}")
    given.only("--attr-post-ops", (), "convolutions have none here; leave it out")
    given.only("--bia-dt", ("undef", "f32"), "write f32 or undef")
    found = _items(given, problem)
    if found.keys() & {f"{name}d" for name in "iokspd"}:
        raise UsageError(f"{given.place}: {printable(problem)} has a depth; only images are read")
    h, w = (_axis(given, problem, found, axis) for axis in "hw")
    for name in ("ic", "oc"):
        if not found.get(name):
            raise UsageError(f"{given.place}: {printable(problem)} has no {name}; give it")
    return ConvOperation(
        n=given.whole("--mb", 0, 0) or found.get("mb", 2),
        c=found["ic"],
        h=h["i"],
        w=w["i"],
        k=found["oc"],
        r=h["k"],
        s=w["k"],
        pad_h=h["p"],
        pad_w=w["p"],
        stride_h=h["s"],
        stride_w=w["s"],
        dilation_h=h["d"] + 1,
        dilation_w=w["d"] + 1,
        group=found.get("g", 1),
        bias=bias or given.text("--bia-dt", "undef") != "undef",
        passes=(direction,),
        type=_type(given),
    )


def _items(given: GivenOptions, problem: str) -> dict[str, int]:
    """The numbers of a problem of --conv, by their letters."""
    found: dict[str, int] = {}
    at = 0
    while at < len(problem) and problem[at] != "n":
        item = _ITEM.match(problem, at)
        if item:
            found[item[1]] = int(item[2])
        elif problem[at] != "_":
            fact = f"{printable(problem)} is no convolution from {printable(problem[at:])} on"
            raise UsageError(f"{given.place}: {fact}; write it as mb8ic64ih56oc64kh3ph1")
        at = item.end() if item else at + 1
    return found


def _axis(given: GivenOptions, problem: str, found: dict[str, int], axis: str) -> dict[str, int]:
    """Extent of the image and of a filter, pad, stride and dilation along h or w.

    Raises:
        UsageError: they are not there, or do not give the extent of the result.
    """
    own = {name: found[f"{name}{axis}"] for name in "iokspd" if f"{name}{axis}" in found}
    if axis == "w" and not own:
        own = {name: found[f"{name}h"] for name in "iokspd" if f"{name}h" in found}
    usual = {"s": 1, "d": 0}
    made = usual | own
    if not made.get("i") or not made.get("k") or not made["s"]:
        fact = f"{printable(problem)} has no i{axis}, k{axis} or s{axis} above 0"
        raise UsageError(f"{given.place}: {fact}; give them")
    reach = (made["k"] - 1) * (made["d"] + 1) + 1
    if "p" not in made:
        needed = (made.get("o", 1) - 1) * made["s"] + reach
        made["p"] = max(0, needed - made["i"]) // 2 if "o" in made else 0
    extent = (made["i"] - reach + 2 * made["p"]) // made["s"] + 1
    if made.get("o", extent) != extent:
        fact = f"o{axis} of {printable(problem)} is {made['o']}, but pads alike on both sides"
        raise UsageError(f"{given.place}: {fact} give {extent}; simgen has no other ones")
    return made


def _conv_texts(conv: ConvOperation) -> list[str]:
    p, q = conv.extents
    image = f"g{conv.group}mb{conv.n}ic{conv.c}ih{conv.h}iw{conv.w}oc{conv.k}oh{p}ow{q}"
    filters = f"kh{conv.r}kw{conv.s}sh{conv.stride_h}sw{conv.stride_w}ph{conv.pad_h}pw{conv.pad_w}"
    dilation = f"dh{conv.dilation_h - 1}dw{conv.dilation_w - 1}"
    texts = []
    for each in conv.passes:
        bias = conv.bias and each is not Pass.BACKWARD_DATA
        name = next(k for k, value in DIRECTIONS.items() if value == (each, bias))
        texts.append(f"--dir={name} {_types_text(conv.type)}{image}{filters}{dilation}")
    return texts


def _types_text(dtype: str) -> str:
    name = NAMES[dtype]
    return "" if dtype == "f32" else f"--dt={name}:{name}:{RESULTS[name]} "


def _matmul(given: GivenOptions, problem: str) -> GemmOperation:
    found = _MATMUL.fullmatch(problem)
    shapes = [_shape(each) for each in found.groups() if each] if found else []
    if not found or any(len(each) < 2 or min(each) < 1 for each in shapes):
        fact = f"{printable(problem)} is no product"
        raise UsageError(f"{given.place}: {fact}; write it as 10x30:30x20")
    (*batch, m, k), (*other, inner, n) = shapes[:2]
    if k != inner or batch != other or shapes[2:] not in ([], [[*batch, m, n]]):
        fact = f"the matrices of {printable(problem)} do not fit together"
        raise UsageError(f"{given.place}: {fact}; write MxK:KxN, with the same batch before both")
    beta = _sum(given)
    for name in ("--dir", "--mb", "--bia-dt"):
        given.only(name, ("undef",), "a product has none; leave it out")
    ta, tb, turned = (_transposed(given, name) for name in ("--stag", "--wtag", "--dtag"))
    made = (m, n, k, not ta, not tb) if turned else (n, m, k, tb, ta)
    return GemmOperation(*made, prod(batch), 1.0, beta, _type(given))


def _shape(text: str) -> list[int]:
    words = text.split("x")
    return [int(word) if 0 < len(word) <= MOST_DIGITS else 0 for word in words]


def _sum(given: GivenOptions) -> float:
    """beta: the factor of the post-operation sum, 0 where there is none."""
    text = given.text("--attr-post-ops", "")
    name, _, factor = text.partition(":")
    if text and name != "sum":
        raise given.refuse("--attr-post-ops", "only sum is read")
    if not factor:
        return float(bool(text))
    given.found["--attr-post-ops"] = factor
    return given.number("--attr-post-ops", 0.0)


def _transposed(given: GivenOptions, name: str) -> bool:
    """Whether a matrix lies by columns."""
    tags = {"any": False, "ab": False, "abc": False, "ba": True, "acb": True}
    return given.one_of(name, tags, "ab")


def _matmul_text(gemm: GemmOperation) -> str:
    m, n, k, ta, tb = gemm.n, gemm.m, gemm.k, gemm.tb, gemm.ta  # by rows
    tags = ("abc", "acb") if gemm.batch > 1 else ("ab", "ba")
    lead = f"{gemm.batch}x" if gemm.batch > 1 else ""
    added = f"--attr-post-ops=sum:{gemm.beta!r} " if gemm.beta else ""
    layouts = f"--stag={tags[ta]} --wtag={tags[tb]} --dtag={tags[0]}"
    return f"{_types_text(gemm.type)}{layouts} {added}{lead}{m}x{k}:{lead}{k}x{n}"
