"""Compilers have limits, whatever they are given, and end with their parent."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simgen.errors import UsageError
from simgen.isa import child, toolchain

ENDLESS = ".rept 2000000000\ns_nop 0\n.endr\n"


@pytest.mark.parametrize(
    ("text", "limit", "value", "fact"),
    [
        (ENDLESS, "SECONDS", 1, "1 s of a processor"),
        (ENDLESS, "WALL_SECONDS", 1, "1 s;"),
        (".macro m\nm\nm\n.endm\nm\n", "FILE_NBYTES", 1 << 20, "1 MiB for a file"),
        (ENDLESS, "MEMORY_NBYTES", 1 << 30, "1 GiB of memory"),
    ],
)
def test_a_compiler_that_does_not_end_is_refused_in_one_line(monkeypatch, text, limit, value, fact):
    monkeypatch.setattr(child, limit, value)
    with pytest.raises(UsageError, match=f"^mine.s: the compiler takes more than {fact}") as caught:
        toolchain.assemble_foreign(text, "gfx942", "mine.s")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not shutil.which("setpriv"), reason="util-linux is not here")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_compilers_end_when_their_parent_does(tmp_path, how):
    """Those of threads too, for which a parent that is asked to end would wait."""
    program = (
        "import signal\n"
        "from simgen import errors\n"
        "from simgen.isa import child, toolchain\n"
        "errors.end_by_signals()\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with child.pool(2) as pool:\n"
        "    list(pool.map(lambda name: toolchain.assemble_foreign(\n"
        f"        {ENDLESS!r}, 'gfx942', name), ['a.s', 'b.s', 'c.s']))\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", program], env=env)

    def compilers() -> list[Path]:
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if str(tmp_path) in os.readlink(each / "cwd"):
                    found.append(each)
            except OSError:
                continue
        return found

    end = time.monotonic() + 60
    while not compilers() and time.monotonic() < end:
        time.sleep(0.05)
    assert compilers()
    parent.send_signal(how)
    parent.wait(timeout=60)
    while compilers() and time.monotonic() < end:
        time.sleep(0.05)
    assert not compilers()


SCRIPT = """
trap 'touch asked; kill $!; exit' TERM
sleep 600 2>/dev/null &
echo started
wait
"""
RUN = """
from pathlib import Path
from simgen.running import process
started = process._start(Path("run.sh"), {}, ())
for line in started.stdout:
    print(line, end="", flush=True)
"""
SWEEP = """
from simgen.running.workflow import engine
started = engine._started(["sh", "-c", "sh -c 'echo started; sleep 600; exit 3' & wait $!"])
for line in started.stdout:
    print(line, end="", flush=True)
engine._release(started)
raise SystemExit(started.wait())
"""


@pytest.mark.skipif(not shutil.which("setpriv"), reason="util-linux is not here")
def test_run_sh_is_asked_to_end_when_simgen_is_killed(tmp_path):
    (tmp_path / "run.sh").write_text(SCRIPT)
    parent = subprocess.Popen(
        [sys.executable, "-c", RUN], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout.readline() == "started\n"
    parent.kill()
    end = time.monotonic() + 60
    while not (tmp_path / "asked").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "asked").exists()
    parent.communicate(timeout=60)


def test_a_workflow_and_its_jobs_end_when_simgen_is_killed():
    """Jobs that ignore SIGINT, too, as shells have them."""
    words = [sys.executable, "-c", SWEEP]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "started\n"
        assert sleepers()
        parent.kill()
    end = time.monotonic() + 60
    while sleepers() and time.monotonic() < end:
        time.sleep(0.05)
    assert not sleepers()


def sleepers() -> list[Path]:
    words = b"sh\0-c\0echo started; sleep 600; exit 3\0"
    return [each for each in Path("/proc").glob("[0-9]*/cmdline") if words == content(each)]


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_workflow_that_ends_leaves_its_guard_nothing_to_do():
    done = subprocess.run(
        [sys.executable, "-c", SWEEP.replace("; sleep 600", "")], capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, "started\n", "")
