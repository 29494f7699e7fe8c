"""The kernels that MIOpen 2.9.0 launches for a layer, and their keys in its kernel database.

The GEMMs of convolutions and fully connected layers are rocBLAS's, which brings its code objects.
DNNMark asks for no other algorithm of a convolution where it is built for a simulator.

Source: MIOpen at tag rocm-4.0.1 (src/ocl/*.cpp, kernel_cache.cpp, hip/handlehip.cpp); float32,
packed NCHW tensors, alpha 1 and beta 0, as DNNMark calls it.
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING

from simgen.ground.ir import Pass
from simgen.ground.numerics.powers import next_power_of_two
from simgen_rocm import miopen_norm
from simgen_rocm.miopen_key import (
    FLOAT,
    FLOAT_LAST,
    FLOAT_OF_MANY,
    Defines,
    Dims,
    Dispatch,
    Fields,
    arguments,
    vector,
)

if TYPE_CHECKING:
    from simgen.layers import Layer

VERSION = "2.9.0"
BLOCK = 256  # work-items
NEURONS = {"bypass": 0, "sigmoid": 1, "tanh": 2, "relu": 3, "soft_relu": 4}
MAX_POOLING, MEAN_POOLING = 1, 0
# Backward: width of x -> work-group (width, height).
POOLING_GROUPS = {
    8: (8, 8), 16: (4, 16), 24: (8, 8), 32: (32, 4), 64: (8, 8), 96: (16, 4), 128: (16, 16)
}  # fmt: skip
WIDE_POOLING_GROUP = (32, 4)
LDS_NBYTES = 65536
MOST_SET = 65536  # work-items that set a tensor
SMALL_GRID_ITEMS = 64 * 4 * 64  # work-items up to which a transposition's grid has a second extent

GEMM = Dispatch("rocBLAS GEMM")


def dispatches(layer: Layer, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """The launches of a layer in one pass, in order; `x` and `y` are the extents of its tensors.

    The passes are FORWARD and BACKWARD, and of "conv" and "fc" the two parts of the latter.
    """
    return _LAYERS[layer.kind](vars(layer), direction, x, y)


def softmax(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    c = x[1]
    batch = max(2, next_power_of_two(BLOCK // c)) if c < BLOCK else 1
    sizes: dict[str, int | str] = {"NUM_BATCH": batch}
    if batch > 1:
        each = BLOCK // batch
        unrolled = max(2, next_power_of_two(c // each)) if c > each else 1
        sizes |= {"BATCH_SIZE": each, "U_BATCH_SIZE": unrolled}
    forward = direction is Pass.FORWARD
    packed = ("INPUT", "OUTPUT") if forward else ("OUTPUT", "DOUTPUT", "DINPUT")
    choices: Defines = {
        "USE_SOFTMAX_ACCURATE": 1,
        "USE_SOFTMAX_MODE_CHANNEL": 1,
        "RUN_FORWARD": int(forward),
    }
    text = arguments(sizes, FLOAT, choices, {f"IS_{name}_PACKED": 1 for name in packed})
    kernel = "SoftmaxForward" if forward else "SoftmaxBackward"
    return (Dispatch(kernel, "MIOpenSoftmax.cl", (text,)),)


def _activation(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    unit = next(n for n in (4, 2, 1) if prod(x) % n == 0)
    sizes: Defines = {
        "MIOPEN_READ_UNIT": unit,
        "MIOPEN_READ_TYPE": vector(unit),
        "MIOPEN_NRN_OP_ID": NEURONS[str(layer.get("mode", "bypass"))],
    }
    kernel = "MIOpenActiveFwdLite" if direction is Pass.FORWARD else "MIOpenActiveBwdLite"
    return (Dispatch(kernel, "MIOpenNeuron.cl", (arguments(sizes, FLOAT, first=" -DLITE"),)),)


def _pooling(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    mode = MAX_POOLING if layer["mode"] == "max" else MEAN_POOLING
    window: Defines = {
        "MLO_POOLING_OP_ID": mode,
        "MLO_POOLING_KERNEL_SZ1": layer["kernel_h"],
        "MLO_POOLING_STRIDE1": layer["stride_h"],
        "MLO_POOLING_KERNEL_SZ0": layer["kernel_w"],
        "MLO_POOLING_STRIDE0": layer["stride_w"],
    }
    index: Defines = {"MLO_POOLING_INDEX_TYPE": "uchar", "MLO_POOLING_INDEX_MAX": "UCHAR_MAX"}
    if direction is Pass.FORWARD:
        text = arguments(window, _results_tile(y, layer["stride_h"]), index, FLOAT_LAST)
        return (Dispatch("mloPoolingG", "MIOpenPooling.cl", (text,)),)
    tile = _elements_tile(x[3], mode)
    text = arguments(window, tile, index, {"USE_IMG_INDEX": 0}, FLOAT_LAST)
    kernel = "mloPoolingMaxBwd" if mode == MAX_POOLING else "mloPoolingAveBwd"
    return (Dispatch(kernel, "MIOpenPoolingBwd.cl", (text,)),)


def _results_tile(y: Dims, stride: int) -> Defines:
    """Forward: results of a work-item, and the work-group."""
    height, width = y[2:]
    tile = 1 if height <= 8 else 4 if height <= 32 else 8
    if height > 16 and height % 32 > 16:
        tile = min(16, 1 << ((tile * stride).bit_length() - 1))
    across = 8 if width <= 8 else 16 if width % 32 <= 16 else 32
    down = next((n for n in (8, 15, 32, 64) if height <= n), 128)
    down = (16 if down == 15 else down) // tile
    while across * down > BLOCK and across > 1:
        across >>= 1
    return {
        "MLO_POOLING_N_HORIZ_OUT_PIX": 1,
        "MLO_POOLING_N_VERT_OUT_PIX": tile,
        "MLO_POOLING_GROUP_SZ0": across,
        "MLO_POOLING_GROUP_SZ1": down,
    }


def _elements_tile(width: int, mode: int) -> Defines:
    """Backward: elements of x of a work-item, and the work-group."""
    across, down, group = 1, 1, (8, 8)
    if mode == MAX_POOLING:
        group = next((g for n, g in POOLING_GROUPS.items() if width <= n), WIDE_POOLING_GROUP)
        across = 4 if 8 < width <= 24 else 1
        down = 1 if width <= 24 else 4 if 64 < width <= 96 else 8
    return {
        "MLO_POOLBWD_N_HORIZ_OUT_PIX": across,
        "MLO_POOLBWD_N_VERT_OUT_PIX": down,
        "MLO_POOLBWD_GROUP_SZ0": group[0],
        "MLO_POOLBWD_GROUP_SZ1": group[1],
    }


def _convolution(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """By im2col, sample by sample; windows of one element need no unrolling."""
    small = (layer["kernel_h"], layer["kernel_w"], layer["pad_h"], layer["pad_w"]) == (1, 1, 0, 0)
    strides = (layer["stride_h"], layer["stride_w"])
    unroll = _im2col(layer, x, y)
    if direction is Pass.BACKWARD_WEIGHT:
        zero = _set(y[1] * x[1] * layer["kernel_h"] * layer["kernel_w"])
        return (zero, *((GEMM,) if small and strides == (1, 1) else (unroll, GEMM)) * x[0])
    if small and strides == (2, 2):
        return _strided(direction, x, y)
    if small and strides == (1, 1):
        return (GEMM,)
    if direction is Pass.FORWARD:
        return (unroll, GEMM) * x[0]
    gather = Dispatch("Col2Im2d", "MIOpenCol2Im2d.cl", (arguments(FLOAT_OF_MANY),))
    return (GEMM, gather) * x[0]


def _im2col(layer: Fields, x: Dims, y: Dims) -> Dispatch:
    c, (height, width) = x[1], y[2:]
    r, s, u, v = (int(layer[f"{of}_{axis}"]) for of in ("kernel", "stride") for axis in "hw")
    channels = 4 if height <= 8 and width <= 8 and u == v == 1 and c % 4 == 0 else 1
    tile_x, tile_y = 32, 8

    def elements() -> int:
        """Elements of x in LDS, for a tile of y."""
        wide, high = (tile_x - 1) * v + s, (tile_y - 1) * u + r
        if channels == 1:
            return wide * high
        up_x, up_y = ceil(tile_x / channels) - 1, ceil(tile_y / channels) - 1
        return max(
            (channels * up_x * v + s) * high,
            channels * wide * (up_y * u + r),
        )

    extreme: dict[str, int | str] = {}
    first = ""
    if channels * r * s * 4 > LDS_NBYTES:
        first, extreme = " -DEXTREME_LARGE", {"NUM_CH_TOTAL": c}
    else:
        while elements() * 4 > LDS_NBYTES:
            if tile_y == 1:
                tile_x = max(1, tile_x // 2)
            tile_y = max(1, tile_y // 2)
    blocks = ceil(width / tile_x)
    sizes: Defines = {
        **extreme,
        "NUM_CH_PER_WG": channels,
        "NUM_IM_BLKS_X": blocks,
        "NUM_IM_BLKS": blocks * ceil(height / tile_y),
        "LOCAL_MEM_SIZE": elements(),
        "STRIDE_GT_1": int(u * v > 1),
        "TILE_SZ_X": tile_x,
        "TILE_SZ_Y": tile_y,
        "USE_IM_OFF_GUARD": 1,
    }
    text = arguments(sizes, FLOAT_OF_MANY, first=first)
    return Dispatch("Im2d2Col", "MIOpenIm2d2Col.cl", (text,))


def _set(size: int) -> Dispatch:
    """Zero all elements of a tensor."""
    text = arguments(
        {"SUBTENSOR_OP_WITH_SCALAR": "SUBTENSOR_OP_WITH_SCALAR_SET"},
        FLOAT_OF_MANY,
        {"WORK_LENGTH_0": min(next_power_of_two(size), MOST_SET)},
    )
    program = "MIOpenSubTensorOpWithScalarKernel.cl"
    return Dispatch("SubTensorOpWithScalar1d", program, (text,))


def _strided(direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    """Every other element of every other row: one GEMM between two transpositions."""
    if direction is Pass.FORWARD:
        taken = x[0] * x[1] * y[2] * y[3]
        return (_transposed("NCHW", x, y), GEMM, _transposed("CNHW", y, None, taken))
    spread = _transposed("CNHW", x, y, prod(y))
    return (_set(prod(x)), _transposed("NCHW", y, None), GEMM, spread)


def _transposed(source: str, tensor: Dims, strided: Dims | None, offset: int = 0) -> Dispatch:
    """From `source` layout, at `offset`, to the other; of every other element with `strided`.

    Then `tensor` has the extents with all elements, and `strided` the (H, W) of those.
    """
    n, c, h, w = tensor
    target = "CNHW" if source == "NCHW" else "NCHW"
    names = ("NCHW_OPT", "CNHW_OPT", "NCHW", "CNHW")
    chosen = source if strided else f"{source}_OPT"
    which: Defines = {f"NC_TRANS_{name}": int(name == chosen) for name in names}
    offsets: Defines = {"IN_OFF": offset, "OUT_OFF": 0}
    if strided is None:
        unit = next(each for each in (4, 2, 1) if h * w % each == 0)
        work = h * w // unit * c
        sizes: Defines = {
            **offsets, "H": h, "W": w, "N": n, "C": c, "RD_BLCK": unit, "HW_RD": h * w // unit,
            "MAP_RD": work, "READ_TYPE": "float" if unit == 1 else f"float{unit}",
        }  # fmt: skip
    else:
        p, q = strided[2:]
        work = c * p * q
        sizes = {
            "N": n, "C": c, "HW_IN": h * w, "HW_OUT": p * q, "W_IN": w, "W_OUT": q,
            "H_STRIDE": 2, "W_STRIDE": 2, **offsets,
        }  # fmt: skip
    text = arguments(FLOAT_OF_MANY, which, sizes, {"IS_2D_WG": int(work < SMALL_GRID_ITEMS)})
    kernel = f"transpose_{source}2{target}" + ("" if strided else "_opt")
    return Dispatch(kernel, "MIOpenUtilKernels4.cl", (text,))


def _fully_connected(layer: Fields, direction: Pass, x: Dims, y: Dims) -> tuple[Dispatch, ...]:
    return (GEMM,)


_LAYERS = {
    "softmax": softmax,
    "activation": _activation,
    "bypass": _activation,
    "pool": _pooling,
    "lrn": miopen_norm.lrn,
    "bn": miopen_norm.batch_norm,
    "conv": _convolution,
    "fc": _fully_connected,
}
