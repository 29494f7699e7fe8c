"""Chakra execution traces, as ASTRA-sim reads them: one file for each GPU.

A file is the messages GlobalMetadata, Node, Node, ... with their lengths before them (et_def.proto
of MLCommons Chakra, version 1.0.0). A node is a step, a layer in a pass:

    duration_micros  its time, in whole microseconds, 1 at least; `seconds` has it as it is
    num_ops          operations that the algorithm needs; 1 where it only moves, because ASTRA-sim's
                     roofline model divides by what follows from them
    tensor_size      bytes that it must move
    data_deps        the steps that wrote what it reads
    ctrl_deps        the step before in its queue, and what a queue waits for

A gradient that several GPUs add up is a collective node behind the step that wrote it; `comm_size`
is its bytes, and steps that read the sum depend on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from simgen.errors import UsageError
from simgen.frontend.network import make_layer
from simgen.ground.ir import Queued, Step, Workload
from simgen.ground.storage.files import atomic_folder
from simgen.ground.version import version
from simgen.reports.exports import base, protobuf
from simgen.reports.exports.operators import title
from simgen.workload import sharding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.reports.exports.base import Exported
    from simgen.workload.sharding import Reduction, Sharding

SCHEMA = "1.0.0"  # version of Chakra's schema
COMPUTE, COLLECTIVE = 4, 7  # values of the enumeration NodeType
ALL_REDUCE = 0  # value of the enumeration CollectiveCommType
MICROSECONDS = 1e6
# Numbers of the fields of GlobalMetadata, Node, IOInfo and AttributeProto.
VERSION, METADATA = 1, 2
ID, NAME, TYPE, CTRL_DEPS, DATA_DEPS, DURATION = 1, 2, 3, 4, 5, 7
INPUTS, OUTPUTS, ATTRIBUTE = 8, 9, 10
VALUES, SHAPES, TYPES = 1, 2, 3
ATTRIBUTE_NAME, DOUBLE, INT64, UINT64, BOOL, STRING = 1, 3, 9, 13, 27, 29


def _attribute(name: str, kind: int, value: float | str | bool) -> bytes:
    """An AttributeProto; `kind` is the number of the field of its value."""
    if kind == DOUBLE:
        content = protobuf.double(kind, float(value))
    elif kind == STRING:
        content = protobuf.held(kind, str(value))
    else:
        content = protobuf.unsigned_field(kind, int(value))
    return protobuf.held(ATTRIBUTE_NAME, name) + content


class ChakraTrace(base.Export):
    """A folder with NAME.0.et, NAME.1.et, ...: ASTRA-sim's --workload-configuration DIR/NAME."""

    name: ClassVar[str] = "chakra"
    what: ClassVar[str] = "execution traces of a network, for ASTRA-sim: a folder of .et files"
    readers: ClassVar[tuple[str, ...]] = ("astrasim",)

    def write(self, sources: Sequence[Exported], path: Path) -> list[str]:
        (source,) = sources
        workload, result = source.bundle.workload, source.result
        seconds = base.seconds(self, source.bundle, result)
        without = [title(s) for at, s in enumerate(workload.steps) if at not in seconds]
        if without:
            raise UsageError(
                f"{source.bundle.path}: {result.name} has no times of {len(without)} of "
                f"{len(workload.steps)} layers and passes (as {without[0]}), and a trace has all; "
                "run the whole network, or build a slice of it"
            )
        share = sharding.split(workload, int(result.provenance.get("gpus", 1)))
        trace = _Trace(share, seconds, _summing(source))
        content = trace.written(source)
        with atomic_folder(path, new=True) as folder:
            for gpu in range(share.gpus):
                (folder / f"{source.name}.{gpu}.et").write_bytes(content)
        lines = [*base.inferred(result)]
        if trace.short:
            lines.append(
                f"{trace.short} of {trace.count} nodes take less than a microsecond, Chakra's unit "
                "of time: they have 1; the attribute `seconds` has what was counted"
            )
        if share.gpus == 1:
            lines.append("one GPU, which ASTRA-sim's analytical backends refuse; run with several")
        return [*lines, f"for ASTRA-sim: --workload-configuration={path / source.name}"]


def _summing(source: Exported) -> dict[int, float]:
    """Step -> seconds of adding up over GPUs what it wrote, where the result counted them."""
    found: dict[int, float] = {}
    of = [at for at, step in enumerate(source.bundle.workload.steps) for _ in step.launches]
    for step, metrics in zip(of, source.result.launches):
        if "all_reduce_seconds" in metrics:
            found[step] = found.get(step, 0.0) + metrics["all_reduce_seconds"]
    return found


@dataclass
class _Trace:
    """The nodes of one GPU, all of which do the same."""

    sharding: Sharding
    seconds: Mapping[int, float]  # step -> its time in seconds
    summing: Mapping[int, float]  # step -> its collective's time in seconds
    count: int = 0
    short: int = 0  # nodes of less than a microsecond
    nodes: list[bytes] = field(default_factory=list)
    writers: dict[str, int] = field(default_factory=dict)  # buffer -> node that wrote it last
    steps: list[int] = field(default_factory=list)  # the nodes of the steps so far
    last: dict[int, int] = field(default_factory=dict)  # queue -> its last one of them

    @property
    def workload(self) -> Workload:
        return self.sharding.workload

    def written(self, source: Exported) -> bytes:
        """The content of a file."""
        told = (
            ("producer", f"simgen {version()}"),
            ("workload", self.workload.name),
            ("result", source.result.name),
        )
        metadata = protobuf.held(VERSION, SCHEMA) + b"".join(
            protobuf.held(METADATA, _attribute(name, STRING, value)) for name, value in told
        )
        for at, (step, reductions) in enumerate(
            zip(self.workload.steps, self.sharding.reductions, strict=True)
        ):
            self._compute(at, step)
            for each in reductions:
                self._collective(at, step, each, len(reductions))
        return b"".join(protobuf.delimited(each) for each in (metadata, *self.nodes))

    def _compute(self, at: int, step: Step) -> None:
        node = self.workload.node(step.layer)
        work = make_layer(node, self.workload.machine).count(node.inputs, step.direction)
        reads = [name for _, name in step.reads]
        writes = [name for _, name in step.writes]
        key = self._add(
            title(step),
            COMPUTE,
            self.seconds[at],
            sorted({self.writers[name] for name in reads if name in self.writers}),
            self._before(at),
            (
                protobuf.held(INPUTS, self._tensors(reads)),
                protobuf.held(OUTPUTS, self._tensors(writes)),
            ),
            (
                ("num_ops", INT64, max(1, work.flops + work.transcendentals)),
                ("tensor_size", UINT64, work.read_bytes + work.written_bytes),
                ("kind", STRING, node.kind),
            ),
        )
        self.steps.append(key)
        self.writers |= dict.fromkeys(writes, key)

    def _before(self, at: int) -> list[int]:
        """The nodes of the steps that end before a step begins, whatever it reads."""
        queued = self.workload.queues[at] if self.workload.queues else Queued(0, ())
        own = [self.last[queued.queue]] if queued.queue in self.last else []
        self.last[queued.queue] = self.count
        return sorted({*own, *(self.steps[n] for n in queued.after)})

    def _collective(self, at: int, step: Step, of: Reduction, count: int) -> None:
        key = self._add(
            f"{title(step)} all-reduce {of.result}",
            COLLECTIVE,
            self.summing.get(at, 0.0) / count,
            [self.writers[of.part]],
            [],
            (),
            (
                ("comm_type", INT64, ALL_REDUCE),
                ("comm_size", INT64, self.workload.buffer(of.result).spec.nbytes),
            ),
        )
        self.writers[of.result] = key

    def _add(
        self,
        name: str,
        kind: int,
        seconds: float,
        data: list[int],
        control: list[int],
        tensors: tuple[bytes, ...],
        attributes: tuple[tuple[str, int, float | str], ...],
    ) -> int:
        """Append a node; returns its id."""
        micros = round(seconds * MICROSECONDS)
        self.short += 0 < seconds * MICROSECONDS < 1
        key, self.count = self.count, self.count + 1
        common = (("is_cpu_op", BOOL, False), ("seconds", DOUBLE, seconds))
        self.nodes.append(
            protobuf.unsigned_field(ID, key)
            + protobuf.held(NAME, name)
            + protobuf.unsigned_field(TYPE, kind)
            + protobuf.packed(CTRL_DEPS, control)
            + protobuf.packed(DATA_DEPS, data)
            + protobuf.unsigned_field(DURATION, max(1, micros) if seconds else 0)
            + b"".join(tensors)
            + b"".join(
                protobuf.held(ATTRIBUTE, _attribute(*each)) for each in (*common, *attributes)
            )
        )
        return key

    def _tensors(self, names: list[str]) -> bytes:
        """An IOInfo: lists as JSON has them."""
        specs = [self.workload.buffer(name).spec for name in names]
        shapes, types = [list(each.shape) for each in specs], [str(each.dtype) for each in specs]
        return (
            protobuf.held(VALUES, json.dumps(names))
            + protobuf.held(SHAPES, json.dumps(shapes))
            + protobuf.held(TYPES, json.dumps(types))
        )
