"""Weights of 4 bits, two in each byte, of which groups along k share a scale.

Element i of a row lies in byte i / 2, an even one in its lower half, as a two's complement q. It
stands for scale (q - zero_point), where `group` neighbours along k have one scale, a 16-bit float.
So kernels compute with float32 numbers that are exact: 11 bits by 5.

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", 2023, section 4 (groups); Lin et al., "AWQ: Activation-aware Weight Quantization for
On-Device LLM Compression and Acceleration", 2024. Both take groups of 128.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.dtypes import F16, DType

if TYPE_CHECKING:
    import numpy as np

    from simgen.numerics.rounding import Array
else:
    from simgen import arrays as np

LOW, HIGH = -8, 7
PER_BYTE = 2
WORD = 8  # elements of a word: a group has a multiple of them


def check(k: int, group: int, zero_point: int) -> None:
    """Raises:
    ValueError: rows of `k` elements are not whole groups, or groups not whole words.
    """
    if group % WORD:
        raise ValueError(f"group_size is {group}; let it be a multiple of {WORD}")
    if k % group:
        fact = f"rows of w have {k} elements, which is not a multiple of group_size {group}"
        cure = f"let rows have a multiple of {WORD}" if k % WORD else "choose another group_size"
        raise ValueError(f"{fact}; {cure}")
    if not LOW <= zero_point <= HIGH:
        raise ValueError(f"w_zero_point is {zero_point}, and w is i4; let it be {LOW} to {HIGH}")


def scale_of(dtype: DType) -> DType:
    """The type of the scales, where the other factor has a type."""
    return dtype if dtype.nbytes == F16.nbytes else F16


def unpacked(stored: Array, scales: Array, group: int, zero_point: int) -> Array:
    """The numbers that rows of bytes (rows, k / 2) stand for, of scales (rows, k / group)."""
    each = np.mod(stored, 256)
    halves = np.stack((np.mod(each, 16), np.floor_divide(each, 16)), axis=-1)
    numbers = (halves - 16 * (halves > HIGH)).reshape(len(stored), -1)
    made: Array = (numbers - zero_point) * np.repeat(scales, group, axis=1)
    return made
