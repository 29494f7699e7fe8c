"""The command that a report has for a run does the same again: the name, the record, each value."""

from __future__ import annotations

import html
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from loaded import program

import simgen
from simgen.ask.choice import choices
from simgen.ask.run import RunChoices
from simgen.bundle import folder, run_record

ROOT = Path(__file__).parents[2]
RUNS = {
    "whole": {},
    "some layers": {"layers": "conv1..pool1", "inputs": "reference"},
    "pieces": {"jobs": 3, "warm": "none"},
    "representatives": {"representatives": True, "jobs": 2},
    "pieces of some layers": {"layers": ["pool1", "pool2"], "jobs": 2},
}


def command(line: str, home: Path) -> None:
    words = shlex.split(line)
    assert words[0] == "simgen"
    subprocess.run([program(), *words[1:]], cwd=home, check=True)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> simgen.api.BuiltBundle:
    home = tmp_path_factory.mktemp("reproduced")
    return simgen.plan("lenet5", set={"n": 1}).build(home / "net", "host")


def recorded(bundle: simgen.api.BuiltBundle, name: str) -> run_record.Run:
    made = folder.load(bundle.path)
    record = run_record.read_run(made.path / "results" / name, made.workload)
    assert record is not None
    return record


@pytest.mark.parametrize("name", RUNS)
def test_the_command_of_a_report_runs_the_same_again(
    bundle: simgen.api.BuiltBundle, tmp_path: Path, name: str
) -> None:
    first = bundle.run("host", **RUNS[name])
    asked = recorded(bundle, first.name)
    page = simgen.report([bundle], tmp_path / "page").page.read_text()
    lines = re.findall(r"<code>(simgen run .*?)</code>", html.unescape(page))
    wanted = shlex.join(asked.choices.words())
    (line,) = {each for each in lines if f"{wanted} --replace" in each}
    command(f"{line} -q", bundle.path.parent)
    again = bundle.result(first.name)
    assert recorded(bundle, first.name).choices == asked.choices
    assert again.outputs.keys() == first.outputs.keys()
    for tensor, output in first.outputs.items():
        assert again.outputs[tensor].values.tobytes() == output.values.tobytes(), tensor
    assert [each.keys() for each in again.launches] == [each.keys() for each in first.launches]


def test_all_that_makes_another_result_here_is_among_them() -> None:
    """A sample and a part of a machine need a simulator; options are of a target."""
    elsewhere = {"target", "sample", "scale_model", "options"}
    kept = {each.name for each in choices(RunChoices)} - {"timeout", "replace", "resume"}
    assert {name for given in RUNS.values() for name in given} == kept - elsewhere
