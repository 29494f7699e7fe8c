"""Convolution: where gathers read, which algorithm a config means, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from handmade import lowered_text
from hypothesis import given
from hypothesis import strategies as st

from simgen.errors import ConfigError
from simgen.frontend import config, network
from simgen.ground.ir import DType, Pass, TensorSpec
from simgen.ground.machine import named
from simgen.layers.conv import algorithms, direct
from simgen.layers.conv.algorithms import ConvAlgo, DataAlgo
from simgen.layers.conv.convolution import Convolution
from simgen.layers.conv.geometry import Geometry, to_image, to_result
from simgen.layers.conv.job import Algorithm, Unknown
from simgen.workload import lowering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.layers.conv.geometry import GatherAxis

F, BD, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT


def positions(extent: int, kernel: int, pad: int, stride: int, dilation: int) -> int:
    return (extent + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    small = st.integers(1, 6)
    kernel, stride, dilation = ((draw(small), draw(small)) for _ in range(3))
    pad = (draw(st.integers(0, 5)), draw(st.integers(0, 5)))
    image = tuple(
        max(1, (kernel[at] - 1) * dilation[at] + 1 - 2 * pad[at]) + draw(st.integers(0, 12))
        for at in (0, 1)
    )
    result = [positions(image[at], kernel[at], pad[at], stride[at], dilation[at]) for at in (0, 1)]
    return Geometry(
        batch=1, channels=1, filters=1, groups=1, image=(image[0], image[1]),
        result=(result[0], result[1]), kernel=kernel, pad=pad, stride=stride, dilation=dilation,
        flipped=draw(st.booleans()),
    )  # fmt: skip


def relation(g: Geometry, at: int) -> set[tuple[int, int, int]]:
    """(pixel of the image, pixel of the result, place in the filter) of every product."""
    return {
        (i, p, g.kernel[at] - 1 - r if g.flipped else r)
        for p in range(g.result[at])
        for r in range(g.kernel[at])
        for i in range(g.image[at])
        if i == p * g.stride[at] + r * g.dilation[at] - g.pad[at]
    }


def products(axis: GatherAxis) -> Iterator[tuple[int, int, int]]:
    """(written, read, place in the filter) of every product of an axis."""
    for i in range(axis.count):
        for t in range(axis.taps):
            place, rest = divmod(axis.start + axis.stride * i + axis.gap * t, axis.divide)
            if rest == 0 and 0 <= place < axis.source:
                yield axis.first + axis.step * i, place, axis.filter_first + axis.filter_step * t


@given(geometries())
def test_a_gather_has_the_products_of_the_relation_and_no_others(g: Geometry) -> None:
    (result,) = to_result(g)
    images = to_image(g)
    for at, name in enumerate(("rows", "columns")):
        wanted = relation(g, at)
        assert {(i, p, r) for p, i, r in products(getattr(result, name))} == wanted
        axes = {getattr(each, name) for each in images}
        found = [product for axis in axes for product in products(axis)]
        assert set(found) == wanted
        assert len(found) == len(wanted)
        places = [axis.first + axis.step * i for axis in axes for i in range(axis.count)]
        assert sorted(places) == list(range(g.image[at]))


@given(geometries())
def test_no_element_meets_more_taps_than_its_bound_counts(g: Geometry) -> None:
    for each in (*to_result(g), *to_image(g)):
        for axis in (each.rows, each.columns):
            written = [place for place, _, _ in products(axis)]
            assert max(map(written.count, set(written)), default=0) <= axis.met <= axis.taps


@given(geometries())
def test_the_phases_of_a_strided_gradient_have_no_idle_taps(g: Geometry) -> None:
    images = to_image(g)
    if len(images) > 1:
        assert all(axis.divide == 1 for each in images for axis in (each.rows, each.columns))
        assert len(images) <= g.stride[0] * g.stride[1]


@given(geometries(), st.integers(1, 70), st.integers(1, 70), st.integers(1, 30))
def test_the_direct_gradient_of_filters_fits_into_lds(
    g: Geometry, channels: int, filters: int, batch: int
) -> None:
    g = Geometry(**{**vars(g), "channels": channels, "filters": filters, "batch": batch})
    if direct.maps_filters(g):
        split = direct.filter_split(g)
        lines = g.batch * g.result[0]
        assert split.splits >= 1
        assert split.chunk * split.splits >= lines
        assert split.depth >= 1


# ---- Algorithms ----

ANY = None  # simgen chooses
GEMM, DIRECT, IM2COL, WINOGRAD, FFT, LAST = (
    Algorithm.IMPLICIT_GEMM, Algorithm.DIRECT, Algorithm.IM2COL, Algorithm.WINOGRAD, Algorithm.FFT,
    Algorithm.CHANNELS_LAST,
)  # fmt: skip


@pytest.mark.parametrize(
    ("algo", "forward", "filters", "data"),
    [
        ("0", ANY, ANY, ANY),
        ("auto", ANY, ANY, ANY),
        ("cudnn", ANY, ANY, ANY),
        ("1", GEMM, GEMM, ANY),
        ("2", GEMM, FFT, ANY),
        ("6", GEMM, FFT, ANY),
        ("fft", FFT, FFT, FFT),
        ("4", GEMM, WINOGRAD, ANY),
        ("5", GEMM, WINOGRAD, ANY),
        ("winograd", WINOGRAD, WINOGRAD, WINOGRAD),
        ("direct", DIRECT, DIRECT, DIRECT),
        ("implicit_gemm", GEMM, GEMM, GEMM),
        ("im2col", IM2COL, IM2COL, IM2COL),
        ("channels_last", LAST, LAST, LAST),
    ],
)
def test_what_algo_means(
    algo: str, forward: Algorithm | None, filters: Algorithm | None, data: Algorithm | None
) -> None:
    value = ConvAlgo(algo)
    assert algorithms.for_forward(value) is forward
    assert algorithms.for_filters(value) is filters
    assert algorithms.for_data(value, DataAlgo.ALGO_0) is data


@pytest.mark.parametrize(
    ("algod", "data"),
    [
        ("1", GEMM), ("fft", FFT), ("fft_tiling", FFT), ("winograd", WINOGRAD),
        ("winograd_nonfused", WINOGRAD), ("direct", DIRECT), ("im2col", IM2COL),
    ],
)  # fmt: skip
def test_algod_wins_over_algo(algod: str, data: Algorithm) -> None:
    for algo in ConvAlgo:
        assert algorithms.for_data(algo, DataAlgo(algod)) is data


@pytest.mark.parametrize(
    ("algofwd", "forward"),
    [
        ("", FFT), ("0", GEMM), ("1", GEMM), ("2", IM2COL), ("3", DIRECT), ("4", FFT), ("5", FFT),
        ("6", WINOGRAD), ("7", WINOGRAD), ("winograd", WINOGRAD), ("cudnn", ANY), ("cudnnv7", ANY),
        ("auto", ANY), ("im2col", IM2COL),
    ],
)  # fmt: skip
def test_algofwd_wins_over_algo(algofwd: str, forward: Algorithm | None) -> None:
    """Numbers of cudnnConvolutionFwdAlgo_t (cudnn_cnn.h), which a fork of DNNMark takes."""
    read = Convolution.from_config([("algo", "fft", ""), ("algofwd", algofwd, "")])
    assert algorithms.for_forward(read.algo, read.forward_algo) is forward
    assert algorithms.for_filters(read.algo) is FFT
    assert algorithms.for_data(read.algo, read.data_algo) is FFT


@pytest.mark.parametrize(
    ("algod", "data"),
    [("2", FFT), ("3", FFT), ("4", WINOGRAD), ("5", WINOGRAD), ("auto", ANY), ("cudnnv7", ANY)],
)
def test_numbers_of_algod_are_those_of_cudnn(algod: str, data: Algorithm | None) -> None:
    assert algorithms.for_data(ConvAlgo.DIRECT, DataAlgo(algod)) is data


def test_the_algorithm_of_the_command_line_is_that_of_all_passes() -> None:
    text = "[Convolution]\nn=1\nc=3\nh=9\nw=9\nalgofwd=6\nalgod=winograd\nkernel_size=3\n"
    parsed = config.parse(text, "x.dnnmark")
    for algorithm, forward in ((None, WINOGRAD), ("im2col", IM2COL)):
        (node,) = network.resolve(parsed, algorithm=algorithm).layers
        read = node.layer
        assert isinstance(read, Convolution)
        assert algorithms.for_forward(read.algo, read.forward_algo) is forward
        assert algorithms.for_data(read.algo, read.data_algo) is forward


def test_an_empty_choice_of_kernels_is_none() -> None:
    """DNNMark's forks keep such values as empty texts, which name no algorithm; extents do not."""
    keys = [k for f in Convolution.keyed_fields() if f.metadata["hint"] for k in f.metadata["keys"]]
    assert Convolution.from_config([(key, "", "") for key in keys]) == Convolution()
    with pytest.raises(ConfigError, match="kernel_size is ''; write a whole number"):
        Convolution.from_config([("kernel_size", "", "")])


def test_few_channels_are_direct_and_many_are_a_product() -> None:
    first = Convolution().geometry((100, 3, 256, 256))
    assert {algorithms.choose(first, each) for each in Unknown} == {DIRECT}
    middle = Convolution(num_output=64).geometry((4, 64, 28, 28))
    assert {algorithms.choose(middle, each) for each in Unknown} == {GEMM}
    later = Convolution(num_output=64, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1)
    narrow = Convolution(num_output=24).geometry((16, 64, 56, 56))
    assert algorithms.choose(narrow, Unknown.RESULT) is DIRECT
    fewer = Convolution(num_output=24).geometry((16, 64, 28, 28))  # pixels
    assert algorithms.choose(fewer, Unknown.RESULT) is GEMM
    points = Convolution(num_output=8, kernel_h=1, kernel_w=1, pad_h=0, pad_w=0)
    assert algorithms.choose(points.geometry((16, 64, 56, 56)), Unknown.RESULT) is GEMM
    apart = replace(points, num_output=64, group=64).geometry((16, 64, 56, 56))
    assert algorithms.choose(apart, Unknown.RESULT) is DIRECT
    few_units = replace(later, machine=named("gem5-gfx902"))
    small = few_units.geometry((1, 64, 14, 14))
    assert {algorithms.choose(small, each) for each in Unknown} == {DIRECT}
    idling = later.geometry((1, 64, 14, 14))  # 8 work-groups, where a product has a chunk for each
    assert [algorithms.choose(idling, each) for each in Unknown] == [GEMM, GEMM, DIRECT]


@pytest.mark.parametrize(
    ("shape", "changed", "wanted"),
    [
        ((16, 64, 56, 56), {}, (FFT, FFT, FFT)),
        ((8, 512, 28, 28), {"num_output": 512}, (WINOGRAD,) * 3),  # spectra of filters are large
        ((128, 64, 7, 7), {"num_output": 256}, (WINOGRAD, WINOGRAD, WINOGRAD)),  # few results
        ((16, 32, 56, 56), {}, (FFT, FFT, FFT)),
        ((16, 64, 56, 56), {"kernel_w": 5}, (FFT, FFT, FFT)),
        ((4, 64, 56, 56), {}, (GEMM, GEMM, GEMM)),  # too little
        ((32, 24, 56, 56), {"num_output": 65}, (GEMM, DIRECT, GEMM)),  # too few channels
        ((16, 64, 56, 56), {"group": 4}, (DIRECT, DIRECT, DIRECT)),
        ((64, 64, 112, 112), {"stride_h": 2, "stride_w": 2}, (GEMM, GEMM, GEMM)),
        ((16, 512, 56, 56), {"kernel_h": 1, "kernel_w": 1, "pad_h": 0, "pad_w": 0}, (GEMM,) * 3),
        ((128, 64, 224, 224), {}, (FFT, FFT, FFT)),  # Winograd's workspaces are too large
        ((256, 64, 224, 224), {}, (GEMM, GEMM, GEMM)),  # all are
    ],
)
def test_much_is_transformed(
    shape: tuple[int, ...], changed: dict[str, int], wanted: tuple[Algorithm, ...]
) -> None:
    layer = Convolution(num_output=64, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1)
    g = replace(layer, **changed).geometry(shape)
    assert tuple(algorithms.choose(g, each) for each in Unknown) == wanted


# ---- Refusals ----


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        lowered_text(f"[Convolution]\nn=1\nc=6\nh=9\nw=9\n{text}\n")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("net.dnnmark:1: ")
    return message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("algo=winograd", ("5 x 5", "choose implicit_gemm")),
        ("algo=winograd\nkernel_size=3\nstride=2", ("stride 2 x 2", "choose implicit_gemm")),
        ("algo=fft\nstride=2", ("stride 2 x 2", "stride 1 and 17 pixels", "implicit_gemm")),
        ("algo=fft\nkernel_size=19\npad=9", ("19 x 19", "choose implicit_gemm")),
        ("algo=2\ndilation=5\npad=9", ("dilation 5 x 5", "choose implicit_gemm")),
        ("algod=winograd\nkernel_size=3\ndilation=2", ("dilation 2 x 2", "choose implicit_gemm")),
        ("group=4", ("6 channels and 32 filters", "make group a divisor of both")),
        ("kernel_size=9\npad=0\ndilation=2", ("17 does not fit into 9", "make the kernel smaller")),
        ("kernel_size=200\npad=100\nalgo=direct", ("too large", "choose implicit_gemm")),
    ],
)
def test_an_impossible_geometry_is_one_line(text: str, parts: tuple[str, ...]) -> None:
    message = refused(text)
    for part in parts:
        assert part in message


def test_tensors_beyond_the_kernels_indices_are_refused() -> None:
    with pytest.raises(ValueError, match="is larger than 2147483647; make n smaller"):
        Convolution().output((TensorSpec((2000, 3, 1024, 1024)),))


def of_preference(value: str, *more: tuple[str, str]) -> Convolution:
    keys = ("conv_fwd_pref", "conv_bwd_filter_pref", "conv_bwd_data_pref")
    entries = [("num_output", "64"), ("kernel_size", "3"), ("pad", "1"), *more]
    return Convolution.from_config([(k, v, "") for k, v in [*entries, *((k, value) for k in keys)]])


@pytest.mark.parametrize("direction", [F, BD, BW])
@pytest.mark.parametrize("side", [9, 56])
def test_without_workspace_there_is_none(direction: Pass, side: int) -> None:
    x = (TensorSpec((16, 64, side, side)),)
    spare, fast, limited = (
        of_preference(value)._job(x[0].shape, direction)
        for value in ("no_workspace", "fastest", "specify_workspace_limit")
    )
    assert limited == fast
    assert fast.workspaces() or spare == fast
    if direction is not BW:  # its sums are shared out among work-groups
        assert not spare.workspaces()
    elements = [sum(s.size for _, s in job.workspaces()) for job in (spare, fast)]
    assert elements[0] <= elements[1]


@pytest.mark.parametrize("direction", [F, BD, BW])
def test_a_workspace_has_the_size_that_is_given_at_most(direction: Pass) -> None:
    x = (TensorSpec((16, 64, 56, 56)),)

    def nbytes(size: int, preference: str = "fastest", *more: tuple[str, str]) -> int:
        layer = of_preference(preference, ("workspace_size", str(size)), *more)
        return sum(s.nbytes for _, s in layer._job(x[0].shape, direction).workspaces())

    free = nbytes(1)
    assert free == nbytes(0) == nbytes(free) == nbytes(2**31 - 1, "specify_workspace_limit")
    assert free > 2**22
    assert nbytes(free - 1) < free
    assert nbytes(free, "no_workspace") == nbytes(2) == nbytes(1, "no_workspace")
    asked = [nbytes(size, "fastest", ("algofwd", "6"), ("algo", "4"), ("algod", "4"))
             for size in (1, 2)]  # fmt: skip
    assert asked[0] == asked[1] > 2


def test_a_preference_is_not_above_an_algorithm_that_is_asked_for() -> None:
    x = (TensorSpec((2, 3, 9, 9)),)
    for direction in (F, BD, BW):
        for algo in ("im2col", "winograd", "fft"):
            lowered = {
                of_preference(value, ("algo", algo)).lower(x, direction)
                for value in ("no_workspace", "fastest")
            }
            assert len(lowered) == 1


@pytest.mark.parametrize(("width", "together"), [(8, 4), (7, 1)])
def test_windows_are_moved_by_fours_where_lines_are_whole_fours(width: int, together: int) -> None:
    """Of 3 x 3 x 4 rows of 2 x 6 x width pixels, each work-item moves so many, 256 in a group."""
    entries = [("num_output", "8"), ("kernel_size", "3"), ("pad", "1"), ("algo", "im2col")]
    layer = Convolution.from_config([(name, value, "") for name, value in entries])
    found = layer.lower((TensorSpec((2, 4, 6, width)),), F)
    assert dict(found.kernels[0].constants)["wide"] == together
    assert found.launches[0].grid == (-(-36 * 12 * width // (256 * together)), 1, 1)


def test_what_is_stored_by_another_kernel_is_left_where_that_one_reads() -> None:
    """Lines of 5 integers are no whole words: sums of 32 bits come first."""
    text = "[Convolution]\nn=1\nc=4\nh=5\nw=5\nnum_output=3\nkernel_size=3\npad=1\n"
    scales = "algo=implicit_gemm\nx_scale=.05\nw_scale=.01\ny_scale=.25\n"
    parsed = config.parse(f"[DNNMark]\nrun_mode=standalone\n{text}{scales}", "net.dnnmark")
    made = lowering.lower(network.resolve(parsed, dtype="i8"), "net", (F,), 0)
    first, second = made.launches
    assert first.args[-1] == second.args[0]
    between = made.buffer(second.args[0])
    assert (between.spec.dtype, between.spec.size) == (DType.I32, 75)
    assert made.buffer(second.args[-1]).spec.dtype is DType.I8
