"""A workload as DNNMark runs it: its config, which of DNNMark's programs takes it, its memory.

DNNMark built for ROCm, which is what gem5 runs, has less than its keywords say:

    dropout         its functions are empty
    softmax         accurate, over the channels, whatever softmax_algo and softmax_mode say
    pool_mode       max and avg, where avg does not count the padding
    activation_mode without clipped_relu; tanh gets alpha = beta = 0, so that all results are 0
    conv_mode       convolution is miopenTranspose, with the extents of a convolution, which MIOpen
                    refuses. Filters are random numbers: turned or not, the work is the same
    algo, algod     ignored: where it is built for a simulator it always calls the GEMM algorithm
    batch norm      reads through a null pointer without save_intermediates
    composed mode   a program has as many handles of MIOpen as it says, and no layer may be beyond

Source: gem5-resources, src/gpu/DNNMark at d32787fe (core/include/dnn_param.h, dnn_wrapper.h,
dnn_layer.h, data_png.h, layers/*.h; core/src/dnnmark.cc; benchmarks/test_*).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.ask.choice import spelled
from simgen.errors import ConfigError
from simgen.frontend.network import make_layer
from simgen.ground.ir import PAGE, Node, Pass, TensorSpec, Workload
from simgen_rocm import miopen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simgen.ground.machine import Machine
    from simgen.layers import Layer
    from simgen_rocm.miopen_key import Dims, Dispatch

    _Dispatches = Callable[[Layer, Pass, Dims, Dims], tuple[Dispatch, ...]]

WINDOW = ("kernel_size_h", "kernel_size_w", "pad_h", "pad_w", "stride_h", "stride_w")
KEYS = {  # kind -> keys of its section that say something to DNNMark built for ROCm
    "conv": ("conv_mode", "num_output", "propagation", *WINDOW),
    "pool": ("pool_mode", *WINDOW),
    "lrn": ("lrn_mode", "local_size", "alpha", "beta", "k"),
    "activation": ("activation_mode",),
    "fc": ("num_output",),
    "softmax": ("softmax_algo", "softmax_mode"),
    "bn": ("batchnorm_mode", "save_intermediates", "exp_avg_factor", "epsilon"),
    "bypass": (),
}
UNHEARD = (
    "algo",
    "algod",
    "algofwd",
    "workspace_size",
    "conv_fwd_pref",
    "conv_bwd_filter_pref",
    "conv_bwd_data_pref",
    "round_mode",
)
HAS = {  # key -> the values that do what they say
    "conv_mode": ("cross_correlation", "convolution"),
    "pool_mode": ("max", "avg", "avg_exclude_padding"),
    "activation_mode": ("sigmoid", "relu", "tanh", "soft_relu"),
    "softmax_algo": ("accurate",),
    "softmax_mode": ("channel",),
    "save_intermediates": ("true",),
    "algo": ("0", "auto", "cudnn", "cudnnv7", "im2col"),
    "algod": ("0", "auto", "cudnn", "cudnnv7", "im2col"),
    "algofwd": ("", "2", "auto", "cudnn", "cudnnv7", "im2col"),
}
SPELLED = {"convolution": "cross_correlation", "avg_exclude_padding": "avg"}
# A program of composed mode, and for how many layers it has handles.
FORWARD, BACKWARD = ("test_fwd_composed_model", 3), ("test_bwd_composed_model", 3)
BOTH = (("test_composed_model", 3), ("test_alexnet", 21), ("test_VGG", 58))
# least epsilon of batch normalisation: BN_MIN_EPSILON in core/include/common.h
LEAST_EPSILON = 1e-5
MOST_WINDOW = 255  # elements; MIOpen stores where the maximum was in 8 bits

ELEMENT_NBYTES = 4
RUNTIME_NBYTES = 384 << 20  # simulated memory for the runtime, its libraries and code objects


@dataclass(frozen=True)
class DnnmarkStep:
    """A layer at its place, with the extents that DNNMark computes."""

    name: str
    layer: Layer
    x: Dims
    y: Dims
    previous: str | None  # None: it has its own extents, and its inputs come from mmap.bin
    passes: tuple[Pass, ...]

    @property
    def parameters(self) -> tuple[int, ...]:
        """Elements of the tensors that are filled when the layer is set up."""
        if self.layer.kind in ("conv", "fc"):
            window = vars(self.layer).get("kernel_h", 1) * vars(self.layer).get("kernel_w", 1)
            inputs = prod(self.x[1:]) if self.layer.kind == "fc" else self.x[1]
            return (self.y[1] * inputs * window,)
        if self.layer.kind == "bn":
            spatial = vars(self.layer)["mode"] == "spatial"
            return (self.x[1] if spatial else prod(self.x[1:]),) * 6
        return ()


@dataclass(frozen=True)
class DnnmarkPlan:
    """What DNNMark runs: all layers forward, or backward, or both."""

    program: str  # folder in build/benchmarks
    composed: bool
    layers: tuple[DnnmarkStep, ...]
    forward: bool
    backward: bool

    @property
    def executable(self) -> str:
        """Its name in the folder."""
        return f"dnnmark_{self.program}"


def plan(workload: Workload) -> DnnmarkPlan:
    """The workload as a run of DNNMark.

    Raises:
        ConfigError: DNNMark does not have a layer, an option, or a program for these passes.
    """
    given: dict[str, set[Pass]] = {}
    for step in workload.steps:
        given.setdefault(step.layer, set()).add(step.direction)
    previous = _previous(workload)
    placed: dict[str, DnnmarkStep] = {}
    for node in workload.nodes:
        layer = _layer(node, workload.machine)
        before = previous.get(node.name)
        x = placed[before].y if before else _dims(node.inputs[0].shape)
        passes = _passes(node, layer, given.get(node.name, set()))
        placed[node.name] = DnnmarkStep(node.name, layer, x, _output(layer, x), before, passes)
    layers = tuple(placed.values())
    forward = any(Pass.FORWARD in each.passes for each in layers)
    backward = any(set(each.passes) - {Pass.FORWARD} for each in layers)
    composed = len(layers) > 1 or (forward and backward)
    program = _program(workload.name, layers, forward, backward)
    return DnnmarkPlan(program, composed, layers, forward, backward)


def config(run: DnnmarkPlan) -> str:
    """The config in DNNMark's own grammar, with every key that it reads, and what it takes."""
    lines = ["[DNNMark]", f"run_mode={'composed' if run.composed else 'standalone'}"]
    for each in run.layers:
        lines += ["", *(f"# {note}" for note in _notes(each)), f"[{each.layer.section}]"]
        lines.append(f"name={each.name}")
        if each.previous is None:
            lines += [f"{key}={extent}" for key, extent in zip("nchw", each.x, strict=True)]
        # In composed mode the word must stand there; in the other it says nothing.
        lines.append(f"previous_layer={each.previous or 'null'}")
        lines += [f"{key}={value}" for key, value in _entries(each)]
    return "\n".join(lines) + "\n"


def dispatches(
    run: DnnmarkPlan, of: _Dispatches = miopen.dispatches
) -> Iterator[tuple[str, Pass, tuple[Dispatch, ...]]]:
    """(layer, pass, its launches) in the order in which DNNMark runs them; `of` a version of
    MIOpen."""
    if run.forward:
        for each in run.layers:
            found = of(each.layer, Pass.FORWARD, each.x, each.y)
            yield each.name, Pass.FORWARD, found
    for each in reversed(run.layers):
        for direction in each.passes:
            if direction is not Pass.FORWARD:
                found = of(each.layer, direction, each.x, each.y)
                yield each.name, direction, found


def mapped_nbytes(run: DnnmarkPlan) -> int:
    """The size of mmap.bin with which DNNMark does not start at its beginning again."""
    size = offset = 0
    for elements in _filled(run):
        size = max(size, offset + elements * ELEMENT_NBYTES)
        offset += elements * ELEMENT_NBYTES
        offset -= offset % PAGE  # as DNNMark does
    return size


def memory_nbytes(run: DnnmarkPlan) -> int:
    """The simulated memory that a run touches, at most.

    A tensor's values are mapped, copied and unmapped, and gem5 does not use pages again.
    """
    elements = sum(_filled(run))
    for each in run.layers:
        elements += 2 * (prod(each.y) + sum(each.parameters)) + _workspace(each)
        elements += 0 if each.previous else 2 * prod(each.x)
    return elements * ELEMENT_NBYTES + RUNTIME_NBYTES


def _previous(workload: Workload) -> dict[str, str]:
    """Layer -> the layer whose output it reads, from the buffers that they share."""
    found = {}
    for step in workload.steps:
        for port, buffer in (*step.reads, *step.writes):
            owner = buffer.rpartition(".")[0]
            if port in ("x", "dx") and owner != step.layer:
                found[step.layer] = owner
    return found


def _dims(shape: tuple[int, ...]) -> Dims:
    n, c, h, w = shape
    return n, c, h, w


def _layer(node: Node, machine: Machine) -> Layer:
    layer = make_layer(node, machine)
    where = f"layer {node.name!r}"
    if layer.kind not in KEYS:
        cure = f"leave it out, or take {spelled('launcher')} kfd"
        raise ConfigError(where, f"DNNMark built for ROCm has no [{layer.section}]; {cure}")
    for key, value, default in _values(layer):
        has = HAS.get(key)
        if has and value not in has:
            cure = f"set {' or '.join(f'{key}={each}' for each in has)}"
            raise ConfigError(where, f"{key}={value}: DNNMark built for ROCm does not obey; {cure}")
        if key not in (*KEYS[layer.kind], *UNHEARD) and value != default:
            cure = f"set {key}={default}, or take {spelled('launcher')} kfd"
            raise ConfigError(where, f"DNNMark has no key {key!r}; {cure}")
    from simgen.layers.norm.batch_norm import BatchNorm

    if isinstance(layer, BatchNorm) and layer.epsilon < LEAST_EPSILON:
        fact = f"DNNMark stops at epsilon={layer.epsilon:g}, which is less than {LEAST_EPSILON:g}"
        raise ConfigError(where, f"{fact}; set epsilon=1e-5, or take {spelled('launcher')} kfd")
    return layer


def _values(layer: Layer) -> Iterator[tuple[str, str, str]]:
    """(key, value, default) of each parameter, under the most special of its keys."""
    for each in layer.keyed_fields():
        value = getattr(layer, each.name)
        yield each.metadata["keys"][-1], _text(value), _text(each.default)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _passes(node: Node, layer: Layer, given: set[Pass]) -> tuple[Pass, ...]:
    """The layer's passes in the order of DNNMark's; it cannot leave out a part of backward."""
    where = f"layer {node.name!r}"
    rest = given - {Pass.FORWARD}
    parts = (Pass.BACKWARD_WEIGHT, Pass.BACKWARD_DATA)
    if layer.kind == "fc" and rest and rest != set(parts):
        fact = f"DNNMark computes {' and '.join(parts)} together"
        raise ConfigError(where, f"{fact}; build with {BuildChoices.passes} bwd")
    if layer.kind == "conv" and rest == {Pass.BACKWARD_DATA}:
        fact = "DNNMark computes bwd_data after bwd_weight only"
        raise ConfigError(where, f"{fact}; build with {BuildChoices.passes} bwd, or bwd_weight")
    window = vars(layer).get("kernel_h", 0) * vars(layer).get("kernel_w", 0)
    if rest and layer.kind == "pool" and vars(layer)["mode"] == "max" and window > MOST_WINDOW:
        fact = f"MIOpen's backward pass takes windows of up to {MOST_WINDOW} elements"
        raise ConfigError(where, f"{fact}; make kernel_size smaller")
    return tuple(each for each in (Pass.FORWARD, Pass.BACKWARD, *parts) if each in given)


def _output(layer: Layer, x: Dims) -> Dims:
    """The extents of y by DNNMark's ComputeOutputDim: those of pooling are rounded up."""
    n, c, h, w = x
    of = vars(layer)
    if layer.kind == "fc":
        return n, of["num_output"], 1, 1
    if layer.kind not in ("conv", "pool"):
        return x
    found = []
    for extent, axis in ((h, "h"), (w, "w")):
        window, pad, stride = (of[f"{name}_{axis}"] for name in ("kernel", "pad", "stride"))
        steps = (extent + 2 * pad - window) / stride
        if layer.kind == "conv":
            found.append(int(steps) + 1)
            continue
        y = ceil(steps) + 1
        beyond = of["pad_h"] > 0 and of["pad_w"] > 0 and (y - 1) * stride >= extent + pad
        found.append(y - int(beyond))
    return n, (of["num_output"] if layer.kind == "conv" else c), found[0], found[1]


def _program(name: str, layers: tuple[DnnmarkStep, ...], forward: bool, backward: bool) -> str:
    if len(layers) == 1 and forward != backward:
        return f"test_{'fwd' if forward else 'bwd'}_{layers[0].layer.kind}"
    programs = BOTH if forward and backward else ((FORWARD if forward else BACKWARD),)
    for program, most in programs:
        if len(layers) <= most:
            return program
    most = programs[-1][1]
    cure = f"take fewer with {BuildChoices.layers}"
    if not (forward and backward):
        cure += f", or build with {BuildChoices.passes} fwd,bwd"
    fact = f"DNNMark's program for this has {most} layers at most, and there are {len(layers)}"
    raise ConfigError(name, f"{fact}; {cure}")


def _entries(placed: DnnmarkStep) -> Iterator[tuple[str, str]]:
    for key, value, _ in _values(placed.layer):
        if key == "propagation" and set(placed.passes) - {Pass.FORWARD}:
            yield key, _text(Pass.BACKWARD_DATA in placed.passes)
        elif key in KEYS[placed.layer.kind]:
            yield key, SPELLED.get(value, value)


def _notes(placed: DnnmarkStep) -> Iterator[str]:
    """What DNNMark does otherwise than the workload, in lines."""
    mode = vars(placed.layer).get("mode")
    if mode == "convolution":
        yield (
            f"{placed.name}: conv_mode=cross_correlation in place of convolution, which DNNMark "
            "built for ROCm takes for a transposed one; the work is the same"
        )
    if mode == "tanh":
        yield f"{placed.name}: DNNMark gives MIOpen's tanh factors of 0, so that its results are 0"
    if placed.layer.kind == "pool" and vars(placed.layer)["rounding"] == "floor":
        wanted = placed.layer.output((TensorSpec(placed.x),)).shape
        if wanted != placed.y:
            extents = f"{placed.y[2]} x {placed.y[3]}"
            yield (
                f"{placed.name}: DNNMark's results are {extents}, not {wanted[2]} x {wanted[3]}; "
                "with round_mode=ceil both are the same"
            )


def _filled(run: DnnmarkPlan) -> Iterable[int]:
    """Elements of each tensor that gets values from mmap.bin, in order."""
    found = [size for each in run.layers for size in each.parameters]
    first = [each for each in run.layers if each.previous is None]
    if run.forward:
        found += [prod(each.x) for each in first]
    if run.backward:
        for each in reversed(first):
            both = (prod(each.y),) * (1 if each.layer.kind == "fc" else 2)
            found += [*both, prod(each.x)]
    return found


def _workspace(placed: DnnmarkStep) -> int:
    """Elements that a layer's kernels write beside its results, in one pass at a time."""
    if placed.layer.kind == "conv":
        window = vars(placed.layer)["kernel_h"] * vars(placed.layer)["kernel_w"]
        each = placed.x[1] * window * prod(placed.y[2:])
        return int(each) * len(placed.passes)
    return prod(placed.y) if placed.layer.kind in ("lrn", "pool") else 0
