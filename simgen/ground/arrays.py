"""NumPy, imported at the first use of one of its names.

Layers need it for references and tolerances only; a build, which computes none, is 0.1 s faster
without it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import numpy

    return getattr(numpy, name)
