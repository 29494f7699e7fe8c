"""Operators with windows over images: convolutions and pooling; normalisations of channels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simgen.frontend.importing.extents import Along, Unfolded, spreads, windows
from simgen.frontend.importing.table import operator
from simgen.frontend.importing.values import Refused
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.frontend.importing.draft import NodeSite

LOWEST = -3.4028234663852886e38  # float32's: padding of it is never a maximum
TIMES = ("h", "w")


@dataclass(frozen=True)
class Image:
    """The image that a node reads: with four axes, as layers have them."""

    tensor: str
    shape: tuple[int, ...]
    axes: int  # spatial ones, in the model

    def both(self, values: Sequence[int] | None, usual: int) -> list[int]:
        """An attribute of each axis, for height and width."""
        given = list(values) if values is not None else [usual] * self.axes
        if len(given) != self.axes:
            raise Refused(f"has {len(given)} numbers for {self.axes} axes")
        return [usual] * (2 - self.axes) + given


def image_of(site: NodeSite, tensor: str | None = None) -> Image:
    """The first input, or what stands for it, as an image."""
    shape = site.shape()
    axes = len(shape) - 2
    if axes not in (1, 2):
        raise Refused(
            f"its input has {axes} axes beside samples and channels, and layers take 1 or 2"
        )
    whole = (*shape[:2], *(1,) * (2 - axes), *shape[2:])
    seen = site.seen(tensor or site.tensor(), shape, whole, "image")
    return Image(seen, whole, axes)


def give_image(site: NodeSite, image: Image, made: str) -> None:
    """The node's output, with as many axes as the model has."""
    if image.axes == 2:
        site.give(made)
        return
    shape = site.result()
    site.give(site.seen(made, (*shape[:2], 1, *shape[2:]), shape))


def _along(site: NodeSite, image: Image, kernel: Sequence[int]) -> list[Along]:
    """The windows along height and width."""
    found = windows(site.operator.attributes, image.shape[4 - image.axes :], kernel)
    return [Along(1)] * (2 - image.axes) + found


def _padded(site: NodeSite, image: Image, along: Sequence[Along], value: float) -> str:
    """The image with what is padded, as a tensor of its own."""
    if site.keeps_integers:
        fact = "pads integers otherwise than layers do"
        raise Refused(f"{fact}; put its QuantizeLinear before it, or pad both sides alike")
    before = (0, 0, *(each.before for each in along))
    behind = (0, 0, *(each.behind for each in along))
    entries = {"mode": "pad", "before": before, "behind": behind, "value": value}
    return site.layer("Rearrange", entries, [image.tensor], "pad")


def _windows(along: Sequence[Along], *, dilated: bool) -> dict[str, int]:
    """The config's entries for kernel, stride and, if asked for, dilation."""
    made: dict[str, int] = {}
    for axis, each in zip(TIMES, along, strict=True):
        made |= {f"kernel_size_{axis}": each.kernel, f"stride_{axis}": each.stride}
        made |= {f"dilation_{axis}": each.dilation} if dilated and each.dilation > 1 else {}
    return made


def _pads(along: Sequence[Along]) -> dict[str, int]:
    return {f"pad_{axis}": each.before for axis, each in zip(TIMES, along, strict=True)}


def windows_of(
    site: NodeSite, image: Image, kernel: Sequence[int]
) -> tuple[dict[str, int], tuple[tuple[int, int], ...]]:
    """The config's entries of a convolution's windows; padding, where its two sides differ."""
    along = _along(site, image, kernel)
    entries = _windows(along, dilated=True)
    if any(each.before != each.behind for each in along):
        return entries, tuple((each.before, each.behind) for each in along)
    return entries | _pads(along), ()


@operator("Conv")
def conv(site: NodeSite) -> None:
    image = image_of(site)
    w = site.known(1, "filters")
    filters, channels, *kernel = w.shape
    along = _along(site, image, kernel)
    group = int(site.attribute("group", 1))
    tensor, pads = image.tensor, _pads(along)
    if any(each.before != each.behind for each in along):
        tensor, pads = _padded(site, image, along, 0.0), {"pad_h": 0, "pad_w": 0}
    made = site.layer(
        "Convolution",
        {
            "num_output": filters,
            **_windows(along, dilated=True),
            **pads,
            **({"group": group} if group > 1 else {}),
            **({"bias": True} if site.has(2) else {}),
        },
        [tensor],
    )
    _filters(site, made, (filters, channels, *(1,) * (2 - image.axes), *kernel))
    give_image(site, image, made)


def _filters(site: NodeSite, made: str, shape: tuple[int, ...]) -> None:
    w = site.value(1)
    site.parameter(made, "w", shape, w.shaped(shape), w)
    if site.has(2):
        b = site.known(2, "bias")
        site.parameter(made, "b", b.shape, b.array, b)


@operator("ConvTranspose")
def conv_transpose(site: NodeSite) -> None:
    image = image_of(site)
    w = site.known(1, "filters")
    channels, filters, *kernel = w.shape
    lines = spreads(site.operator.attributes, image.shape[4 - image.axes :], kernel)
    lines = [Unfolded(1, 0, 1)] * (2 - image.axes) + lines
    group = int(site.attribute("group", 1))
    cut = []  # from both sides alike; what is left to cut has a launch of its own
    for each in lines:
        behind = each.whole - each.before - each.extent
        if behind < 0:
            raise Refused("pads its output beyond its products")
        cut.append(min(each.before, behind))
    strides, dilations = (image.both(site.attribute(n), 1) for n in ("strides", "dilations"))
    along = [
        Along(image.shape[2 + at], k, strides[at], dilations[at], cut[at], cut[at])
        for at, k in enumerate(image.both(kernel, 1))
    ]
    made = site.layer(
        "Convolution",
        {
            "conv_mode": "transpose",
            "num_output": filters * group,
            **_windows(along, dilated=True),
            **_pads(along),
            **({"group": group} if group > 1 else {}),
            **({"bias": True} if site.has(2) else {}),
        },
        [image.tensor],
    )
    _filters(site, made, (channels, filters, *(1,) * (2 - image.axes), *kernel))
    if any(each.whole - 2 * cut[at] != each.extent for at, each in enumerate(lines)):
        begin = (0, 0, *(each.before - cut[at] for at, each in enumerate(lines)))
        to = (0, 0, *(each.extent for each in lines))
        made = site.layer("Rearrange", {"mode": "crop", "begin": begin, "to": to}, [made], "cut")
    give_image(site, image, made)


@operator("MaxPool", "AveragePool")
def pool(site: NodeSite) -> None:
    site.refuse_other_outputs()
    image = image_of(site)
    along = _along(site, image, site.attribute("kernel_shape"))
    if any(each.dilation > 1 for each in along):
        raise Refused("has dilated windows, which [Pooling] does not")
    largest = site.operator.kind == "MaxPool"
    counts = bool(site.attribute("count_include_pad", 0)) and not largest
    mode = "max" if largest else "avg_include_padding" if counts else "avg_exclude_padding"
    wanted = image.both(site.result()[2:], 1)
    entries: dict[str, object] = {
        "pool_mode": mode, **_windows(along, dilated=False), **site.zero_point,
    }  # fmt: skip
    rounding = "ceil" if site.attribute("ceil_mode", 0) else "floor"
    if _fits(along, wanted, rounding, counts=counts):
        entries |= {**_pads(along), "round_mode": rounding}
        for axis, each in zip(TIMES, along, strict=True):
            entries |= {f"pad_behind_{axis}": each.behind} if each.behind != each.before else {}
        made = site.layer("Pooling", entries, [image.tensor])
    else:
        made = _pool_padded(site, image, along, wanted, entries)
    give_image(site, image, made)


def _fits(along: Sequence[Along], wanted: Sequence[int], rounding: str, *, counts: bool) -> bool:
    """Whether [Pooling] has these windows; where padding counts in means, its sides are alike."""
    for each, count in zip(along, wanted, strict=True):
        if counts and (each.before != each.behind or rounding == "ceil"):
            return False
        if each.count(ceil=rounding == "ceil") != count:
            return False
    return True


def _pool_padded(
    site: NodeSite,
    image: Image,
    along: Sequence[Along],
    wanted: Sequence[int],
    entries: dict[str, object],
) -> str:
    """The same with the padding in a tensor of its own, as far as windows reach."""
    if entries["pool_mode"] == "avg_exclude_padding":
        raise Refused("has a mean over windows that are padded otherwise than [Pooling] does")
    if site.attribute("ceil_mode", 0) and entries["pool_mode"] != "max":
        raise Refused("has a mean over windows beyond its padding")
    reached = [
        Along(
            each.extent, each.kernel, each.stride, 1, each.before,
            max(0, (count - 1) * each.stride + each.kernel - each.before - each.extent),
        )
        for each, count in zip(along, wanted, strict=True)
    ]  # fmt: skip
    value = LOWEST if entries["pool_mode"] == "max" else 0.0
    tensor = _padded(site, image, reached, value)
    return site.layer("Pooling", entries | {"pad": 0, "round_mode": "floor"}, [tensor])


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(site: NodeSite) -> None:
    image = image_of(site)
    mode = "max" if site.operator.kind == "GlobalMaxPool" else "avg_exclude_padding"
    h, w = image.shape[2:]
    entries: dict[str, object] = {
        "pool_mode": mode,
        "kernel_size_h": h,
        "kernel_size_w": w,
        "pad": 0,
        "stride": 1,
    }
    entries |= site.zero_point
    made = site.layer("Pooling", entries, [image.tensor])
    give_image(site, image, made)


@operator("BatchNormalization")
def batch_norm(site: NodeSite) -> None:
    site.refuse_other_outputs()
    if site.attribute("training_mode", 0) or not site.attribute("spatial", 1):
        raise Refused("normalises by the batch, or each activation; export it for inference")
    shape = site.shape()
    if len(shape) < 2:
        raise Refused("its input has no channels")
    n, c, *pixels = shape
    h = pixels[0] if len(pixels) > 1 else 1
    whole = (n, c, h, int(np.prod(pixels[len(pixels) > 1 :], dtype=np.int64)))
    x = site.seen(site.tensor(), shape, whole, "image")
    entries = {
        "batchnorm_mode": "spatial",
        "batchnorm_statistics": "running",
        "epsilon": float(site.attribute("epsilon", 1e-5)),
    }
    made = site.layer("BatchNorm", entries, [x])
    ports = {"w": 1, "b": 2, "running_mean": 3, "running_var": 4}
    for port, at in ports.items():
        value = site.known(at, port)
        # Statistics are what weights gave in training: those of others would fit no network.
        of = replace(value, trained=True) if at > 2 else value
        site.parameter(made, port, (1, c, 1, 1), value.shaped((1, c, 1, 1)), of)
    site.give(site.seen(made, whole, shape))


@operator("LRN")
def lrn(site: NodeSite) -> None:
    if len(site.shape()) != 4:
        raise Refused(f"its input has {len(site.shape())} axes, and [LRN] takes images")
    entries = {
        "lrn_mode": "cross_channel_dim1",
        "local_size": int(site.attribute("size")),
        "alpha": float(site.attribute("alpha", 1e-4)),
        "beta": float(site.attribute("beta", 0.75)),
        "k": float(site.attribute("bias", 1.0)),
    }
    site.give(site.layer("LRN", entries, [site.tensor()]))
