"""DNNMark's own names: its programs, their command lines, and the sizes of its paper.

    dnnmark/conv                            a primitive at the size of Table 3 (GPGPU-10, 2017)
    dnnmark/1                               the same by number
    dnnmark_test_fwd_conv -config FILE ..   a program with its flags

The sizes are those of DNNMark's configs of November 2016 (commit 4bb6aa5), which the paper used.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from simgen.ask.build import BuildChoices
from simgen.ask.run import RunChoices
from simgen.errors import UsageError, did_you_mean, printable
from simgen.ground.ir import Pass
from simgen.layers import LAYERS

ROOT = "dnnmark"
IMAGE = (("n", "100"), ("h", "256"), ("w", "256"))
# Kind of each primitive -> its size, in the order of Table 3.
SIZES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "conv": (*IMAGE, ("c", "3"), ("conv_mode", "cross_correlation"), ("num_output", "32"),
             ("kernel_size", "5"), ("pad", "2"), ("stride", "1")),
    "pool": (*IMAGE, ("c", "3"), ("pool_mode", "max"), ("kernel_size", "3"), ("pad", "0"),
             ("stride", "2")),
    "lrn": (*IMAGE, ("c", "32"), ("lrn_mode", "cross_channel_dim1"), ("local_size", "5"),
            ("alpha", "0.001"), ("beta", "0.75"), ("k", "1")),
    "activation": (*IMAGE, ("c", "32"), ("activation_mode", "relu")),
    "fc": (("n", "100"), ("c", "9162"), ("num_output", "4096")),
    "softmax": (("n", "100"), ("c", "1000"), ("softmax_algo", "accurate"),
                ("softmax_mode", "channel")),
}  # fmt: skip
# Programs of DNNMark: dnnmark_test_fwd_softmax is softmax_fwd.
PROGRAM = re.compile(r"\A(?:dnnmark_)?test_(fwd|bwd)_(\w+)\Z")
WHOLE = re.compile(r"\A(?:dnnmark_)?test_(?:alexnet|VGG|composed_model)\Z")
CONFIG = re.compile(r"\A-config(=|\Z)")
NAMED = re.compile(r"\A(?:dnnmark_test|test_fwd|test_bwd|test_alexnet|test_VGG|test_comp)\w*\Z")
# What simgen does for a flag.
FLAGS = {
    "debuginfo": "simgen status and simgen report print times of layers",
    "warmup": f"simgen run {RunChoices.target} cuda has such rounds, and {RunChoices.warm} on "
    "simulators",
    "iterations": f"simgen run {RunChoices.target} cuda times several rounds",
    "mmap": f"inputs are in data.h5; {BuildChoices.values} gives yours",
}


@dataclass(frozen=True)
class Line:
    """A command line of one of its programs."""

    config: str  # a path
    passes: tuple[Pass, ...]
    notes: tuple[str, ...]


def size(word: str) -> str | None:
    """The kind of the primitive that a name of Table 3 has; None where it is no name of this form.

    Raises:
        UsageError: there is no such primitive.
    """
    root, slash, which = word.partition("/")
    if root != ROOT or not slash:
        return None
    kinds = list(SIZES)
    if re.fullmatch(r"[1-9]", which) and int(which) <= len(kinds):
        return kinds[int(which) - 1]
    if which in SIZES:
        return which
    cure = did_you_mean(which, kinds)
    raise UsageError(
        f"workload {printable(word)}: the primitives are {ROOT}/1 to {ROOT}/{len(kinds)}; {cure}"
    )


def programs() -> list[str]:
    """The names of DNNMark's programs, in its own spelling and in short."""
    kinds = [*LAYERS, "composed_model"]
    names = [f"test_{direction}_{kind}" for kind in kinds for direction in ("fwd", "bwd")]
    names += ["test_alexnet", "test_VGG", "test_composed_model"]
    return [*(f"dnnmark_{name}" for name in names), *names]


def line(word: str) -> Line | None:
    """What a command line of a program asks for; None where it is none.

    Raises:
        UsageError: it has a flag that the program does not, or no config; there is no such program.
    """
    try:
        program, *words = shlex.split(word)
    except ValueError:
        return None
    name = PurePath(program).name
    one, whole = PROGRAM.match(name), WHOLE.match(name)
    if not words or not (NAMED.match(name) or any(CONFIG.match(each) for each in words)):
        return None
    if name not in (known := programs()):
        cure = did_you_mean(name, known, "simgen list")
        raise UsageError(f"{printable(name)}: no such program of DNNMark; {cure}")
    given: dict[str, str] = {}
    left = iter(words)
    for each in left:
        flag, equals, value = each.lstrip("-").partition("=")
        if not each.startswith("-") or flag not in ("config", *FLAGS):
            cure = f"its flags are -config, {', '.join(f'-{name}' for name in FLAGS)}"
            raise UsageError(f"{name} {printable(each)}: no such flag; {cure}")
        given[flag] = value if equals else next(left, "")
    if not given.get("config"):
        raise UsageError(f"{name}: no -config; give the config's file")
    notes = [f"-{flag} {value}: {FLAGS[flag]}" for flag, value in given.items() if flag in FLAGS]
    passes = (Pass.FORWARD, Pass.BACKWARD) if whole or not one else (Pass(one[1]),)
    return Line(given["config"], passes, tuple(notes))
