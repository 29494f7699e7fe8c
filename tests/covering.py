"""Few of many problems whose kernels still show every choice of a template.

Kernels of a template differ in their constants, which decide all that its text does. A set covers
a template if it has each property of a constant that some kernel has: a covering array of strength
1, or of strength 2 if it has each two properties together (Kuhn et al., "Introduction to
Combinatorial Testing", 2013, section 1.3). It is found greedily, largest gain for its cost first.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from simgen.ground.ir import Kernel

Name = TypeVar("Name", bound="Hashable")

SMALL = 4  # numbers up to this are choices, larger ones are sizes
FEW = 4  # values of a property that is paired with others
MANY = 8  # sizes of a template with which what is left of them is paired with its choices
REST, BITS = " modulo 4", " bits"  # properties of sizes
# Numbers that instructions hold in themselves; compilers leave out what 0 and 1 make needless.
INLINE = {sign * each for each in (0.0, 0.5, 1.0, 2.0, 4.0) for sign in (1, -1)}
NUMBERS = re.compile(r"-?\d+( -?\d+)*")

Property = tuple[str, Any]  # what of a kernel, and its value
Trait = tuple[Any, ...]


@cache  # kernels are looked at in several covers
def properties(kernel: Kernel, *, sizes: bool = True, values: bool = False) -> list[Property]:
    """Constants of a kernel; of a size, its bit length and what is left of whole vectors of 4.

    sizes: whether numbers count as sizes too, and not only as the choices that they may be.
    values: whether fractions and lists of numbers count one by one, and not only by their kinds.
    """
    found: list[Property] = [("block", kernel.block)]
    for name, value in kernel.constants:
        if not isinstance(value, int):
            found.append((name, value if values else _kind(value)))
            if sizes and not values and _is_list(value):
                found.append((f"{name}{REST}", tuple(int(each) % 4 for each in value.split())))
            continue
        found.append((name, _choice(value)))
        if sizes:
            found.append((f"{name}{REST}", value % 4))
            if abs(value) > SMALL:
                found.append((f"{name}{BITS}", value.bit_length()))
    return found


def _choice(value: int) -> Any:
    return value if abs(value) <= SMALL else "large"


def _is_list(value: Any) -> bool:
    return isinstance(value, str) and NUMBERS.fullmatch(value) is not None


def _kind(value: Any) -> Any:
    """Of a fraction, such as one by a size, its sign where no instruction knows it by itself: to
    another one, the same code is made of it. Of a list, which of its numbers are choices."""
    if isinstance(value, float):
        return value if value in INLINE else ("a number", value > 0)
    return tuple(_choice(int(each)) for each in value.split()) if _is_list(value) else value


def covering(
    found: Mapping[Name, Sequence[Kernel]],
    *,
    pairs: bool,
    sizes: bool = True,
    values: bool = False,
    labels: Mapping[Name, Iterable[Property]] | None = None,
    rather: Collection[Name] = (),
    costs: Mapping[Name, float] | None = None,
) -> list[Name]:
    """Names of what covers each template of the kernels, in the order of `found`.

    found: name -> its kernels. pairs: strength 2 for properties with few values. sizes, values: as
    in `properties`. labels: name -> further properties, each of which is kept too, by itself.
    rather: what is taken first, as far as it shows anything that is wanted.
    costs: name -> what its test takes, in any unit, of which little is wanted.
    """
    traits = _traits(found, pairs, sizes, values)
    for name, own in (labels or {}).items():
        traits[name] |= set(own)
    kept: set[Name] = set()
    left = set().union(*traits.values())
    for some in ([name for name in found if name in rather], list(found)):
        kept |= _greedy(some, traits, left, costs or {})
    if costs:
        kept -= _needless([name for name in found if name in kept], traits, costs)
    return [name for name in found if name in kept]


def _needless(
    kept: Sequence[Name], traits: Mapping[Name, set[Trait]], costs: Mapping[Name, float]
) -> set[Name]:
    """Those that show only what the others show, which were taken after them; costly ones first."""
    shown = Counter(trait for name in kept for trait in traits[name])
    found = set()
    for name in sorted(kept, key=lambda name: -costs.get(name, 1)):
        if all(shown[trait] > 1 for trait in traits[name]):
            found.add(name)
            shown.subtract(traits[name])
    return found


def _greedy(
    names: Sequence[Name],
    traits: Mapping[Name, set[Trait]],
    left: set[Trait],
    costs: Mapping[Name, float],
) -> set[Name]:
    """Those of the names that show what is left, which they take away from it."""
    # Gains only become smaller, so the first whose gain is still what it was has the largest.
    heap = [
        (-len(traits[name] & left) / costs.get(name, 1), at, name) for at, name in enumerate(names)
    ]
    heapq.heapify(heap)
    kept = set()
    while heap:
        _, at, name = heapq.heappop(heap)
        gain = len(traits[name] & left) / costs.get(name, 1)
        if heap and gain < -heap[0][0]:
            heapq.heappush(heap, (-gain, at, name))
            continue
        if not gain:
            break
        kept.add(name)
        left -= traits[name]
    return kept


def _traits(
    found: Mapping[Name, Sequence[Kernel]], pairs: bool, sizes: bool, values: bool
) -> dict[Name, set[Trait]]:
    """Name -> what its kernels show of their templates."""
    held = {
        name: [
            (kernel.template, properties(kernel, sizes=sizes, values=values)) for kernel in kernels
        ]
        for name, kernels in found.items()
    }
    seen: defaultdict[Trait, set[Any]] = defaultdict(set)
    for shown in held.values():
        for template, own in shown:
            for what, value in own:
                seen[template, what].add(value)
    paired = _paired(seen)
    traits: dict[Name, set[Trait]] = {name: set() for name in held}
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
