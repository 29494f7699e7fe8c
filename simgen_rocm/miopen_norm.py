"""The kernels that MIOpen 2.9.0 launches for normalizations: of channels (LRN) and of batches.

Source: src/ocl/mloNorm.cpp, lrn_ocl.cpp and batchnormocl.cpp of MIOpen at tag rocm-4.0.1.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.ir import Pass
from simgen_rocm.miopen_key import FLOAT_LAST, FLOAT_MIXED, Dispatch, arguments, vector

if TYPE_CHECKING:
    from simgen_rocm.miopen_key import Defines, Dims, Fields

HUGE = 32 * 2**20  # elements of a channel in the whole batch
# Kernels of a channel that is too large for one work-group.
FORWARD_PARTS = ("MeanVariance", "FinalMeanVariance", "Norm")
BACKWARD_PARTS = ("DScaleDBias", "FinalDScaleDBias", "DX")


def lrn(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    across = layer["mode"] == "cross_channel_dim1"
    area = layer["local_size"]
    if direction is not Pass.FORWARD:
        kernel = "MIOpenLRNAcrossChannelsBwd1" if across else "MIOpenLRNWithinChannelBwd"
        return (Dispatch(kernel, "MIOpenLRNBwd.cl", (_lrn_backward(area, across, x),)),)
    units = [4]
    if across:
        fits = [unit for unit in (4, 2, 1) if x[2] * x[3] % unit == 0]
        # Up to 8 wavefronts for each compute unit it reads two at most.
        units = list(dict.fromkeys((fits[0], min(2, fits[0]))))
    kernel = "MIOpenLRNAcrossChannels4" if across else "MIOpenLRNWithinChannel_PS"
    found = tuple(_lrn_forward(area, across, x, unit) for unit in units)
    return (Dispatch(kernel, "MIOpenLRNFwd.cl", found),)


def _pads(area: int) -> tuple[int, int]:
    """Neighbours before and after."""
    before = (area - 1) // 2
    return before, area - before - 1


def _strides(name: str, x: Dims) -> Defines:
    _, c, h, w = x
    values = {"BATCH_STRIDE": c * h * w, "CHANNEL_STRIDE": h * w, "STRIDE": w}
    return {f"MLO_LRN_{name}_{what}": value for what, value in values.items()}


def _extents(x: Dims) -> Defines:
    extents = {"WIDTH": x[3], "HEIGHT": x[2]}
    return {f"MLO_LRN_{at}_{what}": n for at in ("BOT", "TOP") for what, n in extents.items()}


def _groups(tile: tuple[int, int], group: tuple[int, int], logs: tuple[int, int]) -> Defines:
    """Results of a work-item, and the work-group: (width, height) each."""
    return {
        "MLO_LRN_N_HORIZ_OUT_PIX": tile[0],
        "MLO_LRN_N_VERT_OUT_PIX": tile[1],
        "MLO_LRN_GROUP_SZ0": group[0],
        "MLO_LRN_GROUP_SZ1": group[1],
        "MLO_LRN_GROUP_LG2SZ0": (logs[0] - 1).bit_length(),
        "MLO_LRN_GROUP_LG2SZ1": (logs[1] - 1).bit_length(),
    }


def _batch(x: Dims) -> Defines:
    return {"MLO_LRN_BATCH_SZ": x[0], "MLO_LRN_N_INPUTS": x[1], "MLO_LRN_N_OUTPUTS": x[1]}


def _lrn_forward(area: int, across: bool, x: Dims, unit: int) -> str:
    """A work-item reads `unit` neighbours at once."""
    _, c, h, w = x
    before, after = _pads(area)
    tile, group = (1, 1), (64, 1)
    if not across:
        tile, group = (1 if w <= 8 else 2, 1 if h <= 8 else 2), (8 if w <= 16 else 16, 8)
    reads = ceil(h * w / unit)
    even = reads * unit == h * w
    window: dict[str, int | str] = {}
    for axis in ("", "1", "0"):
        window |= {f"MLO_LRN_KERNEL_SZ{axis}": area, f"MLO_LRN_PAD{axis}": after}
    window |= {f"MLO_LRN_PRE_PAD{axis}": before for axis in ("", "1", "0")}
    gradients = (*_strides("TOPDF", x), *_strides("BOTDF", x))
    rest: Defines = {
        "MLO_LRN_DO_SCALE": 1,
        "MLO_OUT_VERT_ALIGNED": int(h % (group[1] * tile[1]) == 0),
        "MLO_OUT_HORIZ_ALIGNED": int(w % (group[0] * tile[0]) == 0),
        "MLO_MAP_SZ4": reads,
        "MLO_C1x1_PIXLEFT": 0 if even else h * w - (reads - 1) * unit,
        "MLO_DIVBY4": int(even),
        "MLO_READ_TYPE": vector(unit),
        "MLO_READ_UNIT": unit,
    }
    return arguments(
        window, {"MLO_LRN_N_OUTPUTS": c, "MLO_LRN_N_INPUTS": c}, _groups(tile, group, tile),
        _strides("BOT", x), _strides("TOP", x), _extents(x), _strides("SCALE", x),
        dict.fromkeys(gradients, 1), _batch(x), rest, FLOAT_LAST,
    )  # fmt: skip


def _lrn_backward(area: int, across: bool, x: Dims) -> str:
    _, c, h, w = x
    before, after = _pads(area)
    tile, group = (1, 1), (8 if w <= 8 else 16, 8 if h <= 8 else 16)
    if not across:
        group = (8, 8)
        tile = (1 if w <= 8 else 2 if w <= 16 else 4, 1 if h <= 8 else 2 if h <= 16 else 4)
    window: Defines = {
        "MLO_LRN_KERNEL_SZ": area,
        "MLO_LRN_N_OUTPUTS": c,
        "MLO_LRN_N_CHANNELS": c,
        "MLO_LRN_PAD": after,
        "MLO_LRN_PRE_PAD": before,
    }
    return arguments(
        window, _groups(tile, group, group), _strides("BOT", x), _strides("TOP", x), _extents(x),
        _strides("SCALE", x), _strides("TOPDF", x), _strides("BOTDF", x), _batch(x), FLOAT_LAST,
    )  # fmt: skip


def batch_norm(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """With both kinds of statistics in forward, and those that it saved in backward."""
    forward = direction is Pass.FORWARD
    if layer["mode"] == "per_activation":
        return _per_activation(forward, x)
    return _spatial_forward(x) if forward else _spatial_backward(x)


def _sizes(x: Dims) -> tuple[Defines, Defines]:
    """(those that come first everywhere, the last one)."""
    n, c, h, w = x
    names = ("N", "C", "HW", "NHW", "CHW")
    values = (n, c, h * w, n * h * w, c * h * w)
    first = {f"MIO_BN_{name}": value for name, value in zip(names, values, strict=True)}
    return first, {"MIO_BN_NCHW": n * c * h * w}


def _group(across: int, down: int) -> Defines:
    return {"MIO_BN_GRP0": across, "MIO_BN_GRP1": down, "MIO_BN_GRP2": 1}


SAVED: Defines = {"MIO_SAVE_MEAN_VARIANCE": 1, "MIO_RUNNING_RESULT": 1}


def _per_activation(forward: bool, x: Dims) -> tuple[Dispatch, ...]:
    first, last = _sizes(x)
    if forward:
        block: Defines = {"MIO_BN_LDS_SIZE": 256}
        text = arguments(FLOAT_MIXED, SAVED, first, block, _group(1, 256), last)
        program = "MIOpenBatchNormFwdTrainPerAct.cl"
        return (Dispatch("MIOpenBatchNormFwdTrainPerActivation", program, (text,)),)
    down = 64 if x[2] * x[3] <= 64 else 256
    groups: Defines = {"MIO_BN_NGRPS": ceil(x[2] * x[3] / down)}
    text = arguments(FLOAT_MIXED, first, last, groups, _group(1, down))
    program = "MIOpenBatchNormBwdPerAct.cl"
    return (Dispatch("MIOpenBatchNormBwdPerActivationSaved", program, (text,)),)


def _lds(block: int) -> Defines:
    return {"MIO_BN_LDS_SIZE": block, "MIO_BN_LDSGCN_SIZE": block // 64}


def in_parts(x: Dims, saved: Defines) -> str:
    """The arguments of the kernels that share a channel, which is too large for one work-group."""
    first, last = _sizes(x)
    groups: Defines = {"MIO_BN_NGRPS": ceil(x[2] * x[3] / 1024)}
    variant: Defines = {**_lds(1024), "MIO_BN_VARIANT": 2}
    return arguments(FLOAT_MIXED, saved, first, last, groups, variant, _group(1, 1024))


def _spatial_forward(x: Dims) -> tuple[Dispatch, ...]:
    n, _, h, w = x
    kernel, program = "MIOpenBatchNormFwdTrainSpatial", "MIOpenBatchNormFwdTrainSpatial.cl"
    single = (n * h * w < HUGE and h * w > 1024) or h * w <= 512
    if not single or (n > 768 and h * w > 150):
        text = in_parts(x, SAVED)
        return tuple(Dispatch(kernel + part, program, (text,)) for part in FORWARD_PARTS)
    small = (h * w < 256 and n < 256) or (h * w < 100 and n <= 256)
    block = 256 if small else 1024
    variant: Defines = {"MIO_BN_VARIANT": 1 if h * w > 1024 else 0, **_lds(block)}
    (samples, *rest), last = _sizes(x)[0].items(), _sizes(x)[1]
    text = arguments(
        FLOAT_MIXED, SAVED, variant, dict([samples]), _group(block, 1), _group(block, 1),
        dict(rest), last,
    )  # fmt: skip
    return (Dispatch(kernel, program, (text,)),)


def _spatial_backward(x: Dims) -> tuple[Dispatch, ...]:
    n, _, h, w = x
    kernel, program = "MIOpenBatchNormBwdSpatial", "MIOpenBatchNormBwdSpatial.cl"
    saved: Defines = {"MIO_BN_USESAVED": 1}
    rounded = min(64 * ceil(h * w / 64), 1024)
    if (n * h * w < HUGE and h * w > 1024) or n > 768:
        variant, block = 1, 1024
    elif n * h * w < HUGE and h * w > 512:
        variant, block = (1 if n >= 32 else 3), rounded
    elif h * w <= 512:
        variant, block = (3, rounded) if n > 64 and h * w > 160 else (0, 1024)
    else:
        text = in_parts(x, saved)
        return tuple(Dispatch(kernel + part, program, (text,)) for part in BACKWARD_PARTS)
    return (Dispatch(kernel, program, (at_once(x, saved, variant, block),)),)


def at_once(x: Dims, saved: Defines, variant: int, block: int) -> str:
    """The arguments of a kernel in which a work-group has a channel to itself."""
    first, last = _sizes(x)
    tail: Defines = {**_lds(block), "MIO_BN_VARIANT": variant, **_group(block, 1)}
    return arguments(FLOAT_MIXED, saved, first, last, tail)
