"""A model of ONNX through simgen's references, and through ONNX's own evaluator.

The references of the layers are float64, so that an import is judged without a compiler: what comes
out may differ by what float32 rounds in the evaluator.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from simgen.ask.build import BuildChoices
from simgen.bundle.planning import Plan
from simgen.frontend.importing import onnx_model
from simgen.workload import reference

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import onnx

Array = np.ndarray[Any, np.dtype[Any]]


def with_weights(model: onnx.ModelProto, inputs: Mapping[str, Array], kept: int = 1) -> None:
    """Of the model's inputs, all but the first `kept` become tensors that it knows."""
    names = [each.name for each in model.graph.input][kept:]
    infos = [each for each in model.graph.input if each.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(infos)
    known = [numpy_helper.from_array(inputs[name], name) for name in names if name in inputs]
    model.graph.initializer.extend(known)


def buffer_of(name: str) -> str:
    """Of an input of a model."""
    text = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")
    return f"{text if re.match('[A-Za-z_]', text) else f'n{text}'}.y"


def by_references(
    path: Path, inputs: Mapping[str, Array], settings: Mapping[str, str] = {}
) -> dict[str, Array]:
    """The model's outputs as the references of the layers have them, with its own parameters."""
    choices = BuildChoices(set=tuple(settings.items()), values=("model",))
    plan = Plan(str(path), choices)
    outputs = onnx_model.read_model(path, dict(settings)).outputs
    given = dict(plan.values)
    for name, values in inputs.items():
        given[buffer_of(name)] = values.astype(
            np.int32 if values.dtype.kind == "i" else values.dtype
        )
    workload = plan.workload
    missing = [b.name for b in workload.inputs if b.name not in given]
    assert not missing, missing
    held: dict[str, Array] = dict(given)
    for _, made in reference.run(workload, given):
        held |= made
    return {name: held[tensor] for name, tensor in outputs.items()}


def by_evaluator(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    names = [each.name for each in model.graph.output]
    made = ReferenceEvaluator(model).run(None, dict(inputs))
    return dict(zip(names, made, strict=True))


def random_inputs(model: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    known = {each.name for each in model.graph.initializer}
    return {
        each.name: random.standard_normal(
            [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        ).astype(helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type))
        for each in model.graph.input
        if each.name not in known
    }
