"""Network -> workload: kernels and launches, buffers and their places in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simgen.errors import ConfigError, UnsupportedError
from simgen.ir import GUARD, PAGE, Buffer, Kernel, Launch, Pass, Role, Step, Workload
from simgen.layers import LAYERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.ir import Fill, TensorSpec
    from simgen.layers.base import Port
    from simgen.network import Network, Placed


def lower(network: Network, name: str, passes: Sequence[Pass], seed: int) -> Workload:
    """The workload that runs `passes` over the network: forward in order, backward in reverse.

    Tensors that no step writes come from the data file. Every written tensor is an output, so
    that results can be compared layer by layer.

    Raises:
        UnsupportedError: a layer is not lowered in one of the passes.
        ConfigError: a tensor would be written twice (two layers share a previous layer, in a
            backward pass), or the launch does not fit a dispatch packet.
    """
    draft = _Draft()
    for direction in Pass:
        if direction not in passes:
            continue
        layers = network.layers if direction is Pass.FORWARD else network.layers[::-1]
        for placed in layers:
            draft.add(placed, direction)
    buffers, nbytes, outputs_offset = _plan_memory(draft)
    return Workload(
        name=name,
        seed=seed,
        nodes=tuple(placed.node for placed in network.layers),
        buffers=buffers,
        kernels=tuple(draft.kernels.values()),
        steps=tuple(draft.steps),
        arena_nbytes=nbytes,
        outputs_offset=outputs_offset,
    )


@dataclass
class _Draft:
    kernels: dict[str, Kernel] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    tensors: dict[str, tuple[TensorSpec, Fill | None]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def add(self, placed: Placed, direction: Pass) -> None:
        """Lower one layer in one pass and bind its ports to buffers."""
        node, layer = placed.node, placed.layer
        if direction not in layer.passes:
            can = [f"{k}_{p}" for k, each in LAYERS.items() for p in each.passes]
            raise UnsupportedError(
                placed.where,
                f"layer {node.name!r} ([{layer.section}], pass {direction}) is not supported yet; "
                f"supported: {', '.join(can)}",
            )
        ports = layer.ports(node.inputs, direction)
        lowering = layer.lower(node.inputs, direction)
        for port in ports:
            self._enter(buffer_name(placed, port.name), port, placed.where)
        for kernel in lowering.kernels:
            if self.kernels.setdefault(kernel.name, kernel) != kernel:
                raise RuntimeError(f"two different kernels are named {kernel.name!r}")
        launches = tuple(
            replace(launch, args=tuple(buffer_name(placed, arg) for arg in launch.args))
            for launch in lowering.launches
        )
        for launch in launches:
            _check_grid(launch, self.kernels[launch.kernel], placed.where)
        bound = [(port, (port.name, buffer_name(placed, port.name))) for port in ports]
        self.steps.append(
            Step(
                layer=node.name,
                direction=direction,
                reads=tuple(pair for port, pair in bound if port.fill is not None),
                writes=tuple(pair for port, pair in bound if port.fill is None),
                launches=launches,
            )
        )

    def _enter(self, name: str, port: Port, where: str) -> None:
        if port.fill is None:
            if name in self.written:
                raise ConfigError(
                    where,
                    f"{name} is written by two layers; a branch in a backward pass is not "
                    "supported yet",
                )
            self.written.add(name)
        self.tensors.setdefault(name, (port.spec, port.fill))


def buffer_name(placed: Placed, port: str) -> str:
    """ "layer.port". A layer's x is its previous layer's y, its dx that layer's dy."""
    if placed.previous and port in ("x", "dx"):
        return f"{placed.previous}.{'y' if port == 'x' else 'dy'}"
    return f"{placed.node.name}.{port}"


def _plan_memory(draft: _Draft) -> tuple[tuple[Buffer, ...], int, int]:
    """(buffers, size of the arena, where the outputs start): inputs first, then outputs."""
    inputs = [name for name in draft.tensors if name not in draft.written]
    outputs = [name for name in draft.tensors if name in draft.written]
    buffers: list[Buffer] = []
    at = outputs_offset = 0
    for role, names in ((Role.INPUT, inputs), (Role.OUTPUT, outputs)):
        if role is Role.OUTPUT:
            outputs_offset = at
        for name in names:
            spec, fill = draft.tensors[name]
            buffers.append(Buffer(name, spec, role, at, fill if role is Role.INPUT else None))
            at += -(-spec.nbytes // PAGE) * PAGE + GUARD
    return tuple(buffers), at, outputs_offset


def _check_grid(launch: Launch, kernel: Kernel, where: str) -> None:
    x, y, z = launch.grid
    if x * kernel.block >= 2**32 or max(y, z) > 0xFFFF:  # AQL counts work-items in 32 bits
        raise ConfigError(
            where, f"a grid of {x} x {y} x {z} work-groups is too large; make n or c smaller"
        )
