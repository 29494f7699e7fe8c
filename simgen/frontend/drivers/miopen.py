"""MIOpenDriver: `MIOpenDriver conv -n 100 -c 3 -H 32 -W 32 -k 32 -y 3 -x 3 -F 1`.

What MIOpen logs with MIOPEN_ENABLE_LOGGING_CMD=1 are such lines. Images and results have one
layout. Without -F, convolutions and recurrent layers run forward and both ways backward.

    MIOpenDriver rnn -n 16 -W 512 -H 512 -k 25 -m lstm -p 0 -b 1 -F 1

is one recurrent layer in one direction; with -p 1, the input goes into the gates without weights.

Source: AddCmdLineArgs of driver/conv_driver.hpp, driver/gemm_driver.hpp and driver/rnn_driver.hpp,
README.md there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.drivers.base import MEASURING, Driver, GivenOptions, read_options
from simgen.frontend.operation import (
    Cell,
    ConvOperation,
    FilterMode,
    GemmOperation,
    RnnOperation,
)
from simgen.ir import Pass
from simgen.layers.layout import FilterLayout, Layout
from simgen.layers.recurrent.recurrent import InputMode

if TYPE_CHECKING:
    from simgen.frontend.operation import LibraryOperation

KINDS = ("conv", "gemm", "rnn")
TYPES = {"f32": "", "f16": "fp16", "bf16": "bfp16", "i8": "int8"}  # ends of the first word
FORWARD, DATA, WEIGHT = 1, 2, 4  # bits of -F
PASSES = {FORWARD: Pass.FORWARD, DATA: Pass.BACKWARD_DATA, WEIGHT: Pass.BACKWARD_WEIGHT}
# Long name -> short one. Lines that MIOpen logs have the short ones.
CONV = {
    "batchsize": "n",
    "in_channels": "c",
    "in_h": "H",
    "in_w": "W",
    "out_channels": "k",
    "fil_h": "y",
    "fil_w": "x",
    "pad_h": "p",
    "pad_w": "q",
    "conv_stride_h": "u",
    "conv_stride_w": "v",
    "dilation_h": "l",
    "dilation_w": "j",
    "group_count": "g",
    "forw": "F",
    "bias": "b",
    "mode": "m",
    "pad_mode": "z",
    "spatial_dim": "_",
    "tensor_vect": "Z",
    "vector_length": "L",
    "in_layout": "I",
    "out_layout": "O",
    "fil_layout": "f",
}
GEMM = {
    "a_h": "m",
    "b_w": "n",
    "a_w": "k",
    "transA": "u",
    "transB": "v",
    "alpha": "A",
    "beta": "B",
    "batch_count": "b",
    "isColMajor": "C",
}
RNN = {
    "batchsize": "n",
    "in_h": "W",
    "hid_h": "H",
    "num_layer": "l",
    "seq_len": "k",
    "bidirection": "r",
    "bias": "b",
    "mode": "m",
    "inputmode": "p",
    "forw": "F",
    "use_dropout": "U",
}
CELLS = {"relu": Cell.VANILLA, "tanh": Cell.TANH, "lstm": Cell.LSTM, "gru": Cell.GRU}
RNN_TYPES = ("f32", "f16")
LAYOUTS = ("NCHW", "NHWC")
FILTERS = dict(zip(LAYOUTS, FilterLayout, strict=True))
USUAL_MEASURING = {"iter": "i", "verify": "V", "time": "t", "wall": "w"}
CONV_MEASURING = {
    **USUAL_MEASURING,
    "verification_cache": "C",
    "search": "s",
    "printconv": "P",
    "dump_output": "o",
    "in_data": "d",
    "weights": "e",
    "in_bias": "a",
    "dout_data": "D",
    "solution": "S",
    "pad_val": "r",
}

RNN_MEASURING = {
    **USUAL_MEASURING,
    "verification_cache": "C",
    "dump_output": "o",
    "in_data": "d",
    "weights": "e",
    "rnnalgo": "a",
    "fwdtype": "c",
    "datatype": "f",
    "dropout": "P",
    "seed_low": "L",
    "seed_high": "M",
}


class MIOpenDriver(Driver):
    name = "miopen"
    program = "MIOpenDriver"

    def read(self, words: list[str], program: str) -> LibraryOperation:
        known = {f"{kind}{end}": (kind, name) for kind in KINDS for name, end in TYPES.items()
                 if kind != "rnn" or name in RNN_TYPES}  # fmt: skip
        first = words[0] if words else ""
        if first not in known:
            cure = did_you_mean(first, list(known))
            raise UsageError(f"{self.program}: unknown operation {printable(first)}; {cure}")
        kind, dtype = known[first]
        place = f"{self.program} {first}"
        if kind == "rnn":
            return _rnn(read_options(words[1:], _spellings(RNN, RNN_MEASURING), place), dtype)
        if kind == "gemm":
            spelled = _spellings(GEMM, {**USUAL_MEASURING, "forw": "F"})
            return _gemm(read_options(words[1:], spelled, place), dtype)
        return _conv(read_options(words[1:], _spellings(CONV, CONV_MEASURING), place), dtype)

    def lines(self, operation: LibraryOperation) -> list[str]:
        end = TYPES[operation.type]
        if isinstance(operation, GemmOperation):
            return [f"{self.program} gemm{end} {_gemm_text(operation)}"]
        if isinstance(operation, RnnOperation):
            if operation.type not in RNN_TYPES:
                raise self.cannot(f"recurrent layer of type {operation.type}")
            return [f"{self.program} rnn{end} {_rnn_text(operation)}"]
        if not isinstance(operation, ConvOperation):
            raise self.cannot(f"line for {operation.title}")
        if operation.mode is not FilterMode.CROSS:
            raise self.cannot("convolution with turned filters")
        return [f"{self.program} conv{end} {_conv_text(operation)}"]


def _spellings(says: dict[str, str], measuring: dict[str, str]) -> dict[str, str]:
    """How options are written -> "-" and the short name, which is the one of messages."""
    found: dict[str, str] = {}
    for table in (says, measuring):
        for long, short in table.items():
            name = f"-{short}" if table is says else MEASURING
            found |= {f"-{short}": name, f"--{long}": name}
    return found


def _gemm(given: GivenOptions, dtype: str) -> GemmOperation:
    m, n, k = given.whole("-m", 256), given.whole("-n", 256), given.whole("-k", 256)
    ta, tb = given.flag("-u"), given.flag("-v")
    if not given.flag("-C"):  # by rows: the transposed problem by columns
        m, n, ta, tb = n, m, tb, ta
    alpha, beta = given.number("-A", 1.0), given.number("-B", 0.0)
    return GemmOperation(m, n, k, ta, tb, given.whole("-b", 1), alpha, beta, dtype)


def _gemm_text(gemm: GemmOperation) -> str:
    transposed = f"-u {int(gemm.ta)} -v {int(gemm.tb)}"
    scales = f"-A {gemm.alpha!r} -B {gemm.beta!r} -b {gemm.batch}"
    return f"-m {gemm.m} -n {gemm.n} -k {gemm.k} {transposed} {scales} -C 1"


def _passes(given: GivenOptions) -> tuple[Pass, ...]:
    bits = given.whole("-F", 0, 0)
    if bits > FORWARD + DATA + WEIGHT:
        raise given.refuse("-F", "add up 1 for forward, 2 for backward data, 4 for weights")
    return tuple(each for bit, each in PASSES.items() if not bits or bits & bit)


def _rnn(given: GivenOptions, dtype: str) -> RnnOperation:
    for name, cure in (("-l", "layer"), ("-r", "direction")):
        usual = "1" if name == "-l" else "0"
        given.only(name, (usual,), f"one {cure} is read; write a config with a [Recurrent] of each")
    given.only("-U", ("0",), "there is no dropout within a layer; leave it out")
    samples = given.text("-n", "4").split(",")
    if len(set(samples)) > 1:
        raise given.refuse("-n", "only as many samples at each step are read; write one number")
    given.found["-n"] = samples[0]
    hidden, features = given.whole("-H", 32), given.whole("-W", 32)
    return RnnOperation(
        cell=given.one_of("-m", CELLS, "tanh"),
        hidden=hidden,
        batch=given.whole("-n", 4),
        steps=given.whole("-k", 10),
        features=0 if features == hidden else features,
        input=InputMode.SKIP if given.flag("-p") else InputMode.LINEAR,
        bias=given.flag("-b"),
        passes=_passes(given),
        type=dtype,
    )


def _rnn_text(rnn: RnnOperation) -> str:
    sizes = f"-n {rnn.batch} -W {rnn.features or rnn.hidden} -H {rnn.hidden} -l 1 -k {rnn.steps}"
    mode = next(name for name, cell in CELLS.items() if cell is rnn.cell)
    skips = int(rnn.input is InputMode.SKIP)
    return f"{sizes} -m {mode} -p {skips} -r 0 -b {int(rnn.bias)} -F {_bits(rnn.passes)}"


def _bits(passes: tuple[Pass, ...]) -> int:
    return sum(bit for bit, each in PASSES.items() if each in passes)


def _conv(given: GivenOptions, dtype: str) -> ConvOperation:
    given.only("-m", ("conv",), "only conv is read; write a config with conv_mode=transpose")
    given.only("-z", ("default",), "write the pads with -p and -q")
    given.only("-_", ("2",), "only two dimensions are read")
    given.only("-Z", ("0",), "only tensors that are no vectors are read; leave it out")
    given.only("-L", ("1",), "only tensors that are no vectors are read; leave it out")
    for layout in ("-I", "-O", "-f"):
        given.only(layout, LAYOUTS, "only NCHW and NHWC are read")
    images = given.text("-I", "NCHW")
    given.only("-O", (images,), f"only that of the images is read; write {images}")
    return ConvOperation(
        n=given.whole("-n", 100),
        c=given.whole("-c", 3),
        h=given.whole("-H", 32),
        w=given.whole("-W", 32),
        k=given.whole("-k", 32),
        r=given.whole("-y", 3),
        s=given.whole("-x", 3),
        pad_h=given.whole("-p", 0, 0),
        pad_w=given.whole("-q", 0, 0),
        stride_h=given.whole("-u", 1),
        stride_w=given.whole("-v", 1),
        dilation_h=given.whole("-l", 1),
        dilation_w=given.whole("-j", 1),
        group=given.whole("-g", 1),
        bias=given.flag("-b"),
        layout=Layout(images.lower()),
        filter_layout=FILTERS[given.text("-f", "NCHW")],
        passes=_passes(given),
        type=dtype,
    )


def _conv_text(conv: ConvOperation) -> str:
    image = f"-n {conv.n} -c {conv.c} -H {conv.h} -W {conv.w}"
    filters = f"-k {conv.k} -y {conv.r} -x {conv.s} -p {conv.pad_h} -q {conv.pad_w}"
    steps = f"-u {conv.stride_h} -v {conv.stride_w} -l {conv.dilation_h} -j {conv.dilation_w}"
    if conv.layout is Layout.NHWC:
        steps += " -I NHWC -O NHWC"
    if conv.filter_layout is FilterLayout.KRSC:
        steps += " -f NHWC"
    rest = f"-g {conv.group} -b {int(conv.bias)} -F {_bits(conv.passes)}"
    return f"{image} {filters} {steps} -m conv {rest}"
