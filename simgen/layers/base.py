"""What a layer is, and the table of layers."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import Field, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

from simgen.errors import (
    ConfigError,
    SourceError,
    UnsupportedError,
    did_you_mean,
    printable,
    whole_number,
)
from simgen.ground import dtypes
from simgen.ground.ir import DType, Fill, Kernel, Launch, OpCount, Pass, TensorSpec
from simgen.ground.machine import Machine, fitted
from simgen.ground.numerics.spread import Spread
from simgen.layers.contract import Contract

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    Tensors = Mapping[str, NDArray[np.float64]]  # by port

REGISTERED: dict[str, type[Layer]] = {}  # by kind: those whose files are imported
TYPE = "type"  # the key of the element type
MAX_INT = 2**31 - 1  # kernels index with 32-bit integers
MAX_RANK = 8  # axes of a tensor


class PortRole(StrEnum):
    """What a tensor is to the layer that reads or writes it."""

    INPUT = "input"  # another layer's output, or from the data file
    OUTPUT = "output"  # what other layers may read
    PARAMETER = "parameter"  # what training changes
    GRADIENT = "gradient"  # gradient of the loss with respect to an input
    OTHER = "other"  # statistics and workspaces


@dataclass(frozen=True)
class Port:
    """A tensor that a layer reads or writes in one pass.

    What it is to the layer, `Layer.role` tells. "d" and the name of a tensor that other layers or
    training change is its gradient: that of a scalar loss with respect to it. Most layers name x
    their input, y their output, w weights and b a bias.
    """

    name: str
    spec: TensorSpec
    fill: Fill | None = None  # values, where nothing in the workload writes it; None: written
    scratch: bool = False  # a workspace between kernels of the pass: written, and never compared


@dataclass(frozen=True)
class Lowering:
    """A layer's kernels, and their launches in order; a launch's arguments name ports."""

    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]


EXTENTS = ("n", "c", "h", "w")
IN_PARTS = (Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)
CHUNKS = "chunks of the sum"  # what is chosen: 1, or "6 of 256"


@dataclass(frozen=True)
class Choice:
    """Something that was planned for a machine."""

    what: str  # tile, chunks, algorithm, ...
    chosen: str
    why: str


@dataclass(frozen=True)
class Sums:
    """The sums of a pass whose terms may be whole numbers: then they can be exact."""

    terms: int = 1  # terms of the longest sum; 1: the pass copies or chooses
    growth: int = 1  # growth between terms and sum, where terms are transformed before
    whole: bool = True  # what the pass writes are whole numbers too, or those by a power of two


def key(
    names: str,
    default: Any,
    text: str,
    least: float | None = None,
    most: float | None = None,
    *,
    hint: bool = False,
    of_integers: bool = False,
) -> Any:
    """A layer parameter, set by any of the config keys `names`, with spaces between them; what it
    is, in half a line; its inclusive range.

    A `hint` says how results are computed, or which, and never what they are. One `of_integers`
    matters only where a factor has 8 bits.
    """
    told = {"text": text, "least": least, "most": most, "hint": hint, "of_integers": of_integers}
    return field(default=default, metadata={"keys": tuple(names.split()), **told})


class Phase(StrEnum):
    """What a whole network is run for. Some layers then compute something else."""

    INFERENCE = "inference"
    TRAINING = "training"


@dataclass(frozen=True)
class Layer(ABC):
    """One DNN layer: parameters in the dataclass fields, behaviour in pure methods.

    A layer whose `passes` is empty has no kernels: nothing runs for it.
    `inputs` are the specs of the tensors that come from the previous layers, in the order of
    `takes`.
    """

    kind: ClassVar[str]  # in workload names: softmax in softmax_fwd
    section: ClassVar[str]  # DNNMark's section name
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD, Pass.BACKWARD)
    input_names: ClassVar[tuple[str, ...]] = ("x",)  # ports; the most of them that there can be
    output_names: ClassVar[tuple[str, ...]] = ("y",)  # the same; `outputs` says which there are
    from_data: ClassVar[str] = ""  # a port that no layer can give: the data file has its values
    rank: ClassVar[int | None] = None  # axes of its inputs, 4 for (N, C, H, W); None: any number
    parameters: ClassVar[tuple[str, ...]] = ()  # ports that training changes
    # Written ports that `reference` and `tolerance` get too, for their shape only (the values are
    # NaN): where strides round, the shape of dx does not follow from that of dy.
    shape_given: ClassVar[tuple[str, ...]] = ()
    algorithms: ClassVar[tuple[str, ...]] = ()  # simgen's own, of those that the key `algo` takes
    per_sample: ClassVar[bool] = False  # y[n] depends on x[n] only, and so on for all but dw, db
    # The batch may be cut into parts, as per_sample says; only the bounds are those of one batch.
    data_parallel: ClassVar[bool] = False
    # Ports that are sums over all samples, as gradients of parameters are: of several GPUs, each
    # has its part, and in the end the sum.
    summed: ClassVar[tuple[str, ...]] = ()
    # Ports that all of several GPUs compute from such sums, in `afterwards`.
    agreed: ClassVar[tuple[str, ...]] = ()
    # Without a previous layer, its section says its input's extents; if not, n is a key as others.
    takes_input: ClassVar[bool] = True
    # keys of its own for its input's extents, without a previous layer
    input_keys: ClassVar[tuple[str, ...]] = ()
    given: ClassVar[bool] = False  # its outputs come from the data file: there is nothing to run
    sample: ClassVar[Mapping[str, str]] = {}  # config of the built-in workloads of this layer
    # What the layer's section says in each phase, where it says something else than in the other.
    phases: ClassVar[Mapping[Phase, Mapping[str, str]]] = {}
    any_float: ClassVar[bool] = False  # its tensors may have every float type up to 32 bits
    # integer types that its tensors may also have, in forward passes
    integers: ClassVar[tuple[DType, ...]] = ()
    type_key: ClassVar[str] = TYPE  # key in its section for the type of the input's elements
    # cure in the message about an unsupported input type
    type_cure: ClassVar[str] = "choose another type"
    # Input ports of indices: int32, without gradients. An [Input] that they read has such values as
    # the layer wants. What no layer gives comes from the data file.
    indices: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[Mapping[str, str]] = {}  # index input -> parameter whose rows it indexes
    lengths: ClassVar[tuple[str, ...]] = ()  # inputs that hold the lengths of samples
    own_type: ClassVar[bool] = False  # the key `type` is that of its own tensors, not of its input
    training_only: ClassVar[bool] = False  # in inference y is x, and the layer is left out
    # The gradients of its parameters are made of what the pass for dx leaves, which runs before.
    data_first: ClassVar[bool] = False
    axis_names: ClassVar[tuple[str, ...]] = EXTENTS  # names of its input's axes, in `tiles`
    contract: ClassVar[Contract] = Contract()  # what tests of all layers must know of this one

    # What it is planned for. No config says it: it is set where a layer is made, and a layer's
    # kernels, workspaces and bounds may depend on it.
    machine: Machine = field(
        default_factory=fitted,
        kw_only=True,
        repr=False,
        metadata={"keys": ()},
    )

    # Element types of its inputs, in the same way; (): float32, or what a key says.
    types: tuple[DType, ...] = field(default=(), kw_only=True, repr=False, metadata={"keys": ()})

    def __init_subclass__(cls, *, in_configs: bool = True) -> None:
        """`in_configs`: a section of a config may be one."""
        super().__init_subclass__()
        if "kind" in cls.__dict__ and in_configs:
            if cls.kind in REGISTERED:
                fact = f"kind {cls.kind!r} is that of {REGISTERED[cls.kind].__module__} too"
                raise SourceError(f"{cls.__module__}: {fact}; choose another")
            REGISTERED[cls.kind] = cls

    @classmethod
    def keyed_fields(cls) -> tuple[Field[Any], ...]:
        """The fields that a config sets."""
        return tuple(each for each in fields(cls) if each.metadata["keys"])

    @classmethod
    def config_keys(cls) -> dict[str, list[str]]:
        """Config key -> the fields it sets: `kernel_size` sets both extents."""
        keys: dict[str, list[str]] = {}
        for f in cls.keyed_fields():
            for name in f.metadata["keys"]:
                keys.setdefault(name, []).append(f.name)
        return keys

    @classmethod
    def common_keys(cls) -> tuple[str, ...]:
        """Keys of the layer's section that belong to its place in a network."""
        if not cls.takes_input:
            return PLACE_KEYS
        return COMMON_KEYS if cls.own_type else (*COMMON_KEYS, cls.type_key)

    @classmethod
    def from_config(
        cls, entries: Iterable[tuple[str, str, object]], machine: Machine | None = None
    ) -> Self:
        """The layer from (key, value, place) triples; the last one to set a field wins.

        It is planned for a machine; None: for the one that plans were fitted on. A hint with an
        empty value is as if it were not there.

        Raises:
            ConfigError: an unknown key, or a value that its field does not take.
        """
        keys, hints = cls.config_keys(), field_types(cls)
        limits = {f.name: f.metadata for f in cls.keyed_fields()}
        given: dict[str, Any] = {}
        for name, text, where in entries:
            if name not in keys:
                known = [*keys, *cls.common_keys()]
                fact = f"unknown key {printable(name)} in [{cls.section}]"
                raise ConfigError(where, f"{fact}; {did_you_mean(name, known)}")
            for target in keys[name]:
                limit = limits[target]
                if not text and limit["hint"]:
                    continue  # to DNNMark, an empty choice of kernels is none
                value = parse_value(hints[target], name, text, where)
                given[target] = check_range(name, value, limit["least"], limit["most"], where)
        return cls(**given, machine=machine or fitted())

    def reading(self, inputs: tuple[TensorSpec, ...]) -> Self:
        """The same layer with inputs of these types."""
        return replace(self, types=tuple(each.dtype for each in inputs))

    def role(self, port: str) -> PortRole:
        """What the tensor at a port is to the layer."""
        known = {
            **dict.fromkeys(self.input_names, PortRole.INPUT),
            **dict.fromkeys(self.output_names, PortRole.OUTPUT),
            **dict.fromkeys(self.parameters, PortRole.PARAMETER),
        }
        if port in known:
            return known[port]
        return PortRole.GRADIENT if port[:1] == "d" and port[1:] in known else PortRole.OTHER

    @property
    def dtype(self) -> DType:
        """Element type of its first input."""
        return self.types[0] if self.types else DType.F32

    @property
    def takes(self) -> tuple[str, ...]:
        """Ports of its inputs in order: `input_names`, where no key leaves some out."""
        return self.input_names

    @property
    def able(self) -> tuple[Pass, ...]:
        """Passes that it has: all of its kind, unless its keys leave the first alone."""
        return self.passes[:1] if self.forward_only else self.passes

    @property
    def gradients(self) -> tuple[str, ...]:
        """Ports of the gradients of the parameters."""
        return tuple(f"d{port}" for port in self.parameters)

    @property
    def reduced(self) -> tuple[str, ...]:
        """Ports that several GPUs add up, where a pass writes them."""
        return (*self.gradients, *self.summed)

    @property
    def formats(self) -> tuple[str, ...]:
        """Storage formats of inputs and outputs, where other layers have them otherwise."""
        return ()

    @property
    def by_reference(self) -> bool:
        """Whether bounds follow a user's expression, and not the kernel's text."""
        return False

    def magnifies(self, tensors: Tensors) -> float:
        """What follows a sum makes its error at most so many times larger, 1 or more."""
        return 1.0

    @property
    def forward_only(self) -> str:
        """Why there is no backward pass, as "with scales", though others of its kind have one."""
        return ""

    @property
    def propagates(self) -> bool:
        """Whether the backward pass computes dx."""
        return True

    def steps(self, wanted: Pass) -> tuple[Pass, ...]:
        """The layer's own passes that make up the pass that the user wants, in order."""
        if wanted in self.passes:
            return (wanted,)
        if wanted is Pass.BACKWARD_DATA and Pass.BACKWARD in self.passes:
            return (Pass.BACKWARD,)
        if wanted is not Pass.BACKWARD:
            return ()
        parts = (Pass.BACKWARD_WEIGHT, *((Pass.BACKWARD_DATA,) if self.propagates else ()))
        parts = parts[::-1] if self.data_first else parts
        return tuple(part for part in parts if part in self.passes)

    def carried(self, direction: Pass) -> tuple[str, ...]:
        """Written ports that the pass reads again, as the states of time steps.

        Where there is a result, `reference`, `tolerance` and `spread` get them as they are there,
        and judge each time step by itself, as layers are; without one, they go on from their own.
        """
        return ()

    def by_sample(self, inputs: tuple[TensorSpec, ...]) -> bool:
        """What `per_sample` says, where that depends on the inputs."""
        return self.per_sample

    def among(self, gpus: int) -> Layer:
        """The layer as each of several GPUs has it, for its share of the samples."""
        return self

    def afterwards(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        """What each of several GPUs does when they have added up what is `summed`."""
        return Lowering((), ())

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        """The inputs of a layer without a previous layer, whose section says `x`."""
        return (x,)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        """Shape of the first, or only, output: that of the only input, unless a layer says another.

        Raises:
            ValueError: an output extent would be less than 1, or the inputs do not fit together.
        """
        (x,) = inputs
        return x

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        """Shapes of what other layers may read, by port, the first one first.

        Raises:
            ValueError: as `output`.
        """
        return {self.output_names[0]: self.output(inputs)}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Operations that the algorithm needs, and transcendental ones; a copy needs none."""
        return 0, 0

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Work that the algorithm needs; every tensor of the pass counts once in the bytes."""
        ports = self.ports(inputs, direction) if self.passes else ()
        read = sum(port.spec.nbytes for port in ports if port.fill)
        written = sum(port.spec.nbytes for port in ports if not port.fill and not port.scratch)
        return OpCount(*self.work(inputs, direction), read, written)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        """Tensors read and written, in the order of the data file."""
        raise UnsupportedError(self.kind, "not lowered")

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        """Kernels and launches. Pure: no files, no GPU."""
        raise UnsupportedError(self.kind, "not lowered")

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        """What was chosen for the machine, where there was a choice, for people to read."""
        return ()

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        """Config keys or `axis_names` of extents that may be made smaller -> by multiples of what,
        so that they leave the same remainders of the kernel's tiles (frontend/scaling.py)."""
        return {}

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        """Ports whose elements the kernels load and store whatever type they have.

        For tensors of the other ports they get float32 (simgen/layers/conversion.py).
        """
        return tuple(port.name for port in self.ports(inputs, direction))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        """What the pass writes, from what it reads, in float64."""
        raise UnsupportedError(self.kind, "not lowered")

    def as_computed(self, tensors: Tensors, direction: Pass) -> Tensors:
        """`reference`, with the numbers that the kernels have on the way: what these overflow
        (simgen/ground/numerics/ranged.py)."""
        return self.reference(tensors, direction)

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """Bound on |kernel - reference| for each written element, derived from the kernel.

        Same shapes as `reference` returns. Never tuned: the derivation is in the layer's comments.
        """
        raise UnsupportedError(self.kind, "not lowered")

    def index_ends(self, inputs: tuple[TensorSpec, ...]) -> Mapping[str, int]:
        """What the indices are below that it writes, by output."""
        return {}

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        """What is wrong with a user's own values, by port, and what to do; "" where nothing is.

        For indices, with which a kernel would leave its tensors."""
        return ""

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        """What must be known to draw inputs whose sums are exact; None: they never are."""
        return None

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        """What every right kernel writes, to the bit, whatever its order of summation.

        Same shapes as `reference` returns, NaN where that is not known. Ports may be left out.
        """
        return {}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        """Spread of the errors of each written element, defined in
        simgen/ground/numerics/spread.py.

        `tolerance` is what `tolerance` returned. Where that is a few roundings, it is the spread:
        then there is nothing that it does not see.
        """
        return {port: Spread(bound) for port, bound in tolerance.items()}


class Alias(Layer):
    """Its output is its input, which others see in another shape; nothing runs."""


class Collective(Layer):
    """It is of several GPUs; on one there is nothing to do."""

    @property
    @abstractmethod
    def way(self) -> str:
        """How they add up: "ring" or "tree" (simgen/workload/sharding.py)."""


PLACE_KEYS = ("name", "previous_layer", "weights")
SHAPE = "shape"  # in their place, a tensor of any rank: 16x128x768
COMMON_KEYS = (*PLACE_KEYS, *EXTENTS, SHAPE)  # keys of every layer that takes an input


@cache
def field_types(cls: type[Layer]) -> dict[str, Any]:
    """Field -> its type. Class variables stay out: their types may be imported for mypy only."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):  # each class's in the terms of its module
        own = {
            f.name: f.type for f in fields(cls) if f.name in vars(base).get("__annotations__", {})
        }
        owner = SimpleNamespace(__annotations__=own)
        hints |= get_type_hints(owner, vars(sys.modules[base.__module__]))
    return hints


def parse_value(kind: Any, name: str, text: str, where: object) -> Any:
    """The value of a config key as its field's type: int, float, bool or a StrEnum."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if text not in set(kind):
            fact = f"{name} is {printable(text)}"
            raise ConfigError(where, f"{fact}; {did_you_mean(text, [str(v) for v in kind])}")
        return kind(text)
    if isinstance(kind, type) and issubclass(kind, DType):
        if text not in kind.table:
            raise ConfigError(where, f"{name} is {printable(text)}; {dtypes.cure(text)}")
        return kind.table[text]
    if kind is bool:
        if text not in ("true", "false"):
            raise ConfigError(where, f"{name} is {printable(text)}; write true or false")
        return text == "true"
    try:
        # Python would take 1_000 and digits of other scripts too.
        value = kind(text if text.isascii() and "_" not in text else "")
    except ValueError:
        noun = {int: "a whole number", float: "a number"}.get(kind, kind.__name__)
        cure = whole_number(text, f"write {noun}") if kind is int else f"write {noun}"
        raise ConfigError(where, f"{name} is {printable(text)}; {cure}") from None
    if kind is float and not math.isfinite(value):
        raise ConfigError(where, f"{name} is {printable(text)}; write a finite number")
    return value


def check_range(
    name: str, value: Any, least: float | None, most: float | None, where: object
) -> Any:
    """`value` if it lies in [least, most]; a whole number must fit in 32 bits too."""
    if type(value) is int:
        most = MAX_INT if most is None else most
        least = -MAX_INT if least is None else least
    if least is not None and value < least:
        raise ConfigError(where, f"{name} is {value}; it must be at least {least}")
    if most is not None and value > most:
        raise ConfigError(where, f"{name} is {value}; it must be at most {most}")
    return value
