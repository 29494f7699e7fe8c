"""Every lowered layer computes its reference on the host target, in awkward shapes and at extremes.

Hundreds of problems share one program: see layer_bundles.py.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from covering import covering, properties
from layer_bundles import Problem, distinct_kernels, failures, make, plan
from layer_variants import (
    Variant,
    accepts,
    inputs_of,
    lowered,
    seconds,
    shapes_of,
    variants,
)

from simgen.ground.ir import Pass
from simgen.layers import LAYERS
from simgen.layers.activation import Activation
from simgen.layers.fused import FusedMode
from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from layer_bundles import Made
    from numpy.typing import NDArray

    from simgen.ground.ir import Kernel
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

F, B = Pass.FORWARD, Pass.BACKWARD
PASSES = [(kind, direction) for kind in lowered() for direction in LAYERS[kind].passes]

# Ones, primes, rests modulo 4, 64 and 256, rows that a work-group cannot hold, strided rows.
SHAPES = (
    (1, 1, 1, 1),
    (3, 1, 1, 1),
    (2, 1, 3, 1),
    (1, 2, 1, 1),
    (5, 13, 1, 1),
    (67, 4, 1, 1),
    (2, 64, 1, 1),
    (3, 100, 1, 1),
    (1, 1000, 1, 1),
    (7, 257, 1, 1),
    (2, 4096, 1, 1),
    (2, 4100, 1, 1),
    (2, 4099, 1, 1),
    (2, 3, 5, 7),
    (1, 17, 8, 8),
    (2, 20, 3, 1),
    (1, 67, 9, 9),
    (2, 300, 1, 3),
    (1, 2, 1, 1027),
    (3, 37, 11, 11),
    (301, 6, 1, 1),  # the batch does not fit into a work-group, by images and by samples
    (2, 2, 48, 48),
)


@cache
def problems(kind: str, direction: Pass) -> dict[str, Problem]:
    """All variants of a layer in all shapes that it accepts, without repetitions."""

    def each() -> Iterator[tuple[str, Problem]]:
        for number, variant in enumerate(variants(kind)):
            for shape in shapes_of(kind, SHAPES):
                if direction in variant.layer.able and accepts(variant.layer, shape):
                    text = "x".join(map(str, shape))
                    name = f"v{number}_{text}"
                    yield name, Problem(variant, shape)

    return distinct_kernels(each(), direction)


# What the problems of a kind must reach: constants of a template, with values that make other text
# of it. (Large results, and large tiles, are in test_large_convolutions.py and test_tiles.py.)
MODES = set(map(str, FusedMode))
REACHED: dict[tuple[str, str], dict[str, set[Any]]] = {
    ("conv", "conv_direct"): {"wide": {1, 2, 4}, "vector": {1, 4}, "unrolled": {0, 1},
                              "rows_gap": {1, 2}, "rows_divide": {1, 5}, "with_bias": {0, 1}},
    ("conv", "conv_direct_filters"): {"sparse": {0, 1}, "segments": {1, 2}, "flipped": {0, 1},
                                      "spans": {1, 3}, "vector": {1, 4}, "groups": {1, 3}},
    ("conv", "conv_gemm"): {"unrolled": {0, 1}, "straight": {0, 1}, "groups": {1, 3},
                            "rows_gap": {1, 2}, "columns_gap": {1, 3}, "rows_divide": {1, 5}},
    ("conv", "conv_gemm_filters"): {"unrolled": {0, 1}, "dilation_h": {1, 2}, "flipped": {0, 1},
                                    "groups": {1, 3}},
    ("conv", "conv_windows"): {"rows_gap": {1, 2}, "rows_divide": {1, 5}, "wide": {1, 4},
                               "groups": {1, 3}},
    ("conv", "conv_winograd_filters"): {"groups": {1, 3}, "rows_filter_step": {-1, 1}},
    ("conv", "conv_winograd_target"): {"groups": {1, 3}, "with_bias": {0, 1}},
    ("fused_conv", "conv_direct"): {"activation": MODES | {"none"}, "with_batch_norm": {0, 1}},
    ("fused_conv", "conv_gemm"): {"activation": {"clipped_relu", "sigmoid", "relu", "none"},
                                  "with_batch_norm": {0, 1}},
    ("fused_conv", "conv_winograd_target"): {"activation": {"elu", "relu", "none"},
                                             "with_batch_norm": {0, 1}},
    ("fused_conv", "gemm_sum"): {"activation": {"clipped_relu", "sigmoid", "relu", "none"}},
    ("fused_fc", "gemm"): {"activation": MODES | {"none"}, "with_batch_norm": {0, 1}},
    ("pool", "pooling_backward_max"): {"before_p": {0, 1}, "before_q": {0, 1, 6},
                                       "results": {1, 2, 4}, "load": {1, 4}, "vector": {1, 3, 4}},
    ("dropout", "dropout"): {"threshold": {0, 2**31}, "all": {0, 1}, "key": {0, 777}},
    ("attention", "attention"): {"with_parts": {0, 1}, "with_mask": {0, 1}, "keeps": {0, 1},
                                 "with_sinks": {0, 1}, "page": {0, 3, 4}, "slices": {16, 64},
                                 "tile_rows": {16, 32, 64}, "causal": {0, 1}, "window": {0, 3}},
    ("softmax", "softmax_forward"): {"in_registers": {0, 1}, "slices": {256, 1024}},
    ("softmax", "softmax_backward"): {"in_registers": {0, 1}, "slices": {256, 1024}},
    ("bn", "batch_norm_moments_end"): {"slices": {2, 32}},
    ("bn", "batch_norm_sums_end"): {"slices": {2, 32}},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "template"), REACHED)
def test_the_problems_reach(kind: str, template: str) -> None:
    found = [dict(k.constants) for k in all_kernels(kind) if k.template == f"{template}.hip"]
    for constant, wanted in REACHED[kind, template].items():
        assert wanted <= {constants.get(constant) for constants in found}


@cache
def all_kernels(kind: str) -> list[Kernel]:
    return [
        kernel
        for direction in LAYERS[kind].passes
        for problem in problems(kind, direction).values()
        for kernel in kernels_of(problem, direction)
    ]


def kernels_of(problem: Problem, direction: Pass) -> tuple[Kernel, ...]:
    layer = problem.variant.layer
    return layer.lower(inputs_of(layer, problem.shape), direction).kernels


def covered(kind: str, pairs: bool) -> dict[Pass, dict[str, Problem]]:
    """By pass, those that cover each choice of a layer's kernels.

    With `pairs` each two choices and each size too, and of each pass its choices, its variants and
    its shapes. What is chosen together is so once for all passes: the same template with the same
    constants is the same kernel, whatever pass it serves.
    """
    found = {
        (direction, name): problem
        for direction in LAYERS[kind].passes
        for name, problem in problems(kind, direction).items()
    }
    kernels = {(way, name): kernels_of(each, way) for (way, name), each in found.items()}
    labels = {
        (way, name): [
            (f"variant of {way}", problem.variant),
            (f"shape of {way}", problem.shape),
            *((f"{way} {kernel.template}", each) for kernel in kernels[way, name]
              for each in properties(kernel, sizes=False)),
        ]
        for (way, name), problem in found.items()
    }  # fmt: skip
    costs = {
        (way, name): seconds(each.variant.layer, each.shape, way)
        for (way, name), each in found.items()
    }
    wanted = labels if pairs else None
    chosen = covering(kernels, pairs=pairs, sizes=pairs, labels=wanted, costs=costs)
    kept: dict[Pass, dict[str, Problem]] = {}
    for way, name in chosen:
        kept.setdefault(way, {})[name] = found[way, name]
    return kept


def run_well(path: Path, found: dict[str, Problem], direction: Pass, builder: Builder, *,
             sanitize: bool) -> None:  # fmt: skip
    """Of what is checked, the text is what may be wrong: it is not optimised."""
    work = plan(found, direction)
    verdicts = make(path, work, builder, sanitize=sanitize).good()
    assert set(verdicts) == set(found)
    wrong = failures(verdicts)
    assert not wrong, "\n".join(f"{line}\n  {found[line.split(':')[0]].variant}" for line in wrong)


@pytest.mark.parametrize(("kind", "direction"), PASSES)
def test_every_variant_in_awkward_shapes(
    tmp_path: Path, builder: Builder, once: Callable[..., Any], kind: str, direction: Pass
) -> None:
    """Each two choices of the kernels together, with every check on."""
    found = once(covered, kind, True)[direction]
    assert len(found) >= len(shapes_of(kind, SHAPES))
    run_well(tmp_path, found, direction, builder, sanitize=True)


@pytest.mark.parametrize("kind", lowered())
def test_every_choice_at_full_speed(
    tmp_path: Path, builder: Builder, once: Callable[..., Any], kind: str
) -> None:
    for direction, found in once(covered, kind, False).items():
        run_well(tmp_path / str(direction), found, direction, builder, sanitize=False)


def test_both_passes_of_all_layers_in_one_run(tmp_path: Path, builder: Builder) -> None:
    """Backward reads what forward wrote, and the sanitized program writes the same bytes."""
    from simgen.frontend import network
    from simgen.frontend.config import Config, Section
    from simgen.workload import lowering as workloads

    sections = []
    for kind in lowered():
        if LAYERS[kind].passes == (F,):
            continue
        section = network.sample_section(kind)
        channels = {"slice": "6", "bcm_fc": "32"}.get(kind, "7")  # halves, whole blocks
        small = {"n": "2", "c": channels, "h": "3", "w": "5"}
        four = LAYERS[kind].sample.get("shape", "").count("x") == 3
        small["shape"] = "2x4x7x12" if four else "2x7x12"
        entries = tuple(type(e)(e.key, small.get(e.key, e.value), e.where) for e in section.entries)
        sections.append(Section(section.name, entries, section.where))
    found = network.resolve(Config("test", tuple(sections), ()))
    planned = workloads.lower(found, "both", (F, B), 0)
    raw = []
    for sanitize in (False, True):
        made = make(tmp_path / str(sanitize), planned, builder, sanitize=sanitize, optimise=True)
        assert not failures(made.good())
        raw.append((made.bundle.path / "results" / "host" / "outputs.bin").read_bytes())
    assert raw[0] == raw[1]


# ---- Special values ----

Rows = list[tuple[str, "NDArray[np.float32]"]]


def softmax_rows(algo: str) -> Rows:
    """Rows of 24 elements that strain the reduction. "fast" overflows above x = 88 by contract."""
    rng = np.random.default_rng(7)
    base = rng.standard_normal(24).astype(np.float32)

    def with_at(value: float, *places: int) -> NDArray[np.float32]:
        row = base.copy()
        row[list(places)] = value
        return row

    mild = [
        ("all equal", np.full(24, 3.5, np.float32)),
        ("all zero", np.zeros(24, np.float32)),
        ("negative zeros", np.full(24, -0.0, np.float32)),
        ("subnormal", np.full(24, 1e-40, np.float32)),
        ("one at 80", with_at(80.0, 11)),
        ("one at -104", with_at(-104.0, 0)),
        ("all at -80", base - 80),
        ("one at -1e30", with_at(-1e30, 23)),
    ]
    harsh = [
        ("one at 1e30", with_at(1e30, 5)),
        ("two at 1e30", with_at(1e30, 0, 23)),
        ("1e30 and -1e30", np.where(np.arange(24) % 2, 1e30, -1e30).astype(np.float32)),
        ("all at -1e30", np.full(24, -1e30, np.float32)),
        ("all at 3e38", np.full(24, 3e38, np.float32)),
        ("a masked row", np.full(24, np.finfo(np.float32).min)),
        ("all at 3e38 but one", with_at(3e38, *range(23))),
        ("all around 1e4", base + np.float32(1e4)),
        ("all below the maximum by 200", with_at(200.0, 3)),
    ]
    masked = [  # of which a logarithm is infinite
        ("one at -inf", with_at(-np.inf, 4)),
        ("all at -inf but one", with_at(-np.inf, *range(1, 24))),
    ]
    return {"fast": mild, "log": mild + harsh}.get(algo, mild + harsh + masked)


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitize"])
def test_softmax_of_extreme_rows(tmp_path: Path, builder: Builder, sanitize: bool) -> None:
    rows = {algo: softmax_rows(algo) for algo in ("fast", "accurate", "log")}
    found = {
        f"{algo}_{layout}": Problem(
            Variant("softmax", (("softmax_algo", algo), ("softmax_mode", "channel"))),
            (len(rows[algo]), 24, 1, 1) if layout == "rows" else (1, 24, 1, len(rows[algo])),
        )
        for algo in rows
        for layout in ("rows", "strided")
    }
    made = make(tmp_path, plan(found, F), builder, sanitize=sanitize)
    for name, problem in found.items():
        values = np.stack([row for _, row in rows[name.split("_")[0]]])
        wanted = values if name.endswith("rows") else values.T
        made.rewrite(f"{name}.x", _set_to(wanted.reshape(problem.shape)))
    verdicts = made.good()
    assert not failures(verdicts)
    outputs = made.outputs()
    for name in found:
        assert np.isfinite(outputs[f"{name}.y"]).all()


SPECIAL = np.array(
    [0.0, 1e-40, 1.2e-38, 1e-20, 0.2499999, 0.25, 0.2500001, 1.0, 6.0, 6.0000005, 16.6, 87.3, 88.0,
     88.8, 103.9, 104.0, 126.0, 128.5, 1e4, 1e30, 3.4e38, np.inf], np.float32
)  # fmt: skip


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitize"])
def test_activation_of_special_values(tmp_path: Path, builder: Builder, sanitize: bool) -> None:
    x = np.concatenate([SPECIAL, -SPECIAL])
    found = {f"v{i}": Problem(v, (1, 1, 1, x.size)) for i, v in enumerate(variants("activation"))}
    found = distinct_kernels(iter(found.items()), F)
    made = make(tmp_path, plan(found, F), builder, sanitize=sanitize)
    for name, problem in found.items():
        made.rewrite(f"{name}.x", _set_to(x.reshape(problem.shape)))
    verdicts = made.good()
    assert not failures(verdicts)
    outputs = made.outputs()
    for name, problem in found.items():
        _assert_limits(problem.variant, x, outputs[f"{name}.y"].reshape(-1))


def _assert_limits(variant: Variant, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
    """Where the derived tolerance is no number (x is infinite), the limit itself is wanted."""
    layer = variant.layer
    tensors = {"x": x.astype(np.float64)}
    with np.errstate(all="ignore"):
        reference = layer.reference(tensors, F)["y"]
    limits = np.isinf(x)
    np.testing.assert_array_equal(y[limits], reference[limits].astype(np.float32))
    assert not np.isnan(y).any()


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitize"])
def test_gradients_at_special_values(tmp_path: Path, builder: Builder, sanitize: bool) -> None:
    """Outputs at their limits, and gradients that are zero, tiny and huge."""
    finite = [0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 1e30, -1e30]
    limits = {
        "relu": [0.0, 1e-40, 1.0, 3e38],
        "clipped_relu": [0.0, 1e-40, 2.25, 2.2499998, 6.0, 5.9999995],
        "elu": [-1.0, -0.375, -1e-40, -0.0, 0.0, 1e-40, 1e30],
        "sigmoid": [0.0, 1e-40, 0.5, 0.99999994, 1.0],
        "tanh": [-1.0, -0.99999994, -0.0, 0.0, 1e-40, 1.0],
        "soft_relu": [0.0, 1e-40, 1e-7, 0.6931472, 88.0, 104.0, 1e30],
        "gelu": [*SPECIAL, *-SPECIAL, -0.7517915],
        "gelu_tanh": [*SPECIAL, *-SPECIAL, -0.7524614],
        "silu": [*SPECIAL, *-SPECIAL, -1.2784645],
    }
    pairs: dict[str, NDArray[np.float32]] = {}  # layer -> (y, or x, and dy) of each element
    found: dict[str, Problem] = {}
    for i, variant in enumerate(variants("activation")):
        mode = dict(variant.parameters)["activation_mode"]
        # Nothing is multiplied in these two: an infinite gradient is passed on or dropped.
        dy = [*finite, np.inf, -np.inf] if mode in ("relu", "clipped_relu") else finite
        pairs[f"v{i}"] = np.array(np.meshgrid(limits[mode], dy), np.float32).reshape(2, -1)
        found[f"v{i}"] = Problem(variant, (1, 1, 1, pairs[f"v{i}"].shape[1]))
    found = distinct_kernels(iter(found.items()), B)
    made = make(tmp_path, plan(found, B), builder, sanitize=sanitize)
    for name, problem in found.items():
        layer = problem.variant.layer
        kept = "x" if isinstance(layer, Activation) and layer.of_x else "y"
        for port, values in zip((kept, "dy"), pairs[name]):
            made.rewrite(f"{name}.{port}", _set_to(values.reshape(problem.shape)))
    assert not failures(made.good())
    for values in made.outputs().values():
        assert not np.isnan(values).any()


def _set_to(values: NDArray[Any]) -> Callable[[NDArray[Any]], None]:
    def change(dataset: NDArray[Any]) -> None:
        dataset[...] = values

    return change


def test_a_rewritten_dataset_is_what_the_kernel_reads(tmp_path: Path, builder: Builder) -> None:
    """Or the tests above would prove nothing."""
    (variant, *_) = [v for v in variants("activation") if "relu" in dict(v.parameters).values()]
    made: Made = make(tmp_path, plan({"a": Problem(variant, (1, 1, 1, 9))}, F), builder)
    made.rewrite("a.x", _set_to(np.arange(9, dtype=np.float32).reshape(1, 1, 1, 9)))
    assert made.run().returncode == 0
    assert (made.outputs()["a.y"].reshape(-1) == np.arange(9)).all()
