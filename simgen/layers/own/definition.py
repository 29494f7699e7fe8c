"""What a user's file says of kernels, with all of its expressions worked out."""

from __future__ import annotations

from dataclasses import dataclass

from simgen.ground.ir import Fill, Kernel, Launch, TensorSpec  # noqa: TC001  read as a schema

EXPECTED = "expected_"  # begins the ports of values that the user's own program has computed
BEFORE = "_before"  # ends those of what an output holds before the kernels


@dataclass(frozen=True)
class OwnTensor:
    """A tensor that kernels read or write."""

    name: str
    spec: TensorSpec
    fill: Fill | None = None  # an input's values; for an output, what it holds before
    output: bool = False

    @property
    def initial(self) -> str:
        """The port of what it holds before; for references, it is what the tensor's name means."""
        return f"{self.name}{BEFORE}" if self.output else self.name


@dataclass(frozen=True)
class Definition:
    """Kernels, their launches in order, the tensors that these name, and the reference.

    A reference is an expression for each output, or none: then the data file has what the user's
    own program expects, as inputs of the names EXPECTED.
    """

    tensors: tuple[OwnTensor, ...]
    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]
    parameters: tuple[tuple[str, int | float], ...] = ()
    references: tuple[tuple[str, str], ...] = ()
    tolerance: float | None = None  # share of a tensor's largest value; None: derived
    flops: int = 0
    accumulate: str = ""  # the type of sums; "": float32, or float64 where all floats have 64 bits
    arithmetic: str = ""  # the narrow type that results are rounded to on the way; "": none

    @property
    def outputs(self) -> tuple[OwnTensor, ...]:
        return tuple(each for each in self.tensors if each.output)
