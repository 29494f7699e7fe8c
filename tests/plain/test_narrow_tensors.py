"""Narrow element types in files, in configs and in what is refused."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

import h5py
import narrow
import numpy as np
import pytest
from census import census

from simgen.bundle import results
from simgen.bundle.results import Output, Result
from simgen.errors import ConfigError, UnsupportedError
from simgen.frontend import network, problem
from simgen.ground.dtypes import BF16, F8E4M3FN, F16, DType
from simgen.ground.ir import Distribution, Fill, Pass, TensorSpec
from simgen.ground.machine import find
from simgen.ground.numerics import storing
from simgen.ground.numerics.integers import wrapped
from simgen.ground.numerics.spread import Spread
from simgen.layers.requantisation import Requantisation
from simgen.tensors import data_file, exact_values, own_values, random_values
from simgen.workload import lowering

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3fn", "f8e5m2"])
def test_data_are_values_of_the_type_and_hdf5_shows_them(tmp_path: Path, dtype: str) -> None:
    work = narrow.planned(dtype)
    made = data_file.write_data(tmp_path / "data.h5", work)
    assert data_file.verify(made.path, work, made.digest) == made.digest
    loaded = data_file.load(made.path, work)
    with h5py.File(made.path) as file:
        for buffer in work.inputs:
            spec, values = buffer.spec, loaded[buffer.name]
            assert (values.dtype, values.shape) == (spec.dtype.array, spec.shape)
            wide = TensorSpec(spec.shape)
            assert buffer.fill
            drawn = random_values.generate(buffer.name, wide, buffer.fill, work.seed)
            assert (values.reshape(-1) == drawn.astype(spec.dtype.array)).all()
            if dtype != "f8e4m3fn":
                assert (file[buffer.name][()] == values.astype(np.float32)).all()
            if dtype != "f16" and spec.dtype.name == dtype:
                assert file[buffer.name].attrs["type"] == dtype
    own = own_values.read_values([made.path], work)
    assert all((own[name] == values).all() for name, values in loaded.items())


def test_a_uniform_value_stays_below_the_end() -> None:
    fill = Fill(Distribution.UNIFORM, 0.0, 1.0)
    for dtype in (F16, BF16, F8E4M3FN):
        values = random_values.generate("t", TensorSpec((10_000,), dtype), fill, 1)
        assert float(values.max()) == 1 - 2 * dtype.roundoff / 2  # the number before 1


@pytest.mark.parametrize("dtype", [F16, BF16, F8E4M3FN], ids=str)
def test_results_keep_bits_and_type(tmp_path: Path, dtype: DType) -> None:
    values = np.arange(2**8, dtype=np.uint8).repeat(dtype.nbytes).view(dtype.array)
    provenance = {"simgen": "1", "compiler": "c"}
    work = narrow.planned("f16")
    launches = ({},) * len(work.launches)
    made = Result("r", {"a.y": Output(values, 3, True)}, launches, provenance)
    results.save(made, work, tmp_path / "r.h5")
    (back,) = results.load(tmp_path / "r.h5").outputs.values()
    assert back.values.dtype == values.dtype
    assert back.values.tobytes() == values.tobytes()


def test_what_storing_loses_is_half_of_a_step() -> None:
    reference = np.array([1.0, 1.0 + 2.0**-12, 3.0e-8, 65519.0, 65520.0])
    bound = np.array([0.0, 0.0, 1e-12, 1.0, 0.0])
    stored, bounds, spread = storing.stored(reference, bound, Spread(bound / 2), F16)
    assert stored.tolist() == [1.0, 1.0, 3.0e-8, 65519.0, np.inf]
    assert bounds.tolist() == [0.0, 0.0, 1e-12 + 2.0**-25, 1.0 + 16.0, 0.0]
    assert (spread.sigma <= bounds).all()
    same = storing.stored(reference, bound, Spread(bound), DType.F32)
    assert same[0] is reference


def test_show_says_where_elements_are_converted() -> None:
    found = problem.find("conv_fwd", (("algo", "winograd"), ("kernel_size", "3")), None)
    for dtype, told in (("f16", ["algorithm", "elements"]), ("f32", ["algorithm"])):
        (placed,) = network.resolve(found.config, found.settings, dtype=dtype).layers
        choices = placed.layer.choices(placed.node.inputs, Pass.FORWARD)
        assert [choice.what for choice in choices] == told


REFUSED = {
    "type is 'float16'; did you mean 'f16'?": ("softmax_fwd", "float16", ()),
    "type is 'half'; did you mean 'f16'?": ("softmax_fwd", "half", ()),
    "type is 'fp8'; known: f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz": ("softmax_fwd", "fp8", ()),
    "type is 'int4'; weights alone have 4 bits: w_type=i4 of [FullyConnected], b_type=i4 of "
    "[Gemm]": ("fc_fwd", "int4", ()),
    "type is 'tf32'; tensors have f32, of which --matrix tf32 makes factors of TF32": (
        "gemm_fwd", "tf32", ()
    ),
    "layer 'sgd': [SGD] has type f32 alone, and its input is f16; leave it out; gradients have "
    "gradient_type, and working copies copy_type": ("sgd_fwd", "f16", ()),
    "x_scale is 0.0; it must be at least 1e-37": ("fc_fwd", "i8", (("x_scale", "0"),)),
    "layer 'fc': rows of w have 136 elements, which is not a multiple of group_size 128; let "
    "group_size be 8, for example": (
        "fc_fwd", "f16", (("w_type", "i4"), ("w_scale", ".1"), ("c", "136"))
    ),
    "--type 'f17': type is 'f17'; did you mean 'f16'?": ("softmax_fwd", "f17", ()),
    "--type 'f64': layer 'softmax': [Softmax] has floating-point types up to 32 bits, and its "
    "input is f64; choose another type": ("softmax_fwd", "f64", ()),
    "--type 'i8': layer 'softmax': [Softmax] has floating-point types up to 32 bits, and its "
    "input is i8; choose another type": ("softmax_fwd", "i8", ()),
    "--type 'i32': layer 'conv': [Convolution] has floating-point types up to 32 bits, i8, and its "
    "input is i32; choose another type": ("conv_fwd", "i32", ()),
    "layer 'gemm': a is i32, b is i32; of integers, a and b are i8, and c is i32": (
        "gemm_fwd", "i32", ()
    ),
    "layer 'gemm': alpha is 2 and beta 0, but sums of i8 are integers; let alpha be 1, beta 0 or "
    "1": ("gemm_fwd", "i8", (("alpha", "2"),)),
    "layer 'fc': x_scale without w_scale, y_scale; give x_scale, w_scale, y_scale, or none": (
        "fc_fwd", "i8", (("x_scale", ".1"),)
    ),
    "layer 'conv': y_zero_point without x_scale, w_scale, y_scale; give x_scale, w_scale, y_scale, "
    "or none": ("conv_fwd", "i8", (("y_zero_point", "3"),)),
    "layer 'gemm': b_zero_point is given, and the input is f16; leave it out, or take i8": (
        "gemm_fwd", "f16", (("b_zero_point", "3"),)
    ),
    "layer 'fc': x_scale is given, and the input is f16; leave it out, or take i8 or an 8-bit "
    "float": ("fc_fwd", "f16", (("x_scale", ".1"),)),
    "layer 'activation': activation_mode is tanh, and the input is i8; take relu, or insert [Cast] "
    "with type=f32 before it": ("activation_fwd", "i8", (("activation_mode", "tanh"),)),
    "layer 'pool': zero_point is given, and the input is f16; leave it out, or take i8": (
        "pool_fwd", "f16", (("zero_point", "3"),)
    ),
    "layer 'pool': a mean of 90000 elements of i8 would be rounded twice; let a window have 65793 "
    "at most": ("pool_fwd", "i8", (("pool_mode", "avg"), ("kernel_size", "300"), ("pad", "299"))),
    "layer 'add': x0 is i8, and x0_scale, x1_scale and y_scale are missing; give them, such as "
    "y_scale=.05": ("add_fwd", "i8", ()),
    "layer 'add': [Add] of i8 has 3 inputs; add them two by two": (
        "add_fwd", "i8", (("inputs", "3"), *((f"{t}_scale", "1") for t in ("x0", "x1", "y")))
    ),
    "layer 'cast': y is i8, and y_scale is missing; give it, such as y_scale=.05": (
        "cast_fwd", None, (("type", "i8"),)
    ),
    "layer 'cast': y_scale is given, and y is f16; leave it out": (
        "cast_fwd", None, (("y_scale", "2"),)
    ),
    "layer 'cast': x is i32, which has no x_zero_point; leave it out": (
        "cast_fwd", "i32", (("x_scale", "1"), ("x_zero_point", "1"))
    ),
    "layer 'fc': x_zero_point is given, and the input is f8e5m2; leave it out, or take i8": (
        "fc_fwd", "f8e5m2", (("x_zero_point", "3"),)
    ),
    "layer 'fc': w_type is i8 without w_scale; give it, such as w_scale=.01": (
        "fc_fwd", "bf16", (("w_type", "i8"),)
    ),
    "layer 'fc': w_type is i4 without w_scale; give it, such as w_scale=.01": (
        "fc_fwd", "f16", (("w_type", "i4"), ("c", "256"))
    ),
    "layer 'fc': rows of w have 9162 elements, which is not a multiple of group_size 128; let "
    "rows have a multiple of 8": ("fc_fwd", "f16", (("w_type", "i4"), ("w_scale", ".1"))),
    "layer 'fc': group_size is 12; let it be a multiple of 8": (
        "fc_fwd", "f16", (("w_type", "i4"), ("w_scale", ".1"), ("group_size", "12"))
    ),
    "layer 'fc': group_size is given, and w has no integers beside floats; leave it out, or give "
    "w_type beside f32, f16 or bf16": ("fc_fwd", "f16", (("group_size", "64"),)),
    "layer 'fc': w_scale is 100000, and scales of groups are f16; let it be 2e-7 to 40000": (
        "fc_fwd", "f16", (("w_type", "i4"), ("w_scale", "1e5"), ("c", "256"))
    ),
    "layer 'gemm': b_scale_per_channel is given, and b has no integers beside floats; leave it "
    "out, or give b_type beside f32, f16 or bf16": (
        "gemm_fwd", "i8", (("b_scale_per_channel", "true"),)
    ),
    "layer 'gemm': b_scale is 1e-08, and scales of groups are f16; let it be 2e-7 to 40000": (
        "gemm_fwd", "f32",
        (("b_type", "i4"), ("b_scale", "1e-8"), ("transb", "true")),
    ),
    "layer 'fc': w_scale_per_channel and group_size are given; leave one out": (
        "fc_fwd", "f16",
        (("w_type", "i8"), ("w_scale", ".1"), ("c", "256"), ("group_size", "64"),
         ("w_scale_per_channel", "true")),
    ),
    "layer 'fc': rows of w have 60 elements, and w is i4; let rows have a multiple of 8": (
        "fc_fwd", "f16",
        (("w_type", "i4"), ("w_scale", ".1"), ("c", "60"), ("w_scale_per_channel", "true")),
    ),
    "layer 'gemm': b_type is i8 without b_scale; give it, such as b_scale=.01": (
        "gemm_fwd", "bf16", (("b_type", "i8"),)
    ),
    "layer 'gemm': b_type is i8, a is i8 and b i8; let a be f32, f16 or bf16, and b i8, or leave "
    "b_type out": ("gemm_fwd", "i8", (("b_type", "i8"), ("b_scale", ".1"))),
    "layer 'gemm': b has scales of groups along k, and transb is false; give b as (n, k), and "
    "transb=true": ("gemm_fwd", "bf16", (("b_type", "i4"), ("b_scale", ".1"))),
    "layer 'gemm': b_scale_per_channel is given, and there are 2 products; leave it out, or let "
    "group_size be k, which is 256": (
        "gemm_fwd", "bf16",
        (("b_type", "i8"), ("b_scale", ".1"), ("b_scale_per_channel", "true"), ("batch", "2")),
    ),
    "layer 'gemm': y_scale is given beside b_type=i8, and a is no i8; leave it out, or take i8": (
        "gemm_fwd", "bf16", (("b_type", "i8"), ("b_scale", ".1"), ("y_scale", "1"))
    ),
    "layer 'fc': w_zero_point is 9, and w is i4; let it be -8 to 7": (
        "fc_fwd", "f16",
        (("w_type", "i4"), ("w_scale", ".1"), ("c", "256"), ("w_zero_point", "9")),
    ),
    "layer 'fc': w_type is i4, and x is i8; take f32, f16 or bf16": (
        "fc_fwd", "i8", (("w_type", "i4"), ("w_scale", ".1"))
    ),
    "layer 'fc': y_scale is given beside w_type=i8, and x is no i8; leave it out, or take i8": (
        "fc_fwd", "bf16", (("w_type", "i8"), ("w_scale", ".1"), ("y_scale", "1"))
    ),
    "layer 'conv': algorithm im2col takes no i8; choose direct or implicit_gemm, or leave algo "
    "out": ("conv_fwd", "i8", (("algo", "im2col"),)),
    "--set pool1.type=f16: type is f16, but the previous layer's output is f32; leave it out, or "
    "insert [Cast] with type=f16 before layer 'pool1'": (
        "alexnet", None, (("pool1.type", "f16"),)
    ),
    "[Cast] cannot make i32; set type=f32, f16, bf16 or i8": ("cast_fwd", None, (("type", "i32"),)),
}  # fmt: skip


@census("message", REFUSED)
def test_types_that_cannot_be_are_one_line(message: str) -> None:
    word, dtype, settings = REFUSED[message]
    found = problem.find(word, settings, None)
    with pytest.raises(ConfigError) as caught:
        network.resolve(found.config, found.settings, dtype=dtype)
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("word", "dtype", "machine", "settings", "place"),
    [
        ("add_fwd", "i8", "", (("n", "1"), ("w", "3")), "--type 'i8'"),
        ("gemm_fwd", "i8", "", (("alpha", "2"), ("k", "8")), "--set alpha=2"),
        ("fc_fwd", "bf16", "", (("w_type", "i8"), ("c", "16")), "--set w_type=i8"),
        ("pool_fwd", None, "", (("kernel_size", "900"), ("n", "1")), "--set n=1"),
        ("gemm_fwd", None, "h100,matrix=yes", (("k", "8"),), "built-in gemm"),
    ],
)
def test_the_place_of_a_mistake_is_what_the_message_names(
    word: str, dtype: str | None, machine: str, settings: tuple[tuple[str, str], ...], place: str
) -> None:
    """Else the last thing that the command line says of the layer."""
    found = problem.find(word, settings, None)
    planned_for = find(machine, "test") if machine else None
    with pytest.raises(ConfigError, match=rf"^{re.escape(place)}: layer "):
        network.resolve(found.config, found.settings, dtype=dtype, machine=planned_for)


def test_scaled_floats_have_no_backward_pass() -> None:
    settings = (("x_scale", "2"), ("w_scale", "2"), ("y_scale", "2"))
    found = problem.find("fc_bwd_weight", settings, None)
    layers = network.resolve(found.config, found.settings, dtype="f8e4m3fn")
    with pytest.raises(UnsupportedError, match="with scales has pass fwd alone; build that"):
        lowering.lower(layers, found.name, found.passes, 0)


@pytest.mark.parametrize("word", ["conv_bwd_data", "fc_bwd_weight", "gemm_bwd", "pool_bwd"])
def test_integers_have_no_backward_pass(word: str) -> None:
    found = problem.find(word, (), None)
    layers = network.resolve(found.config, found.settings, dtype="i8")
    with pytest.raises(UnsupportedError, match="of integers has pass fwd alone; build that, or"):
        lowering.lower(layers, found.name, found.passes, 0)


def test_sums_of_integers_are_exact_without_other_values() -> None:
    """They are what they are: there is nothing to draw anew."""
    work = narrow.planned_integers()
    assert exact_values.with_exact_values(work) == work


def test_sums_of_integers_wrap_around() -> None:
    ends = np.array([2.0**31 - 1, 2.0**31, -(2.0**31) - 1, 3 * 2.0**32 + 5])
    assert wrapped(ends).tolist() == [2.0**31 - 1, -(2.0**31), 2.0**31 - 1, 5.0]


def test_requantisation_is_that_of_real_numbers() -> None:
    """Of whole numbers and scales that float32 has: rounded half to even, and saturated."""
    sums = np.arange(-4000, 4000, dtype=np.float64)
    for scale, zero in ((0.5, 0), (0.125, -7), (3.0, 20), (2.0**-9, 127)):
        found = Requantisation(scale, zero).of(sums)
        wanted = [min(127, max(-128, round(Fraction(s) * Fraction(scale)) + zero)) for s in sums]
        assert found.tolist() == wanted
