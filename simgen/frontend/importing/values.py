"""What passes between the nodes of a model: tensors with their shapes, and those that are known.

A node whose inputs are all known is computed here, by ONNX's reference evaluator, and never becomes
a layer; it is, when its values are wanted, because shapes follow from them or for a data file.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

from simgen.errors import ConfigError, one_line, shortened
from simgen.frontend.importing.model_file import array
from simgen.frontend.importing.names import unlike
from simgen.frontend.importing.torch_program import PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import onnx
    from numpy.typing import NDArray

SMALL = 2**12  # elements of a tensor that is kept once it is computed
SMALL_FLOATS = 16  # numbers that shapes may follow from, beside whole ones
WHOLE = (6, 7)  # TensorProto.INT32, INT64
MAX_ELEMENTS = 2**31 - 1  # elements of a tensor, at most, as in layers
DOMAINS = ("", "ai.onnx")  # domains of ONNX's own operators
MOST_NBYTES = 2**28  # bytes computed here at a time; or a multiple of the stored ones
MOST_WORK = 2**33  # bytes that are computed for one tensor; a node counts as LEAST_WORK at least
LEAST_WORK = 2**22
RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
          "Bernoulli")  # fmt: skip


# The first operator set of which the evaluator has these; before, they were the same.
EVALUATED = {"QuantizeLinear": 19, "DequantizeLinear": 19}


def called(shape: Sequence[int]) -> str:
    """A shape as messages have it."""
    return "x".join(map(str, shape)) or "one number"


class Refused(Exception):  # noqa: N818 - it is an answer
    """Why a node cannot be imported."""


@dataclass(frozen=True)
class Value:
    """A tensor of the model."""

    shape: tuple[int, ...]
    element: int  # TensorProto.DataType
    read: Callable[[], NDArray[Any]] | None = None  # its values, where the model says them
    trained: bool = False  # it is stored as what training may change, or computed of that

    @property
    def is_known(self) -> bool:
        return self.read is not None

    @property
    def size(self) -> int:
        return prod(self.shape)

    def array(self) -> NDArray[Any]:
        assert self.read is not None
        return self.read()

    def shaped(self, shape: Sequence[int]) -> Callable[[], NDArray[Any]]:
        """What gives its values in these extents."""
        return lambda: self.array().reshape(shape)


@dataclass(frozen=True)
class Operator:
    """A node of the model, with the attributes that its operator set gives it by default."""

    node: str  # what messages call it
    kind: str  # "Conv"; of another domain "domain.Name"
    version: int  # version of the operator set
    inputs: tuple[str, ...]  # names of values; "" where one is left out
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    fact: object = None  # what a rewriting has found, as a value of its own type

    def input(self, at: int) -> str:
        """The name of an input, "" where there is none."""
        return self.inputs[at] if at < len(self.inputs) else ""


@dataclass
class Values:
    """All tensors of a model, as far as its nodes have been met."""

    model: onnx.ModelProto
    where: str
    folder: Path  # folder of tensors outside the file
    known: dict[str, Value] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)  # names in use
    # Names of the trained tensors, where the file tells them from others; ONNX does not.
    declared: frozenset[str] | None = None
    held: int = 0  # bytes of what is being computed
    work: int = 0  # bytes computed for it
    depth: int = 0

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.names = {name for node in graph.node for name in (*node.input, *node.output)}
        self.names.update(each.name for each in (*graph.input, *graph.output, *graph.initializer))
        for each in self.model.metadata_props:
            if each.key == PARAMETERS:
                self.declared = frozenset(each.value.split())
        for tensor in graph.initializer:
            self.known[tensor.name] = self._of_tensor(tensor)
        for sparse in graph.sparse_initializer:
            fact = f"tensor {sparse.values.name!r} is stored as a sparse one; store it densely"
            raise ConfigError(self.where, fact)

    def fresh(self, wanted: str) -> str:
        """A name of a value that is like this, and that the model has nowhere."""
        found = unlike(self.names, wanted)
        self.names.add(found)
        return found

    @cached_property
    def stated(self) -> dict[str, Any]:
        """Value -> what the model says of its shape and type."""
        graph = self.model.graph
        return {
            each.name: each.type.tensor_type
            for each in (*graph.input, *graph.value_info, *graph.output)
            if each.type.HasField("tensor_type")
        }

    @cached_property
    def stored(self) -> int:
        """Bytes of the file, and of files with tensors outside of it."""
        outside = {e.value for tensor in self.model.graph.initializer
                   for e in tensor.external_data if e.key == "location"}  # fmt: skip
        total = int(self.model.ByteSize())
        for name in outside:
            with contextlib.suppress(OSError, ValueError):
                total += (self.folder / name).stat().st_size
        return total

    @cached_property
    def read(self) -> frozenset[str]:
        """What nodes read, and the outputs of the model."""
        graph = self.model.graph
        found = {name for node in graph.node for name in node.input}
        return frozenset(found | {each.name for each in graph.output})

    def _of_tensor(self, tensor: onnx.TensorProto) -> Value:
        shape = tuple(tensor.dims)
        if any(extent < 0 for extent in shape) or prod(shape) > MAX_ELEMENTS:
            raise ConfigError(self.where, f"tensor {shortened(tensor.name, 60)!r} is too large")
        trained = self.declared is None or tensor.name in self.declared
        return Value(shape, tensor.data_type, lambda: array(tensor, self.folder), trained)

    def meet(
        self, node: onnx.NodeProto, operator: Operator, schema: Any, first: tuple[int, ...] | None
    ) -> None:
        """Finds the outputs of a node, whose inputs are known. The first has a shape, or that of
        ONNX's inference.

        Raises:
            Refused: they cannot be found.
        """
        import numpy as np

        if operator.kind == "Shape":
            shape = self.known[operator.inputs[0]].shape
            end = operator.attributes.get("end")
            part = shape[operator.attributes.get("start", 0) : end]
            self._set(operator.outputs[0], np.array(part, np.int64))
            return
        types = self._types(node, operator, schema)
        if first is not None:
            types[operator.outputs[0]] = replace(types[operator.outputs[0]], shape=first)
        for name, value in types.items():
            if fact := self.otherwise(name, value):
                raise Refused(f"gives {fact}")
        self.known |= types
        known = all(self.known[name].is_known for name in operator.inputs if name)
        graphs = any(each.HasField("g") or each.graphs for each in node.attribute)
        if not known or graphs or operator.kind in RANDOM or operator.kind == "Dropout":
            return
        names = [name for name in operator.outputs if name]
        trained = any(self.known[name].trained for name in operator.inputs if name)
        computed = cache(lambda: self._computed(node, names, operator.version))
        for at, name in enumerate(names):
            if types[name].size <= SMALL:
                read = partial(_part, computed, at)
            else:  # not kept
                again = partial(self._computed, node, names, operator.version)
                read = partial(_part, again, at)
            self.known[name] = replace(types[name], read=read, trained=trained)

    def otherwise(self, name: str, value: Value) -> str:
        """What the model declares of a value, and is not so; "" where there is nothing."""
        told = self.stated.get(name)
        if told is not None and told.HasField("shape"):
            dims = [d.dim_value if d.HasField("dim_value") else None for d in told.shape.dim]
            pairs = zip(dims, value.shape)
            if len(dims) != len(value.shape) or any(a not in (None, b) for a, b in pairs):
                text = "x".join("?" if each is None else str(each) for each in dims) or "one number"
                return f"{called(value.shape)}, which the model declares as {text}"
        if told is not None and told.elem_type not in (0, value.element):
            from onnx import TensorProto

            made, said = (
                TensorProto.DataType.Name(each).lower() for each in (value.element, told.elem_type)
            )
            return f"{made}, which the model declares as {said}"
        return ""

    def _set(self, name: str, values: NDArray[Any]) -> None:
        from onnx import helper

        element = helper.np_dtype_to_tensor_dtype(values.dtype)
        self.known[name] = Value(values.shape, element, lambda: values)

    def _versions(self, version: int) -> list[onnx.OperatorSetIdProto]:
        """The model's operator sets, with this one of ONNX's own."""
        from onnx import helper

        others = [each for each in self.model.opset_import if each.domain not in DOMAINS]
        return [helper.make_opsetid("", version), *others]

    def _computed(
        self, node: onnx.NodeProto, names: Sequence[str], version: int
    ) -> list[NDArray[Any]]:
        outer, made = self.held, sum(_nbytes(self.known[name]) for name in names)
        self.work = max(made, LEAST_WORK) + (self.work if self.depth else 0)
        self.depth += 1
        try:
            given = {}
            for name in dict.fromkeys(filter(None, node.input)):
                given[name] = self.known[name].array()
                self.held += given[name].nbytes
            if self.held + made > max(MOST_NBYTES, 4 * self.stored):
                raise Refused("is computed from tensors larger than all that the model stores")
            if self.work > max(MOST_WORK, 64 * self.stored):
                raise Refused("is computed from too many others")
            return self._evaluated(node, names, version, given)
        finally:
            self.held, self.depth = outer, self.depth - 1

    def _evaluated(
        self,
        node: onnx.NodeProto,
        names: Sequence[str],
        version: int,
        given: dict[str, NDArray[Any]],
    ) -> list[NDArray[Any]]:
        import numpy as np
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        infos = [
            helper.make_tensor_value_info(n, self.known[n].element, self.known[n].shape)
            for n in given
        ]
        outputs = [helper.make_tensor_value_info(name, 0, None) for name in names]
        graph = helper.make_graph([node], "one", infos, outputs)
        versions = self._versions(max(version, EVALUATED.get(node.op_type, 1)))
        made = helper.make_model(graph, opset_imports=versions)
        try:
            with np.errstate(all="ignore"):
                found = ReferenceEvaluator(made).run(None, given)
        except Exception as error:  # whatever NumPy says of a damaged node
            raise Refused(f"cannot be computed ({shortened(one_line(str(error)), 100)})") from None
        return [np.asarray(each) for each in found]

    def _types(self, node: onnx.NodeProto, operator: Operator, schema: Any) -> dict[str, Value]:
        """Shapes and types of what a node gives, by ONNX's shape inference."""
        import onnx
        from onnx import helper, numpy_helper, shape_inference

        types, data = {}, {}
        for name in operator.inputs:
            if name:
                value = self.known[name]
                types[name] = helper.make_tensor_type_proto(value.element, value.shape)
                if value.is_known and value.size <= (
                    SMALL if value.element in WHOLE else SMALL_FLOATS
                ):
                    data[name] = numpy_helper.from_array(value.array(), name)
        try:
            found = shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self._versions(operator.version)
            )
        except Exception as error:  # a native library raises it for a damaged node
            raise Refused(f"has no shape ({shortened(one_line(str(error)), 150)})") from None
        made = {}
        for name in filter(None, operator.outputs):
            tensor = found.get(name, onnx.TypeProto()).tensor_type
            if name != operator.outputs[0] and not tensor.HasField("shape"):
                continue  # older operator sets do not say what the mask of a dropout is
            dims = [
                each.dim_value if each.HasField("dim_value") else -1 for each in tensor.shape.dim
            ]
            if not tensor.HasField("shape") or min(dims, default=1) < 0:
                unknown = "depends on values, or is none that ONNX tells"
                raise Refused(f"gives a tensor whose shape {unknown}")
            if prod(dims) > MAX_ELEMENTS:
                raise Refused(f"gives a tensor of {prod(dims)} elements, which is too large")
            made[name] = Value(tuple(dims), tensor.elem_type)
        return made


def _nbytes(value: Value) -> int:
    from onnx import helper

    try:
        item = helper.tensor_dtype_to_np_dtype(value.element).itemsize
    except KeyError:
        item = 8
    return value.size * int(item)


def _part(computed: Callable[[], list[NDArray[Any]]], at: int) -> NDArray[Any]:
    return computed()[at]
