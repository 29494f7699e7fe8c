"""The layer of a user's own kernels: one pass, with what a file says of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from simgen.errors import ConfigError, one_line
from simgen.ground.dtypes import DType
from simgen.ground.ir import Fill, Kernel, Launch, OpCount, Pass, TensorSpec, from_json
from simgen.ground.machine import Machine, fitted
from simgen.ground.numerics.spread import Spread, peak_limit
from simgen.ground.storage.schema import SchemaError
from simgen.layers.base import Layer, Lowering, Port
from simgen.layers.elementwise import Operation, lower, words
from simgen.layers.own import expression, inexact
from simgen.layers.own.definition import EXPECTED, Definition, OwnTensor
from simgen.layers.own.inexact import Arithmetic, Decision, Inexact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from simgen.layers.base import Tensors

KEY = "definition"
DOUBLE = DType.table["f64"]
NOTHING = Definition((), (), ())


@dataclass(frozen=True)
class OwnKernel(Layer, in_configs=False):
    """Kernels of a user."""

    kind: ClassVar[str] = "kernel"
    section: ClassVar[str] = "Kernel"
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD,)
    input_names: ClassVar[tuple[str, ...]] = ()
    rank: ClassVar[int | None] = None
    takes_input: ClassVar[bool] = False
    any_float: ClassVar[bool] = True

    definition: Definition = field(default=NOTHING, metadata={"keys": ()})

    @classmethod
    def from_config(
        cls, entries: Iterable[tuple[str, str, object]], machine: Machine | None = None
    ) -> Self:
        """The layer of a section, whose only entry is JSON.

        Raises:
            ConfigError: it is another one.
        """
        found = list(entries)
        try:
            (_, text, _), *more = found
            if more:
                raise SchemaError("more than one entry")
            made = from_json(Definition, json.loads(text))
        except (ValueError, RecursionError) as error:
            place = found[0][2] if found else cls.section
            raise ConfigError(
                place, f"not a kernel ({one_line(str(error))}); build it again"
            ) from None
        return cls(definition=made, machine=machine or fitted())

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        return self.definition.outputs[0].spec

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        return {each.name: each.spec for each in self.definition.outputs}

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        tensors = self.definition.tensors
        return OpCount(
            flops=self.definition.flops,
            read_bytes=sum(each.spec.nbytes for each in tensors if each.fill),
            written_bytes=sum(each.spec.nbytes for each in tensors if each.output),
        )

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        """What has values first; workspaces last."""
        made = self.definition
        given = [Port(each.initial, each.spec, each.fill) for each in made.tensors if each.fill]
        computed = [
            Port(f"{EXPECTED}{each.name}", TensorSpec(each.spec.shape, kind), Fill.usual(kind))
            for each in made.outputs
            for kind in (each.spec.dtype if each.spec.dtype.is_long else DOUBLE,)
            if not made.references
        ]
        written = [Port(each.name, each.spec) for each in made.outputs]
        scratch = [
            Port(each.name, each.spec, scratch=True)
            for each in made.tensors
            if not each.fill and not each.output
        ]
        return (*given, *computed, *written, *scratch)

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return tuple(port.name for port in self.ports(inputs, direction))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        """The user's launches, after one for each output that holds something before."""
        before = [_copied(each) for each in self.definition.outputs if each.fill]
        kernels = dict.fromkeys(kernel for kernel, _ in before)
        return Lowering(
            (*kernels, *self.definition.kernels),
            (*(launch for _, launch in before), *self.definition.launches),
        )

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        made = self.definition
        if not made.references:
            return {each.name: tensors[f"{EXPECTED}{each.name}"] for each in made.outputs}
        return {name: found.value for name, found in self._evaluated(tensors)}

    @property
    def by_reference(self) -> bool:
        return self.definition.tolerance is None

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        made = self.definition
        if made.tolerance is None:
            peaks = {each.name: peak_limit(each.spec.size) for each in made.outputs}
            bounds = {name: found.bound for name, found in self._evaluated(tensors)}
            for far in (1.0, min(peaks.values())):
                for name, likely in self._likely(tensors, far).items():
                    bounds[name] = np.fmin(bounds[name], peaks[name] * likely)
            return bounds
        # Beside floats, an integer is a count or an index, which is right or wrong.
        floats = {each.name for each in made.outputs if each.spec.dtype.is_float}
        found = {}
        for name, values in self.reference(tensors, direction).items():
            whole = values.astype(np.float64)
            largest = np.max(np.abs(whole), initial=0.0, where=np.isfinite(whole))
            share = made.tolerance if name in floats or not floats else 0.0
            found[name] = np.full(values.shape, share * largest)
        return found

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        if self.definition.tolerance is not None:
            return super().spread(tensors, direction, tolerance)
        likely = self._likely(tensors)
        return {name: Spread(np.fmin(likely[name], bound)) for name, bound in tolerance.items()}

    def _likely(self, tensors: Tensors, far: float = 1.0) -> Tensors:
        """Proxy standard deviations of the errors of each output, to allow `far` of."""
        kind = self._arithmetic.allowing(far)
        return {name: found.bound for name, found in self._evaluated(tensors, kind)}

    @cached_property
    def _arithmetic(self) -> Arithmetic:
        """float32's, or float64's where no float is narrower, with what the file says of narrow
        types on the way."""
        made, types = self.definition, [each.spec.dtype for each in self.definition.tensors]
        floats = {each.accumulation for each in types if each.is_float} or {DType.F32}
        kind = DOUBLE if floats == {DOUBLE} else DType.F32
        sums = DType.table[made.accumulate] if made.accumulate else kind
        narrow = DType.table[made.arithmetic] if made.arithmetic else None
        return inexact.Arithmetic(
            kind.roundoff,
            sums.roundoff,
            narrow.roundoff if narrow else 0.0,
            2.0 ** (narrow.least_exponent - narrow.mantissa - 1) if narrow else 0.0,
            kind.overflow,
            sums.overflow,
        )

    def _known(self, tensors: Mapping[str, NDArray[Any]], kind: Arithmetic) -> dict[str, Any]:
        known: dict[str, Any] = dict(self.definition.parameters)
        for each in self.definition.tensors:
            if each.fill:
                values = tensors[each.initial]
                exact = not each.spec.dtype.is_float
                known[each.name] = (
                    _whole_numbers(values) if exact else inexact.inexact_of(values, kind)
                )
        return known

    def _evaluated(
        self, tensors: Tensors, kind: Arithmetic | None = None
    ) -> Iterator[tuple[str, Inexact]]:
        """Each output, from the expressions; an expression has those of the lines before it."""
        kind = kind or self._arithmetic
        known = self._known(tensors, kind)
        specs = {each.name: each.spec for each in self.definition.outputs}
        for name, text in self.definition.references:
            try:
                found = expression.evaluate(text, known, kind)
                known[name] = found
                if name in specs:
                    yield name, _shaped(_values(found, specs[name], kind), specs[name])
            except expression.ExpressionError as error:
                raise ConfigError(f"reference of {name}", str(error)) from None


def _whole_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers with signs, unless there are some that have no room for it."""
    if values.dtype.kind == "u" and values.max(initial=0) > np.iinfo(np.int64).max:
        return values
    return values.astype(np.int64)


def _values(found: Any, spec: TensorSpec, u: Arithmetic) -> Inexact:
    """What an expression made; float64 does not hold all whole numbers, so these wrap around first,
    and those of 64 bits stay whole.

    Raises:
        ExpressionError: it has no values.
    """
    if isinstance(found, (Inexact, Decision)):
        return inexact.inexact_of(found, u)
    try:
        array = np.asarray(found)
        if array.dtype.kind in "iu" and not spec.dtype.is_float:
            array = array.astype(spec.dtype.array)
            if spec.dtype.is_long:
                return Inexact(array, np.zeros(array.shape), u)
        return inexact.inexact_of(np.asarray(array, np.float64), u)
    except (TypeError, ValueError):
        raise expression.ExpressionError("is no number or array; correct it") from None


def _shaped(found: Inexact, spec: TensorSpec) -> Inexact:
    """A result in the shape and type of the output; whole numbers wrap around as in C.

    Raises:
        ExpressionError: it has another size.
    """
    if found.value.size != spec.size and found.value.size != 1:
        raise expression.ExpressionError(
            f"has shape {found.value.shape}, and the output {spec.shape}; correct one of them"
        )
    made = found.moved(lambda each: (np.broadcast_to(each, spec.shape) if each.size == 1
                                     else each.reshape(spec.shape)))  # fmt: skip
    if spec.dtype.is_float or made.value.dtype.kind in "iu":
        return made
    limits = np.iinfo(spec.dtype.array)
    span = float(limits.max) - limits.min + 1
    inside = (made.value >= limits.min) & (made.value <= limits.max)
    wrapped = np.where(inside, made.value, (made.value - limits.min) % span + limits.min)
    return Inexact(wrapped, np.where(np.isfinite(made.bound), made.bound, span), made.u)


def _copied(tensor: OwnTensor) -> tuple[Kernel, Launch]:
    """What gives an output the values that it has before."""
    size = words(tensor.spec)
    name, ports = f"initial_values_{size}", ((tensor.initial,), (tensor.name,))
    made = lower(name, Operation.COPY, size, *ports)
    return made.kernels[0], made.launches[0]
