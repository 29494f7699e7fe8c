"""What simgen.running.process makes of a process: its lines, its notices, its time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from simgen.errors import RunError
from simgen.running.process import _end, _Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[[str], subprocess.Popen[str]]

pytestmark = pytest.mark.skipif(not shutil.which("sh"), reason="no sh")


@pytest.fixture
def start() -> Iterator[Start]:
    started = []

    def run(script: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["sh", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        _end(process)


def test_a_notice_is_told_while_the_run_goes_on(start: Start) -> None:
    told: list[str] = []

    def say(line: str) -> None:
        told.append(line)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGTERM)  # it would wait for ever

    process = start("echo 'simgen: t: building ...'; exec sleep 60")
    _Output(process, None, 0, None, say).wait()
    assert told == ["simgen: t: building ..."]


def test_errors_and_other_lines_are_no_notices(start: Start) -> None:
    told: list[str] = []
    script = "echo one; echo 'simgen: error: t: two; three'; printf four; exit 3"
    process = start(script)
    text = _Output(process, None, 0, None, told.append).wait()
    assert text == "one\nsimgen: error: t: two; three\nfour"
    assert (told, process.returncode) == ([], 3)


def test_a_run_that_takes_too_long_is_an_error(start: Start) -> None:
    with pytest.raises(RunError, match=r"longer than 0\.1 s; give it more with --timeout"):
        _Output(start("exec sleep 60"), 0.1, 0, None, None).wait()


def test_what_is_prepared_first_does_not_count(start: Start) -> None:
    script = "echo 'simgen: t: building ...'; sleep 1.5; echo 'simgen: t: built'; {}"
    assert _Output(start(script.format("true")), 1, 0, None, None).wait().count("\n") == 2
    with pytest.raises(RunError, match="longer than 1 s"):
        _Output(start(script.format("exec sleep 60")), 1, 0, None, None).wait()


def test_a_target_that_ends_itself_gets_the_time_to_say_where_it_was(start: Start) -> None:
    process = start("sleep 0.5; echo 'simgen: error: t: kernel k took longer'; exit 51")
    assert "kernel k" in _Output(process, 0.1, 30, None, None).wait()


def test_a_process_that_is_left_behind_does_not_keep_the_run(start: Start) -> None:
    process = start("sleep 60 & echo done")
    assert _Output(process, 30, 0, None, None).wait() == "done\n"
    assert process.returncode == 0


def test_time_is_told_while_it_passes(start: Start) -> None:
    seen: list[float] = []
    _Output(start("sleep 0.5"), None, 0, seen.append, None).wait()
    assert seen
    assert seen == sorted(seen)


def test_what_is_prepared_is_told_while_it_takes_time(start: Start) -> None:
    seen: list[tuple[str, float]] = []
    process = start("echo 'simgen: t: building x (once) ...'; sleep 1; echo 'simgen: t: built'")
    ticks: list[float] = []
    _Output(process, None, 0, ticks.append, None, lambda *told: seen.append(told)).wait()
    assert {what for what, _ in seen} == {"building x (once)"}
    assert [passed for _, passed in seen] == sorted(passed for _, passed in seen)
