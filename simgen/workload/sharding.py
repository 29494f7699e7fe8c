"""Data parallelism: a workload -> the share of it that each of several GPUs has.

Each GPU runs the same network on its share of the batch: tensors with an axis N are cut along it,
parameters are the same everywhere. The gradient of a parameter is a sum over the batch, of which
each GPU has a part; a ring all-reduce adds the parts up, after which all have the same sum.

The ring (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 69(2), 2009): with G GPUs the tensor is cut into G chunks. In stage s of the
first G - 1, GPU i adds its part of chunk i - s - 1 to what GPU i - 1 has of it; in the last of them
the sum of chunk i + 1 is complete on GPU i. In stage s of the next G - 1, GPU i copies chunk i - s
from GPU i - 1. Every stage is one launch on every GPU, which reads its neighbour's memory.

The tree is binomial (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
communication operations in MPICH", IJHPCA 19(1), 2005): in stage s of the first ceil(log2 G), each
GPU i that is a multiple of 2^(s+1) adds what GPU i + 2^s has to what it has itself, the whole
tensor at once; after the last of them GPU 0 has the sum. The other stages are the same backward,
and copy it.

MGPUSim's timing model does not empty its L1 caches between launches. So no address is
written twice: parts, partial sums and the result have a buffer each, and no memory is used again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices, Destination
from simgen.ask.choice import spelled
from simgen.errors import RefusedError, UsageError
from simgen.frontend.network import make_layer
from simgen.ground.ir import Buffer, DType, Kernel, Launch, Pass, Role, Step, TensorSpec, Workload
from simgen.layers import LAYERS, conversion, elementwise
from simgen.layers.base import Collective, Lowering
from simgen.layers.elementwise import Operation
from simgen.workload.lowering import arena

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.ir import Node
    from simgen.layers.base import Port


RING, TREE = "ring", "tree"
MAX_GPUS = 64  # ranks of an all-reduce; a training step shares its batch among as many
# Chunks start on multiples of a work-item's elements, so that 16 bytes are one access.
VECTOR = elementwise.VECTOR


@dataclass(frozen=True)
class Chunk:
    """Elements [start, start + size) of a tensor, and the kernels that the ring treats them with.

    `add` has the arguments (own part, neighbour's sum, sum), `copy` has (neighbour's, own).
    """

    start: int
    size: int  # 0: the tensor has fewer vectors than there are GPUs
    groups: int  # work-groups of both kernels
    add: str = ""
    copy: str = ""


@dataclass(frozen=True)
class Reduction:
    """A sum over the batch that the GPUs add up. All buffers have its shape, on every GPU."""

    part: str  # what the step writes: the sum over the GPU's own samples
    partials: tuple[str, ...]  # sums over some of the GPUs; of a tree, of each level but the last
    result: str  # over all of them: the buffer of the whole workload
    way: str  # RING or TREE
    chunks: tuple[Chunk, ...]  # a ring has one for each GPU, a tree has one


@dataclass(frozen=True)
class Sharding:
    """What one of `gpus` GPUs runs. `workload.steps` are those of the whole workload, one to one.

    A buffer that both workloads have is the same on all GPUs if its shape is the same in both;
    else GPU i has rows [i, i + 1) * shape[0] of it.
    """

    gpus: int
    workload: Workload
    reductions: tuple[tuple[Reduction, ...], ...]  # for each step, to be done after it
    afterwards: tuple[tuple[Launch, ...], ...]  # for each step, on every GPU after these


def check_enough(workload: Workload, gpus: int, option: str) -> None:
    """Raise UsageError if a layer needs several GPUs and there is one, as `option` says."""
    if gpus > 1 and workload.is_own:
        raise UsageError(f"{option}: kernels of your own are not shared among GPUs; take one GPU")
    for node in workload.nodes if gpus == 1 and not workload.is_own else ():
        layer = LAYERS[node.kind]
        if issubclass(layer, Collective):
            raise UsageError(
                f"{option}: layer {node.name!r} ([{layer.section}]) is of several GPUs, and this "
                f"is one; take {Destination.targets} mgpusim or cuda, {spelled('gpus')} 2 "
                "or more, a number that divides n"
            )


def check(gpus: int) -> None:
    """Raise UsageError unless there may be so many GPUs."""
    if not 1 <= gpus <= MAX_GPUS:
        raise UsageError(f"{spelled('gpus')} {gpus}: no such number of GPUs; write 1 to {MAX_GPUS}")


def split(workload: Workload, gpus: int) -> Sharding:
    """The share of each of `gpus` GPUs.

    Raises:
        UsageError: the batch is not a multiple of `gpus`, or there may not be so many.
        RefusedError: a layer needs the whole batch at once.
    """
    check(gpus)
    if workload.is_own and gpus > 1:
        raise UsageError(
            f"{spelled('gpus')} {gpus}: kernels of your own are not shared among GPUs; take one GPU"
        )
    if workload.queues and gpus > 1:
        raise UsageError(
            f"{spelled('gpus')} {gpus}: each of several GPUs has one queue; "
            f"build it without {BuildChoices.queues}"
        )
    if gpus == 1:
        none = ((),) * len(workload.steps)
        return Sharding(1, workload, none, none)
    draft = _DraftOfShare(workload, gpus)
    for step in workload.steps:
        draft.add(step)
    buffers, nbytes, outputs_offset = arena(draft.placed())
    share = replace(
        workload,
        nodes=tuple(draft.nodes.values()),
        buffers=buffers,
        kernels=tuple(draft.kernels.values()),
        steps=tuple(draft.steps),
        arena_nbytes=nbytes,
        outputs_offset=outputs_offset,
    )
    return Sharding(gpus, share, tuple(draft.reductions), tuple(draft.afterwards))


@dataclass
class _DraftOfShare:
    whole: Workload
    gpus: int
    nodes: dict[str, Node] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    reductions: list[tuple[Reduction, ...]] = field(default_factory=list)
    afterwards: list[tuple[Launch, ...]] = field(default_factory=list)
    # specs of buffers that the share and the whole both have
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    # specs of buffers that only a share has
    scratch: dict[str, TensorSpec] = field(default_factory=dict)
    replicated: set[str] = field(default_factory=set)  # buffers that are the same on all GPUs

    @property
    def place(self) -> str:
        return f"{spelled('gpus')} {self.gpus}"

    def __post_init__(self) -> None:
        inputs = {buffer.name for buffer in self.whole.inputs}
        for step in self.whole.steps:
            if step.direction is Pass.UPDATE:  # master weights, and what optimisers carry
                self.replicated |= {name for _, name in step.reads} & inputs
            parameters = make_layer(self.whole.node(step.layer), self.whole.machine).parameters
            self.replicated |= {name for port, name in step.reads if port in parameters}

    def add(self, step: Step) -> None:
        """Lower a step for one GPU. What reads nothing but parameters is done by all of them."""
        node = self.whole.node(step.layer)
        layer = make_layer(node, self.whole.machine)
        everywhere = {name for _, name in step.reads} <= self.replicated and bool(step.reads)
        if not everywhere and not (layer.by_sample(node.inputs) or layer.data_parallel):
            raise RefusedError(
                f"{self.place}: layer {node.name!r} ([{layer.section}]) needs the "
                "whole batch, of which each GPU has a share only; run it on one GPU"
            )
        if not everywhere:
            layer = layer.among(self.gpus)
            node = replace(node, inputs=tuple(self._share(node, spec) for spec in node.inputs))
        self.nodes[node.name] = node
        ports = conversion.ports(layer, node.inputs, step.direction)
        bound = dict((*step.reads, *step.writes))
        results = dict(bound)  # what is added up is what others read
        reduced = []
        way = layer.way if isinstance(layer, Collective) else RING
        for port in ports:
            name = bound.get(port.name, f"{node.name}.{port.name}_{step.direction}")
            bound[port.name] = results[port.name] = name
            same = port.name in (*layer.reduced, *layer.agreed)
            if port.scratch:
                self.scratch[name] = port.spec
            else:
                self._enter(name, port, everywhere or same)
            if port.name in layer.reduced and port.fill is None:
                reduced.append(self._reduction(name, port.spec, way))
                bound[port.name] = reduced[-1].part
        lowering = conversion.lower(layer, node.inputs, step.direction)
        launches = self._launches(lowering, bound)
        after = Lowering((), ())
        if not everywhere:
            after = layer.afterwards(node.inputs, step.direction)
        self.afterwards.append(self._launches(after, results))
        writes = tuple((port, bound[port]) for port, _ in step.writes)
        self.steps.append(replace(step, writes=writes, launches=launches))
        self.reductions.append(tuple(reduced))

    def _launches(self, lowering: Lowering, bound: Mapping[str, str]) -> tuple[Launch, ...]:
        self.kernels |= {kernel.name: kernel for kernel in lowering.kernels}
        return tuple(
            replace(launch, args=tuple(bound[arg] for arg in launch.args))
            for launch in lowering.launches
        )

    def placed(self) -> list[Buffer]:
        """All buffers, those of the whole workload in its order, without their places."""
        shared = [
            replace(b, spec=self.specs[b.name]) for b in self.whole.buffers if b.name in self.specs
        ]
        return [*shared, *(Buffer(n, s, Role.SCRATCH, 0) for n, s in self.scratch.items())]

    def _share(self, node: Node, spec: TensorSpec) -> TensorSpec:
        batch = spec.shape[0]
        if batch % self.gpus == 0:
            return TensorSpec((batch // self.gpus, *spec.shape[1:]), spec.dtype)
        fitting = [str(n) for n in range(2, MAX_GPUS + 1) if batch % n == 0]
        cure = (
            f"choose {' or '.join(fitting)}"
            if fitting
            else f"choose another batch with {BuildChoices.set} n=..."
        )
        raise UsageError(
            f"{self.place}: the batch of layer {node.name!r} is {batch}, "
            f"which is not a multiple; {cure}"
        )

    def _enter(self, name: str, port: Port, everywhere: bool) -> None:
        """Note a buffer's share, which is the whole tensor or some of its rows."""
        whole, share = self.whole.buffer(name).spec, port.spec
        seen = whole.shape[0], whole.size
        if (share.shape[0] * self.gpus, share.size * self.gpus) == seen:  # in whatever extents
            share = replace(share, shape=(share.shape[0], *whole.shape[1:]))
        rows = (share.shape[0] * self.gpus, *share.shape[1:])
        if everywhere and share == whole:
            self.replicated.add(name)
        elif share != whole and rows == whole.shape:
            if share.held * self.gpus != whole.held:
                raise UsageError(
                    f"{self.place}: a share of tensor {name} is {share.size} "
                    f"elements of {share.dtype.name}, which move by fours; choose another batch by "
                    f"{BuildChoices.set} n=..."
                )
        elif share != whole or port.fill is None:
            raise RefusedError(
                f"{self.place}: tensor {name} has no batch to share; run it on one GPU"
            )
        if self.specs.setdefault(name, share) != share:
            raise RuntimeError(f"{name} has two shares")

    def _reduction(self, name: str, spec: TensorSpec, way: str) -> Reduction:
        if spec.dtype != DType.F32:
            raise RefusedError(
                f"{self.place}: gradient {name} is {spec.dtype}, and gradients are added up over "
                f"GPUs in f32; run it on one GPU, or leave out {BuildChoices.type}"
            )
        count, pieces = 1, self.gpus
        if way == TREE:
            count, pieces = (self.gpus - 1).bit_length() - 1, 1
        part, partials = f"{name}.part", tuple(f"{name}.partial{at or ''}" for at in range(count))
        self.scratch |= dict.fromkeys((part, *partials), spec)
        length = ceil(spec.size / pieces / VECTOR) * VECTOR
        chunks = []
        for start in range(0, length * pieces, length):
            size = max(0, min(length, spec.size - start))
            kinds = (Operation.ADD, Operation.COPY) if size else ()
            made = [self._kernel(operation, size) for operation in kinds]
            groups, _, _ = elementwise.grid(size)
            chunks.append(Chunk(min(start, spec.size), size, groups, *made))
        return Reduction(part, partials, name, way, tuple(chunks))

    def _kernel(self, operation: Operation, size: int) -> str:
        """The kernel of a stage; what it reads last lies in another GPU's memory."""
        name = f"all_reduce_{operation}_{size}"
        reads = ("part", "sum") if operation is Operation.ADD else ("neighbour",)
        lowered = elementwise.lower(name, operation, size, reads, ("result",))
        self.kernels |= {kernel.name: kernel for kernel in lowered.kernels}
        return name
