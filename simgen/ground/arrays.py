"""NumPy, imported at the first use of one of its names.

Layers need it for references and tolerances only; a build, which computes none, is 0.1 s faster
without it.

    from simgen.ground.arrays import np
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:
    np = sys.modules[__name__]

__all__ = ["np"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # what Python itself asks every module for
        raise AttributeError(name)
    import numpy

    return getattr(numpy, name)
