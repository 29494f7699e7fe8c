"""What the kernels of convolutions write: results, gradients of filters, and transforms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from simgen.layers.product.written import items_of
from simgen.layers.written import Places, Writes, cut_by, dense, partial_sums, writes

if TYPE_CHECKING:
    from simgen.layers.written import Values


@dataclass(frozen=True)
class _Target:
    """The tensor that a gather writes, of which it may be a phase (conv/geometry.py)."""

    c: Values

    @property
    def plane(self) -> int:
        size: int = self.c["rows_extent"] * self.c["columns_extent"]
        return size

    @property
    def group(self) -> int:
        """Elements of the channels of a group."""
        size: int = self.c["group_out"] * self.plane
        return size

    @property
    def size(self) -> int:
        size: int = self.c["batch"] * self.c["groups"] * self.group
        return size

    @property
    def offset(self) -> int:
        offset: int = self.c["rows_first"] * self.c["columns_extent"] + self.c["columns_first"]
        return offset

    def pixels(self, wide: int) -> tuple[Places, ...]:
        """All that are written of a channel, `wide` neighbours by a work-item."""
        c = self.c
        return (
            Places(c["batch"], c["groups"] * self.group),
            Places(c["rows_count"], c["rows_step"] * c["columns_extent"]),
            Places(c["columns_count"], c["columns_step"], wide),
        )


@writes("conv_direct")
def _direct(c: Values, block: int) -> list[Writes]:
    target = _Target(c)
    x = cut_by(*target.pixels(c["wide"]), group=block * c["sets"])
    channels = Places(c["group_out"], target.plane, c["filters"])
    return [
        Writes(-1, x, cut_by(Places(c["groups"], target.group), channels), offset=target.offset)
    ]


@writes("conv_gemm")
def _gemm(c: Values, block: int) -> list[Writes]:
    target = _Target(c)
    x = cut_by(*target.pixels(1), group=c["tile_n"])
    y = cut_by(Places(c["group_out"], target.plane, c["tile_m"]))
    depth = c["group_in"] * c["rows_taps"] * c["columns_taps"]
    z = cut_by(Places(c["groups"], target.group), partial_sums(depth, c["chunk"], target.size))
    return [Writes(-1, x, y, z, offset=target.offset, items=items_of(c))]


@writes("conv_windows")
def _windows(c: Values, block: int) -> list[Writes]:
    taps, pixels = c["rows_taps"] * c["columns_taps"], c["rows_count"] * c["columns_count"]
    return [dense(-1, c["batch"] * c["groups"] * c["group_in"] * taps * pixels, c["wide"], block)]


# ---- Gradients of filters, [group][filter][channel][row][column]; turned, where `flipped` ----


@writes("conv_direct_filters")
def _direct_filters(c: Values, block: int) -> list[Writes]:
    h, w, turn = c["kernel_h"], c["kernel_w"], -1 if c["flipped"] else 1
    one = c["group_channels"] * h * w
    group = c["group_filters"] * one
    lines = c["batch"] * c["result_h"] * c["segments"]
    filters = cut_by(Places(c["group_filters"], one, c["filters"] * c["octets"]))
    pairs = cut_by(Places(c["group_channels"], h * w), Places(h, turn * w), group=c["pairs"])
    return [
        Writes(
            -1,
            x=cut_by(partial_sums(lines, c["chunk"], c["groups"] * group)),
            y=filters + pairs,
            z=cut_by(Places(c["groups"], group)),
            inside=(Places(w),),
            offset=(h - 1) * w if c["flipped"] else 0,
            # Work-items that are left over do nothing.
            items=max(block, c["pairs"] * c["spans"] * c["octets"] * c["slices"]),
        )
    ]


@writes("conv_gemm_filters")
def _gemm_filters(c: Values, block: int) -> list[Writes]:
    taps, turn = c["kernel_h"] * c["kernel_w"], -1 if c["flipped"] else 1
    columns = c["group_channels"] * taps
    group = c["group_filters"] * columns
    pixels = c["batch"] * c["result_h"] * c["result_w"]
    return [
        Writes(
            -1,
            x=cut_by(Places(c["group_channels"], taps), Places(taps, turn), group=c["tile_n"]),
            y=cut_by(Places(c["group_filters"], columns, c["tile_m"])),
            z=cut_by(
                Places(c["groups"], group), partial_sums(pixels, c["chunk"], c["groups"] * group)
            ),
            offset=taps - 1 if c["flipped"] else 0,
            items=items_of(c),
        )
    ]


@writes("conv_bias")
def _bias(c: Values, block: int) -> list[Writes]:
    x = cut_by(partial_sums(c["batch"] * c["pixels"], c["chunk"], c["filters"]))
    return [Writes(-1, x, cut_by(Places(c["filters"])))]


# ---- Transforms of tiles ----


@writes("conv_products")
def _products(c: Values, block: int) -> list[Writes]:
    m, n, places = c["m"], c["n"], c["places"] * c["groups"]
    x, y = cut_by(Places(n, 1, c["tile_n"])), cut_by(Places(m, n, c["tile_m"]))
    z = cut_by(partial_sums(c["k"], c["chunk"], places * m * n), Places(places, m * n))
    return [Writes(-1, x, y, z, items=items_of(c))]


def _tiles_of_target(c: Values, channels: int, step: tuple[int, int], group: int) -> Writes:
    rows, columns = c["rows_count"], c["columns_count"]
    plane = rows * columns
    across = Places(rows, columns, step[0]), Places(columns, 1, step[1])
    samples = Places(c["batch"], channels * plane)
    return Writes(-1, cut_by(Places(channels, plane), samples, *across, group=group))


def _in_16_places(total: int, block: int) -> list[Writes]:
    return [Writes(-1, cut_by(Places(total), group=block), inside=(Places(16, total),))]


@writes("conv_winograd_filters")
def _winograd_filters(c: Values, block: int) -> list[Writes]:
    return _in_16_places(c["groups"] * c["group_out"] * c["group_in"], block)


@writes("conv_winograd_source", "conv_winograd_result")
def _winograd_source(c: Values, block: int) -> list[Writes]:
    channels = c["channels"] if "channels" in c else c["groups"] * c["group_in"]
    tiles = c["batch"] * ((c["rows_count"] + 1) // 2) * ((c["columns_count"] + 1) // 2)
    return _in_16_places(channels * tiles, block)


@writes("conv_winograd_target")
def _winograd_target(c: Values, block: int) -> list[Writes]:
    return [_tiles_of_target(c, c["groups"] * c["group_out"], (2, 2), block)]


@writes("conv_winograd_gradient")
def _winograd_gradient(c: Values, block: int) -> list[Writes]:
    return [Writes(-1, cut_by(Places(c["total"], 9), group=block), inside=(Places(9),))]


def _fourier_items(c: Values) -> int:
    items: int = c["lines"] * c["size"] // 2
    return items


def _frequencies(c: Values) -> int:
    frequencies: int = c["size"] * c["size"] // 2 + 2
    return frequencies


@writes("conv_fft_source")
def _fourier_source(c: Values, block: int) -> list[Writes]:
    channels, tiles = c["channels"], c["held"]
    frequencies = Places(_frequencies(c), channels * 2 * tiles)
    of_tile, of_part = (2, 1) if c["pairs"] else (1, tiles)
    x = cut_by(Places(channels, 2 * tiles), Places(tiles, of_tile), group=c["lines"])
    return [Writes(-1, x, inside=(frequencies, Places(2, of_part)), items=_fourier_items(c))]


@writes("conv_fft_filters")
def _fourier_filters(c: Values, block: int) -> list[Writes]:
    filters = c["groups"] * c["group_out"] * c["group_in"]
    x = cut_by(Places(filters, 2), group=c["lines"])
    inside = Places(_frequencies(c), filters * 2), Places(2)
    return [Writes(-1, x, inside=inside, items=_fourier_items(c))]


@writes("conv_fft_target")
def _fourier_target(c: Values, block: int) -> list[Writes]:
    made = _tiles_of_target(c, c["channels"], (c["step_h"], c["step_w"]), c["lines"])
    return [replace(made, items=_fourier_items(c))]


@writes("conv_fft_gradient")
def _fourier_gradient(c: Values, block: int) -> list[Writes]:
    taps = c["kernel_h"] * c["kernel_w"]
    x = cut_by(Places(c["filters"] * c["group_channels"], taps), group=c["lines"])
    return [Writes(-1, x, inside=(Places(taps),), items=_fourier_items(c))]


# ---- Channels last ----


@writes("conv_channels_last")
def _turned(c: Values, block: int) -> list[Writes]:
    sides = {0: _turned_filters, 1: _turned_images}
    first = sides[c["first_is_images"]](c, "", block)
    if not c["second"]:
        return [first]
    second = sides[c["second_is_images"]](c, "second_", block)
    return [first, replace(second, argument=2, first=c["groups_of_first"])]


def _turned_filters(c: Values, prefix: str, block: int) -> Writes:
    filters, taps, held = (c[f"{prefix}{name}"] for name in ("batch", "pixels", "held"))
    pieces = Places(filters, held), Places(held, 1, 8), Places(taps, filters * held)
    return Writes(-1, cut_by(*pieces, group=block))


def _turned_images(c: Values, prefix: str, block: int) -> Writes:
    batch, pixels, held = (c[f"{prefix}{name}"] for name in ("batch", "pixels", "held"))
    part = c[f"{prefix}part"]
    across = Places(pixels, held, 4096 // part)
    return Writes(-1, cut_by(Places(batch, pixels * held), Places(held, 1, part), across))


@writes("conv_last")
def _last(c: Values, block: int) -> list[Writes]:
    target = _Target({**c, "groups": 1})
    samples, *pixels = target.pixels(1)
    x = cut_by(samples, *pixels, group=c["tile_n"])
    if c["planes"]:
        tiles = Places(c["rows_count"] * c["columns_count"], 1, c["tile_n"])
        x = cut_by(samples, tiles)
    y = cut_by(Places(c["group_out"], target.plane, c["tile_m"]))
    depth = c["rows_taps"] * c["columns_taps"] * c["of_tap"]
    z = cut_by(partial_sums(depth, c["chunk"], target.size))
    across = Places(2 if c["twins"] else c["columns_fill"])
    inside = Places(c["rows_fill"], c["columns_extent"]), across
    return [Writes(-1, x, y, z, inside=inside, offset=target.offset, items=items_of(c))]


@writes("conv_last_filters")
def _last_filters(c: Values, block: int) -> list[Writes]:
    taps, channels = c["kernel_h"] * c["kernel_w"], c["group_channels"]
    one, depth = taps * channels, c["batch"] * c["result_h"] * c["result_w"]
    if c["planes"]:
        of_sample = ceil(c["result_h"] * c["result_w"] / c["tile_k"]) * c["tile_k"]
        depth = c["batch"] * of_sample
    columns = Places(channels, 1, empty=c["of_tap"] - channels)
    x = cut_by(Places(taps, channels), columns, group=c["tile_n"])
    y = cut_by(Places(c["group_filters"], one, c["tile_m"]))
    z = cut_by(partial_sums(depth, c["chunk"], c["group_filters"] * one))
    return [Writes(-1, x, y, z, items=items_of(c))]


@writes("conv_last_sum")
def _last_sum(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["filters"] * c["channels"] * c["taps"], 4, block // c["slices"])]
