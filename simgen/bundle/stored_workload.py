"""A bundle's workload.json as it comes from a disk: what it may hold, beyond types.

A workload that `workload.lower` made keeps to all of this. One of another version of simgen, or
of another program, may not; what reads it later relies on it.
"""

from __future__ import annotations

import re
from dataclasses import astuple
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from simgen.errors import SimgenError, printable
from simgen.frontend.network import make_layer
from simgen.ground.dtypes import WORD
from simgen.ground.ir import (
    GUARD,
    MOST_STRUCTURE,
    PAGE,
    Buffer,
    ByValue,
    Kernel,
    Node,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.ground.storage.schema import SchemaError, from_json
from simgen.layers.base import MAX_INT, MAX_RANK
from simgen.workload import queues

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.ground.machine import Machine

    Ports = tuple[tuple[str, TensorSpec], ...]

NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
MAX_ARENA = 2**50  # bytes
MAX_LDS = 2**18  # bytes
MAX_BOX = 256  # elements of a side, as CUDA's driver takes them
WRONG = (  # what a layer may raise that is made of parameters or shapes that no config gives
    SimgenError, ValueError, LookupError, TypeError, ArithmeticError, AssertionError,
    AttributeError, RecursionError, MemoryError,
)  # fmt: skip


def workload(value: Any) -> Workload:
    """The workload of the JSON `value`, which keeps to all that a lowered workload does.

    Raises:
        SchemaError: it does not.
    """
    made = from_json(Workload, value)
    _check_extents(made)
    nodes = _by_name("nodes", made.nodes)
    buffers = _by_name("buffers", made.buffers)
    kernels = _by_name("kernels", made.kernels)
    for buffer in made.buffers:
        _check_buffer(made, buffer)
    for kernel in made.kernels:
        _check_kernel(kernel)
    _need(bool(made.steps), "steps", "there is none")
    known = {buffer.name for buffer in made.inputs}
    for at, step in enumerate(made.steps):
        place = f"steps[{at}]"
        _need(step.layer in nodes, place, f"no node {printable(step.layer)}")
        _check_step(place, step, nodes[step.layer], buffers, made.machine)
        _check_launches(place, step, buffers, kernels)
        _need(all(name in known for _, name in step.reads), place, "reads what nobody has written")
        written = {name for _, name in step.writes}
        _need(not written & known, place, "writes what is written already")
        known |= written
    _check_queues(made)
    return made


def _need(fulfilled: bool, place: str, fact: str) -> None:
    if not fulfilled:
        raise SchemaError(fact).under(f"Workload.{place}")


def _check_queues(made: Workload) -> None:
    """Each step waits for earlier ones of other queues, and all conflicts are in order."""
    if not made.queues:
        return
    _need(len(made.queues) == len(made.steps), "queues", "not one for each step")
    for at, turn in enumerate(made.queues):
        place = f"queues[{at}]"
        _need(0 <= turn.queue < queues.MAX_QUEUES, place, "no such queue")
        earlier = all(0 <= each < at for each in turn.after)
        _need(earlier, place, "waits for what does not come before")
    _need(queues.is_ordered(made), "queues", "steps that depend on each other may run at once")


def _check_extents(made: Workload) -> None:
    _need(len(made.name) <= 1000, "name", "too long")
    _need(0 <= made.seed < 2**64, "seed", f"{made.seed} is out of range")
    _need(0 < made.arena_nbytes <= MAX_ARENA, "arena_nbytes", "out of range")
    within = 0 <= made.outputs_offset <= made.arena_nbytes
    _need(within and made.outputs_offset % PAGE == 0, "outputs_offset", "no page of the arena")


def _by_name(kind: str, members: Sequence[Any]) -> dict[str, Any]:
    """Nodes, buffers or kernels by name, which is a good name and of one alone."""
    found: dict[str, Any] = {}
    for member in members:
        _need(bool(NAME.fullmatch(member.name)), kind, f"{printable(member.name)} is not a name")
        _need(member.name not in found, kind, f"{member.name} stands twice")
        found[member.name] = member
    return found


def _check_buffer(made: Workload, buffer: Buffer) -> None:
    place, shape = f"buffers: {buffer.name}", buffer.spec.shape
    sizes = len(shape) <= MAX_RANK and all(0 < extent <= MAX_INT for extent in shape)
    _need(sizes and buffer.spec.size <= MAX_INT, place, "its shape is out of range")
    start = made.outputs_offset if buffer.role is Role.OUTPUT else 0
    end = buffer.offset + buffer.spec.held + GUARD
    inside = start <= buffer.offset and end <= made.arena_nbytes and buffer.offset % PAGE == 0
    _need(inside, place, "lies outside of its part of the arena")
    digest = buffer.values is None or re.fullmatch(r"[0-9a-f]{64}", buffer.values)
    _need(bool(digest), place, "values is not a SHA-256")


def _check_kernel(kernel: Kernel) -> None:
    place = f"kernels: {kernel.name}"
    _need(0 < kernel.block <= 1024, place, "no such work-group")
    most = 1024 - kernel.block if kernel.maps else 0
    _need(0 <= kernel.movers <= most, place, "no such movers")
    _need(0 <= kernel.tiles <= MAX_INT, place, "no such tiles")
    _need(0 <= kernel.lds_nbytes <= MAX_LDS, place, "no such LDS")
    extents = kernel.extents if len(kernel.group) in (0, 3) else (0, 0, 0)
    _need(prod(extents) == kernel.block and min(extents) > 0, place, "no such extents")
    for tensor in kernel.maps:
        sizes = all(0 < extent <= MAX_INT for extent in tensor.shape)
        boxes = all(0 < extent <= MAX_BOX for extent in tensor.box)
        _need(tensor.nbytes in (1, 2, 4) and sizes and boxes, place, "no such tensor map")
        if windows := tensor.windows:
            corners = all(-128 <= each < 128 for each in (*windows.first, *windows.beyond))
            steps = all(0 < each <= 8 for each in windows.strides)
            whole = all(each > 0 for each in windows.extents)
            _need(corners and steps and whole, place, "no such windows")
            _need(prod(windows.extents) == tensor.shape[1], place, "windows of other images")


def _check_step(
    place: str, step: Step, node: Node, buffers: Mapping[str, Buffer], machine: Machine
) -> None:
    """Its tensors are those that the layer reads and writes, those of others in whatever
    extents it sees them."""
    for port, name in (*step.reads, *step.writes):
        _need(name in buffers, place, f"port {printable(port)} has no buffer")
    try:
        wanted = _ports(node.kind, node.parameters, node.inputs, step.direction, machine)
    except WRONG:
        raise SchemaError("not a layer of this version of simgen").under(
            f"Workload.nodes: {node.name}"
        ) from None
    for pairs, ports in zip((step.reads, step.writes), wanted, strict=True):
        found = [(port, name, buffers[name].spec) for port, name in pairs]
        same = len(found) == len(ports) and all(
            port == other and (spec == seen or (_is_view(spec, seen) and not _is_own(name, node)))
            for (port, name, spec), (other, seen) in zip(found, ports)
        )
        _need(same, place, f"not the tensors of layer {node.name} in this pass")


def _is_view(spec: TensorSpec, seen: TensorSpec) -> bool:
    """Whether a tensor can be seen so, in other extents."""
    return (spec.size, spec.dtype) == (seen.size, seen.dtype)


def _is_own(name: str, node: Node) -> bool:
    """Whether a tensor is a layer's own, which no view is between."""
    return name.rpartition(".")[0] == node.name


@lru_cache(maxsize=1024)
def _ports(
    kind: str,
    parameters: tuple[tuple[str, str], ...],
    inputs: tuple[TensorSpec, ...],
    direction: Pass,
    machine: Machine,
) -> tuple[Ports, Ports]:
    """What a layer reads and what it writes in a pass."""
    if any(len(x.shape) > MAX_RANK or min(x.shape, default=0) < 1 or x.size > MAX_INT
           for x in inputs):  # fmt: skip
        raise ValueError("not the shape of an input")
    layer = make_layer(Node("", kind, parameters, inputs), machine)
    if any(output.size > MAX_INT for output in layer.outputs(inputs).values()):
        raise ValueError("more elements than a kernel can index")
    own = Pass.FORWARD if direction is Pass.UPDATE else direction
    if max(astuple(layer.count(inputs, own))) >= 2**62:
        raise ValueError("more work than can be counted")
    ports = layer.ports(inputs, own)
    return (
        tuple((p.name, p.spec) for p in ports if p.fill is not None),
        tuple((p.name, p.spec) for p in ports if p.fill is None and not p.scratch),
    )


def _is_value(value: ByValue) -> bool:
    """Whether a number, or a structure, is as long as it says."""
    if not 0 < value.nbytes <= MOST_STRUCTURE or len(value.words) != -(-value.nbytes // 8):
        return False
    last = value.nbytes - 8 * len(value.more)  # bytes of the last word
    return all(0 <= word < 256**8 for word in value.words) and 0 <= value.words[-1] < 256**last


def _check_launches(
    place: str, step: Step, buffers: Mapping[str, Buffer], kernels: Mapping[str, Kernel]
) -> None:
    for launch in step.launches:
        known = launch.kernel in kernels and all(name in buffers for name in launch.args)
        _need(known, place, "a launch of a kernel, or with a buffer, that there is not")
        given = len(launch.offsets) in (0, len(launch.args))
        _need(given, place, "a launch without an offset for each of its arguments")
        inside = all(
            0 <= more < buffers[name].spec.held and more % WORD == 0 for name, more in launch.places
        )
        _need(inside, place, "an argument that points out of its buffer, or into a word")
        places = [each.at for each in launch.values]
        most = len(launch.args) + len(places)
        in_order = places == sorted(set(places)) and all(0 <= at < most for at in places)
        sizes = all(_is_value(value) for value in launch.values) and all(
            0 <= word < len(value.words) and 0 <= which < len(launch.args)
            for value in launch.values
            for word, which in value.tensors
        )
        own = kernels[launch.kernel].source is not None or not places
        _need(in_order and sizes and own, place, "arguments by value that cannot be")
        for tensor in kernels[launch.kernel].maps:
            found = 0 <= tensor.argument < len(launch.args)
            _need(found, place, "a tensor map of an argument that there is not")
            name, more = launch.places[tensor.argument]
            held = buffers[name].spec.held - more
            whole = prod(tensor.shape) * tensor.nbytes <= held
            _need(whole, place, "a tensor map that is larger than its buffer")
        x, y, z = launch.grid
        _need(
            0 < x < 2**32 and 0 < y < 2**16 and 0 < z < 2**16,
            place, f"no grid of {x} x {y} x {z} work-groups",
        )  # fmt: skip
