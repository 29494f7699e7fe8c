"""Messages: one line of bounded length, whatever names and values are in it."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
from census import census
from command_line import fails
from handmade import build, small

from simgen import errors
from simgen.cli import inventory, main
from simgen.errors import UsageError
from simgen.ground.storage import files, locks

ROOT = Path(__file__).resolve().parents[2]
LONG = "x" * 100_000


def test_the_middle_of_a_long_text_is_cut_out():
    assert errors.shortened("abcdefghij", 10) == "abcdefghij"
    assert errors.shortened("abcdefghijk", 10) == "abcd...ijk"
    assert all(len(errors.shortened(LONG, n)) == n for n in range(3, 50))


def test_a_message_keeps_its_place_its_fact_and_its_cure():
    made = errors.message(f"{LONG}.h5: dataset {LONG!r} is {LONG} long; build it again")
    assert len(made) <= errors.LONGEST
    for word in (".h5: dataset 'xxx", "...", " long; build it again"):
        assert word in made
    text = "place: fact; cure, " + "word " * 30
    assert errors.message(text) == text


@pytest.mark.parametrize("text", [LONG, "word " * 50_000, "\x1b[31m" * 50_000, "\udcff" * 99_999])
def test_a_message_is_one_line_of_bounded_length(text):
    made = errors.message(text)
    assert len(made) <= errors.LONGEST
    assert made.isprintable()


def test_what_is_known_is_told_in_part_where_it_is_much():
    made = errors.did_you_mean("zzz", [f"layer_{n}_{LONG}" for n in range(500)])
    assert "and 480 more" in made
    assert len(made) < 2000
    assert errors.did_you_mean(LONG, ["x", "y"]) == "known: x, y"
    assert errors.did_you_mean("softmx", ["softmax"]) == "did you mean 'softmax'?"


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("units", ["c", "num_output"], "did you mean 'num_output'?"),
        ("units", ["hidden_size", "n"], "did you mean 'hidden_size'?"),
        ("--units", ["--num-compute-units"], "did you mean '--num-compute-units'?"),
        ("units", ["c", "n", "softmax_algo"], "known: c, n, softmax_algo"),
        ("filters", ["filter_layout", "num_output"], "did you mean 'num_output'?"),
        ("channels", ["c", "h"], "did you mean 'c'?"),
        ("batch_size", ["size", "rows"], "known: rows, size"),
    ],
)
def test_a_word_of_another_tool_is_told_only_what_is_known_here(word, known, hint):
    assert errors.did_you_mean(word, known) == hint


def test_doctor_names_its_own_option(simgen):
    assert "--for 'gem5se': no such target; did you mean 'gem5-se'?" in (
        simgen("doctor --for gem5se").err
    )


@census(
    "words, code",
    [
        (("show", LONG), 2),
        (("show", "softmax_fwd", "--set", f"n={LONG}"), 2),
        (("show", "softmax_fwd", "--set", LONG), 2),
        (("show", "softmax_fwd", "--set", f"{LONG}=1"), 2),
        (("show", "softmax_fwd", "--set", "n=4 " + "5 " * 50_000), 2),
        (("show", "alexnet", "--layers", LONG), 2),
        (("show", "alexnet", "--pass", LONG), 2),
        (("show", "alexnet", "--target", LONG), 2),
        (("show", "alexnet", "--algo", LONG), 2),
        (("show", "alexnet", f"--{LONG}"), 2),
        ((LONG,), 2),
        (("build", "softmax_fwd", "--values", "\x1b[31m\u202e\udcff\n.npz"), 2),
        (("diff", "\x1b[31m\u202e\udcff\n"), 2),
        (("show", "\x1b[31m\u202e\udcff\n.dnnmark"), 2),
        (("report", "none", "-o", "\x1b[31m"), 2),
    ],
)
def test_enormous_and_odd_words_give_a_short_line(simgen, words, code):
    done = simgen(*words)
    fails(done, code)
    assert len(done.err) < errors.LONGEST + 50


# ------------------------------------------------------------------ what is no file


def test_only_regular_files_are_opened(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    assert files.read_regular(tmp_path / "file") == b"content"
    assert files.read_regular(tmp_path / "file", 7) == b"content"
    with pytest.raises(OSError, match="larger than 6 bytes"):
        files.read_regular(tmp_path / "file", 6)
    facts = {"pipe": "a pipe", "link": "a pipe", "device": "a device", ".": "a folder"}
    for name, fact in facts.items():
        with pytest.raises(files.NotRegularError, match=f"{fact}, not a file"):
            files.read_regular(tmp_path / name)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(files.NotRegularError, match="a socket, not a file"):
            files.read_regular(tmp_path / "socket")
    for name in ("loop", "none", "file/x"):
        with pytest.raises(OSError, match=name):
            files.read_regular(tmp_path / name)
    with pytest.raises(files.NotRegularError, match="not a file name"):
        files.read_regular(tmp_path / "a\0b")


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("net.dnnmark", "show net.dnnmark", 2),
        ("b/manifest.json", "diff b", 2),
        ("b/workload.json", "diff b", 7),
        ("b/data.h5", "run b", 7),
        ("b/src/prelude.h", "build softmax_fwd --set n=4 --set c=10 -t cuda -o b -q", 0),
        ("x.h5", "diff b x.h5", 2),
        ("x.npz", "build softmax_fwd --values x.npz", 2),
    ],
)
def test_a_pipe_without_a_writer_does_not_hang(simgen, tmp_path, monkeypatch, name, words, code):
    from simgen.targets.cuda import NvidiaGpu

    build(tmp_path / "b", small())
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    done = simgen(words)
    assert done.code == code, done
    if code:
        fails(done, code)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_not_cured_by_permissions(number):
    error = OSError(number, os.strerror(number))
    told = str(locks._unwritable(error))
    assert "writable" not in told
    assert told.endswith(("free some space", "raise the limit (ulimit -f)"))
    denied = OSError(errno.EACCES, os.strerror(errno.EACCES))
    assert str(locks._unwritable(denied)).endswith("make the bundle's folder writable")


def test_no_memory_is_no_bug(simgen, monkeypatch):
    def none(*given, **more):
        raise MemoryError

    monkeypatch.setattr(inventory.list_, "invoke", none)
    done = simgen("list")
    fails(done, 3, "memory")
    assert "bug" not in done.err


def context(command):
    """As the command line has it: a command keeps the option for help that it makes first."""
    return click.Context(command, **main.cli.context_settings)


RANGE = re.compile(r"\[(above )?-?\d[\d.]*( to \d+| or more)?\]")  # as help tells it


def numeric_options(command=main.cli, words=()):
    """(command, option) of all that take a number."""
    if isinstance(command, click.Group):
        for name, each in command.all().items():
            yield from numeric_options(each, (*words, name))
        return
    for param in command.get_params(context(command)):
        numeric = isinstance(param.type, click.types.IntParamType | click.types.FloatParamType)
        # Those of simgen.ask are read as a whole: tests/plain/test_ask.py.
        told = param.callback and RANGE.search(getattr(param, "help", None) or "")
        if numeric or told:
            yield pytest.param(command, param, id=" ".join((*words, param.name)))


@pytest.mark.parametrize(("command", "param"), list(numeric_options()))
def test_numbers_have_a_bound(command, param):
    for text in ("9" * 40, "9" * 5000, "-" + "9" * 40, "1e400", "nan"):
        with pytest.raises((click.BadParameter, UsageError)):
            param.process_value(context(command), text)


def test_sizes_have_a_bound(simgen, tmp_path):
    for text in ("9" * 40, "9" * 5000, "9" * 5000 + "G"):
        fails(simgen("new", "data", str(tmp_path / "x"), "--bytes", text), 2, "not a size")


def test_output_on_a_full_disk_is_told_as_that(tmp_path, monkeypatch):
    """The system names no file where `simgen list > FILE` cannot write."""
    with (tmp_path / "out").open("w") as file:
        before = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            assert main._unnamed() == "file system"
            monkeypatch.setattr(os, "fstatvfs", lambda _: os.statvfs_result((0,) * 10))
            assert main._unnamed() == "standard output"
        finally:
            os.dup2(before, 1)
            os.close(before)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_that_comes_while_python_cleans_up_is_not_lost(name, code):
    program = f"""
import signal, time, weakref
from simgen.cli import main
class Held: pass
def command(**_):
    held = Held()
    kept = weakref.ref(held, lambda _: signal.raise_signal(signal.{name}))
    del held
    time.sleep(60)
main.cli.main = command
signal.signal(signal.SIGINT, signal.default_int_handler)
main.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == code
    assert done.stderr == ("simgen: error: interrupted\n" if code == 130 else "")


def test_an_interruption_while_modules_are_loaded_is_told_in_one_line(tmp_path):
    """Whatever module is met: `click` here, which simgen's own cannot do without."""
    (tmp_path / "click.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.raise_signal(signal.SIGINT)\n"
        f"sys.path[:] = [each for each in sys.path if each not in ('', {str(tmp_path)!r})]\n"
        "del sys.modules['click']\n"
        "import click\n"
        "sys.modules['click'] = click\n"
    )
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "simgen", "list"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "simgen: error: interrupted\n")
