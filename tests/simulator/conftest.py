"""Places for bundles and kernels that simulators run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import gem5_here  # noqa: F401 - targets of the tests are for it
import pytest

from simgen.targets.gem5.se import Gem5Se

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder where gem5 does not redirect, with a name that has to be quoted."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="it's a ") as root:
        if Gem5Se().needs.refusal(Path(root)):
            pytest.skip("/var/tmp is a link to a place that gem5 redirects")
        yield Path(root)
