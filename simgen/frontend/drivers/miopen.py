"""MIOpenDriver: `MIOpenDriver conv -n 100 -c 3 -H 32 -W 32 -k 32 -y 3 -x 3 -F 1`.

What MIOpen logs with MIOPEN_ENABLE_LOGGING_CMD=1 are such lines. Images and results have one
layout. Without -F, convolutions and recurrent layers run forward and both ways backward. A batch
for each time step is cut to -k steps; the last one stands for steps that have none.

    MIOpenDriver rnn -n 16 -W 512 -H 512 -k 25 -m lstm -p 0 -b 1 -F 1

is one recurrent layer in one direction; with -p 1, the input goes into the gates without weights.

Source: AddCmdLineArgs of driver/conv_driver.hpp, driver/gemm_driver.hpp and driver/rnn_driver.hpp,
README.md there.
"""

from __future__ import annotations

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.drivers.base import MEASURING, Driver, GivenOptions, read_options, value_in
from simgen.frontend.operation import (
    Cell,
    ConvOperation,
    FilterMode,
    GemmOperation,
    LibraryOperation,
    RnnOperation,
)
from simgen.ground.ir import Pass
from simgen.layers.layout import FilterLayout, Layout
from simgen.layers.recurrent.recurrent import InputMode

TYPES = {"f32": "", "f16": "fp16", "bf16": "bfp16", "i8": "int8"}  # ends of the first word
KINDS = {"conv": tuple(TYPES), "gemm": ("f32", "f16"), "rnn": ("f32", "f16")}
# What else the program times -> the section that has it.
OTHERS = {
    "pool": "Pooling", "lrn": "LRN", "activ": "Activation", "softmax": "Softmax",
    "bnorm": "BatchNorm", "dropout": "Dropout", "rnn_seq": "Recurrent", "layernorm": "LayerNorm",
    "t5layernorm": "RMSNorm", "cat": "Concat", "adam": "Adam", "tensorop": "", "reduce": "",
    "ctc": "", "sum": "", "groupnorm": "", "addlayernorm": "", "ampadam": "", "adamw": "",
    "ampadamw": "", "transformersadamw": "", "transformersampadamw": "", "reduceextreme": "",
    "reducecalculation": "", "getitem": "", "rope": "", "prelu": "", "kthvalue": "", "glu": "",
    "softmarginloss": "", "multimarginloss": "", "CBAInfer": "",
}  # fmt: skip
ENDS = (*TYPES.values(), "fp64", "fp8", "bfp8", "fp16fp32", "bfp16fp32")
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
    "in_cast_type": "U",
    "out_cast_type": "T",
    "wei_cast_type": "R",
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
    "gpualloc": "G",
    # what only three dimensions have, or transposed filters
    "in_d": "!",
    "fil_d": "@",
    "conv_stride_d": "#",
    "pad_d": "$",
    "dilation_d": "^",
    "trans_output_pad_d": "%",
    "trans_output_pad_h": "Y",
    "trans_output_pad_w": "X",
}
RNN_MEASURING = {
    **USUAL_MEASURING,
    "verification_cache": "C",
    "dump_output": "o",
    "in_data": "d",
    "weights": "e",
    "rnnalgo": "a",
    "use_padding": "q",
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
        known = {f"{kind}{TYPES[t]}": (kind, t) for kind, types in KINDS.items() for t in types}
        first = words[0] if words else ""
        if first not in known:
            raise self._unknown(first, list(known))
        kind, dtype = known[first]
        says, measuring, reader = {
            "conv": (CONV, CONV_MEASURING, _conv),
            "gemm": (GEMM, {**USUAL_MEASURING, "forw": "F"}, _gemm),
            "rnn": (RNN, RNN_MEASURING, _rnn),
        }[kind]
        place, row = f"{self.program} {first}", f"{self.program} {kind}"
        return reader(read_options(words[1:], _spellings(says, measuring), place, row), dtype)

    def by_rows(self, words: list[str]) -> bool:
        return words[0].startswith("gemm") and value_in(words, "-C", "--isColMajor") != "1"

    def _unknown(self, word: str, known: list[str]) -> UsageError:
        """The error of a first word that is not read."""
        others = {f"{name}{end}": section for name, section in OTHERS.items() for end in ENDS}
        if word not in others:
            cure = did_you_mean(word, known)
            return UsageError(f"{self.program}: unknown operation {printable(word)}; {cure}")
        cure = f"write a config with [{others[word]}]" if others[word] else "choose one of these"
        return UsageError(f"{self.program} {word}: simgen reads {', '.join(KINDS)}; {cure}")

    def lines(self, operation: LibraryOperation) -> list[str]:
        end = TYPES[operation.type]
        if operation.type not in KINDS.get(operation.family, TYPES):
            raise self.cannot(f"{operation.family} of type {operation.type}")
        if isinstance(operation, GemmOperation):
            return [f"{self.program} gemm{end} {_gemm_text(operation)}"]
        if isinstance(operation, RnnOperation):
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
    m, n, k = (given.whole(name) for name in ("-m", "-n", "-k"))
    ta, tb = given.flag("-u"), given.flag("-v")
    if not given.flag("-C"):  # by rows: the transposed problem by columns
        m, n, ta, tb = n, m, tb, ta
    alpha, beta = given.number("-A"), given.number("-B")
    return GemmOperation(m, n, k, ta, tb, given.whole("-b"), alpha, beta, dtype)


def _gemm_text(gemm: GemmOperation) -> str:
    transposed = f"-u {int(gemm.ta)} -v {int(gemm.tb)}"
    scales = f"-A {gemm.alpha!r} -B {gemm.beta!r} -b {gemm.batch}"
    return f"-m {gemm.m} -n {gemm.n} -k {gemm.k} {transposed} {scales} -C 1"


def _passes(given: GivenOptions) -> tuple[Pass, ...]:
    bits = given.whole("-F", 0)
    if bits > FORWARD + DATA + WEIGHT:
        raise given.refuse("-F", "add up 1 for forward, 2 for backward data, 4 for weights")
    return tuple(each for bit, each in PASSES.items() if not bits or bits & bit)


def _rnn(given: GivenOptions, dtype: str) -> RnnOperation:
    for name, cure in (("-l", "layer"), ("-r", "direction")):
        usual = "1" if name == "-l" else "0"
        given.only(name, (usual,), f"one {cure} is read; write a config with a [Recurrent] of each")
    given.only("-U", ("0",), "there is no dropout within a layer; leave it out")
    steps = given.whole("-k")
    samples = given.text("-n").replace(" ", ",").split(",")[:steps]
    if len(set(samples)) > 1:
        raise given.refuse("-n", "only as many samples at each step are read; write one number")
    given.found["-n"] = samples[0]
    hidden, features = given.whole("-H"), given.whole("-W")
    return RnnOperation(
        cell=given.one_of("-m", CELLS),
        hidden=hidden,
        batch=given.whole("-n"),
        steps=steps,
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
    for name in ("-U", "-T", "-R"):
        given.only(name, ("-1",), "tensors are not cast here; leave it out")
    for name in ("-I", "-O", "-f"):
        given.found[name] = given.text(name).upper()
        given.only(name, LAYOUTS, "only NCHW and NHWC are read")
    images, filters = given.found["-I"], given.found["-f"]
    given.only("-O", (images,), f"only that of the images is read; write -O {images}")
    return ConvOperation(
        n=given.whole("-n"),
        c=given.whole("-c"),
        h=given.whole("-H"),
        w=given.whole("-W"),
        k=given.whole("-k"),
        r=given.whole("-y"),
        s=given.whole("-x"),
        pad_h=given.whole("-p", 0),
        pad_w=given.whole("-q", 0),
        stride_h=given.whole("-u"),
        stride_w=given.whole("-v"),
        dilation_h=given.whole("-l"),
        dilation_w=given.whole("-j"),
        group=max(1, given.whole("-g", 0)),  # as MIOpenDriver takes it
        bias=given.flag("-b"),
        layout=Layout(images.lower()),
        filter_layout=FILTERS[filters],
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
