"""Element types of the tensors of a matrix product: each has its own.

What is multiplied and added up is float32: elements are widened as they are loaded, and results are
rounded once, as they are stored. Partial sums are float32. Of 8-bit integers all of these are
int32, and so is the result: nothing is rounded, and sums wrap around.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.dtypes import DType

if TYPE_CHECKING:
    from simgen.ground.ir import Constants


@dataclass(frozen=True)
class Elements:
    """Element types of both factors, of what is added to the product, and of the result."""

    left: DType = DType.F32
    right: DType = DType.F32
    added: DType = DType.F32
    result: DType = DType.F32
    zero_points: tuple[int, int] = (0, 0)  # zero points of both factors, for integers
    bits: int = 8  # bits of the second factor, when floats are multiplied by integers
    # Elements of it along k that share a scale (simgen/layers/product/packed.py); 0: there are no
    # such scales. Of 4 bits, two lie in one of `right`.
    group: int = 0
    scale: DType = DType.F32  # type of these scales

    @classmethod
    def all(cls, dtype: DType) -> Elements:
        """One type for both factors, and what comes of it."""
        return cls(dtype, dtype, dtype.product, dtype.product)

    @property
    def mixed(self) -> bool:
        """Whether floats are multiplied by integers, which are made floats as they are loaded."""
        return self.left.is_float and not self.right.is_float

    @property
    def total(self) -> DType:
        """Type in which products are added up."""
        return self.left.accumulation

    @property
    def nbytes(self) -> tuple[int, int, int]:
        """Size in bytes of an element of each factor and of the result."""
        return self.left.nbytes, self.right.nbytes, self.result.nbytes

    @property
    def name(self) -> tuple[str, ...]:
        """Part of a kernel's name; nothing where all are float32."""
        types = name_of((self.left, self.right, self.added, self.result))
        zeros = "_".join(f"{each}".replace("-", "m") for each in self.zero_points)
        grouped = (f"i{self.bits}g{self.group}_{self.scale}",) if self.group else ()
        return (*types, *grouped, *((f"z{zeros}",) if any(self.zero_points) else ()))

    @property
    def constants(self) -> Constants:
        """What constants/gemm.h declares."""
        return (
            *constant("leftelement", self.left, self.zero_points[0]),
            *self._second,
            *constant("addedelement", self.added),
            *constant("element", self.result),
            *constant("total", self.total),
        )

    @property
    def _second(self) -> Constants:
        """The type of the second factor, and its groups."""
        groups = ("group", self.group or 8), ("with_groups", int(self.group > 0))
        if not self.mixed:
            return (*constant("rightelement", self.right, self.zero_points[1]), *groups)
        stored = "Nibbles" if self.bits < 8 else "Counted"
        scale = constant("scaleelement", self.scale) if self.group else ()
        return (("rightelement", f"{stored}<{self.zero_points[1]}>"), *groups, *scale)


def constant(name: str, dtype: DType, zero_point: int = 0) -> Constants:
    """The constant that names a type of elements to a kernel, where it is not float32."""
    if dtype == DType.I8:
        return ((name, f"Whole<{zero_point}>"),)
    return () if dtype == DType.F32 else ((name, dtype.c),)


def name_of(types: tuple[DType, ...]) -> tuple[str, ...]:
    """What tells kernels by their types, as a part of their names."""
    names = [each.name for each in types]
    if set(names) == {DType.F32.name}:
        return ()
    return ("_".join(names if len(set(names)) > 1 else names[:1]),)
