"""What the runner has in the place of parts of Akita and MGPUSim does as these do (parts.go)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from simgen.targets.mgpusim import needs

go = needs.go()


@pytest.mark.skipif(not go, reason=f"there is no Go; {needs.GO_CURE}")
def test_parts_do_as_those_that_they_stand_for(tmp_path: Path) -> None:
    """Built as run.sh builds the runner, so that Go has compiled nearly all of it."""
    sources = tmp_path / "runner"
    shutil.copytree(needs.templates(), sources)
    shutil.copy(Path(__file__).with_name("parts.go"), sources / "parts_test.go")
    called(sources, "mod", "vendor")
    monitor = sources / "vendor/github.com/sarchlab/akita/v4/monitoring/monitor.go"
    shutil.copy(sources / "discard/monitor.go.txt", monitor)
    said = called(sources, "test", "-mod=vendor", "-trimpath", "-vet=off", "-count=1", "-v", ".")
    for name in ("Pipelines", "SetsOfTLBs", "Scoreboards", "Registers", "Lines"):
        assert f"--- PASS: Test{name} " in said


def called(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [str(go), *words],
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
