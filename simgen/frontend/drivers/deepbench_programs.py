"""DeepBench's own programs, as Accel-Sim's copy of them runs one problem.

    gemm_bench train|inference float|half|int8  M N K A_T B_T
    conv_bench train|inference float|half|int8  W H C N K FILTER_W FILTER_H PAD_W PAD_H STRIDE_W ..H
    rnn_bench  train|inference float|half|int8  HIDDEN BATCH STEPS vanilla|lstm|gru

In training, a convolution runs forward and both ways backward. Products have alpha = beta = 1.
For the libraries, the programs raise some extents and sum half in f16; notes say so.

Source: the *_bench.cu of DeepBench's code/nvidia; arguments of one problem: scripts that trace them
for Accel-Sim, as `conv_bench train half 7 7 832 16 128 5 5 2 2 1 1`.
"""

from __future__ import annotations

from typing import ClassVar

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.drivers.base import NARROW_SUMS, Driver
from simgen.frontend.drivers.defaults import DEFAULTS
from simgen.frontend.operation import (
    FAMILIES,
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

TRAIN, INFERENCE = "train", "inference"
TYPES = {"float": "f32", "half": "f16", "int8": "i8"}
NAMES = {each: name for name, each in TYPES.items()}
KEYS = {  # family -> names of its arguments in order
    "gemm": ("m", "n", "k", "ta", "tb"),
    "conv": ("w", "h", "c", "n", "k", "s", "r", "pad_w", "pad_h", "stride_w", "stride_h"),
    "rnn": ("hidden", "batch", "steps", "cell"),
}
# (family, mode or precision) -> extents that PAD_KERNELS raises to a multiple, by default
RAISED = {
    ("gemm", "int8"): (("m",), 4),
    ("conv", "int8"): (("c", "h", "w"), 4),
    ("conv", TRAIN): (("c",), 8),
}


class DeepBenchPrograms(Driver):
    name = "deepbench"
    program = "DeepBench's *_bench"
    programs: ClassVar[tuple[str, ...]] = tuple(f"{family}_bench" for family in KEYS)

    def read(self, words: list[str], program: str) -> LibraryOperation:
        family = program.partition("_")[0]
        keys = KEYS[family]
        if len(words) != 2 + len(keys):
            fact = f"{program}: {len(words)} arguments"
            raise UsageError(f"{fact}; give {TRAIN} half {' '.join(keys).upper()}, for example")
        mode, precision, *values = words
        for word, known in ((mode, (TRAIN, INFERENCE)), (precision, TYPES)):
            if word not in known:
                cure = did_you_mean(word, known)
                raise UsageError(f"{program}: unknown word {printable(word)}; {cure}")
        if (mode, precision) == (TRAIN, "int8"):
            raise UsageError(f"{program}: {precision} is of inference alone; write inference")
        given = {**dict(zip(keys, values, strict=True)), "type": TYPES[precision]}
        if family == "gemm":
            given |= DEFAULTS[program].values
        if family in ("conv", "rnn") and mode == TRAIN:
            given["passes"] = "+".join(ConvOperation.PASSES)
        return FAMILIES[family].read(given.items(), program)

    def notes(self, words: list[str]) -> tuple[str, ...]:
        mode, precision, *values = words
        family = next(name for name, keys in KEYS.items() if len(keys) == len(values))
        given = dict(zip(KEYS[family], values, strict=True))
        said = [NARROW_SUMS] if precision == "half" and family != "rnn" else []
        for word in (mode, precision):
            names, most = RAISED.get((family, word), ((), 1))
            to = [
                f"{n} to {-(-int(given[n]) // most) * most}" for n in names if int(given[n]) % most
            ]
            said += [f"the program raises {', '.join(to)}; simgen does not"] if to else []
        if (family, precision) == ("conv", "int8"):
            said.append("the program's images are NHWC and its results int8; here NCHW and int32")
        return tuple(said)

    def lines(self, operation: LibraryOperation) -> list[str]:
        if operation.family not in KEYS:
            raise self.cannot(f"line for {operation.title}")
        if operation.type not in NAMES:
            raise self.cannot(f"type {operation.type}")
        if isinstance(operation, GemmOperation):
            self._check_gemm(operation)
        if isinstance(operation, ConvOperation):
            self._check_conv(operation)
        if isinstance(operation, RnnOperation):
            self._check_rnn(operation)
        mode = INFERENCE if operation.direction == (Pass.FORWARD,) else TRAIN
        family = operation.family
        texts = [getattr(operation, key) for key in KEYS[family]]
        values = " ".join(str(int(v) if isinstance(v, bool) else v) for v in texts)
        return [f"{family}_bench {mode} {NAMES[operation.type]} {values}"]

    def _check_gemm(self, gemm: GemmOperation) -> None:
        if (gemm.alpha, gemm.beta, gemm.batch) != (1, 1, 1):
            raise self.cannot("product but those with alpha = beta = batch = 1")

    def _check_rnn(self, rnn: RnnOperation) -> None:
        if rnn.cell is Cell.TANH or not rnn.bias:
            raise self.cannot("cell tanh, and none without a bias")
        if rnn.input is not InputMode.SKIP or rnn.features:
            raise self.cannot("input that is multiplied by weights")
        if rnn.passes not in ((Pass.FORWARD,), ConvOperation.PASSES):
            raise self.cannot("passes but forward, or all three of training")

    def _check_conv(self, conv: ConvOperation) -> None:
        if (conv.dilation_h, conv.dilation_w, conv.group, conv.bias) != (1, 1, 1, False):
            raise self.cannot("convolution with dilation, groups or a bias")
        if conv.mode is not FilterMode.CROSS:
            raise self.cannot("convolution with turned filters")
        if (conv.layout, conv.filter_layout) != (Layout.NCHW, FilterLayout.KCRS):
            raise self.cannot("convolution of NHWC images or KRSC filters")
        if conv.passes not in ((Pass.FORWARD,), ConvOperation.PASSES):
            raise self.cannot("passes but forward, or all three of training")
