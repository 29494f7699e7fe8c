"""Few of many problems whose kernels still show every choice of a template.

Kernels of a template differ in their constants, which decide all that its text does. A set covers
a template if it has each property of a constant that some kernel has: a covering array of strength
1, or of strength 2 if it has each two properties together (Kuhn et al., "Introduction to
Combinatorial Testing", 2013, section 1.3). It is found greedily, largest gain first.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simgen.ir import Kernel

SMALL = 4  # numbers up to this are choices, larger ones are sizes
FEW = 4  # values of a property that is paired with others
MANY = 8  # sizes of a template with which what is left of them is paired with its choices
REST, BITS = " modulo 4", " bits"  # properties of sizes

Property = tuple[str, Any]  # what of a kernel, and its value
Trait = tuple[Any, ...]


def properties(kernel: Kernel, *, sizes: bool = True) -> list[Property]:
    """Constants of a kernel; of a size, its bit length and what is left of whole vectors of 4.

    sizes: whether numbers count as sizes too, and not only as the choices that they may be.
    """
    found: list[Property] = [("block", kernel.block)]
    for name, value in kernel.constants:
        if not isinstance(value, int):
            found.append((name, value))
            continue
        found.append((name, value if abs(value) <= SMALL else "large"))
        if sizes:
            found.append((f"{name}{REST}", value % 4))
            if abs(value) > SMALL:
                found.append((f"{name}{BITS}", value.bit_length()))
    return found


def covering(
    found: Mapping[str, Sequence[Kernel]],
    *,
    pairs: bool,
    sizes: bool = True,
    labels: Mapping[str, Iterable[Property]] | None = None,
) -> list[str]:
    """Names of what covers each template of the kernels, in the order of `found`.

    found: name -> its kernels. pairs: strength 2 for properties with few values. sizes: as in
    `properties`. labels: name -> further properties, each of which is kept too, by itself.
    """
    traits = _traits(found, pairs, sizes)
    for name, own in (labels or {}).items():
        traits[name] |= set(own)
    left = set().union(*traits.values())
    # Gains only become smaller, so the first whose gain is still what it was has the largest.
    heap = [(-len(own), at, name) for at, (name, own) in enumerate(traits.items())]
    heapq.heapify(heap)
    kept = set()
    while left:
        _, at, name = heapq.heappop(heap)
        gain = len(traits[name] & left)
        if heap and gain < -heap[0][0]:
            heapq.heappush(heap, (-gain, at, name))
            continue
        kept.add(name)
        left -= traits[name]
    return [name for name in found if name in kept]


def _traits(
    found: Mapping[str, Sequence[Kernel]], pairs: bool, sizes: bool
) -> dict[str, set[Trait]]:
    """Name -> what its kernels show of their templates."""
    held = {
        name: [(kernel.template, properties(kernel, sizes=sizes)) for kernel in kernels]
        for name, kernels in found.items()
    }
    values: defaultdict[Trait, set[Any]] = defaultdict(set)
    for shown in held.values():
        for template, own in shown:
            for what, value in own:
                values[template, what].add(value)
    paired = _paired(values)
    traits: dict[str, set[Trait]] = {name: set() for name in held}
    for name, shown in held.items():
        for template, own in shown:
            traits[name] |= {(template, one) for one in own}
            if pairs:
                some = [one for one in own if (template, one[0]) in paired]
                traits[name] |= {
                    (template, one, other)
                    for one, other in combinations(some, 2)
                    if not (_is_rest(one[0]) and _is_rest(other[0]))
                }
    return traits


def _paired(values: Mapping[Trait, set[Any]]) -> set[Trait]:
    """(template, property) that is paired with others: choices and, of few sizes, what is left.

    A number that is large in some kernel is a size in all. Where a template has many of them, it
    cuts them into tiles, whose extents are constants too: what is left of 4 means nothing there.
    """
    of_sizes = {(template, what) for (template, what), own in values.items() if "large" in own}
    many = Counter(template for template, _ in of_sizes)
    found = set()
    for (template, what), own in values.items():
        size = (template, what.removesuffix(REST).removesuffix(BITS)) in of_sizes
        rest = _is_rest(what) and many[template] <= MANY
        if 1 < len(own) <= FEW and (rest if size else not _is_rest(what)):
            found.add((template, what))
    return found


def _is_rest(what: str) -> bool:
    return what.endswith((REST, BITS))
