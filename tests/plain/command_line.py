"""Calling simgen as a user does, and what every error looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CUDA = "--target cuda --set n=4 --set c=10"


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def process(*words: str, **options: Any) -> subprocess.Popen[str]:
    """simgen in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "simgen", *words]
    return subprocess.Popen(command, env=environment, text=True, **options)


def fails(done: Done, code: int, *words: str) -> None:
    """One line on stderr, "simgen: error: place: fact; cure"."""
    assert done.code == code, done
    assert done.err.startswith("simgen: error: ")
    assert done.err.endswith("\n")
    assert done.err[:-1].isprintable(), "one line"
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err
