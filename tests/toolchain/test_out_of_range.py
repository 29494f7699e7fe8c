"""Data that float32 cannot compute with: a right result is never different.

Every layer runs in every pass and by every algorithm on the host target, whose kernels
test_contract.py shows right, with data up to the ends of float32. What is out of range is named; a
wrong element is different wherever the range is healthy.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layer_bundles import Problem, make, plan
from layer_variants import Variant, lowered, small_problems

from simgen.bundle import results
from simgen.errors import ConfigError
from simgen.ground.dtypes import DType
from simgen.ground.ir import Pass
from simgen.layers import LAYERS
from simgen.layers.base import Collective
from simgen.targets.host import Host
from simgen.tensors import data_file
from simgen.verdict.diff import diff
from simgen.verdict.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from layer_bundles import Made
    from numpy.typing import NDArray

    from simgen.bundle.results import Result
    from simgen.kernels.build import Builder
    from simgen.verdict.verdict import Verdict

    Array = NDArray[np.float64]
    Change = Callable[[Array], Array]

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

LARGEST = 3e38


def largest(values: Array) -> Array:
    return values * (LARGEST / max(float(np.abs(values).max()), 1.0))


def near(values: Array) -> Array:
    """Of one sign, so that every sum of two overflows."""
    return LARGEST * (1 - 0.1 * np.random.default_rng(1).random(values.shape))


ALL: dict[str, Change] = {
    "1e-30": lambda values: values * 1e-30,
    "1e20": lambda values: values * 1e20,
    "3e38": largest,
    "near 3e38": near,
    "-200": lambda values: values - 200,
    "+100": lambda values: values + 100,
}
ONE: dict[str, Change] = {name: ALL[name] for name in ("1e-30", "3e38")}  # in one tensor alone


def narrow(largest: float) -> dict[str, Change]:
    """The same of a narrow type, whose largest number is that."""
    return {
        "1e-6": lambda values: values * 1e-6,
        "to the top": lambda values: values * (0.92 * largest / max(np.abs(values).max(), 1.0)),
        "near the top": lambda values: near(values) * (0.92 * largest / LARGEST),
        "-200": ALL["-200"],
    }


def takes(problem: Problem, direction: Pass, dtype: DType) -> bool:
    try:
        plan({"a": problem}, direction, dtype=dtype)
    except ConfigError:
        return False
    return True


# Its verdict does not know yet where numbers of its states overflow: from 1e20 on, right results
# count as different.
UNKNOWN = ("delta_rule",)


def problems(direction: Pass) -> dict[str, Problem]:
    """The small problems of all layers that one GPU runs."""
    found = {}
    kinds = [k for k in lowered() if direction in LAYERS[k].passes and k not in UNKNOWN
             and not issubclass(LAYERS[k], Collective)]  # fmt: skip
    for name, settings in small_problems():
        kind = next((each for each in kinds if name == f"{each}_{direction}"), "")
        given = dict(each.split("=", 1) for each in settings)
        extents = [given.pop(axis) for axis in "nchw" if axis in given and kind]
        shape = tuple(int(each) for each in given.pop("shape", "").split("x") if each)
        if kind:
            shape = shape or tuple(map(int, extents))
            found[f"{kind}_{len(found)}"] = Problem(Variant(kind, tuple(given.items())), shape)
    return found


def made_with(made: Made, values: Mapping[str, NDArray[Any]]) -> Result:
    for name, each in values.items():
        made.rewrite(name, lambda place, each=each: np.copyto(place, each))
    done = made.run()
    assert done.returncode == 0, done.stderr
    folder = made.bundle.results("host")
    assert folder is not None
    return results.collect(made.bundle, made.target, folder)


def judged(made: Made, result: Result) -> tuple[Verdict, ...]:
    inputs = data_file.load(made.bundle.path / "data.h5", made.bundle.workload)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return diff(made.bundle.workload, inputs, result, None).verdicts


def floats(made: Made) -> dict[str, NDArray[Any]]:
    workload = made.bundle.workload
    inputs = data_file.load(made.bundle.path / "data.h5", workload)
    found = {b.name for b in workload.inputs if b.spec.dtype.is_float}
    return {name: np.array(each) for name, each in inputs.items() if name in found}


def changed(values: NDArray[Any], change: Change) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        found: NDArray[Any] = change(values.astype(np.float64)).astype(values.dtype)
    return found


def unexplained(verdicts: tuple[Verdict, ...], case: str) -> list[str]:
    return [
        f"{case}: {each.tensor}: {each.reasons} {each.comparison.worst[:1]}"
        for each in verdicts
        if each.outcome is Outcome.DIFFERENT
        or (each.outcome is Outcome.NOTHING and not each.reasons)
    ]


@pytest.mark.parametrize("direction", Pass)
def test_right_results_of_any_data(tmp_path: Path, builder: Builder, direction: Pass) -> None:
    found = problems(direction)
    if not found:
        pytest.skip("no layer has this pass alone")
    made = make(tmp_path, plan(found, direction), builder, optimise=False)
    given = floats(made)
    bad = []
    for case, change in ALL.items():
        inputs = {name: changed(values, change) for name, values in given.items()}
        bad += unexplained(judged(made, made_with(made, inputs)), case)
    ports: dict[str, list[str]] = {}
    for name in given:
        ports.setdefault(name.split(".")[0], []).append(name)
    for case, change in ONE.items():
        for at in range(max(map(len, ports.values()))):
            inputs = dict(given)
            for names in ports.values():
                if at < len(names):
                    inputs[names[at]] = changed(given[names[at]], change)
            bad += unexplained(judged(made, made_with(made, inputs)), f"{case} in input {at}")
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("direction", "name"), [*((each, "f16") for each in Pass), (Pass.FORWARD, "bf16")]
)
def test_right_results_of_narrow_types(
    tmp_path: Path, builder: Builder, direction: Pass, name: str
) -> None:
    """Each access of the kernels is checked too: behind a tensor of narrow elements that fill no
    word lies nothing that a kernel may take for an index."""
    dtype = DType.table[name]
    found = {name: p for name, p in problems(direction).items() if takes(p, direction, dtype)}
    if not found:
        pytest.skip("no layer has this pass alone")
    planned = plan(found, direction, dtype=dtype)
    made = make(tmp_path, planned, builder, sanitize=True)
    given = floats(made)
    bad = unexplained(judged(made, made_with(made, given)), "drawn")
    for case, change in narrow(dtype.largest).items():
        inputs = {name: changed(values, change) for name, values in given.items()}
        bad += unexplained(judged(made, made_with(made, inputs)), case)
    assert not bad, "\n".join(bad)


def spoilt(result: Result, names: set[str], element: int) -> Result:
    """One element of each of these float32 outputs is another number."""
    outputs = dict(result.outputs)
    for name in names:
        values = np.array(outputs[name].values)
        flat = values.reshape(-1)
        flat[element] = flat[element] * np.float32(1.25) + np.float32(0.5)
        outputs[name] = replace(outputs[name], values=values)
    return replace(result, outputs=outputs)


@pytest.mark.parametrize("direction", Pass)
def test_a_wrong_element_is_different_in_range(
    tmp_path: Path, builder: Builder, direction: Pass
) -> None:
    """The last element of each output; and of layers that treat samples alone, where the first
    sample alone is out of range."""
    found = problems(direction)
    if not found:
        pytest.skip("no layer has this pass alone")
    workload = plan(found, direction)
    made = make(tmp_path, workload, builder, optimise=False)
    given = floats(made)
    wrote = {name: step.layer for step in workload.steps for _, name in step.writes}
    names = {name for name in wrote if workload.buffer(name).spec.dtype is DType.F32}
    wrong = judged(made, spoilt(made_with(made, given), names, -1))
    assert [v.tensor for v in wrong if v.tensor in names and v.passed] == []

    layers = {name: found[layer].variant.layer for name, layer in wrote.items()}
    alone = {name for name in names if layers[name].per_sample}
    alone -= {f"{wrote[name]}.{port}" for name in names for port in layers[name].reduced}
    alone &= {name for name in names if workload.buffer(name).spec.shape[0] > 1}
    parameters = {
        f"{layer}.{port}" for layer, p in found.items() for port in p.variant.layer.parameters
    }
    inputs = dict(given)
    for name in given.keys() - parameters:
        if inputs[name].ndim > 1:
            inputs[name] = np.array(given[name])
            inputs[name][0] = changed(given[name][0], largest)
    result = made_with(made, inputs)
    assert not unexplained(judged(made, result), "first sample")
    wrong = judged(made, spoilt(result, alone, -1))
    assert [v.tensor for v in wrong if v.tensor in alone and v.passed] == []
