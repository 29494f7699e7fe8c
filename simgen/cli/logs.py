"""What libraries logged of a model's run, as a list of problems."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from simgen.errors import UsageError, message, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_REASONS = 5  # reasons printed, at most


def listed(path: Path) -> list[dict[str, Any]]:
    """A row for each problem of a log, the most operations first; a notice of what is none.

    Raises:
        UsageError: the log cannot be read, or has no problem.
    """
    from simgen.frontend import call_log

    found = call_log.read_log(path)
    if not found.calls:
        reason, count = next(iter(found.unread.items()))
        raise UsageError(f"{one_line(str(path))}: none of its calls is read ({count}: {reason})")
    if found.unread:
        _tell(found.unread)
    whole = sum(each.flops * count for each, count in found.calls.items()) or 1.0
    order = sorted(found.calls.items(), key=lambda item: -item[0].flops * item[1])
    return [
        {
            "problem": str(operation),
            "calls": count,
            "flops": operation.flops,
            "share": operation.flops * count / whole,
            "passes": " ".join(operation.direction),
        }
        for operation, count in order
    ]


def _tell(unread: Mapping[str, int]) -> None:
    order = sorted(unread.items(), key=lambda item: -item[1])
    reasons = "; ".join(f"{count}: {reason}" for reason, count in order[:MOST_REASONS])
    more = len(order) - MOST_REASONS
    reasons += f"; and {more} more reasons" if more > 0 else ""
    print(message(f"calls that are left out: {sum(unread.values())} ({reasons})"), file=sys.stderr)
