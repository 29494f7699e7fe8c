"""A command line of apu_se.py as people post it: which commands of simgen do the same.

Lines are those of gem5-resources' README files, of artifacts and of mailing lists: docker, its
image, gem5 with options of its own, apu_se.py with its options, a program and what it is given.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.choice import option
from simgen.errors import UsageError, printable
from simgen.isa.legalise import history
from simgen.targets.gem5 import apu_se, script_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.targets.gem5.script_options import ScriptOption

SCRIPT = "apu_se.py"
PROGRAM = re.compile(r"(?:.*/)?build/(\w+)/gem5\.\w+|(?:.*/)?gem5\.(?:opt|fast|debug)")
IMAGE = re.compile(r"\S*gcn-gpu(?:[:_-]v?(\d+)[-.](\d+)\S*|:\S+)?")
LAUNCHED = "the program that simgen launches needs one CPU and no runtime"
NEWEST_GCN3 = "23.1"
ENDS = ";&|\n"  # a command
# What word processors and web pages make of a line.
TYPESET = str.maketrans({"\u00a0": " ", "\u2013": "-", "\u2014": "--", "\u201c": '"', "\u201d": '"',
                         "\u2018": "'", "\u2019": "'"})  # fmt: skip
FULL_SYSTEM = "a full system is the target gem5-fs of simgen build"
OTHER_SCRIPTS = {
    **dict.fromkeys(("se.py", "fs.py"), "the script of the line simulates no GPU"),
    **dict.fromkeys(("mi200.py", "mi300.py", "vega10.py", "vega10_kvm.py", "hip_rodinia.py",
                     "hip_samples.py", "hip_cookbook.py"), FULL_SYSTEM),
}  # fmt: skip
LONG = {"-u": "--num-compute-units", "-c": "--cmd", "-o": "--options", "-n": "--num-cpus"}
CHECKOUT = "GEM5=FOLDER, of the checkout that it is built in"
BUILDS = {
    **dict.fromkeys(("", "VEGA_X86", "GCN3_X86"), CHECKOUT),
    "HSAIL_X86": "gem5 to 19, whose GPU runs no machine code: build VEGA_X86 of a later one",
    **dict.fromkeys(("X86", "ARM", "RISCV", "NULL"), "a gem5 without a GPU: build VEGA_X86"),
}
OWN_BUILD = f"{CHECKOUT}, and GEM5_BINARY=PATH of this build"
UNKNOWN = re.compile(r"[$`<]")  # beginnings of what a shell, or a person, puts there
OLD = {"gfx801": "gfx801", "gfx803": "gfx803"}  # GPUs of GCN3_X86


@dataclass
class Posted:
    """What becomes of a line."""

    rows: list[tuple[str, str]] = field(default_factory=list)  # a word, and what it becomes
    workload: str = ""  # empty: simgen has none for the program
    version: str = ""
    arch: str = ""
    family: str = ""  # family of the build: VEGA_X86 or GCN3_X86
    is_discrete: bool = False
    passes: str = ""
    run: list[str] = field(default_factory=list)

    def commands(self) -> list[str]:
        """The commands of simgen; none where there is no workload."""
        if not self.workload:
            return []
        name = Path(self.workload).stem
        build = ["simgen", "build", self.workload, "--target", "gem5-se"]
        build += [option("gem5_version"), self.version, option("arch"), self.arch]
        build += ["--pass", self.passes] if self.passes else []
        run = ["simgen", "run", name, "--on", "gem5-se", *self.run]
        return [shlex.join(build), shlex.join(run), shlex.join(["simgen", "diff", name])]


def read(line: str, is_workload: Callable[[str], bool] = bool) -> Posted:
    """Read a line.

    Parameters:
        is_workload: whether simgen has a workload of this name.

    Raises:
        UsageError: it is no line for a shell, or has no apu_se.py in it.
    """
    try:
        words = _words(line.strip().removeprefix("$"))
    except ValueError as error:
        raise UsageError(
            f"{printable(line)}: no command line ({error}); check its quotes"
        ) from None
    at = next((n for n, word in enumerate(words) if Path(word).name == SCRIPT), None)
    if at is None:
        script = next((Path(each).name for each in words if each.endswith(".py")), "")
        cure = "write the line from gem5 on"
        raise UsageError(f"{printable(line)}: has no {SCRIPT}; {OTHER_SCRIPTS.get(script, cure)}")
    found = Posted()
    _before(words[:at], found)
    given = _options(words[at + 1 :], found)
    _settle_gpu(given, found)
    _after(given, found, is_workload)
    return found


def _words(line: str) -> list[str]:
    """A line's words; what `bash -c` is given is read as a line, too."""
    plain = re.sub(r"\\[ \t\r]*\n|\d?>&\d", " ", line.translate(TYPESET))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=ENDS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words = []
    for word in lexer:
        words += _words(word) if re.search(rf"{SCRIPT}\s", word) else [word]
    return words


def _before(words: list[str], found: Posted) -> None:
    """Docker, its image, gem5, and gem5's own options."""
    programs = [n for n, word in enumerate(words) if PROGRAM.fullmatch(word)]
    program = programs[-1] if programs else None  # the others are what scons made
    for word in words[:program]:
        image = IMAGE.fullmatch(word)
        if image:
            if image[1]:
                found.version = f"{image[1]}.{image[2]}"
            found.rows.append((word, "the Docker image: SIMGEN_DOCKER=1 runs gem5 in it"))
    if program is None:
        return
    build = PROGRAM.fullmatch(words[program])
    found.family = (build and build[1]) or ""
    found.rows.append((words[program], BUILDS.get(found.family, OWN_BUILD)))
    rest = words[program + 1 :]
    table = script_options.options(script_options.OWN)
    while rest:
        word, value = _taken(rest, table)
        cure = script_options.UNUSABLE.get(word)
        if cure:
            found.rows.append((_shown(word, value), cure))
        elif word.startswith("-"):
            _pass_on(word, value, found)


def _options(words: list[str], found: Posted) -> dict[str, tuple[str, str]]:
    """apu_se.py's options: each as the line has it -> its full name and its value.

    The last one counts of those that are given more than once.
    """
    table = script_options.options(script_options.SCRIPT)
    rest = list(words)
    given: dict[str, tuple[str, str]] = {}
    while rest:
        if not rest[0].startswith("-"):  # a pipe, or what follows the program
            after = " ".join(rest).strip()
            shell = rest[0][0] in f"{ENDS}<>"
            if after:
                fact = "left out: the shell's" if shell else "not an option of apu_se.py"
                found.rows.append((after, fact))
            break
        is_empty = rest[0].endswith("=")
        word, value = _taken(rest, table)
        shown = _shown(word, value)
        name = word if word in table else script_options.set_by(word, apu_se.SET, table) or word
        if word not in table and sum(each.startswith(word) for each in table) > 1:
            found.rows.append((shown, "left out: apu_se.py has several options that begin so"))
            continue
        if word in table and table[word].takes_value and not value and not is_empty:
            found.rows.append((shown, "left out: its value is missing"))
            continue
        name = LONG.get(name, name)
        for old in [each for each, (known, _) in given.items() if known == name != "--param"]:
            del given[old]
            found.rows.append((old, f"left out: {shown} follows"))
        given[shown] = (name, value)
    return given


def _settle_gpu(given: dict[str, tuple[str, str]], found: Posted) -> None:
    """The version and the GPU: what the line says, or gem5's defaults of that time."""
    options = dict(given.values())
    found.is_discrete = "--dgpu" in options
    arch = options.get("--gfx-version", "")
    is_old = found.family == "GCN3_X86" or arch in OLD
    if found.version not in apu_se.VERSIONS:
        was, found.version = found.version, NEWEST_GCN3 if is_old else "24.0"
        if was:
            cure = f"{option('gem5_version')} {found.version}: simgen has no gem5 {was}"
            found.rows.append((f"gem5 {was}", cure))
    if not arch:
        arch = ("gfx803" if found.is_discrete else "gfx801") if is_old else "gfx902"
        if found.is_discrete and not is_old:
            arch = "gfx900"
    if arch not in apu_se.VERSIONS[found.version].gpus:
        gpus = apu_se.VERSIONS[found.version].gpus
        found.rows.append((f"{arch} on gem5 {found.version}", f"not there; {gpus[0]} in its place"))
        arch = gpus[0]
    found.arch = arch


def _after(
    given: dict[str, tuple[str, str]], found: Posted, is_workload: Callable[[str], bool]
) -> None:
    """What apu_se.py's options become."""
    program, arguments = "", ""
    for shown, (name, value) in given.items():
        if name == "--cmd":
            program = value
        elif name == "--options":
            arguments = value
        elif name in ("--gfx-version", "--dgpu"):
            found.rows.append((shown, f"{option('arch')} {found.arch}"))
        elif name == "--num-cpus":
            found.rows.append((shown, f"left out: {LAUNCHED}"))
        elif name in ("-e", "--env", "-h", "--help", "--benchmark-root"):
            found.rows.append((shown, "left out: simgen makes the program itself"))
        elif name in apu_se.SET and UNKNOWN.search(value):
            found.rows.append((shown, f"{name} NUMBER of simgen run: write what {value} is"))
        elif name in apu_se.SET:
            found.run += [name, value]
            found.rows.append((shown, f"{name} {value} of simgen run"))
        else:
            _pass_on(name, value, found)
    _name_workload(program, arguments, found, is_workload)


def _name_workload(
    program: str, arguments: str, found: Posted, is_workload: Callable[[str], bool]
) -> None:
    name = Path(program).name
    config = re.search(r"(?:^|\s)-{1,2}config[\s=](\S+)", arguments)
    test = re.fullmatch(r"(?:dnnmark_)?test_(?:(fwd|bwd)_)?(\w+)", name)
    shown = f"-c {program}" if program else "no -c"
    if config and os.path.isfile(config[1]):
        found.workload = config[1]
        found.passes = (test and test[1]) or ""
        found.rows.append((f"{shown} … -config {config[1]}", f"the workload {config[1]}"))
    elif test and is_workload(name):
        found.workload = name
        said = "; to have the sizes of -config, name that file in its place" if config else ""
        found.rows.append((shown, f"the workload {name}{said}"))
    elif name == "MIOpenDriver" and arguments:
        line = shlex.quote(f"{name} {arguments}")
        found.rows.append((shown, f"simgen build {line} makes the layer"))
    elif test:
        cure = "give simgen build the file of its -config, or name a workload of simgen list"
        found.rows.append((shown, f"no workload: {cure}"))
    else:
        cure = "describe the launches of its kernels in a .toml (docs/own-kernels.md)"
        found.rows.append((shown, f"no workload: {cure}"))
    if "-mmap" in arguments:
        found.rows.append(("-mmap", "data.h5 of the bundle"))


def _pass_on(word: str, value: str, found: Posted) -> None:
    text = f"{word}={value}" if value else word
    flag = option("gem5_arg")
    if fault := script_options.fault(text, apu_se.SET):
        found.rows.append((text, fault.partition(": ")[2]))
        return
    if UNKNOWN.search(value):
        found.rows.append((text, f"{flag}={word}=VALUE: write what {value} is"))
        return
    locked = word == "--WB_L2" and history.deadlock(found.version, found.arch, atomics=True)
    if locked:
        found.rows.append((text, f"gem5 {found.version} {locked.does}; {locked.cure}"))
        return
    found.run.append(f"{flag}={text}")
    known = script_options.options(
        script_options.OWN if script_options.goes_before_the_script(word) else script_options.SCRIPT
    ).get(word)
    if known is None:
        found.rows.append((text, f"{flag}={text}; no gem5 up to 24.1 has it, so set GEM5 to yours"))
    elif not known.is_in(found.version):
        found.rows.append((text, f"{flag}={text}; gem5 {found.version} lacks it, from {known.first}"
                                 f"{f' to {known.last}' if known.last else ''}"))  # fmt: skip
    else:
        found.rows.append((text, f"{flag}={text}"))


def _taken(words: list[str], table: Mapping[str, ScriptOption]) -> tuple[str, str]:
    """Take an option with its value from the front of `words`, as argparse does."""
    first = words.pop(0)
    word, equals, value = first.partition("=")
    if not equals and not word.startswith("--") and len(word) > 2 and word[:2] in table:
        return word[:2], word[2:]
    known = table.get(word)
    if known is None and word.startswith("--"):
        longer = [each for each in table if each.startswith(word)]
        if len(longer) > 1:
            return word, ""  # argparse refuses it
        word, known = (longer[0], table[longer[0]]) if longer else (word, None)
    takes = known.takes_value if known else bool(words) and not words[0].startswith("-")
    if equals or not (takes and words):
        return word, value
    if re.fullmatch(rf"-[^\s\d]\S*|[{ENDS}]+", words[0]):  # argparse: expected one argument
        return word, ""
    return word, words.pop(0)


def _shown(word: str, value: str) -> str:
    return f"{word} {value}" if value else word
