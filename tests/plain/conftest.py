"""simgen in this process, in an empty folder and with an empty cache."""

from __future__ import annotations

import shlex
import signal
import sys

import pytest
from command_line import Done
from handmade import build, lowered, run_by_hand

from simgen import errors
from simgen.cli import main


@pytest.fixture(name="own_folder")
def empty_folder(tmp_path, monkeypatch):
    """The current folder is empty, and so is the kernel cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / ".cache"))


@pytest.fixture(name="simgen")
def command(own_folder, monkeypatch, capsys):
    """`simgen("list workloads")` or `simgen("build", "a b")`: a `Done`."""
    before = {each: signal.getsignal(each) for each in errors.ENDING}

    def call(*words):
        words = shlex.split(words[0]) if len(words) == 1 else words
        monkeypatch.setattr(sys, "argv", ["simgen", *words])
        with pytest.raises(SystemExit) as stopped:
            main.main()
        captured = capsys.readouterr()
        return Done(stopped.value.code or 0, captured.out, captured.err)

    yield call
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.fixture(name="ran")
def bundle_that_ran(own_folder, tmp_path):
    """`./net`: a network of two layers that ran well on cuda."""
    made = build(tmp_path / "net", lowered("classifier", ("n", "8")))
    run_by_hand(made)
    return made
