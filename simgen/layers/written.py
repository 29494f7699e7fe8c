"""Which elements each work-group of a launch writes: what a kernel makes of its constants.

A template has a declaration beside the code that makes its kernels: a function of the kernel's
constants and nothing else, as the template is. It knows no launch and no layer, so that tests can
hold them against each other without a compiler: the grid must be the one that the declarations
give, and the launches of a pass must write each element of each port once. Where there is a
compiler, a part of the grid is run, and must write what is declared of those work-groups.

    gemm    a tile of C by each work-group, of the partial sums of a chunk where k is cut:
            Writes(-1, x=cut_by(Places(n, 1, tile_n)), y=cut_by(Places(m, n, tile_m)),
                   z=cut_by(partial_sums(k, chunk, m * n)))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simgen.ground.ir import Kernel

    Values = Mapping[str, Any]  # the constants of a kernel
    # arguments: the launch's values and the work-group's size
    Declaration = Callable[[Values, int], Iterable["Writes"]]

DECLARED: dict[str, Declaration] = {}  # by template, less its suffix; importing layers fills it


@dataclass(frozen=True)
class Places:
    """`count` places of a tensor, `stride` elements apart, in pieces of `each` neighbours."""

    count: int
    stride: int = 1
    each: int = 1  # the last piece may have fewer
    empty: int = 0  # pieces behind them that are no places
    backward: bool = False  # the last piece is the first one

    @property
    def pieces(self) -> int:
        return ceil(self.count / self.each) + self.empty


@dataclass(frozen=True)
class Pieces:
    """Pieces of some places, counted in row-major order; each work-group has `group` of them."""

    places: tuple[Places, ...]
    group: int = 1  # the last work-group may have fewer
    # if not 0: work-group i takes pieces i, i + turns, i + 2 turns, ... in place of `group`
    turns: int = 0

    @property
    def groups(self) -> int:
        return self.turns or ceil(prod(each.pieces for each in self.places) / self.group)


Cuts = tuple[Pieces, ...]  # counted in row-major order by one coordinate of a work-group


@dataclass(frozen=True)
class Writes:
    """Elements of one argument that a launch writes: a place along each of its cuts, and all
    `inside`.
    """

    argument: int  # index in the kernel's parameters
    x: Cuts = ()
    y: Cuts = ()
    z: Cuts = ()
    inside: tuple[Places, ...] = ()
    offset: int = 0  # offset of the first element
    first: int = 0  # x of the work-groups from which on they write this
    items: int | None = None  # work-items of a work-group; None: any number
    again: bool = False  # what an earlier launch of the pass wrote is replaced

    @property
    def grid(self) -> tuple[int, int, int]:
        """Work-groups that write, in each direction."""
        x, y, z = (prod(cut.groups for cut in cuts) for cuts in (self.x, self.y, self.z))
        return x, y, z


def cut_by(*places: Places, group: int = 1) -> Cuts:
    """One cut."""
    return (Pieces(places, group),)


def partial_sums(terms: int, chunk: int, stride: int) -> Places:
    """Sums of `chunk` terms each, the last of fewer, `stride` elements apart."""
    return Places(ceil(terms / chunk), stride)


def dense(argument: int, size: int, each: int, block: int) -> Writes:
    """All of a tensor, `each` neighbours by a work-item."""
    return Writes(argument, cut_by(Places(size, 1, each), group=block))


def writes(*templates: str) -> Callable[[Declaration], Declaration]:
    """Declares what kernels of these templates write; names without a suffix."""

    def declare(made: Declaration) -> Declaration:
        for template in templates:
            if template in DECLARED:
                raise RuntimeError(f"{template}: what it writes is declared twice")
            DECLARED[template] = made
        return made

    return declare


def writes_all(*templates: str, arguments: tuple[int, ...] = (-1,)) -> None:
    """Declares that kernels of these templates write all of some arguments, by vectors or, with
    `runs`, several of them."""

    @writes(*templates)
    def declared(c: Values, block: int) -> list[Writes]:
        items = block * c.get("runs", 1)
        return [dense(at, c["size"], c["vector"], items) for at in arguments]


def written(kernel: Kernel) -> tuple[Writes, ...]:
    """What a kernel writes.

    Raises:
        RuntimeError: its template has no declaration.
    """
    return tuple(declaration(kernel)(dict(kernel.constants), kernel.block))


def declaration(kernel: Kernel) -> Declaration:
    """Declaration of a kernel's template.

    Raises:
        RuntimeError: there is none.
    """
    stem = kernel.template.partition(".")[0]
    if stem not in DECLARED:
        raise RuntimeError(f"{kernel.template}: declare what it writes, with @writes (written.py)")
    return DECLARED[stem]
