"""Extents of what slides a window over an image: convolution and pooling."""

from __future__ import annotations


def positions(
    axis: str,
    extent: int,
    kernel: int,
    pad: int,
    stride: int,
    behind: int = -1,
    *,
    round_up: bool = False,
) -> int:
    """How many windows of `kernel` pixels, `stride` apart, lie inside the padded axis.

    floor((extent + 2 pad - kernel) / stride) + 1, as cuDNN and MIOpen compute it. With `round_up`
    one more where the division has a remainder, if it begins before the end of the image, as in
    Caffe and PyTorch's ceil mode. `behind` is the padding at the end, -1 where it is `pad` too.
    `axis` is "height" or "width", for the message.

    Raises:
        ValueError: there is none.
    """
    # DNNMark divides as C does, towards zero, and so finds room for windows that do not fit.
    padded = extent + pad + (pad if behind < 0 else behind)
    count = (padded - kernel) // stride + 1
    if count < 1:
        fact = f"a kernel {axis} of {kernel} does not fit into {extent} + 2 * {pad} padded pixels"
        raise ValueError(f"{fact}; make the kernel smaller or the padding larger")
    if round_up and (padded - kernel) % stride and count * stride < extent + pad:
        return count + 1
    return count


def spread(axis: str, extent: int, kernel: int, pad: int, stride: int) -> int:
    """The extent of which `positions` would give `extent` without a remainder.

    (extent - 1) stride + kernel - 2 pad: the output of a transposed convolution.

    Raises:
        ValueError: nothing is left after cropping by the padding.
    """
    count = (extent - 1) * stride + kernel - 2 * pad
    if count < 1:
        fact = f"a padding of {pad} leaves nothing of the transposed {axis}"
        raise ValueError(f"{fact}; make the padding smaller")
    return count
