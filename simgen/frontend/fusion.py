"""Network -> network: a convolution or fully connected layer and what follows it become one layer.

    conv or fc  [-> batch normalisation with given statistics]  [-> activation]

where each is the only reader of the one before. The fused layer has the name of the last of them,
and reads the tensors that they would read: the same values, so that results can be compared. What
lies between them is not written. Forward passes only; they write the same y, bit for bit, since the
kernels do the same operations in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simgen.ask.build import BuildChoices
from simgen.errors import UsageError
from simgen.frontend.network import Network, Placed
from simgen.ground.ir import Node, Pass
from simgen.layers import LAYERS
from simgen.layers.activation import Activation
from simgen.layers.base import EXTENTS
from simgen.layers.fused import NORMALISED
from simgen.layers.norm.batch_norm import BatchNorm, BatchNormMode

FUSED = {"conv": "fused_conv", "fc": "fused_fc"}  # kind of layer -> kind with what follows
OPTION = BuildChoices.fuse


def fuse(network: Network, passes: Sequence[Pass]) -> Network:
    """The network with every such chain of layers as one.

    Raises:
        UsageError: a pass reads what is not written any more; nothing can be fused.
    """
    if set(passes) != {Pass.FORWARD}:
        raise UsageError(
            f"{OPTION}: a backward pass reads what lies between fused layers; "
            "leave it out, or build pass fwd alone"
        )
    named = {placed.node.name: placed for placed in network.layers}
    fan_out = Counter(source for placed in network.layers for source in placed.sources)
    following = {
        placed.sources[0].layer: placed
        for placed in network.layers
        if len(placed.sources) == 1 and fan_out[placed.sources[0]] == 1
    }
    chains = {name: tuple(_chain(placed, following)) for name, placed in named.items()}
    chains = {name: chain for name, chain in chains.items() if len(chain) > 1}
    if not chains:
        kinds = " or ".join(f"[{LAYERS[kind].section}]" for kind in FUSED)
        after = f"[{BatchNorm.section}] with running statistics or [{Activation.section}]"
        batch = any(
            isinstance(placed.layer, BatchNorm) and not placed.layer.frozen
            for placed in network.layers
        )
        cure = f"add {BuildChoices.inference}, or leave it out" if batch else "leave it out"
        raise UsageError(f"{OPTION}: no {kinds} is followed by {after}; {cure}")
    last = {chain[-1].node.name: _fused(chain) for chain in chains.values()}
    gone = {placed.node.name for chain in chains.values() for placed in chain} - last.keys()
    kept = (placed for placed in network.layers if placed.node.name not in gone)
    layers = tuple(last.get(placed.node.name, placed) for placed in kept)
    return replace(network, layers=layers)


def _chain(first: Placed, following: Mapping[str, Placed]) -> Iterator[Placed]:
    """The layer and what can be fused with it."""
    yield first
    if first.node.kind not in FUSED or len(first.output.shape) != len(EXTENTS):
        return
    after = following.get(first.node.name)
    if after and _is_given(after):
        yield after
        after = following.get(after.node.name)
    if after and isinstance(after.layer, Activation) and not after.layer.of_x:
        yield after


def _is_given(placed: Placed) -> bool:
    """Whether it is a batch normalisation with one given mean and variance for each channel."""
    layer = placed.layer
    pixels = placed.output.shape[2:]
    spatial = isinstance(layer, BatchNorm) and (
        layer.mode is BatchNormMode.SPATIAL or pixels == (1, 1)
    )
    return spatial and isinstance(layer, BatchNorm) and layer.frozen


def _fused(chain: tuple[Placed, ...]) -> Placed:
    first, *after = chain
    name = after[-1].node.name
    kind = FUSED[first.node.kind]
    known = LAYERS[kind].config_keys()
    parameters = dict(first.node.parameters)
    bound = {port: f"{first.node.name}.{port}" for port in first.layer.parameters}
    if not first.sources:
        bound["x"] = f"{first.node.name}.x"
    normalises = isinstance(after[0].layer, BatchNorm)
    if normalises:
        bound |= {port: f"{after[0].node.name}.{own}" for own, port in NORMALISED.items()}
    for placed in after:
        parameters |= {key: text for key, text in placed.node.parameters if key in known}
    parameters["batch_norm"] = str(normalises).lower()
    parameters["activation"] = str(isinstance(after[-1].layer, Activation)).lower()
    node = Node(name, kind, tuple(parameters.items()), first.node.inputs)
    entries = ((k, v, first.where) for k, v in parameters.items())
    layer = LAYERS[kind].from_config(entries, first.layer.machine).reading(node.inputs)
    outputs = after[-1].outputs
    return Placed(node, layer, first.sources, outputs, first.where, tuple(bound.items()))
