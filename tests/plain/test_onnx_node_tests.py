"""ONNX's conformance tests of single nodes: all that import compute what ONNX expects.

The judges are ONNX's own expected outputs and, where it has the operator, ONNX Runtime, on the
same model and inputs; on these they agree, so that none had to be believed against the other. A
case is imported with all of its inputs as inputs of the model, and with all but the first as
tensors that it knows. Values are those of the references, by which other tests judge kernels.

15 s of one core, of which a third is what ONNX takes to make its cases.
"""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from imported_models import by_references, with_weights
from onnx import numpy_helper
from onnx.backend.test.case import node as known

from simgen.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from onnx.backend.test.case.test_case import TestCase

Array = np.ndarray[Any, np.dtype[Any]]
onnxruntime.set_default_logger_severity(4)
COUNTED = (1, 23)  # the release of ONNX whose cases these are; older ones have fewer
# Files of cases -> how many cases import at least, and in how many forms.
IMPORTED = {
    "add": (2, 4),
    "attention": (38, 76),
    "averagepool": (12, 12),
    "batch_normalization": (2, 2),
    "cast": (4, 4),
    "castlike": (4, 4),
    "causal_conv_with_state": (3, 3),
    "center_crop_pad": (6, 6),
    "clip": (8, 8),
    "concat": (12, 24),
    "conv": (6, 6),
    "convtranspose": (7, 7),
    "depthtospace": (4, 4),
    "div": (3, 6),
    "elu": (3, 3),
    "expand": (2, 2),
    "flexattention": (10, 20),
    "gelu": (4, 4),
    "gemm": (11, 22),
    "globalaveragepool": (2, 2),
    "globalmaxpool": (2, 2),
    "hardsigmoid": (3, 3),
    "hardswish": (2, 2),
    "layernormalization": (19, 19),
    "leakyrelu": (3, 3),
    "logsoftmax": (7, 7),
    "lrn": (2, 2),
    "lstm": (4, 4),
    "matmul": (4, 8),
    "maxpool": (11, 11),
    "mish": (1, 1),
    "mul": (3, 6),
    "neg": (2, 2),
    "pad": (3, 3),
    "pow": (1, 1),
    "qlinearmatmul": (2, 2),
    "reducemean": (8, 8),
    "relu": (1, 1),
    "rmsnormalization": (38, 57),
    "rnn": (5, 5),
    "rotaryembedding": (11, 15),
    "sigmoid": (2, 2),
    "slice": (6, 6),
    "softmax": (7, 7),
    "softplus": (2, 2),
    "spacetodepth": (8, 8),
    "split": (14, 14),
    "sub": (3, 6),
    "sum": (2, 4),
    "swiglu": (3, 6),
    "swish": (1, 1),
    "tanh": (2, 2),
    "transpose": (6, 6),
    "where": (1, 1),
}  # fmt: skip
TOLERANCES = {np.dtype(np.float32): 1e-4}  # others: of 16 bits
TINY = 2e-2


@cache
def cases(module: str) -> list[TestCase]:
    before = len(known._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it computes
        importlib.import_module(f"{known.__name__}.{module}")
    return list(known._NodeTestCases[before:])


def by_runtime(model: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """Nothing where it has no such operator."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        made = session.run(None, dict(given))
    except Exception:  # of many kinds
        return {}
    return dict(zip((each.name for each in model.graph.output), made, strict=True))


def arrays(case: TestCase) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and outputs; nothing where one is no tensor."""
    found: list[dict[str, Array]] = []
    for infos, given in zip((case.model.graph.input, case.model.graph.output), case.data_sets[0]):
        values = [
            numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else each
            for each in given
        ]
        if not all(isinstance(each, (np.ndarray, np.generic)) for each in values):
            return {}, {}
        found.append(dict(zip((each.name for each in infos), map(np.asarray, values))))
    return found[0], found[1]


def forms(case: TestCase) -> Iterator[tuple[onnx.ModelProto, dict[str, Array], dict[str, Array]]]:
    """The model, its inputs and outputs: all inputs given, and all but the first known."""
    given, expected = arrays(case)
    for kept in dict.fromkeys((len(given), min(1, len(given)))):
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        with_weights(model, given, kept)
        if case.name.startswith("test_layer_normalization"):
            del model.graph.output[1:]  # statistics, which layers do not give
        yield model, dict(list(given.items())[:kept]), expected


def check(path: Path, case: TestCase) -> int:
    """How many forms of a case import, all of which are right."""
    count = 0
    for model, given, expected in forms(case):
        onnx.save(model, path)
        try:
            found = by_references(path, given)
        except ConfigError:
            continue
        runtime = by_runtime(model, given)
        count += 1
        for name in (each.name for each in model.graph.output):
            for judge in (expected, runtime):
                if name in judge:
                    wanted = judge[name]
                    tolerance = TOLERANCES.get(wanted.dtype, TINY)
                    np.testing.assert_allclose(
                        found[name].reshape(wanted.shape).astype(np.float64),
                        wanted.astype(np.float64), rtol=tolerance, atol=tolerance / 5,
                        err_msg=f"{case.name}, {'ONNX' if judge is expected else 'ONNX Runtime'}",
                    )  # fmt: skip
    return count


@pytest.mark.parametrize("module", IMPORTED)
def test_node_tests_compute_what_onnx_expects(module: str, tmp_path: Path) -> None:
    imported = [count for each in cases(module) if (count := check(tmp_path / "m.onnx", each))]
    if tuple(map(int, onnx.__version__.split(".")[:2])) >= COUNTED:
        least = IMPORTED[module]
        assert (len(imported), sum(imported)) >= least
    assert imported
