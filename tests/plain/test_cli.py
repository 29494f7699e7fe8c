"""What else the command line does, and its manners: JSON, help, pipes, signals."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from census import census
from command_line import CUDA, ROOT, fails, process
from handmade import BOTH, build, lowered_text, run_by_hand
from loaded import program

from simgen import __version__
from simgen.bundle import folder as bundles
from simgen.bundle import results
from simgen.cli import main, precompute
from simgen.kernels import cache as caches
from simgen.targets.cuda import Cuda


def wrong(tensors):
    tensors["probability.y"][2] *= np.float32(1.01)


# ------------------------------------------------------------------ show, list, cache, doctor

JSON = [
    "show softmax_fwd --json",
    "show classifier --pass fwd,bwd --json",
    "show sgd_bwd --json",
    "show lenet5 --pass fwd,bwd,sgd --layers conv1..pool2 --rate 0.1 --json",
    "list --json",
    "list layers --json",
    "list workloads --json",
    "list networks --json",
    "list targets --json",
    "list algorithms --json",
    "cache list --json",
    "doctor --json",
]


@pytest.mark.parametrize("line", JSON)
def test_json_parses_and_is_all_that_is_printed(simgen, line):
    done = simgen(line)
    assert done.code in ((0, 3) if line.startswith("doctor") else (0,))
    assert done.err == "" or done.code == 3
    assert done.json()


def test_show_prints_layers_that_cannot_be_lowered_too(simgen):
    done = simgen("show sgd_bwd")
    assert done.code == 0
    assert "SGD" in done.out
    assert "no kernels: built-in sgd: layer 'sgd'" in done.out
    assert simgen("show sgd_bwd --json").json()["workload"] is None


def test_show_prints_the_commands_that_run_it(simgen):
    commands = simgen("show softmax_fwd --json").json()["commands"]["gem5-se"]
    assert all("apu_se.py" in command for command in commands.values())
    assert len(commands) == 2, "direct and Docker"


def test_the_cache_is_listed_verified_and_cleared(simgen, tmp_path):
    key = caches.Key("test")
    key.add("label", "a thing")
    caches.Cache(tmp_path / ".cache").get_or_build(key, lambda: b"blob")
    own = [e for e in simgen("cache list --json").json()["entries"] if e["where"] == "own"]
    assert own == [
        {"where": "own", "entry": key.digest, "what": "a thing", "bytes": 4, "state": "good"}
    ]
    assert "all good" in simgen("cache verify").out
    (caches.entry(tmp_path / ".cache", key.digest).path / "blob").write_bytes(b"blub")
    fails(simgen("cache verify"), 7, "damaged", "simgen cache clear")
    assert "1 entry, 0 simulators and 0 notes removed" in simgen("cache clear").out
    assert simgen("cache verify").code == 0


def test_data_writes_raw_floats(simgen, tmp_path):
    assert simgen("data x.bin --bytes 4K --seed 3").out == "x.bin: 4.0 KiB of float32, seed 3\n"
    values = np.fromfile(tmp_path / "x.bin", "<f4")
    assert values.shape == (1024,)
    assert ((values >= 0) & (values < 1)).all()


def test_doctor_says_what_is_missing_and_how_to_get_it(simgen):
    done = simgen("doctor --json")
    for check in done.json()["checks"]:
        assert set(check) == {"what", "ok", "fact", "cure"}
        assert check["ok"] or check["cure"], check


def test_doctor_tells_of_a_cache_that_cannot_be_written(simgen, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place in ("file", "file/deep"):
        monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / place))
        (found,) = (
            c for c in simgen("doctor --json").json()["checks"] if c["what"] == "kernel cache"
        )
        assert not found["ok"]
        assert "cannot be written" in found["fact"]
        assert "set SIMGEN_CACHE_DIR" in found["cure"]


def test_a_set_that_cannot_be_written_is_no_success(simgen, tmp_path, monkeypatch):
    monkeypatch.setattr(precompute, "build_all", lambda builder: {"ab" * 32})
    done = simgen("cache pack -o /proc/simgen")
    fails(done, 2, "/proc/simgen: No such file or directory; check the path and its permissions")


# ------------------------------------------------------------------ help


def commands(group=main.cli, above=()):
    for name, command in group.all().items():
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))
        else:
            yield (*above, name)


@census("name", list(commands()))
def test_every_command_helps(simgen, name):
    done = simgen(*name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: simgen ")
    assert simgen(*name, "-h") == done


@census("name", list(commands()))
def test_the_help_of_every_command_shows_an_example(simgen, name):
    example = rf"^ +(\w+=\S+ )?simgen {' '.join(name)}( .*)?$"
    assert re.search(example, simgen(*name, "-h").out, re.MULTILINE)


def test_the_help_of_all_commands_names_the_exit_codes(simgen):
    done = simgen("--help")
    assert done.code == 0
    assert "6 results differ" in done.out
    assert "simgen build softmax_fwd" in done.out


def test_the_version_is_one_word(simgen):
    assert simgen("--version").out == f"simgen {__version__}\n"


def test_bundles_and_results_name_the_version(simgen, tmp_path):
    assert simgen(f"build softmax_fwd {CUDA} -o b").code == 0
    assert json.loads((tmp_path / "b/manifest.json").read_text())["simgen"] == __version__
    made = bundles.load(tmp_path / "b")
    left = results.collect(made, Cuda(), run_by_hand(made))
    assert left.provenance["simgen"] == __version__


# ------------------------------------------------------------------ pipes, terminals, signals


def test_there_is_no_colour_in_a_pipe(simgen, ran):
    run_by_hand(ran, wrong)
    for line in ("list", "list targets", "show softmax_fwd", "diff net", "doctor", "--help"):
        words = [program(), *shlex.split(line)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert not {"\x1b", "\r"} & set(done.stdout + done.stderr)
        assert done.stdout


@pytest.mark.parametrize(
    "line",
    ["list", "show softmax_fwd", "show softmax_fwd --json", f"build softmax_fwd {CUDA}", "-h"],
)
def test_a_closed_pipe_ends_quietly(own_folder, line):
    reading, writing = os.pipe()
    os.close(reading)
    done = process(*shlex.split(line), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.communicate()[1] == ""
    assert done.returncode == 0


@pytest.mark.parametrize(("line", "code"), [("list layers", 0), ("build nothing", 2)])
@pytest.mark.parametrize("closed", ["<&- >&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_not_change_the_code(own_folder, line, code, closed):
    command = f"exec {shlex.quote(sys.executable)} -m simgen {line} {closed}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "error:" not in done.stdout


def test_an_error_keeps_its_code_though_nobody_reads_stdout(ran):
    run_by_hand(ran, wrong)
    reading, writing = os.pipe()
    os.close(reading)
    words = ("diff", "net", "-q")
    done = process(*words, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert "differ first in layer" in done.communicate()[1]
    assert done.returncode == 6


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (signal.SIGINT, 130, "simgen: error: interrupted"),
        (signal.SIGTERM, 143, ""),
        (signal.SIGHUP, 129, ""),
    ],
)
def test_an_interruption_is_one_line_and_its_own_code(ran, number, code, words):
    used = ran.path / "workload.json"
    with used.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as a build has it that replaces the bundle
        done = process("diff", "net", stderr=subprocess.PIPE)
        while not any(has_open(done.pid, used)):
            assert done.poll() is None
            time.sleep(0.01)
        done.send_signal(number)
        assert done.communicate()[1].strip() == words  # click ends the line of a ^C before it
    assert done.returncode == code


def test_an_interruption_of_text_that_is_executed_has_the_same_code(tmp_path):
    """As Python executes text to make a dataclass, while simgen loads a module."""
    (tmp_path / "interrupted.py").write_text(
        "from simgen.cli import main\n"
        "main.cli.main = lambda **_: exec('raise KeyboardInterrupt')\n"
        "main.main()\n"
    )
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"], env={**os.environ, "PYTHONPATH": path},
        text=True, capture_output=True,
    )  # fmt: skip
    assert done.stderr == "simgen: error: interrupted\n"
    assert done.returncode == 130


def has_open(process, path):
    """Of each file that a process has open, whether it is this one."""
    for link in Path(f"/proc/{process}/fd").glob("*"):
        with contextlib.suppress(OSError):  # closed meanwhile
            yield link.readlink() == path


def test_a_bug_is_one_line_and_exit_code_1(simgen, monkeypatch):
    from simgen.frontend import problem

    def broken(*_):
        raise ZeroDivisionError("of something")

    monkeypatch.setattr(problem, "find", broken)
    done = simgen("show softmax_fwd")
    fails(done, 1, "bug: ZeroDivisionError: of something; run again with -v")
    assert re.match(r"simgen: error: simgen/\S+\.py:\d+: bug: ", done.err)


def test_backward_needs_no_forward(simgen, tmp_path):
    made = build(tmp_path / "b", lowered_text("[Softmax]\nname=s\nn=2\nc=3\n", BOTH[1:]))
    run_by_hand(made)
    assert simgen("diff b").code == 0
