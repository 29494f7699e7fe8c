"""The frame of every run.sh (templates/targets/run.sh.j2), by the example of the host target."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_host import numbers, scale_bundle

from simgen.ground.storage import seal
from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import HostBundle

    Make = Callable[..., HostBundle]

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)


@pytest.mark.parametrize("folder", ["a b", "it's", 'q"uote', "-dash", "$HOME", "new\nline", "ünï"])
def test_run_sh_works_in_any_folder(host_bundle: Make, folder: str) -> None:
    bundle = scale_bundle(host_bundle, folder=folder)
    assert (bundle.good()["a.y"] == 2 * numbers(10, 64)).all()
    closed = seal.read_seal(bundle.results)
    assert closed.workload == "0" * 64
    assert set(closed.files) == {"outputs.bin", "launches.csv", "log.txt"}
    seal.check(bundle.results, closed)
    assert {p.name for p in bundle.results.iterdir()} == {
        "outputs.bin", "launches.csv", "log.txt", "complete",
    }  # fmt: skip
    for command, where in (
        (["./run.sh"], bundle.script.parent),
        (["sh", "run.sh"], bundle.script.parent),
    ):
        shutil.rmtree(bundle.path / "results")
        assert subprocess.run(command, cwd=where).returncode == 0
        assert [p.name for p in (bundle.path / "results").iterdir()] == ["host"]


def test_run_sh_takes_no_path_of_this_machine(host_bundle: Make) -> None:
    bundle = scale_bundle(host_bundle)
    everything = bundle.script.read_bytes() + bundle.program.read_bytes()
    assert str(bundle.path).encode() not in everything
    assert str(Path(__file__).parents[2]).encode() not in everything


def test_a_second_run_takes_the_place_of_the_first(host_bundle: Make) -> None:
    bundle = scale_bundle(host_bundle)
    bundle.good()
    (bundle.results / "stale").touch()
    bundle.good()
    assert not (bundle.results / "stale").exists()
    assert [p.name for p in (bundle.path / "results").iterdir()] == ["host"]


ENDLESS = (
    64,
    """
KERNEL(64, scale)
{
    volatile unsigned more = 1;
    while (more)
        ;
    y[threadIdx.x] = x[threadIdx.x];
}
""",
)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_result_and_no_process(
    host_bundle: Make, how: signal.Signals
) -> None:
    x = numbers(64)
    launches = [("scale", (2, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle({"scale": ENDLESS}, launches, {"a.x": x}, {"a.y": (64,)})
    process = subprocess.Popen(["sh", str(bundle.script)], stderr=subprocess.DEVNULL)
    programs = wait_until(lambda: found if len(found := running(bundle.program)) >= 2 else None)
    process.send_signal(how)
    if how is signal.SIGKILL:
        # The program goes on without its script; ending it ends its workers.
        process.wait(timeout=30)
        os.kill(min(programs), signal.SIGKILL)
    else:
        assert process.wait(timeout=30) == 128 + how
        assert list((bundle.path / "results").iterdir()) == []
    wait_until(lambda: not running(bundle.program) or None)
    assert not bundle.results.exists()


def test_a_second_run_of_the_result_is_refused_while_the_first_goes_on(
    host_bundle: Make,
) -> None:
    launches = [("scale", (2, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle({"scale": ENDLESS}, launches, {"a.x": numbers(64)}, {"a.y": (64,)})
    (bundle.path / "workload.json").write_text("{}")
    first = subprocess.Popen(["sh", str(bundle.script)], stderr=subprocess.DEVNULL)
    programs = wait_until(lambda: found if len(found := running(bundle.program)) >= 2 else None)

    def second(**variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **variables}
        words = ["timeout", "5", "sh", str(bundle.script)]
        return subprocess.run(words, env=environment, capture_output=True, text=True)

    refused = second()
    assert refused.returncode == 4
    assert refused.stderr == (
        f"simgen: error: host: a run on host is under way (process {first.pid}); "
        "wait until it ends, or stop it\n"
    )
    assert second(SIMGEN_RESULT="host@b").returncode == 124, "another result is made at once"
    first.kill()
    first.wait(timeout=30)
    assert second().returncode == 4, "its program still works on the result"
    os.kill(min(programs), signal.SIGKILL)
    wait_until(lambda: not running(bundle.program) or None)
    assert second().returncode == 124
    wait_until(lambda: not running(bundle.program) or None)


def test_run_sh_works_without_flock_and_sha256sum(host_bundle: Make, tmp_path: Path) -> None:
    bundle = scale_bundle(host_bundle)
    (tmp_path / "bin").mkdir()
    for name in ("sh", "dd", "tr", "wc", "mkdir", "mv", "rm", "cp", "sed", "uname", "cat"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    shell = tmp_path / "bin/sh"
    done = subprocess.run(
        [str(shell), str(bundle.script)],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert seal.read_seal(bundle.results) == seal.Seal("0" * 64, {})
    assert [p.name for p in (bundle.path / "results").iterdir()] == ["host"]


def test_a_worker_that_is_killed_ends_the_run(host_bundle: Make) -> None:
    bundle = host_bundle(
        {"scale": ENDLESS},
        [("scale", (2, 1, 1), ("a.x", "a.y"))],
        {"a.x": numbers(64)},
        {"a.y": (64,)},
    )
    process = subprocess.Popen(["sh", str(bundle.script)], stderr=subprocess.PIPE, text=True)
    programs = wait_until(lambda: found if len(found := running(bundle.program)) >= 2 else None)
    os.kill(max(programs), signal.SIGKILL)
    _, line = process.communicate(timeout=30)
    assert process.returncode == 5
    assert line == "simgen: error: kernel scale: a worker was killed by signal 9\n"
    assert running(bundle.program) == []


def wait_until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + 30
    while (value := condition()) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def running(program: Path) -> list[int]:
    """Processes of the program, zombies too where their parent is one."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "exe").resolve(strict=True) == program.resolve():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("program", [b"", b"#!/bin/sh\n", b"#!/bin/sh\n: >$2\necho a >$3\n"])
def test_a_program_that_ends_well_and_wrote_less_takes_no_place(
    host_bundle: Make, program: bytes
) -> None:
    """As one of which a power cut left an empty file."""
    bundle = scale_bundle(host_bundle)
    bundle.good()
    before = {path.name: path.read_bytes() for path in bundle.results.iterdir()}
    bundle.program.write_bytes(program)
    done = bundle.run()
    assert done.returncode == 5
    wanted = (bundle.results / "outputs.bin").stat().st_size
    assert done.stderr == (
        f"simgen: error: host: the program ended well and left 0 of {wanted} bytes of outputs; "
        "read results/failed-host/log.txt\n"
    )
    assert {path.name: path.read_bytes() for path in bundle.results.iterdir()} == before


def test_a_program_that_lists_too_few_launches_takes_no_place(host_bundle: Make) -> None:
    bundle = scale_bundle(host_bundle)
    bundle.good()
    before = {path.name: path.read_bytes() for path in bundle.results.iterdir()}
    text = '#!/bin/sh\ncp ../results/host/outputs.bin "$2"\necho kernel,seconds >"$3"\n'
    bundle.program.write_text(text)
    done = bundle.run()
    assert done.returncode == 5
    assert "the program ended well and listed 0 of 1 launches" in done.stderr
    assert {path.name: path.read_bytes() for path in bundle.results.iterdir()} == before
