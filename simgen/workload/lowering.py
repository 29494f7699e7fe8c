"""Network -> workload: kernels and launches, buffers and their places in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, SourceError, UnsupportedError, UsageError, did_you_mean
from simgen.frontend.descent import Descent
from simgen.frontend.inputs import Source
from simgen.frontend.network import Network, Placed
from simgen.ground.ir import (
    GUARD,
    PAGE,
    Buffer,
    Distribution,
    DType,
    Fill,
    Kernel,
    Launch,
    Node,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.ground.machine import Machine, NoRoomError
from simgen.layers import LAYERS, conversion
from simgen.layers.base import Alias, Layer, Lowering, Port, PortRole
from simgen.layers.optimiser import Optimiser

NEW = "new_"  # begins the names of ports that are written in the place of others
PLAIN = Descent()
ZEROS = Fill(Distribution.NORMAL, 0.0, 0.0)


def lower(
    network: Network,
    name: str,
    passes: Sequence[Pass],
    seed: int,
    *,
    descent: Descent = PLAIN,
    steps: int = 1,
    loss_scale: float = 1.0,
    reuse_memory: bool = False,
) -> Workload:
    """The workload that runs `passes` over the network: forward in order, backward in reverse.

    Tensors that no step writes come from the data file. Every written tensor is an output, so
    that results can be compared layer by layer; workspaces are none. Where several ports read one
    tensor, their gradients are added up by an `add` layer that the workload has in addition, and
    each parameter is updated by a layer of its own, as `descent` says. A parameter of a narrow
    type has master weights in float32 there, "layer.master_port", whose values are its own before
    they are rounded; the step writes both anew. Gradients that come from the data file are those of
    a loss that is `loss_scale` times as large, which steps take into account.

    All of that is done `steps` times, each time with what the step before left of parameters, of
    states of optimisers and of running statistics, and with inputs of its own. Of the second step
    on, tensors are named "layer.port.step2".

    With `reuse_memory`, tensors that a later step reads are no outputs: each gives its place to
    others after its last reader. That is for forward passes alone, and what is left to compare are
    the results of the last layers.

    Raises:
        UsageError: memory is to be reused where something reads or judges what would be gone.
        UnsupportedError: a layer is not lowered in one of the passes.
        ConfigError: the launch does not fit a dispatch packet.
    """
    if reuse_memory:
        _check_reuse(network, passes)
    _check_shared(network, passes)
    nodes = {p.node.name: p.node for p in network.layers}
    draft = _Draft(nodes, network.machine, given=_given_fills(network), loss_scale=loss_scale)
    views = [placed for placed in network.layers if isinstance(placed.layer, Alias)]
    seen = {source for view in views for _, source in view.inputs}
    for placed in network.layers:
        for tensor, spec in placed.outputs:
            if (source := Source(placed.node.name, tensor)) in seen:
                draft.shapes |= dict.fromkeys((str(source), source.gradient), spec.shape)
    for number in range(1, steps + 1):
        draft.begin(number)
        _one_step(draft, network, passes, descent)
    if not draft.steps:
        fact = f"no layer has anything to do in pass {', '.join(passes)}"
        raise UnsupportedError(
            name, f"{fact}; add passes with {BuildChoices.passes}, such as fwd,bwd,sgd"
        )
    buffers, nbytes, outputs_offset = _plan_memory(draft, reuse_memory)
    return Workload(
        name=name,
        seed=seed,
        nodes=tuple(draft.nodes.values()),
        buffers=buffers,
        kernels=tuple(draft.kernels.values()),
        steps=tuple(draft.steps),
        arena_nbytes=nbytes,
        outputs_offset=outputs_offset,
        machine=network.machine,
    )


def _one_step(draft: _Draft, network: Network, passes: Sequence[Pass], descent: Descent) -> None:
    if Pass.FORWARD in passes:
        for placed in network.layers:
            if not (placed.layer.given or isinstance(placed.layer, Alias)):
                draft.add(placed, (Pass.FORWARD,), dict(placed.bound))
    backward = [each for each in passes if each not in (Pass.FORWARD, Pass.UPDATE)]
    if backward:
        _backward(draft, network, backward)
    if Pass.UPDATE in passes:
        for placed in network.layers:
            _update(draft, placed, descent)


@dataclass
class _Draft:
    nodes: dict[str, Node]
    machine: Machine
    given: dict[str, Fill]  # values of tensors that layers have from the data file, by buffer
    loss_scale: float
    # Shapes of tensors that views see and of their gradients, by buffer, as in the layer that makes
    # each. Readers have other extents (layers.base.Alias).
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    tensors: dict[str, Port] = field(default_factory=dict)  # by buffer, as it was first met
    written: set[str] = field(default_factory=set)
    number: int = 1  # number of the training step
    # Tensors that go on from step to step: by their names in the first, what they are called now,
    # and from the next step on.
    current: dict[str, str] = field(default_factory=dict)
    following: dict[str, str] = field(default_factory=dict)
    made: list[Placed] = field(default_factory=list)  # synthetic layers, by the first step
    again: Iterator[Placed] = field(default_factory=lambda: iter(()))  # the same, for later ones

    def begin(self, number: int) -> None:
        """What is added from now on belongs to this training step."""
        self.number = number
        self.current |= self.following
        self.again = iter(tuple(self.made))

    def buffer(self, name: str) -> str:
        """The buffer of this training step, by the name that it has in the first one."""
        suffix = f".step{self.number}" if self.number > 1 else ""
        return self.current.get(name, f"{name}{suffix}")

    def carry(self, name: str, written: str) -> None:
        """The next training step has as `name` what this one leaves as `written`."""
        self.following[name] = self.buffer(written)

    def add(self, placed: Placed, wanted: Sequence[Pass], bound: Mapping[str, str]) -> None:
        """Lower one layer in the passes wanted; ports go to the buffers of `bound` or their own."""
        layer = placed.layer
        own = dict.fromkeys(each for want in wanted for each in layer.steps(want))
        if layer.data_first:
            own = dict.fromkeys(each for each in layer.passes if each in own)
        if not layer.passes or (not own and Pass.BACKWARD_WEIGHT not in wanted):
            raise _unsupported(placed, wanted)
        why, cure = "of integers", "choose a type of floats"
        if placed.output.dtype.is_float:
            why, cure = layer.forward_only, "leave them out"
        if why and not own.keys() <= {Pass.FORWARD}:
            fact = f"layer {placed.node.name!r}: [{layer.section}] {why} has pass fwd alone"
            raise UnsupportedError(placed.where, f"{fact}; build that, or {cure}")
        for direction in own:
            self._step(placed, direction, bound)

    def synthetic(
        self, name: str, kind: str, entries: Mapping[str, str], *inputs: TensorSpec
    ) -> Placed:
        """A layer that the config does not have, under a name that no other layer has.

        Its `entries` are what options of the same names say. Training steps have the same ones, in
        the same order.
        """
        if self.number > 1:
            return next(self.again)
        while name in self.nodes:
            name += "_"
        node = self.nodes[name] = Node(name, kind, tuple(entries.items()), inputs)
        said = [(key, value, f"--{key}") for key, value in entries.items()]
        layer = LAYERS[kind].from_config(said, self.machine).reading(inputs)
        self.made.append(Placed(node, layer, (), tuple(layer.outputs(inputs).items()), name))
        return self.made[-1]

    def _step(self, placed: Placed, direction: Pass, bound: Mapping[str, str]) -> None:
        node, layer = placed.node, placed.layer
        try:
            ports = conversion.ports(layer, node.inputs, direction)
            lowering = conversion.lower(layer, node.inputs, direction)
        except NoRoomError as error:
            raise ConfigError(placed.where, f"layer {node.name!r}, {direction}: {error}") from None
        first = {p.name: bound.get(p.name, _own_buffer(placed, p, direction)) for p in ports}
        names = {port: self.buffer(name) for port, name in first.items()}
        for port in ports:
            if port.fill is None:
                assert names[port.name] not in self.written, names[port.name]
                self.written.add(names[port.name])
                if (old := port.name.removeprefix(NEW)) != port.name and old in first:
                    self.carry(first[old], first[port.name])
            fill = port.fill and self.given.get(first[port.name], port.fill)
            if fill and fill.like in names:
                fill = replace(fill, like=names[fill.like])
            if fill and self.loss_scale != 1 and layer.role(port.name) is PortRole.GRADIENT:
                if names[port.name] not in self.tensors:  # no step has written it
                    _check_scale(self.loss_scale, names[port.name], port.spec.dtype)
                fill = replace(fill, every=1, times=self.loss_scale)
            spec = replace(port.spec, shape=self.shapes.get(first[port.name], port.spec.shape))
            self.tensors.setdefault(names[port.name], replace(port, spec=spec, fill=fill))
        _check_names(layer, lowering, names)
        for kernel in lowering.kernels:
            if self.kernels.setdefault(kernel.name, kernel) != kernel:
                raise RuntimeError(f"two different kernels are named {kernel.name!r}")
        launches = tuple(
            replace(launch, args=tuple(names[arg] for arg in launch.args))
            for launch in lowering.launches
        )
        for launch in launches:
            _check_grid(launch, self.kernels[launch.kernel], placed.where)
        self.steps.append(
            Step(
                layer=node.name,
                direction=direction,
                reads=tuple((p.name, names[p.name]) for p in ports if p.fill is not None),
                writes=tuple(
                    (p.name, names[p.name]) for p in ports if p.fill is None and not p.scratch
                ),
                launches=launches,
            )
        )


def _check_shared(network: Network, passes: Sequence[Pass]) -> None:
    """Raises:
    ConfigError: a backward pass, of layers with the weights of others.
    """
    for placed in network.layers if set(passes) != {Pass.FORWARD} else ():
        if placed.bound:
            fact = f"layer {placed.node.name!r} has the weights of another, in pass fwd alone"
            raise ConfigError(placed.where, f"{fact}; leave the key weights out")


def _check_reuse(network: Network, passes: Sequence[Pass]) -> None:
    """Raises:
    UsageError: something reads or judges what would be gone.
    """
    if set(passes) != {Pass.FORWARD}:
        raise UsageError(
            f"{BuildChoices.reuse_memory}: a backward pass reads what forward passes wrote; "
            "leave it out, or build pass fwd alone"
        )
    for placed in network.layers:
        if placed.layer.carried(Pass.FORWARD):
            raise UsageError(
                f"{BuildChoices.reuse_memory}: the time steps of layer {placed.node.name!r} are "
                "judged by the states that they leave; leave it out"
            )


def _given_fills(network: Network) -> dict[str, Fill]:
    """Buffer -> values of the tensors that layers without kernels give.

    Indices are such as all who read them can take: of several ranges, the smallest. So are those
    that come from the data file where a slice leaves out the layer that gives them.

    Raises:
        ConfigError: indices are what a layer computes, of which nobody knows the range.
    """
    found = {
        f"{placed.node.name}.{port.name}": port.fill
        for placed in network.layers
        if placed.layer.given
        for port in placed.layer.ports(placed.node.inputs, Pass.FORWARD)
        if port.fill
    }
    made = {str(Source(each.node.name, t)) for each in network.layers for t, _ in each.outputs}
    ends = {
        f"{each.node.name}.{port}": end
        for each in network.layers
        for port, end in each.layer.index_ends(each.node.inputs).items()
    }
    wanted: dict[str, list[Fill]] = defaultdict(list)
    for placed in network.layers:
        read = {str(source): port for port, source in placed.inputs if port in placed.layer.indices}
        if read:
            ports = placed.layer.ports(placed.node.inputs, Pass.FORWARD)
            fills = {port.name: port.fill for port in ports if port.fill}
            for name in read:
                if ends.get(name, 0) > fills[read[name]].end:
                    what = f"{read[name]} are {name}, which are below {ends[name]}"
                    fact = f"layer {placed.node.name!r}: {what}, not {fills[read[name]].end:g}"
                    raise ConfigError(placed.where, f"{fact}; give both as many experts")
                if name in ends:
                    continue
                if name in made and name not in found:
                    fact = f"layer {placed.node.name!r}: {read[name]} are {name}, which is computed"
                    raise ConfigError(placed.where, f"{fact}; name an [Input] that has type=i32")
                wanted[name].append(fills[read[name]])
    return found | {name: min(fills, key=lambda fill: fill.end) for name, fills in wanted.items()}


def _backward(draft: _Draft, network: Network, wanted: Sequence[Pass]) -> None:
    """The backward passes, last layer first.

    The gradient of what a layer reads is that of a tensor that another one gives. Where that has
    several readers, each writes a gradient of its own, and an `add` layer sums them before the
    backward pass of the layer that gave it.
    """
    readers: dict[Source, list[str]] = {}  # tensor -> its gradients
    edges = {
        placed.node.name: [
            (port, source) for port, source in placed.inputs if port not in placed.layer.indices
        ]
        for placed in network.layers
        if any(
            own in (Pass.BACKWARD, Pass.BACKWARD_DATA)
            for each in wanted
            for own in placed.layer.steps(each)
        )
    }  # layer -> (port, tensor that it reads there)
    fan_out = Counter(source for own in edges.values() for _, source in own)
    for placed in reversed(network.layers):
        name = placed.node.name
        for at, (tensor, output) in enumerate(placed.outputs):
            source = Source(name, tensor)
            found = readers.get(source, [])
            if len(found) > 1:
                called = f"{name}_{tensor}_grad" if at else f"{name}_grad"
                adder = draft.synthetic(called, "add", {}, *[output] * len(found))
                ports = {f"x{at}": buffer for at, buffer in enumerate(found)}
                draft.add(adder, (Pass.FORWARD,), {**ports, "y": source.gradient})
        bound = {}
        for port, source in edges.get(name, ()):
            shared = fan_out[source] > 1
            bound[f"d{port}"] = f"{name}.d{port}" if shared else source.gradient
            readers.setdefault(source, []).append(bound[f"d{port}"])
        if not (placed.layer.given or isinstance(placed.layer, Alias)):
            draft.add(placed, wanted, bound)


def _update(draft: _Draft, placed: Placed, descent: Descent) -> None:
    """One layer for each parameter of a layer, from the gradient that the layer wrote."""
    name = placed.node.name
    for port in placed.layer.parameters:
        x, y = f"{name}.{port}", f"{name}.{NEW}{port}"
        weights = draft.tensors.get(draft.buffer(x))
        if weights is None:
            continue
        if draft.buffer(f"{name}.d{port}") not in draft.written:
            fact = f"pass sgd updates {name}.{port} from its gradient"
            raise ConfigError(placed.where, f"{fact}; add pass bwd")
        entries = dict(descent.entries)
        if draft.loss_scale != 1:
            entries["loss_scale"] = str(draft.loss_scale)
        gradient = draft.tensors[draft.buffer(f"{name}.d{port}")].spec.dtype
        if gradient != DType.F32:
            entries["gradient_type"] = str(gradient)
        bound = {"x": x, "y": y, "dx": f"{name}.d{port}"}
        if weights.spec.dtype != DType.F32:
            entries["copy_type"] = str(weights.spec.dtype)
            bound |= {"x": f"{name}.master_{port}", "y": f"{name}.new_master_{port}", "copy": y}
            if weights.fill:
                draft.given.setdefault(bound["x"], replace(weights.fill, like=x))
            draft.carry(x, y)
        draft.carry(bound["x"], bound["y"])
        master = TensorSpec(weights.spec.shape)
        step = draft.synthetic(f"{name}_{port}_{descent.kind}", descent.kind, entries, master)
        _begin_with_zeros(draft, step)
        draft.add(step, (Pass.FORWARD,), bound)
        draft.steps[-1] = replace(draft.steps[-1], direction=Pass.UPDATE)


def _begin_with_zeros(draft: _Draft, step: Placed) -> None:
    """What an optimiser carries is zero before the first step."""
    assert isinstance(step.layer, Optimiser)
    for port in step.layer.state_ports(step.node.inputs[0]):
        if port.fill:
            draft.given[f"{step.node.name}.{port.name}"] = ZEROS


def _unsupported(placed: Placed, wanted: Sequence[Pass]) -> UnsupportedError:
    section, can = placed.layer.section, ", ".join(placed.layer.passes)
    return UnsupportedError(
        placed.where,
        f"layer {placed.node.name!r}: [{section}] has no pass {', '.join(wanted)}; "
        + (f"leave it out, or choose of its own: {can}" if can else "leave the layer out"),
    )


def _own_buffer(placed: Placed, port: Port, direction: Pass) -> str:
    """ "layer.port"; what a layer reads is another one's, and each pass has its workspaces."""
    for own, source in placed.inputs:
        if port.name == own:
            return str(source)
    return f"{placed.node.name}.{port.name}" + (f"_{direction}" if port.scratch else "")


def _plan_memory(draft: _Draft, reuse: bool) -> tuple[tuple[Buffer, ...], int, int]:
    """The arena of all tensors: inputs, workspaces, then outputs."""
    read = {buffer for step in draft.steps for _, buffer in step.reads}
    buffers = []
    for name, port in draft.tensors.items():
        passing = port.scratch or (reuse and name in read)
        written = Role.SCRATCH if passing else Role.OUTPUT
        role = written if name in draft.written else Role.INPUT
        fill = port.fill if role is Role.INPUT else None
        buffers.append(Buffer(name, port.spec, role, 0, fill))
    return arena(buffers, _lives(draft.steps) if reuse else {})


def _lives(steps: Sequence[Step]) -> dict[str, tuple[int, int]]:
    """Buffer -> the first and the last step that touches it."""
    lives: dict[str, tuple[int, int]] = {}
    for at, step in enumerate(steps):
        for name in (name for launch in step.launches for name in launch.args):
            lives[name] = (lives.get(name, (at, at))[0], at)
    return lives


def arena(
    buffers: Sequence[Buffer], lives: Mapping[str, tuple[int, int]] = {}
) -> tuple[tuple[Buffer, ...], int, int]:
    """(the buffers at their places, size of the arena, where the outputs start), sizes in bytes.

    Inputs come first, then workspaces, then outputs; in these, the order stays. Workspaces whose
    `lives` (first and last step, inclusive) have no step in common may lie in the same place.
    """
    order = (Role.INPUT, Role.SCRATCH, Role.OUTPUT)
    placed: list[Buffer] = []
    at = 0
    for role in order:
        members = [buffer for buffer in buffers if buffer.role is role]
        if role is Role.SCRATCH and lives:
            found = _packed(members, lives, at)
        else:
            found, end = [], at
            for buffer in members:
                found.append(replace(buffer, offset=end))
                end += _extent(buffer)
        placed += found
        at = max((buffer.offset + _extent(buffer) for buffer in found), default=at)
    outputs_offset = min((b.offset for b in placed if b.role is Role.OUTPUT), default=at)
    return tuple(placed), at, outputs_offset


def _extent(buffer: Buffer) -> int:
    """Bytes from its start to where the next one may start."""
    return -(-buffer.spec.held // PAGE) * PAGE + GUARD


def _packed(
    buffers: Sequence[Buffer], lives: Mapping[str, tuple[int, int]], start: int
) -> list[Buffer]:
    """The buffers from `start` on, the largest first, each at the lowest place free in its life.

    Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020: "greedy
    by size".
    """
    taken: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # step -> (start, end)
    placed: list[Buffer] = []
    for buffer in sorted(buffers, key=_extent, reverse=True):
        first, last = lives[buffer.name]
        steps = range(first, last + 1)
        at, nbytes = start, _extent(buffer)
        for begin, end in sorted({place for step in steps for place in taken[step]}):
            if begin < at + nbytes:
                at = max(at, end)
        placed.append(replace(buffer, offset=at))
        for step in steps:
            taken[step].append((at, at + nbytes))
    return sorted(placed, key=lambda buffer: buffer.offset)


def _check_scale(loss_scale: float, name: str, dtype: DType) -> None:
    """Refuse a scale of the loss that the type of a gradient, which is multiplied by it, lacks.

    Raises:
        UsageError: it does.
    """
    if loss_scale > dtype.largest:
        raise UsageError(
            f"{BuildChoices.loss_scale} {loss_scale:.15g}: the backward pass begins with {name}, "
            f"which is multiplied by it, and {dtype} ends at {dtype.largest:g}; choose a smaller "
            f"one, or another {BuildChoices.type}"
        )


def _check_names(layer: Layer, lowering: Lowering, ports: Mapping[str, str]) -> None:
    """Raises SourceError unless the launches of a layer name its kernels and ports."""
    kernels = {kernel.name for kernel in lowering.kernels}
    for launch in lowering.launches:
        unknown = [arg for arg in launch.args if arg not in ports]
        if unknown or launch.kernel not in kernels:
            what, word = ("port", unknown[0]) if unknown else ("kernel", launch.kernel)
            known = did_you_mean(word, ports if unknown else kernels)
            raise SourceError(
                f"{type(layer).__module__}: a launch names {what} {word!r}, which the pass lacks; "
                f"{known}"
            )


def _check_grid(launch: Launch, kernel: Kernel, where: str) -> None:
    x, y, z = launch.grid
    if x * kernel.block >= 2**32 or max(y, z) > 0xFFFF:  # AQL counts work-items in 32 bits
        raise ConfigError(
            where,
            f"a grid of {x} x {y} x {z} work-groups is too large; make n or c smaller, "
            "or take another algorithm where the layer has a choice",
        )
