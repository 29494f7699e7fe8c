"""The command line: its commands, and how it ends.

Whatever happens, the user gets one line on stderr and the exit code of the class of error.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import click

from simgen import errors
from simgen.cli.options import Commands
from simgen.errors import OTHERWISE, SYNONYMS, SimgenError, did_you_mean

INTERRUPTED = 130
PACKAGE = Path(__file__).resolve().parents[1]
MOST_LINES = 100  # compiler lines in the message of a bug


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from simgen.ground.version import version

        click.echo(f"simgen {version(exactly=True)}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version,
    help="Show the version and exit.",
)  # fmt: skip
def cli() -> None:
    """Run deep-learning workloads on GPU simulators, and check the results.

    \b
    simgen build softmax_fwd  make a bundle: programs, kernels, data, scripts
    simgen run   softmax_fwd  run it on a GPU simulator, this CPU or a GPU
    simgen diff  softmax_fwd  check the result

    \b
    Exit codes: 0 done, 1 a bug in simgen, 2 wrong usage or config, 3 something is
    missing here, 4 refused before running, 5 the run failed, 6 results differ,
    7 a damaged file, 130 interrupted.
    """


# In the order of the help, by group: where each lies, a function of the same name in a module of
# this room. None: another package has it.
GROUPS: dict[str, dict[str, str | None]] = {
    "Make": {
        "build": "pipeline",
        "new": "creating",
        "export": "exporting",
    },
    "Run": {
        "run": "pipeline",
        "quick": "quickly",
        "sweep": "sweep_files",
        "status": "standing",
        "study": "studying",
    },
    "Judge": {"diff": "comparing", "report": "comparing"},
    "Examine a simulator": {
        "lint": "linting",
        "legalise": "legalising",
        "conform": None,
        "bisect": None,
        "rates": "rating",
    },
    "Look up": {
        "show": "inventory",
        "list": "inventory",
        "doctor": "inventory",
        "cache": "inventory",
        "config": "configuring",
    },
}
cli.groups = {title: tuple(group) for title, group in GROUPS.items()}
cli.unlisted = {"collect": "sweep_files"}
cli.moved = {
    "data": ("new", "data"),
    "synthesise": ("new", "network"),
    "score": ("report", "--score"),
}
cli.below = {name: module for group in GROUPS.values() for name, module in group.items()}


def main() -> None:
    """Entry point: one line and the right exit code, whatever happens."""
    # Python has None in place of a stream that was closed before it started.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may be no text
    errors.end_by_signals()
    sys.unraisablehook = _again
    from simgen.cli import answers

    answers.begin()
    logging.basicConfig(format="simgen: %(message)s")
    with _one_line_errors():
        if sys.platform != "linux" or os.uname().machine != "x86_64":
            _fail(f"this machine: {sys.platform} is not Linux on x86-64; use a container", 3)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see simgen/__main__.py
        code = cli.main(prog_name="simgen", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except SimgenError as error:
        _fail(str(error), error.exit_code, type(error).__name__)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        place = f"{error.ctx.command_path}: " if getattr(error, "ctx", None) else ""  # type: ignore[attr-defined]
        message, cure = error.format_message().rstrip("."), "see --help"
        if isinstance(error, click.NoSuchOption):  # which each version of click words otherwise
            message = f"No such option: {error.option_name}"
            cure = _cure(error) or cure
        elif isinstance(error, click.MissingParameter) and error.ctx:
            pieces = error.ctx.command.collect_usage_pieces(error.ctx)
            cure = f"usage: {' '.join([error.ctx.command_path, *pieces])}"
        _fail(f"{place}{message}; {cure}", 2)
    except (KeyboardInterrupt, click.Abort):
        # Python ends `-m simgen` by the signal all the same where it met text that was executed, as
        # dataclasses are made of. Text that is executed after that has it forget.
        exec("")  # noqa: S102
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _stop_printing()
    except SystemExit as stop:
        # click and rich end with 1 when nobody reads any more; here that would mean a bug.
        if stop.code != 1:
            raise
        _stop_printing()
    except OSError as error:
        cure = errors.cure_of(error, "check the path and its permissions")
        place = os.fsdecode(error.filename) if error.filename else _unnamed()
        _fail(f"{place}: {error.strerror or error}; {cure}", 3 if errors.is_full(error) else 2)
    except MemoryError:
        _fail("memory: this process may have no more; free some, or make the workload smaller", 3)
    except Exception as error:
        if "-v" in sys.argv or "--verbose" in sys.argv:
            raise
        from simgen.ground.version import version

        fact = f"{type(error).__name__}: {error}"
        cure = f"run again with -v and report it, of simgen {version()}"
        _fail(f"{_raised(error)}: bug: {fact}; {cure}", 1)


def _raised(error: Exception) -> str:
    """The line of simgen that an error comes from, below the folder of the package."""
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if Path(line.filename).is_relative_to(PACKAGE)]
    return f"{Path(own[-1].filename).relative_to(PACKAGE.parent)}:{own[-1].lineno}"


def _cure(error: click.NoSuchOption) -> str:
    near, word = _near(error), error.option_name.lower().lstrip("-").replace("-", "_")
    if near and word in {**SYNONYMS, **OTHERWISE}:
        return near
    meant = [each for each in SYNONYMS.get(word, ()) if each.startswith("--")]
    return (
        _elsewhere(error, error.option_name)
        or next(filter(None, (_elsewhere(error, each, told=True) for each in meant)), "")
        or _passed_on(error)
        or near
    )


def _near(error: click.NoSuchOption) -> str:
    """Which option of the command was meant; empty: none resembles it."""
    if error.ctx is None:
        return ""
    params = error.ctx.command.get_params(error.ctx)
    known = [name for each in params for name in (*each.opts, *each.secondary_opts)]
    cure = did_you_mean(error.option_name, [name for name in known if name.startswith("-")])
    return "" if cure.startswith(("known: ", "none is")) else cure


def _elsewhere(error: click.NoSuchOption, option: str, *, told: bool = False) -> str:
    """Which commands have an option, which is `told` by name; empty: none has."""
    if error.ctx is None or not isinstance(group := error.ctx.find_root().command, click.Group):
        return ""
    context = error.ctx.find_root()
    commands = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    owners = [
        f"simgen {name}"
        for name, each in commands
        if each and any(option in param.opts for param in each.get_params(context))
    ]
    verb = "has" if len(owners) == 1 else "have"
    return f"{', '.join(owners[:3])} {verb} {option if told else 'it'}" if owners else ""


def _passed_on(error: click.NoSuchOption) -> str:
    """How `run` passes an option on to a target's own program; empty: it does not."""
    if error.ctx is None or error.ctx.command.name != "run":
        return ""
    from simgen.running import runs
    from simgen.targets import TARGETS

    return runs.passing(error.option_name, TARGETS.values())


def _again(ignored: sys.UnraisableHookArgs) -> None:
    """A signal that comes while Python cleans up is ignored there; it comes once more."""
    error = ignored.exc_value
    if isinstance(error, KeyboardInterrupt):
        number = signal.SIGINT
    elif isinstance(error, SystemExit) and error.code in [128 + each for each in errors.ENDING]:
        number = signal.Signals(int(error.code) - 128)
    else:
        sys.__unraisablehook__(ignored)
        return
    timer = threading.Timer(0.01, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def _unnamed() -> str:
    """Where the system tells no file: stdout, if that is one on a full disk."""
    full = stat.S_ISREG(os.fstat(1).st_mode) and not os.fstatvfs(1).f_bavail
    return "standard output" if full else "file system"


def _stop_printing() -> None:
    """End well although the reader of stdout has gone, as `head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(0)


KINDS = {1: "SimgenError", 2: "UsageError", 3: "MissingError", INTERRUPTED: "Interrupted"}


def _fail(message: str, code: int, kind: str = "") -> None:
    from simgen.cli import answers

    if code == 1:  # a bug may show the compiler's lines
        lines = message.splitlines()
        kept = lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."]
        message = "\n".join(map(errors.message, kept))
    else:
        message = errors.message(message)
    with contextlib.suppress(BrokenPipeError):
        answers.fail(message, kind or KINDS.get(code, KINDS[1]), code)
        sys.stdout.flush()
    print(f"simgen: error: {message}", file=sys.stderr)
    sys.exit(code)
