"""Places for bundles and kernels that simulators run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simgen.compile.build import Builder
from simgen.compile.cache import Cache
from simgen.targets.gem5.se import Gem5Se

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Compiles what no other module of tests has compiled."""
    return Builder(Cache(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder where gem5 does not redirect, with a name that has to be quoted."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="it's a ") as root:
        if Gem5Se().needs.refusal(Path(root)):
            pytest.skip("/var/tmp is a link to a place that gem5 redirects")
        yield Path(root)
