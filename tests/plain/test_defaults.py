"""Defaults of the command line: a file, the environment, and what comes first."""

from __future__ import annotations

import json

import pytest
from command_line import fails

import simgen as api


@pytest.fixture(name="file")
def _file(tmp_path, monkeypatch):
    file = tmp_path / "xdg" / "simgen" / "config.toml"
    monkeypatch.delenv("SIMGEN_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return file


def built(simgen, words=""):
    done = simgen(f"build softmax_fwd --set n=4 {words} --json -o made")
    assert done.code == 0, done
    return done.json()


def test_the_line_comes_before_the_environment_and_that_before_the_file(
    simgen, file, tmp_path, monkeypatch
):
    assert simgen("config target=cuda").code == 0
    assert file.read_text() == 'target = "cuda"\n'
    made = built(simgen)
    assert made["targets"] == ["cuda"]
    assert "--target cuda" in made["reproduce"]  # which needs no file
    monkeypatch.setenv("SIMGEN_TARGET", "null")
    assert built(simgen, "--replace")["targets"] == ["cuda", "null"]
    told = simgen("config --json").json()
    assert told["settings"] == {"target": {"value": "null", "from": "SIMGEN_TARGET"}}
    (tmp_path / "made").rename(tmp_path / "other")
    assert built(simgen, "-t cuda")["targets"] == ["cuda"]


def test_an_architecture_is_for_targets_that_have_it(simgen, file):
    assert simgen("config arch=gfx803").code == 0
    file.write_text(file.read_text() + "# mine\n")
    assert "arch" not in built(simgen, "-t cuda")["reproduce"]
    done = simgen("show softmax_fwd --set n=4 -t mgpusim")
    assert (done.code, done.err) == (0, "")
    manifest = json.loads(simgen("list targets --json").out)
    assert manifest["rows"]
    fails(simgen("build softmax_fwd -t gem5-fs --arch gfx803"), 2, "--arch")  # said by the user


def test_a_run_takes_the_target_and_the_mode(simgen, file, monkeypatch, tmp_path):
    from simgen.ask.run import RunCommand
    from simgen.bundle import folder
    from simgen.cli import defaults

    built(simgen, "-t cuda,null")
    bundle = folder.load(tmp_path / "made")
    simgen("config target=gem5-se,null mode=timing")
    found = defaults.of_run(RunCommand(), bundle)
    assert (found.target, found.options) == ("null", {})
    assert defaults.of_run(RunCommand("cuda"), bundle).target == "cuda"
    (tmp_path / "made" / "mgpusim").mkdir()
    bundle.targets["mgpusim"] = {}
    simgen("config target=mgpusim")
    assert defaults.of_run(RunCommand(), bundle).options == {"mode": "timing"}
    given = RunCommand(options={"mode": "emu"})
    assert defaults.of_run(given, bundle).options == {"mode": "emu"}
    monkeypatch.setenv("SIMGEN_MODE", "emu")  # run.sh reads it
    assert defaults.of_run(RunCommand(), bundle).options == {}


def test_python_does_not_read_it(simgen, file, tmp_path):
    assert simgen("config target=null").code == 0
    api.plan("softmax_fwd", set={"n": 4}).build(tmp_path / "api", "cuda")
    made = json.loads((tmp_path / "api" / "manifest.json").read_text())
    assert list(made["targets"]) == ["cuda"]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ('tagret = "cuda"', "'tagret': unknown; did you mean 'target'?"),
        ('target = "gem5"', "target 'gem5': unknown; did you mean 'gem5-se'?"),
        ('arch = "gfx9022"', "arch 'gfx9022': unknown; did you mean 'gfx902'?"),
        ('mode = "timming"', "mode 'timming': unknown; did you mean 'timing'?"),
        ("target = 3", 'target: not a text; write target = "..."'),
        ('target = ""', 'target: not a text; write target = "..."'),
        ("target", "not TOML"),
        ("[target]\na = 1", "target: not a text"),
        ("a" * 100_000, "cannot be read"),
        ("\x00", "not TOML"),
    ],
)
def test_a_file_that_is_wrong_is_told_in_one_line(simgen, file, text, fact):
    file.parent.mkdir(parents=True)
    file.write_text(text)
    for line in ("config", "build softmax_fwd"):
        done = simgen(line)
        fails(done, 2, f"{file}: {fact}")
    fails(simgen("config target=cuda"), 2, str(file))
    assert file.read_text() == text


def test_wrong_words_are_told(simgen, file, monkeypatch):
    fails(simgen("config target"), 2, "write KEY=VALUE, such as target=mgpusim")
    fails(simgen("config exector=slurm"), 2, "'exector': unknown; did you mean 'executor'?")
    fails(simgen("config target=gem6-se"), 2, "did you mean 'gem5-se'?")
    assert not file.exists()
    monkeypatch.setenv("SIMGEN_TARGET", "cudda")
    fails(simgen("build softmax_fwd"), 2, "SIMGEN_TARGET: target 'cudda': unknown")
    monkeypatch.setenv("SIMGEN_CONFIG", "/dev/zero")
    monkeypatch.delenv("SIMGEN_TARGET")
    fails(simgen("config"), 2, "/dev/zero: cannot be read")


def test_keys_are_set_and_removed(simgen, file):
    assert simgen("config executor=slurm arch=gfx942").code == 0
    assert simgen("config arch=").code == 0
    assert file.read_text() == 'executor = "slurm"\n'
    assert simgen("config").out.count("slurm") == 1
    assert simgen("config executor=").code == 0
    assert "no defaults are set" in simgen("config").out
