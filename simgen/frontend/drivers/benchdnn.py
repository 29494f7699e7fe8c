"""benchdnn of oneDNN: `benchdnn --conv --dir=FWD_D mb8ic64ih56oc64kh3ph1`, and --matmul.

    conv    [gX][mbX]icXihXiwXocX[ohXowX]khXkwX[shXswX][phXpwX][dhXdwX][nNAME], _ anywhere
    matmul  [Bx...]MxK:[Bx...]KxN[:...][nNAME]

What has no width has the height's, what has no height is a row of pixels; a dilation of 0 is 1
elsewhere; a pad that is not given follows from the extents of the result, or is 0. --dir=FWD_B, the
default of --conv, adds a bias of f32. Where a layout is `any`, which the library chooses, it is
that of simgen. Matrices are by rows unless --stag, --wtag or --dtag say `ba`; the post-operation
`sum` is beta. Options behind a problem are for the next one, and refused.

Source: doc/driver_conv.md, doc/driver_matmul.md, doc/knobs_desc.md, conv/conv_aux.cpp and
common.cpp (sanitize_desc) of oneDNN's tests/benchdnn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import TypeVar

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.drivers.base import (
    MEASURING,
    MOST_DIGITS,
    Driver,
    GivenOptions,
    read_options,
    value_in,
)
from simgen.frontend.operation import ConvOperation, FilterMode, GemmOperation, LibraryOperation
from simgen.ground.ir import Pass
from simgen.layers.layout import FilterLayout, Layout

T = TypeVar("T")
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
# type of simgen -> type of the bias
BIASES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "i8": "s32"}
# Tags of images and of filters, without groups and with them -> layout; "any" is left out.
IMAGES = {
    **dict.fromkeys(("abx", "abc", "abcd", "ncw", "nchw"), Layout.NCHW),
    **dict.fromkeys(("axb", "acb", "acdb", "nwc", "nhwc"), Layout.NHWC),
}
FILTERS = {
    **dict.fromkeys(("abx", "abc", "abcd", "oiw", "oihw"), FilterLayout.KCRS),
    **dict.fromkeys(("axb", "acb", "acdb", "owi", "ohwi"), FilterLayout.KRSC),
}
GROUPED = {
    **dict.fromkeys(("abx", "abcd", "abcde", "goiw", "goihw"), FilterLayout.KCRS),
    **dict.fromkeys(("abxc", "abdc", "abdec", "gowi", "gohwi"), FilterLayout.KRSC),
}
# What else is timed -> the section that has it.
OTHERS = {
    "--pool": "Pooling", "--lrn": "LRN", "--eltwise": "Activation", "--softmax": "Softmax",
    "--bnorm": "BatchNorm", "--lnorm": "LayerNorm", "--rnn": "Recurrent", "--concat": "Concat",
    "--ip": "FullyConnected", "--deconv": "Convolution", "--reduction": "", "--binary": "",
    "--sum": "", "--reorder": "", "--shuffle": "", "--prelu": "", "--gnorm": "", "--resampling": "",
    "--zeropad": "", "--brgemm": "", "--graph": "", "--self": "",
}  # fmt: skip
MEASURED = (
    *("mode", "mode-modifier", "engine", "alg", "perf-template", "fix-times-per-prb"),
    *("max-ms-per-prb", "repeats-per-prb", "cold-cache", "skip-impl", "impl", "canonical"),
    *("mem-check", "allow-enum-tags-only", "attr-scratchpad", "attr-fpmath", "verbose"),
    *("global-impl", "global-skip-impl", "cpu-isa-hints", "fast-ref", "num-streams", "start"),
    *("memory-kind", "stream-kind", "summary", "execution-mode", "check-ref-impl", "inplace"),
    *("attr-same-pd-check", "attr-acc-mode", "attr-deterministic", "ctx-init", "ctx-exe"),
    *("runtime_dims_masks", "fast-ref-gpu"),
)
# Options of a result that no layer has, or of several problems -> what to do.
CHANGES = {
    **{f"attr-{name}": "leave it out" for name in ("scales", "zero-points", "dropout")},
    "attr-rounding-mode": "leave it out",
    "strides": "tensors have no gaps in simgen; leave it out",
    "encoding": "write a config with [SparseGemm]",
    "bia_mask": "a product has no bias; leave it out",
    "batch": "give one problem of that file",
    "match": "give one problem",
    "reset": "leave it out",
}
OPTIONS = ("dt", "cfg", "stag", "wtag", "dtag", "bia-dt", "attr-post-ops")
_ITEM = re.compile(rf"(mb|g|[io]c|[iokspd][dhw])(\d{{1,{MOST_DIGITS}}})")
_MATMUL = re.compile(r"(\d[\dx]*):(\d[\dx]*)(?::(\d[\dx]*))?_?(?:n.*)?")


class Benchdnn(Driver):
    name = "benchdnn"
    program = "benchdnn"

    def read(self, words: list[str], program: str) -> LibraryOperation:
        readers = {"--conv": _conv, "--matmul": _matmul}
        drivers = [word for word in words if word in readers or word in OTHERS]
        if len(drivers) != 1:
            cure = did_you_mean(words[0] if words else "", readers)
            raise UsageError(f"{self.program}: one of --conv and --matmul is needed; {cure}")
        place = f"{self.program} {drivers[0]}"
        if drivers[0] in OTHERS:
            section = OTHERS[drivers[0]]
            cure = f"write a config with [{section}]" if section else "choose one of these"
            raise UsageError(f"{place}: simgen reads --conv and --matmul; {cure}")
        names = (*OPTIONS, *(("dir", "mb") if drivers[0] == "--conv" else ("bia_dt",)))
        spelled = {f"--{name}": f"--{name.replace('_', '-')}" for name in (*names, *CHANGES)}
        spelled |= {f"--{name}": MEASURING for name in MEASURED}
        rest = [word for word in words if word not in readers and word[:2] != "-v"]
        problems = [word for word in rest if not word.startswith("-")]
        options = [word for word in rest if word.startswith("-")]
        given = read_options(options, spelled, place, joined=True)
        for name, cure in CHANGES.items():
            given.only(f"--{name.replace('_', '-')}", (), cure)
        for name, value in given.found.items():
            if "," in value:
                raise given.refuse(name, "several values are several problems; give one")
        if len(problems) != 1:
            raise UsageError(f"{place}: {len(problems)} problems are given; give one")
        at = rest.index(problems[0])
        for word in rest[at + 1 :]:
            if spelled.get(word.partition("=")[0]):
                fact = f"{printable(word)} stands behind the problem, and is for the next one"
                raise UsageError(f"{place}: {fact}; write it before")
        return readers[drivers[0]](given, problems[0])

    def notes(self, words: list[str]) -> tuple[str, ...]:
        tagged = any(word.startswith(("--stag=", "--dtag=")) for word in words)
        if "--conv" not in words or tagged:
            return ()
        return ("benchdnn lets the library choose how images lie; here they are NCHW",)

    def by_rows(self, words: list[str]) -> bool:
        return "--matmul" in words and not value_in(words, "--dtag").endswith("ba")

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
    text = given.text(option)
    for name, each in TYPES.items():
        three = (name, name, RESULTS[name])
        same = [name] if name == RESULTS[name] else []
        if text in (*same, ":".join(three), "".join(three)):
            return each
    known = ", ".join(f"{name}:{name}:{RESULTS[name]}" for name in TYPES)
    raise given.refuse(option, f"simgen has {known}")


def _conv(given: GivenOptions, problem: str) -> ConvOperation:
    if "--dir" in given.found:
        given.found["--dir"] = given.found["--dir"].upper()
    direction, bias = given.one_of("--dir", DIRECTIONS)
    given.only("--attr-post-ops", (), "convolutions have none here; leave it out")
    found = _items(given, problem)
    tags = [_layout(given, name, IMAGES) for name in ("--stag", "--dtag")]
    if None not in tags and tags[0] != tags[1]:
        raise given.refuse("--dtag", "images and results have one layout here; give that of --stag")
    filters = _layout(given, "--wtag", GROUPED if "g" in found else FILTERS)
    h, w = _axes(given, problem, found)
    counts = {name: found.get(name, int(given.usual.get(name, 0))) for name in ("g", "ic", "oc")}
    counts["mb"] = given.whole("--mb", 0) or found.get("mb", int(given.usual["mb"]))
    for name, count in counts.items():
        if not count:
            fact = f"{printable(problem)} has no {name} above 0"
            raise UsageError(f"{given.place}: {fact}; give it")
    dtype = _type(given)
    return ConvOperation(
        n=counts["mb"],
        c=counts["ic"],
        h=h["i"],
        w=w["i"],
        k=counts["oc"],
        r=h["k"],
        s=w["k"],
        pad_h=h["p"],
        pad_w=w["p"],
        stride_h=h["s"],
        stride_w=w["s"],
        dilation_h=h["d"] + 1,
        dilation_w=w["d"] + 1,
        group=counts["g"],
        bias=_bias(given, dtype, bias) and direction is not Pass.BACKWARD_DATA,
        layout=next((tag for tag in tags if tag), Layout.NCHW),
        filter_layout=filters or FilterLayout.KCRS,
        passes=(direction,),
        type=dtype,
    )


def _layout(given: GivenOptions, name: str, tags: Mapping[str, T]) -> T | None:
    """The layout of a tag; None: the library chooses."""
    return _tagged(given, name, {"any": None, **tags})


def _tagged(given: GivenOptions, name: str, tags: Mapping[str, T]) -> T:
    """What a tag stands for."""
    given.only(name, tags, f"simgen has {', '.join(tags)}")
    return tags[given.text(name)]


def _bias(given: GivenOptions, dtype: str, added: bool) -> bool:
    """Whether a bias is added: by the direction, which makes it f32, or in a type of its own.

    Raises:
        UsageError: its type is not the one that simgen gives it.
    """
    found, wanted = "f32" if added else given.text("--bia-dt"), BIASES[dtype]
    if found not in ("undef", wanted):
        fact = f"its bias is {printable(found)}, where simgen's is {wanted}"
        cure = f"write --dir=FWD_D or BWD_W, and --bia-dt={wanted} for a bias"
        raise UsageError(f"{given.place}: {fact}; {cure}")
    return found != "undef"


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


def _axes(
    given: GivenOptions, problem: str, found: dict[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Height and width: what is not there at all is 1 high, and as wide as high.

    Raises:
        UsageError: there is a depth, or no extent at all.
    """
    there = {
        axis: any(found.get(f"{name}{axis}") for name in "ikodp") or found.get(f"s{axis}", 1) != 1
        for axis in "dhw"
    }
    if there["d"]:
        raise UsageError(f"{given.place}: {printable(problem)} has a depth; only images are read")
    if not there["h"] and not there["w"]:
        fact = f"{printable(problem)} has neither height nor width"
        raise UsageError(f"{given.place}: {fact}; give ih and kh")
    row = {"i": 1, "k": 1, "s": 1, "d": 0, "p": 0}
    h = _axis(given, problem, found, "h") if there["h"] else row
    return h, _axis(given, problem, found, "w") if there["w"] else h


def _axis(given: GivenOptions, problem: str, found: dict[str, int], axis: str) -> dict[str, int]:
    """Extent of the image and of a filter, pad, stride and dilation along h or w.

    Raises:
        UsageError: they are not there, or do not give the extent of the result.
    """
    own = {name: found[f"{name}{axis}"] for name in "iokspd" if f"{name}{axis}" in found}
    made = {name: int(given.usual[name]) for name in "sd"} | own
    if not made.get("i") or not made.get("k") or not made["s"]:
        fact = f"{printable(problem)} has no i{axis}, k{axis} or s{axis} above 0"
        raise UsageError(f"{given.place}: {fact}; give them")
    reach = (made["k"] - 1) * (made["d"] + 1) + 1
    if "p" not in made:  # both sides together, halved towards 0, as C does
        both = (made["o"] - 1) * made["s"] + reach - made["i"] if made.get("o") else 0
        made["p"] = int(both / 2)
    if made["p"] < 0:
        fact = f"o{axis} of {printable(problem)} leaves {-made['p']} of the image out on each side"
        raise UsageError(f"{given.place}: {fact}; simgen has no pads below 0")
    extent = (made["i"] - reach + 2 * made["p"]) // made["s"] + 1
    if (made.get("o") or extent) != extent:
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
        own = BIASES[conv.type] != "f32"  # then it is not the bias that the direction adds
        name = next(k for k, value in DIRECTIONS.items() if value == (each, bias and not own))
        options = f"--dir={name} {_types_text(conv.type)}"
        options += f"--bia-dt={BIASES[conv.type]} " if bias and own else ""
        options += "--stag=axb --dtag=axb " if conv.layout is Layout.NHWC else ""
        options += "--wtag=abxc " if conv.filter_layout is FilterLayout.KRSC else ""
        texts.append(f"{options}{image}{filters}{dilation}")
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
    if k != inner or len(batch) != len(other) or shapes[2:] not in ([], [[*batch, m, n]]):
        fact = f"the matrices of {printable(problem)} do not fit together"
        raise UsageError(f"{given.place}: {fact}; write MxK:KxN, with the same batch before both")
    if batch != other:
        fact = f"{printable(problem)} has batches that are broadcast"
        raise UsageError(f"{given.place}: {fact}; simgen has the same batch before both")
    beta = _sum(given)
    given.only("--bia-dt", ("undef",), "a product has no bias; leave it out")
    tags = ("--stag", "--wtag", "--dtag")
    ta, tb, turned = (_transposed(given, name, len(batch) + 2) for name in tags)
    made = (m, n, k, not ta, not tb) if turned else (n, m, k, tb, ta)
    return GemmOperation(*made, prod(batch), 1.0, beta, _type(given))


def _shape(text: str) -> list[int]:
    words = text.split("x")
    return [int(word) if 0 < len(word) <= MOST_DIGITS else 0 for word in words]


def _sum(given: GivenOptions) -> float:
    """beta: the factor of the post-operation sum, 0 where there is none."""
    text = given.text("--attr-post-ops")
    name, _, factor = text.partition(":")
    if text and name.lower() != "sum":
        raise given.refuse("--attr-post-ops", "only sum is read")
    if not factor:
        return float(bool(text))
    given.found["--attr-post-ops"] = factor
    return given.number("--attr-post-ops")


def _transposed(given: GivenOptions, name: str, rank: int) -> bool:
    """Whether a matrix lies by columns. A batch comes first in memory."""
    letters = "abcdefghijkl"[:rank]
    turned = f"{letters[:-2]}{letters[-1]}{letters[-2]}"
    meta = {"axb": False, "xba": True} if rank == 2 else {"axb": True} if rank == 3 else {}
    return _tagged(given, name, {"any": False, "abx": False, letters: False, turned: True, **meta})


def _matmul_text(gemm: GemmOperation) -> str:
    m, n, k, ta, tb = gemm.n, gemm.m, gemm.k, gemm.tb, gemm.ta  # by rows
    tags = ("abc", "acb") if gemm.batch > 1 else ("ab", "ba")
    lead = f"{gemm.batch}x" if gemm.batch > 1 else ""
    added = f"--attr-post-ops=sum:{gemm.beta!r} " if gemm.beta else ""
    layouts = f"--stag={tags[ta]} --wtag={tags[tb]} --dtag={tags[0]}"
    return f"{_types_text(gemm.type)}{layouts} {added}{lead}{m}x{k}:{lead}{k}x{n}"
