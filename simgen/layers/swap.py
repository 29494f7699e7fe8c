"""Two neighbouring axes that change places: tokens and heads, samples and time steps."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.dtypes import WORD, DType
from simgen.ground.ir import Kernel, Launch, Pass
from simgen.layers import elementwise
from simgen.layers.base import Lowering
from simgen.layers.elementwise import BLOCK, VECTOR, ends
from simgen.layers.written import Writes, dense, writes

if TYPE_CHECKING:
    from simgen.ground.ir import TensorSpec
    from simgen.layers.written import Values


def lower(
    prefix: str, tensor: TensorSpec, extents: tuple[int, int, int], direction: Pass
) -> Lowering:
    """One launch that makes (..., second, first, inner) of (..., first, second, inner) = extents.

    What the extents leave of the tensor is in front of them; kernels' names begin with the prefix.
    """
    first, second, inner = extents
    size, element = tensor.size, tensor.dtype
    if inner * element.nbytes % WORD == 0:  # copied as words
        size, inner = elementwise.words(tensor), inner * element.nbytes // WORD
        element = DType.F32
    vector = VECTOR if inner % VECTOR == 0 or element.is_narrow else 1
    name = f"{prefix}{first}x{second}x{inner}{elementwise.suffix(element)}"
    constants = (
        ("size", size),
        ("first", first),
        ("second", second),
        ("inner", inner),
        ("vector", vector),
        *elementwise.element(element),
    )
    kernel = Kernel(name, "heads.hip", BLOCK, constants)
    grid = (ceil(size / (BLOCK * vector)), 1, 1)
    return Lowering((kernel,), (Launch(name, grid, ends(direction)),))


@writes("heads")
def _written(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["size"], c["vector"], block)]
