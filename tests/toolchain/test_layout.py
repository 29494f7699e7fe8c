"""Storage formats: what a convolution computes does not depend on them, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import simgen

SIZES = {"n": 2, "c": 5, "h": 9, "w": 7, "num_output": 12, "kernel_size": 3, "pad": 1}
# Images of 63 pixels, and 5 channels: narrow elements of neither lie by fours.
FORMATS = [("nhwc", "kcrs"), ("nchw", "krsc"), ("nhwc", "krsc")]
CASES = [  # each pass, type and pair of formats; what kernels move as it is, and what they do not
    ("conv_fwd", "f32", "direct", *FORMATS[2]),
    ("conv_fwd", "f16", "implicit_gemm", *FORMATS[0]),
    ("conv_bwd_data", "f16", "winograd", *FORMATS[2]),
    ("conv_bwd_data", "f32", "implicit_gemm", *FORMATS[1]),
    ("conv_bwd_weight", "f16", "direct", *FORMATS[2]),
    ("conv_bwd_weight", "f32", "winograd", *FORMATS[0]),
]


def outputs(folder, name, values, **choices):
    settings = SIZES | choices.pop("set", {})
    path = folder / "values.npz"
    np.savez(path, **values)
    plan = simgen.plan(name, set=settings, values=path, **choices)
    bundle = plan.build(folder / "bundle", "host", replace=True)
    bundle.run("host")
    assert bundle.diff("host", "reference", strict=True)
    found = bundle.result("host").outputs
    return plan.workload, {key: each.values for key, each in found.items()}


@pytest.mark.parametrize(("name", "dtype", "algo", "images", "filters"), CASES)
def test_a_format_changes_where_elements_lie_and_nothing_else(
    tmp_path, name, dtype, algo, images, filters
):
    choices = {"type": dtype, "algo": algo}
    plain = simgen.plan(name, set=SIZES, **choices).workload
    random = np.random.Generator(np.random.Philox(1))
    values = {
        each.name: random.standard_normal(each.spec.shape).astype(each.spec.dtype.array)
        for each in plain.inputs
    }
    _, wanted = outputs(tmp_path, name, values, **choices)

    def turned(key):
        return (filters == "krsc") if key.rpartition(".")[2] in ("w", "dw") else images == "nhwc"

    stored = {k: np.moveaxis(v, 1, 3).copy() if turned(k) else v for k, v in values.items()}
    own = {"filter_layout": filters}
    made, found = outputs(tmp_path, name, stored, set=own, layout=images, **choices)
    for key, each in found.items():
        assert np.array_equal(np.moveaxis(each, 3, 1) if turned(key) else each, wanted[key]), key
    # As many launches more as there are tensors that lie otherwise, less casts that they spare.
    tensors = [*stored, *found]
    turns = [each for each in made.launches if "_turn_" in each.kernel]
    assert len(turns) == sum(map(turned, tensors))
    casts = [each for each in plain.launches if each.kernel.startswith("cast")]
    assert len(made.launches) >= len(plain.launches) + len(turns) - len(casts)


@pytest.mark.parametrize(
    ("name", "copied"), [("conv_fwd", 1), ("conv_bwd_data", 1), ("conv_bwd_weight", 0)]
)
def test_matrix_cores_read_channels_last_as_they_are_stored(tmp_path, name, copied):
    """The same products of the same factors, without launches that make them."""
    settings = {**SIZES, "c": 8, "num_output": 16}
    choices = {"type": "f16", "algo": "channels_last", "set": settings, "plan_for": "h200"}
    plain = simgen.plan(name, **choices).workload
    random = np.random.Generator(np.random.Philox(1))
    values = {
        each.name: random.standard_normal(each.spec.shape).astype(each.spec.dtype.array)
        for each in plain.inputs
    }
    _, wanted = outputs(tmp_path, name, values, **choices)
    images = [key for key in values if not key.endswith(".w")]
    stored = values | {key: np.moveaxis(values[key], 1, 3).copy() for key in images}
    made, found = outputs(tmp_path, name, stored, layout="nhwc", **choices)
    for key, each in found.items():
        assert np.array_equal(each if key.endswith("dw") else np.moveaxis(each, 3, 1), wanted[key])
    read = {arg for launch in made.launches for arg in launch.args}
    assert set(images) <= read
    assert sum("channels_last" in launch.kernel for launch in made.launches) == copied  # filters
    turned = {arg for launch in made.launches if "_turn_" in launch.kernel for arg in launch.args}
    assert not turned & set(images)


def test_what_passes_between_layers_has_one_format():
    with pytest.raises(simgen.errors.ConfigError, match="stores nhwc, which layers before"):
        simgen.plan("alexnet", layout="nhwc")
    alone = simgen.plan("alexnet", layout="NHWC", layers="conv2").workload
    assert alone.inputs[0].spec.shape[1:] == (27, 27, 96)
