"""What a workload costs, by layer and pass: operations, compulsory bytes, memory.

Counted from shapes (`Layer.count`), so the figures are the algorithm's, whatever the kernels do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simgen.frontend.network import make_layer
from simgen.ground.ir import OpCount, Pass, Role, Step, Workload, to_json
from simgen.layers.base import Choice, PortRole

WORD = 4  # bytes
KINDS = ("parameters", "new parameters", "inputs", "activations", "gradients", "workspaces")


@dataclass(frozen=True)
class Work:
    """One layer in one pass. Sizes are those of tensors in bytes, without what aligns them."""

    layer: str
    kind: str
    direction: Pass
    output: tuple[int, ...]  # shape of the layer's y
    count: OpCount
    parameters: int  # elements of the trained tensors that the step reads
    tensor_bytes: int  # bytes of its results: activations in fwd, gradients in bwd
    workspace_bytes: int

    @property
    def intensity(self) -> float:
        """Operations per compulsory byte (Williams et al., "Roofline", CACM 52(4), 2009)."""
        moved = self.count.read_bytes + self.count.written_bytes
        return (self.count.flops + self.count.transcendentals) / moved if moved else 0.0


def of_step(workload: Workload, step: Step) -> Work:
    """The work of one of the workload's steps."""
    node = workload.node(step.layer)
    layer = make_layer(node, workload.machine)
    written = {name for _, name in step.writes}
    used = {name for launch in step.launches for name in launch.args} - written
    buffers = [workload.buffer(name) for name in sorted(used)]
    read = {name for _, name in step.reads}
    return Work(
        layer=step.layer,
        kind=node.kind,
        direction=step.direction,
        output=layer.output(node.inputs).shape,
        count=layer.count(node.inputs, step.direction),
        parameters=sum(
            workload.buffer(name).spec.size for port, name in step.reads if port in layer.parameters
        ),
        tensor_bytes=sum(workload.buffer(name).spec.held for name in written),
        workspace_bytes=sum(
            b.spec.held for b in buffers if b.role is Role.SCRATCH and b.name not in read
        ),
    )


@dataclass(frozen=True)
class Planned:
    """What was planned for a step."""

    layer: str
    direction: Pass
    choices: tuple[Choice, ...]


def choices(workload: Workload) -> list[Planned]:
    """What was planned for each step that had a choice."""
    found = []
    for step in workload.steps:
        node = workload.node(step.layer)
        own = Pass.FORWARD if step.direction is Pass.UPDATE else step.direction
        made = make_layer(node, workload.machine).choices(node.inputs, own)
        if made:
            found.append(Planned(step.layer, step.direction, made))
    return found


def costs_of(workload: Workload) -> list[Work]:
    """The work of all steps, in their order."""
    return [of_step(workload, step) for step in workload.steps]


def total(works: Iterable[Work]) -> OpCount:
    """The sum over steps. What two steps read counts in both."""
    return sum((work.count for work in works), OpCount())


def weights(workload: Workload) -> list[float]:
    """What each launch counts, in order: operations and words moved of its step, shared evenly."""
    found: list[float] = []
    for step in workload.steps:
        count = of_step(workload, step).count
        moved = (count.read_bytes + count.written_bytes) / WORD
        whole = count.flops + count.transcendentals + moved
        found += [whole / len(step.launches)] * len(step.launches)
    return found


def memory(workload: Workload) -> dict[str, int]:
    """Bytes of the tensors by what they are, each tensor once; "arena" is what they take in all."""
    found, kinds = dict.fromkeys(KINDS, 0), kinds_of_tensors(workload)
    for buffer in workload.buffers:
        found[kinds[buffer.name]] += buffer.spec.held
    return {**found, "arena": workload.arena_nbytes}


def kinds_of_tensors(workload: Workload) -> dict[str, str]:
    """What each tensor is, one of KINDS, by the name of its buffer."""
    # buffer -> its roles, in its own layer and at all its ports
    roles: dict[str, set[PortRole]] = {}
    layers = {node.name: make_layer(node, workload.machine) for node in workload.nodes}
    for buffer in workload.buffers:
        owner, _, port = buffer.name.rpartition(".")
        roles[buffer.name] = {layers[owner].role(port)} if owner in layers else set()
    updated = set()
    written = {name for step in workload.steps for _, name in step.writes}
    for step in workload.steps:
        for port, name in (*step.reads, *step.writes):
            roles[name].add(layers[step.layer].role(port))
        if step.direction is Pass.UPDATE:
            updated |= {name for _, name in step.writes}
    kinds = {}
    for buffer in workload.buffers:
        own = roles[buffer.name]
        if buffer.name in updated:
            kind = "new parameters"
        elif PortRole.PARAMETER in own:
            kind = "parameters"
        elif buffer.role is Role.INPUT:
            kind = "inputs"
        elif buffer.name not in written:
            kind = "workspaces"
        else:
            kind = "gradients" if PortRole.GRADIENT in own else "activations"
        kinds[buffer.name] = kind
    return kinds


def as_json(work: Work) -> dict[str, Any]:
    """What `simgen show --json` prints for a step; `operations_per_byte` is the intensity."""
    return {
        "layer": work.layer,
        "kind": work.kind,
        "pass": work.direction.value,
        "output": list(work.output),
        **to_json(work.count),
        "operations_per_byte": work.intensity,
        "parameters": work.parameters,
        "tensor_bytes": work.tensor_bytes,
        "workspace_bytes": work.workspace_bytes,
    }
