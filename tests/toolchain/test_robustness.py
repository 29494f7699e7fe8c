"""A small part of benchmarks/robustness, in which no case breaks a rule."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simgen.targets.host import Host

RUN = Path(__file__).resolve().parents[2] / "benchmarks/robustness/run.py"
pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)


# Without simulators and workflows, which take minutes.
SOME = ("--only", "build adds,run,run of a layer,report,export chakra,data,cache clear")


@pytest.mark.parametrize(
    ("campaign", "cases", "more"),
    [("damage", 30, ()), ("race", 2, ()), ("kill", 3, SOME), ("pair", 2, SOME)],
)
def test_no_case_breaks_a_rule(campaign: str, cases: int, more: tuple[str, ...]) -> None:
    words = [sys.executable, str(RUN), campaign, "--cases", str(cases), *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"{campaign}: {cases} cases, 0 broke a rule\n" in done.stdout
