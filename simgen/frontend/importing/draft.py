"""The network that a model becomes, while its nodes are met in their order.

What translates an operator gets a `NodeSite`: the node, with what it reads, and ways to add layers.
The last layer that a node becomes has its name; others, as a padding before it, have it with a
suffix.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from simgen.frontend.importing.names import unlike
from simgen.frontend.importing.values import Operator, Refused, Value, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


Fact = TypeVar("Fact")
LONGEST = 50  # characters of a name, so that there is room for a suffix
FLOATS = {1: "f32", 10: "f16", 16: "bf16"}  # TensorProto.DataType -> element type of layers
INTEGERS = {3: "i8", 6: "i32", 7: "i32"}  # quantised numbers, and indices
FLAGS = {9: "i32"}  # BOOL: an input of zeros and ones
BYTES = {3: 0, 2: 128}  # INT8 and UINT8 -> what is subtracted, so that i8 has them


@dataclass(frozen=True)
class ModelTensor:
    """Values of a tensor that the model has: those of a trained one are drawn unless asked for,
    any other keeps them."""

    shape: tuple[int, ...]
    read: Callable[[], NDArray[Any]]
    trained: bool


@dataclass
class DraftLayer:
    """A layer: a section of the config."""

    section: str
    entries: dict[str, str]
    sources: tuple[str, ...]  # tensors that it reads: LAYER or LAYER.PORT
    node: str = ""  # what messages call the node that it is for


@dataclass
class Draft:
    """Layers in order, and which of their tensors the values of the model are."""

    values: Values
    readers: Counter[str]  # number of readers of each value; the model's outputs count as read
    layers: dict[str, DraftLayer] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)  # value -> tensor of a layer
    parameters: dict[str, ModelTensor] = field(default_factory=dict)  # by buffer
    codes: frozenset[str] = frozenset()  # rows of tables that multiply what is computed
    uses: Counter[str] = field(default_factory=Counter)  # number of layers that use each tensor
    called: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # values

    def name(self, wanted: str) -> str:
        """A name of a layer that is like this, and no other layer's."""
        text = re.sub(r"[^A-Za-z0-9_-]+", "_", wanted).strip("_-")[-LONGEST:].lstrip("_-")
        text = text if re.match(r"[A-Za-z_]", text) else f"n{text}"
        return unlike(self.layers, text)

    def buffer(self, tensor: str) -> str:
        """The buffer of a layer's tensor; that of a view is what is seen."""
        name, _, port = tensor.partition(".")
        layer = self.layers[name]  # with several outputs, the first is y or y0
        if layer.section == "Reshape":
            return self.buffer(layer.sources[0])
        return f"{name}.{port or ('y0' if layer.section == 'Slice' else 'y')}"

    def add(
        self, name: str, section: str, entries: Mapping[str, object], sources: Sequence[str] = ()
    ) -> str:
        """A layer, under this name or one like it; the tensor that it gives."""
        found = self.name(name)
        texts = {key: _text(value) for key, value in entries.items()}
        self.layers[found] = DraftLayer(section, texts, tuple(sources))
        self.uses.update(sources)
        return found

    def behind(self, tensor: str) -> tuple[str, list[str]]:
        """The layer that computes what a node is about to read, and views and orders of axes of it
        on the way, the last one first; "" where others read it too."""
        way: list[str] = []
        while (layer := self.layers.get(tensor)) is not None:
            shared = any(self.readers[value] > 1 for value in self.called[tensor])
            if shared or self.uses[tensor] > bool(way):
                break
            if layer.section != "Reshape" and layer.entries.get("mode") != "permute":
                return tensor, way
            way.append(tensor)
            (tensor,) = layer.sources
        return "", []

    def without(self, tensor: str, way: Sequence[str], last: str) -> str:
        """What `last` is when the layer that gives `tensor`, on the `way` to it, is left out."""
        (source,) = self.layers.pop(tensor).sources
        if not way:
            self.uses[source] -= 1
            return source
        reader = self.layers[way[-1]]
        reader.sources = (source,)
        return last


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return repr(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class KeepsIntegers:
    """A node of floats that is to compute with quantised numbers."""

    zero_point: int


@dataclass
class NodeSite:
    """A node where it is translated."""

    operator: Operator
    draft: Draft

    # ---- What the node reads ----

    def has(self, at: int) -> bool:
        """Whether there is an input `at`."""
        return bool(self.operator.input(at))

    def name(self, at: int | str) -> str:
        """The value that an input is, which may be given by its name."""
        name = at if isinstance(at, str) else self.operator.input(at)
        if not name:
            raise Refused(f"has no input {at}")
        return name

    def value(self, at: int | str) -> Value:
        return self.draft.values.known[self.name(at)]

    def fact(self, kind: type[Fact]) -> Fact:
        """What a rewriting has found."""
        assert isinstance(self.operator.fact, kind)
        return self.operator.fact

    def shape(self, at: int | str = 0) -> tuple[int, ...]:
        return self.value(at).shape

    def result(self, at: int = 0) -> tuple[int, ...]:
        """The shape of an output."""
        return self.draft.values.known[self.operator.outputs[at]].shape

    def attribute(self, name: str, usual: Any = None) -> Any:
        return self.operator.attributes.get(name, usual)

    def numbers(self, at: int, what: str) -> list[int]:
        """An input of whole numbers that the model knows."""
        value = self.value(at)
        if not value.is_known:
            raise Refused(f"its {what} are computed")
        return [int(each) for each in value.array().reshape(-1)]

    def asked(self, attribute: str, at: int) -> list[int] | None:
        """Whole numbers that older operator sets have in an attribute, and newer in an input."""
        if self.attribute(attribute) is not None:
            return [int(each) for each in self.attribute(attribute)]
        return self.numbers(at, attribute) if self.has(at) else None

    def known(self, at: int | str, what: str) -> Value:
        """An input that is a parameter of the layer."""
        value = self.value(at)
        if not value.is_known:
            raise Refused(f"its {what} is computed by other nodes")
        return value

    def tensor(self, at: int = 0) -> str:
        """The tensor of a layer that an input is. What the model knows is an [Input] of its own."""
        name = self.operator.input(at)
        value = self.value(at)
        if name not in self.draft.tensors:
            if not value.is_known:
                raise Refused(f"reads {name!r}, which is not imported")
            shape = value.shape or (1,)
            self.draft.tensors[name] = self.constant(name, shape, value.shaped(shape), value)
        if value.element not in FLOATS and not (self.keeps_integers and value.element in BYTES):
            raise Refused(f"reads {self._called(value)}, and layers compute with floats")
        return self.draft.tensors[name]

    @property
    def keeps_integers(self) -> bool:
        """Whether a layer of floats is to compute with quantised numbers (integers.py)."""
        return isinstance(self.operator.fact, KeepsIntegers)

    @property
    def zero_point(self) -> dict[str, int]:
        """The config's entry of a layer that keeps integers."""
        zero = self.fact(KeepsIntegers).zero_point if self.keeps_integers else 0
        return {"zero_point": zero} if zero else {}

    def integers(self, at: int | str) -> str:
        """The tensor of a layer that a quantised input is."""
        name, value = self.name(at), self.value(at)
        if value.element not in BYTES or value.is_known or name not in self.draft.tensors:
            called = f"reads {name!r} of {self._called(value)}"
            raise Refused(f"{called}; quantise what is computed, to int8 or uint8, by a node")
        return self.draft.tensors[name]

    def indices(self, at: int) -> str:
        """The same of whole numbers."""
        name, value = self.operator.input(at), self.value(at)
        if value.is_known or name not in self.draft.tensors:
            raise Refused("its indices are none that an input of the model gives")
        return self.draft.tensors[name]

    def _type(self, value: Value) -> dict[str, str]:
        if value.element not in FLOATS:
            raise Refused(f"reads {self._called(value)}, and layers compute with floats")
        return {} if value.element == 1 else {"type": FLOATS[value.element]}

    def _called(self, value: Value) -> str:
        from onnx import TensorProto

        return str(TensorProto.DataType.Name(value.element)).lower()

    # ---- What it becomes ----

    @property
    def _base(self) -> str:
        return self.operator.node

    def layer(
        self,
        section: str,
        entries: Mapping[str, object],
        sources: Sequence[str],
        suffix: str = "",
    ) -> str:
        """A layer of the node; its tensor."""
        name = f"{self._base}_{suffix}" if suffix else self._base
        made = self.draft.add(name, section, entries, sources)
        self.draft.layers[made].node = f"{self.operator.kind} ({self.operator.node})"
        return made

    def seen(
        self, tensor: str, shape: Sequence[int], wanted: Sequence[int], suffix: str = "view"
    ) -> str:
        """The tensor in another shape, without a copy."""
        if tuple(shape) == tuple(wanted):
            return tensor
        to = list(wanted)
        if shape and to[0] == shape[0]:
            to[0] = 0  # the batch, whatever it is set to
        return self.layer("Reshape", {"to": tuple(to)}, [tensor], suffix)

    def give(self, tensor: str, at: int = 0) -> None:
        """The tensor is an output of the node."""
        name = self.operator.outputs[at]
        self.draft.tensors[name] = tensor
        self.draft.called[tensor].append(name)

    def constant(
        self, name: str, shape: Sequence[int], read: Callable[[], NDArray[Any]], *of: Value
    ) -> str:
        """An [Input] of values that the model has, computed `of` others; its tensor.

        It is an operand, which the model fixes; where the file says what is trained, that is not.
        """
        entries = {"shape": tuple(shape), "fixed": True, **(self._type(of[0]) if of else {})}
        made = self.draft.add(name, "Input", entries)
        declared = self.draft.values.declared is not None
        self.parameter(made, "y", shape, read, *(of if declared else ()))
        return made

    def parameter(
        self,
        layer: str,
        port: str,
        shape: Sequence[int],
        read: Callable[[], NDArray[Any]],
        *of: Value,
    ) -> None:
        """Where a tensor of a layer has its values; it is trained if one that it is made of is."""
        trained = any(each.trained for each in of)
        self.draft.parameters[f"{layer}.{port}"] = ModelTensor(tuple(shape), read, trained)

    def refuse_other_outputs(self) -> None:
        """Raises Refused if others than the first output are read."""
        for name in self.operator.outputs[1:]:
            if name and self.draft.readers[name]:
                raise Refused(f"its output {name!r} is read, and layers give the first alone")
