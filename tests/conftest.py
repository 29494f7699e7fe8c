"""For all tests: shared modules can be imported, no test fails because a machine is slow, and
nothing is compiled twice in a run."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import pickle
import signal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.register_assert_rewrite("layer_bundles", "layer_variants", "machine_code")
settings.register_profile("simgen", deadline=None)
settings.load_profile("simgen")

# What a shell starts in the background ignores ^C, and so does what that starts: tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So does nohup with SIGHUP: pytest goes on, but a program that it starts heeds it (a handler is not
# inherited), and a shell can trap it.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# What waits, then what takes long: a process that begins one of them last would end alone.
FIRST = ("simulator/test_slurm.py", "simulator/", "toolchain/", "")
TESTS = Path(__file__).parent


# Caches of simgen are new in each test; Go's are shared.
HOME = Path.home()
os.environ.setdefault("GOCACHE", str(HOME / ".cache" / "go-build"))
os.environ.setdefault("GOPATH", str(HOME / "go"))
# No defaults of whoever tests; what sets some, such as a page's commands, sets them in its folder.
os.environ["SIMGEN_CONFIG"] = ".defaults.toml"
for _name in ("TARGET", "ARCH", "MODE", "EXECUTOR"):
    os.environ.pop(f"SIMGEN_{_name}", None)
os.environ.pop("COLUMNS", None)  # of pytest's processes; what simgen prints is as wide as it


def pytest_configure(config: pytest.Config) -> None:
    """Processes get their next test when they begin one, and none a heap of long ones."""
    if getattr(config.option, "maxschedchunk", 1) is None:
        config.option.maxschedchunk = 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order them so; as they stand within each."""

    @cache
    def turn(path: Path) -> int:
        name = path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
        return next(at for at, start in enumerate(FIRST) if name.startswith(start))

    items.sort(key=lambda item: turn(item.path))


def pytest_collection_finish() -> None:
    """What lives as long as the process is not looked through at each collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def of_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def builder(of_all: Path) -> Builder:
    """Compiles what no other test of the run has compiled, in whatever process."""
    return Builder(Cache(of_all / "compiled"))


@pytest.fixture(scope="session")
def once(of_all: Path) -> Callable[..., Any]:
    """`once(plan, *words)`: what `plan(*words)` returns; one process of a run calls it for all."""

    @cache
    def made(plan: Callable[..., Any], *words: Any) -> Any:
        digest = hashlib.sha256(f"{plan.__module__}.{plan.__name__}{words}".encode()).hexdigest()
        with (of_all / f"once-{digest[:16]}").open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not file.seek(0, os.SEEK_END):
                pickle.dump(plan(*words), file)
            file.seek(0)
            return pickle.load(file)

    return made
