"""What legalising kernels took: a file of a target's folder, and the lines that a build tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.isa.legalise import Legalised

FILE = "kernels/replaced.json"


def costs(replaced: Mapping[str, Legalised]) -> bytes:
    """A JSON file: kernel -> {"instructions": before, "replaced": {mnemonic: n}, "added": n}.

    `added` is how many instructions the kernel has more than before.
    """
    found = {
        name: {"instructions": m.instructions, "replaced": m.replaced, "added": m.added}
        for name, m in sorted(replaced.items())
    }
    return (json.dumps(found, indent=1) + "\n").encode()


def notes(replaced: Path, target: str, *, details: bool) -> list[str]:
    """What was replaced, in a line for all kernels; with `details`, in one for each, too.

    `replaced` is the file that holds `costs`. No lines if nothing was.
    """
    try:
        found = json.loads(replaced.read_text())
    except (OSError, ValueError):
        return []
    if not any(cost["replaced"] for cost in found.values()):
        return []
    file = "/".join((target, *replaced.parts[-2:]))
    lines = [f"{target}: replaced {_cost(list(found.values()))}, see {file}"]
    if details:
        for name, cost in found.items():
            counted = ", ".join(f"{n} {what}" for what, n in cost["replaced"].items())
            lines.append(f"  {name}: {_cost([cost])}{': ' if counted else ''}{counted}")
    return lines


def _cost(costs: list[dict[str, Any]]) -> str:
    """12 of 430 instructions by 31 (+4.4 %)."""
    replaced = sum(sum(cost["replaced"].values()) for cost in costs)
    added = sum(cost["added"] for cost in costs)
    before = sum(cost["instructions"] for cost in costs)
    more = f" ({100 * added / before:+.1f} %)" if before else ""
    return f"{replaced} of {before} instructions by {replaced + added}{more}"
