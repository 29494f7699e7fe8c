"""The keys of MIOpen's kernels, against those that are known."""

from __future__ import annotations

import hashlib

import pytest

from simgen.errors import UsageError
from simgen.ground.ir import Pass
from simgen.layers import LAYERS
from simgen_rocm import miopen_17
from simgen_rocm.miopen import GEMM, dispatches

FLOAT = "-DMIOPEN_USE_FP16=0 -DMIOPEN_USE_FP32=1"
MANY = (
    f"{FLOAT} -DMIOPEN_USE_INT8=0 -DMIOPEN_USE_INT8x4=0 -DMIOPEN_USE_BFP16=0 "
    "-DMIOPEN_USE_INT32=0 -DMIOPEN_USE_RNE_BFLOAT16=1"
)
NEURON = "-DLITE -DMIOPEN_READ_UNIT=4 -DMIOPEN_READ_TYPE=_FLOAT4 -DMIOPEN_NRN_OP_ID="
SOFTMAX = f"-DNUM_BATCH=1 {FLOAT} -DUSE_SOFTMAX_ACCURATE=1 -DUSE_SOFTMAX_MODE_CHANNEL=1"
POOL = (
    "-DMLO_POOLING_OP_ID=1 -DMLO_POOLING_KERNEL_SZ1=3 -DMLO_POOLING_STRIDE1=2 "
    "-DMLO_POOLING_KERNEL_SZ0=3 -DMLO_POOLING_STRIDE0=2"
)
INDEX = "-DMLO_POOLING_INDEX_TYPE=uchar -DMLO_POOLING_INDEX_MAX=UCHAR_MAX"
LAST = "-DMIOPEN_USE_FP32=1 -DMIOPEN_USE_FP16=0"
BN = f"{FLOAT} -DMIOPEN_USE_FPMIX=0"
BN_SIZES = "-DMIO_BN_N=100 -DMIO_BN_C=1000 -DMIO_BN_HW=1 -DMIO_BN_NHW=100 -DMIO_BN_CHW=1000"
CHECKED = "f5973a32f6a93ad369f0699ebe847bfc59d1af4d373a06aa85c0c63d94fbade1"
CHECKED_17 = "100669598ed4d7824d183ecdb222feeee6d6e2edfe2880ecbf4e752910ab9e0e"
ROW, IMAGES, MAPS = (100, 1000, 1, 1), (100, 3, 256, 256), (1, 32, 32, 32)
FORWARD, BACKWARD = Pass.FORWARD, Pass.BACKWARD

# cachefiles.csv of gem5-resources: the keys that a run of DNNMark's sample configs was seen to ask
# MIOpen 2.9.0 for. (kind, settings, pass, x, y, program, arguments.)
KNOWN = [
    ("bn", {}, FORWARD, ROW, ROW, "MIOpenBatchNormFwdTrainPerAct.cl",
     f"{BN} -DMIO_SAVE_MEAN_VARIANCE=1 -DMIO_RUNNING_RESULT=1 {BN_SIZES} -DMIO_BN_LDS_SIZE=256 "
     "-DMIO_BN_GRP0=1 -DMIO_BN_GRP1=256 -DMIO_BN_GRP2=1 -DMIO_BN_NCHW=100000"),
    ("bn", {}, BACKWARD, ROW, ROW, "MIOpenBatchNormBwdPerAct.cl",
     f"{BN} {BN_SIZES} -DMIO_BN_NCHW=100000 -DMIO_BN_NGRPS=1 -DMIO_BN_GRP0=1 -DMIO_BN_GRP1=64 "
     "-DMIO_BN_GRP2=1"),
    ("bypass", {}, FORWARD, ROW, ROW, "MIOpenNeuron.cl", f"{NEURON}0 {FLOAT}"),
    ("activation", {"activation_mode": "relu"}, BACKWARD, MAPS, MAPS, "MIOpenNeuron.cl",
     f"{NEURON}3 {FLOAT}"),
    ("softmax", {}, BACKWARD, ROW, ROW, "MIOpenSoftmax.cl",
     f"{SOFTMAX} -DRUN_FORWARD=0 -DIS_OUTPUT_PACKED=1 -DIS_DOUTPUT_PACKED=1 -DIS_DINPUT_PACKED=1"),
    ("softmax", {}, FORWARD, ROW, ROW, "MIOpenSoftmax.cl",
     f"{SOFTMAX} -DRUN_FORWARD=1 -DIS_INPUT_PACKED=1 -DIS_OUTPUT_PACKED=1"),
    ("conv", {"kernel_size": "5", "pad": "2"}, FORWARD, (1, 3, 32, 32), MAPS, "MIOpenIm2d2Col.cl",
     "-DNUM_CH_PER_WG=1 -DNUM_IM_BLKS_X=1 -DNUM_IM_BLKS=4 -DLOCAL_MEM_SIZE=432 -DSTRIDE_GT_1=0 "
     f"-DTILE_SZ_X=32 -DTILE_SZ_Y=8 -DUSE_IM_OFF_GUARD=1 {MANY}"),
    ("conv", {"kernel_size": "5", "pad": "2"}, Pass.BACKWARD_WEIGHT, (1, 3, 32, 32), MAPS,
     "MIOpenSubTensorOpWithScalarKernel.cl",
     f"-DSUBTENSOR_OP_WITH_SCALAR=SUBTENSOR_OP_WITH_SCALAR_SET {MANY} -DWORK_LENGTH_0=4096"),
    ("conv", {"kernel_size": "5", "pad": "2"}, Pass.BACKWARD_DATA, (1, 3, 32, 32), MAPS,
     "MIOpenCol2Im2d.cl", MANY),
    ("pool", {}, FORWARD, MAPS, (1, 32, 16, 16), "MIOpenPooling.cl",
     f"{POOL} -DMLO_POOLING_N_HORIZ_OUT_PIX=1 -DMLO_POOLING_N_VERT_OUT_PIX=4 "
     f"-DMLO_POOLING_GROUP_SZ0=16 -DMLO_POOLING_GROUP_SZ1=8 {INDEX} {LAST}"),
    ("pool", {}, FORWARD, IMAGES, (100, 3, 128, 128), "MIOpenPooling.cl",
     f"{POOL} -DMLO_POOLING_N_HORIZ_OUT_PIX=1 -DMLO_POOLING_N_VERT_OUT_PIX=8 "
     f"-DMLO_POOLING_GROUP_SZ0=16 -DMLO_POOLING_GROUP_SZ1=16 {INDEX} {LAST}"),
    ("pool", {}, BACKWARD, IMAGES, (100, 3, 128, 128), "MIOpenPoolingBwd.cl",
     f"{POOL} -DMLO_POOLBWD_N_HORIZ_OUT_PIX=1 -DMLO_POOLBWD_N_VERT_OUT_PIX=8 "
     f"-DMLO_POOLBWD_GROUP_SZ0=32 -DMLO_POOLBWD_GROUP_SZ1=4 {INDEX} -DUSE_IMG_INDEX=0 {LAST}"),
]  # fmt: skip


def layer(kind, settings):
    return LAYERS[kind].from_config([(key, value, "test") for key, value in settings.items()])


@pytest.mark.parametrize(
    ("kind", "settings", "direction", "x", "y", "program", "arguments"),
    KNOWN,
    ids=[f"{row[0]} {row[2]} {row[5]}" for row in KNOWN],
)
def test_known_keys_come_out(kind, settings, direction, x, y, program, arguments):
    found = dispatches(layer(kind, settings), direction, x, y)
    assert [(each.program, each.arguments) for each in found if each.program == program][:1] == [
        (program, (f" {arguments}",))
    ]


def grid():
    """Problems in which every branch of MIOpen's is taken: (kind, settings, pass, x, y)."""
    extents = (1, 4, 8, 9, 16, 17, 24, 32, 33, 55, 64, 65, 96, 128, 129, 200)
    maps = [(n, c, h, w) for n, c in ((1, 3), (5, 64)) for h in extents for w in extents[::3]]
    rows = [(3, c, 1, 1) for c in (1, 2, 7, 31, 64, 100, 127, 128, 255, 256, 1000)]
    for direction in (FORWARD, BACKWARD):
        for x in rows:
            yield "softmax", {}, direction, x, x
        for x in maps[::7]:
            yield "activation", {"activation_mode": "tanh"}, direction, x, x
        for x in maps:
            for mode in ("cross_channel_dim1", "within_channel"):
                yield "lrn", {"lrn_mode": mode, "local_size": "4"}, direction, x, x
            for mode in ("max", "avg"):
                for stride in (1, 2, 3):
                    y = (*x[:2], (x[2] - 1) // stride + 1, (x[3] - 1) // stride + 1)
                    pool = {"pool_mode": mode, "kernel_size": "1", "stride": str(stride)}
                    yield "pool", pool, direction, x, y
        for x in [(n, 3, h, w) for n in (2, 31, 65, 256, 800) for _, _, h, w in maps[:80]]:
            for mode in ("spatial", "per_activation"):
                yield "bn", {"batchnorm_mode": mode}, direction, x, x
    for window, stride in ((3, 1), (3, 2), (11, 4), (7, 13), (120, 1)):
        for x in ((1, 4, 8, 8), (1, 3, 33, 40), (1, 8, 227, 300)):
            y = (1, 5, *((extent + 120 - window) // stride + 1 for extent in x[2:]))
            conv = {"kernel_size": str(window), "pad": "60", "stride": str(stride)}
            yield "conv", conv, FORWARD, x, y


def digest(cases, of=dispatches):
    text = hashlib.sha256()
    for kind, settings, direction, x, y in cases:
        for each in of(layer(kind, settings), direction, x, y)[:1]:
            text.update(f"{each.program} {each.kernel} {each.arguments}\n".encode())
    return text.hexdigest()


def test_keys_are_those_of_miopen_s_own_sources():
    # Its functions, compiled with a handle that tells what it is asked for, gave the same for each.
    assert digest(grid()) == CHECKED


def test_keys_of_1_7_are_those_of_its_own_sources():
    # Of 01d6ca55c, in the same way: 14082 problems on 1, 4 and more compute units than there are.
    huge = [("bn", {}, direction, x, x) for direction in (FORWARD, BACKWARD)
            for x in ((1024, 3, 200, 200), (40000, 2, 30, 30))]  # fmt: skip
    cases = [each for each in (*grid(), *huge) if each[0] != "conv"]
    assert digest(cases, miopen_17.dispatches) == CHECKED_17
    spatial = layer("bn", {"batchnorm_mode": "spatial"})
    found = miopen_17.dispatches(spatial, BACKWARD, huge[0][3], huge[0][4])
    assert len(found) == 3  # in parts


def test_convolutions_of_1_7_are_refused():
    with pytest.raises(UsageError, match="written by MIOpenGEMM"):
        miopen_17.dispatches(layer("conv", {}), FORWARD, (1, 3, 32, 32), MAPS)


def test_a_convolution_goes_through_its_samples_one_by_one():
    conv = layer("conv", {"kernel_size": "3", "pad": "1"})
    x, y = (4, 8, 10, 10), (4, 32, 10, 10)
    kernels = [each.kernel for each in dispatches(conv, FORWARD, x, y)]
    assert kernels == ["Im2d2Col", GEMM.kernel] * 4
    kernels = [each.kernel for each in dispatches(conv, Pass.BACKWARD_WEIGHT, x, y)]
    assert kernels == ["SubTensorOpWithScalar1d", *["Im2d2Col", GEMM.kernel] * 4]


def test_windows_of_one_element_are_not_unrolled():
    conv = layer("conv", {"kernel_size": "1", "pad": "0"})
    assert dispatches(conv, FORWARD, (4, 8, 10, 10), (4, 32, 10, 10)) == (GEMM,)
    strided = layer("conv", {"kernel_size": "1", "pad": "0", "stride": "2"})
    kernels = [each.kernel for each in dispatches(strided, FORWARD, (4, 8, 10, 10), (4, 32, 5, 5))]
    assert kernels == ["transpose_NCHW2CNHW", GEMM.kernel, "transpose_CNHW2NCHW_opt"]


def test_unrolling_fits_in_lds():
    conv = layer("conv", {"kernel_size": "11", "stride": "4", "pad": "0"})
    (unroll, _) = dispatches(conv, FORWARD, (1, 3, 2270, 2270), (1, 96, 565, 565))
    sizes = dict(word[2:].split("=") for word in unroll.arguments[0].split())
    assert int(sizes["LOCAL_MEM_SIZE"]) * 4 <= 65536
    assert int(sizes["LOCAL_MEM_SIZE"]) == (31 * 4 + 11) * (7 * 4 + 11)


@pytest.mark.parametrize(
    ("settings", "x", "count"),
    [
        ({}, (2, 5, 8, 8), 2),  # by 4, or by 2 where there are few wavefronts
        ({}, (2, 5, 3, 2), 1),
        ({}, (2, 5, 3, 3), 1),
        ({"lrn_mode": "within_channel"}, (2, 5, 8, 8), 1),
    ],
)
def test_what_the_number_of_compute_units_decides_is_asked_for_both_ways(settings, x, count):
    (found,) = dispatches(layer("lrn", settings), FORWARD, x, x)
    assert len(found.arguments) == count


def test_a_large_batch_is_normalised_in_parts():
    spatial = layer("bn", {"batchnorm_mode": "spatial"})
    x = (1024, 8, 16, 16)
    kernels = [each.kernel for each in dispatches(spatial, FORWARD, x, x)]
    stem = "MIOpenBatchNormFwdTrainSpatial"
    assert kernels == [f"{stem}MeanVariance", f"{stem}FinalMeanVariance", f"{stem}Norm"]
    assert len({each.arguments for each in dispatches(spatial, FORWARD, x, x)}) == 1
