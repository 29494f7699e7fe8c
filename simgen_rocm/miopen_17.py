"""The kernels that MIOpen 1.7.0 launches for a layer, and their keys: as miopen.py has of 2.9.0.

Products of convolutions are kernels that MIOpenGEMM writes, under names that are digests of their
text: what it asks for there is not known before a run. Fully connected layers are rocBLAS's.

Source: MIOpen at 01d6ca55c, which gem5's images of 20.1 and 21.0 have (src/ocl/*.cpp); float32,
packed NCHW tensors, as DNNMark calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.errors import UsageError
from simgen.ground.ir import Pass
from simgen_rocm import miopen, miopen_norm
from simgen_rocm.miopen import MAX_POOLING, MEAN_POOLING
from simgen_rocm.miopen_key import FLOAT_LAST, Defines, Dims, Dispatch, Fields, arguments

if TYPE_CHECKING:
    from simgen.layers import Layer

VERSION = "1.7.0"
GROUP = 8  # work-items of a work-group in each direction, of pooling
# macros of softmax, a subset of those of 2.9.0
SOFTMAX_WORDS = ("NUM_BATCH", "BATCH_SIZE", "U_BATCH_SIZE", "MIOPEN_USE")


def dispatches(layer: Layer, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """The launches of a layer in one pass, as of `simgen_rocm.miopen.dispatches`.

    Raises:
        UsageError: it is a convolution.
    """
    if layer.kind == "conv":
        raise UsageError(
            f"--miopen {VERSION}: a convolution's kernels are written by MIOpenGEMM, and what it "
            "asks for is not known before a run; give layers of other kinds, and with --rows the "
            "kernels that a run has left"
        )
    own = _OWN.get(layer.kind)
    return own(vars(layer), direction, x, y) if own else miopen.dispatches(layer, direction, x, y)


def _softmax(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """With the sizes alone: both passes are kernels of one code object."""
    (found,) = miopen.softmax(layer, direction, x, y)
    words = [
        w for w in found.arguments[0].split() if w.removeprefix("-D").startswith(SOFTMAX_WORDS)
    ]
    return (Dispatch(found.kernel, found.program, (f" {' '.join(words)}",)),)


def _pooling(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """All extents and strides are in the arguments."""
    strides = (layer["stride_h"], layer["stride_w"])
    window: dict[str, int | str] = {}
    for at, axis, stride in ((1, "h", strides[0]), (0, "w", strides[1])):
        window |= {
            f"MLO_POOLING_KERNEL_SZ{at}": layer[f"kernel_{axis}"],
            f"MLO_POOLING_PAD{at}": layer[f"pad_{axis}"],
            f"MLO_POOLING_STRIDE{at}": stride,
        }
    window["MLO_POOLING_N_OUTPUTS"] = y[1]
    mode = MAX_POOLING if layer["mode"] == "max" else MEAN_POOLING
    if direction is not Pass.FORWARD:
        tile = tuple(1 if extent < 2 * GROUP else 2 for extent in (y[3], y[2]))
        text = arguments(
            window, _groups("POOLBWD", tile), _extents("POOLBWD", x, y),
            _strides("POOLBWD", "BOTDF", x), _strides("POOLBWD", "TOPDF", y), FLOAT_LAST,
        )  # fmt: skip
        kernel = "mloPoolingMaxBwd" if mode == MAX_POOLING else "mloPoolingAveBwd"
        return (Dispatch(kernel, "MIOpenPoolingBwd.cl", (text,)),)
    tile = (_results(y[3], strides[1]), _results(y[2], strides[0]))
    text = arguments(
        {"MLO_POOLING_OP_ID": mode}, window, {"MLO_POOLING_N_CHANNELS": x[1]},
        _groups("POOLING", tile), _strides("POOLING", "BOT", x), _strides("POOLING", "TOP", y),
        _extents("POOLING", x, y), FLOAT_LAST,
    )  # fmt: skip
    return (Dispatch("mloPoolingG", "MIOpenPooling.cl", (text,)),)


def _results(extent: int, stride: int) -> int:
    """Results of a work-item in one direction, forward."""
    tile = max(1, GROUP // stride)
    while tile * GROUP > 2 * extent and tile > 1:
        tile >>= 1
    return tile


def _groups(of: str, tile: tuple[int, ...]) -> Defines:
    """(across, down) of a work-item."""
    return {
        f"MLO_{of}_N_HORIZ_OUT_PIX": tile[0],
        f"MLO_{of}_N_VERT_OUT_PIX": tile[1],
        f"MLO_{of}_GROUP_SZ0": GROUP,
        f"MLO_{of}_GROUP_SZ1": GROUP,
    }


def _strides(of: str, name: str, dims: Dims) -> Defines:
    _, c, h, w = dims
    values = {"BATCH_STRIDE": c * h * w, "CHANNEL_STRIDE": h * w, "STRIDE": w}
    return {f"MLO_{of}_{name}_{what}": value for what, value in values.items()}


def _extents(of: str, x: Dims, y: Dims) -> Defines:
    return {
        f"MLO_{of}_BOT_WIDTH": x[3],
        f"MLO_{of}_BOT_HEIGHT": x[2],
        f"MLO_{of}_TOP_WIDTH": y[3],
        f"MLO_{of}_TOP_HEIGHT": y[2],
    }


def _lrn(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """Without the neighbours before; and its logarithm, forward, is of a number by log(2)."""
    (found,) = miopen_norm.lrn(layer, direction, x, y)
    forward = direction is Pass.FORWARD
    return (
        Dispatch(
            found.kernel,
            found.program,
            tuple(_earlier(text, forward=forward) for text in found.arguments),
        ),
    )


def _earlier(text: str, *, forward: bool) -> str:
    words = [word for word in text.split() if not word.startswith("-DMLO_LRN_PRE_PAD")]
    for at, word in enumerate(words):
        name, _, value = word.partition("=")
        if forward and name.startswith("-DMLO_LRN_GROUP_LG2SZ"):
            words[at] = f"{name}={int(value) + 1}"
    return f" {' '.join(words)}"


def _batch_norm(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """Fewer variants of spatial ones."""
    if layer["mode"] == "per_activation":
        return miopen_norm.batch_norm(layer, direction, x, y)
    n, _, h, w = x
    forward = direction is Pass.FORWARD
    saved = miopen_norm.SAVED if forward else {"MIO_BN_USESAVED": 1}
    stem = "MIOpenBatchNorm" + ("FwdTrainSpatial" if forward else "BwdSpatial")
    huge = n * h * w >= miopen_norm.HUGE
    if huge and h * w > 512:
        parts = miopen_norm.FORWARD_PARTS if forward else miopen_norm.BACKWARD_PARTS
        text = miopen_norm.in_parts(x, saved)
        return tuple(Dispatch(stem + part, f"{stem}.cl", (text,)) for part in parts)
    variant, block = 0, 1024
    if h * w > 1024:
        variant = 1
    elif h * w > 512:
        variant, block = (3 if forward or n < 32 else 1), 64 * ((h * w + 63) // 64)
    text = miopen_norm.at_once(x, saved, variant, block)
    return (Dispatch(stem, f"{stem}.cl", (text,)),)


_OWN = {"softmax": _softmax, "pool": _pooling, "lrn": _lrn, "bn": _batch_norm}
