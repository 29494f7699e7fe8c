"""A command line of apu_se.py as people post it: which commands of simgen do the same.

Lines are those of gem5-resources' README files, of artifacts and of mailing lists: docker, its
image, gem5 with options of its own, apu_se.py with its options, a program and what it is given.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.choice import option
from simgen.errors import UsageError, printable
from simgen.targets.gem5 import apu_se, script_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.targets.gem5.script_options import ScriptOption

SCRIPT = "apu_se.py"
PROGRAM = re.compile(r"(?:.*/)?build/(\w+)/gem5\.\w+|(?:.*/)?gem5\.(?:opt|fast|debug)")
IMAGE = re.compile(r"\S*gcn-gpu(?:[:-]v?(\d+)[-.](\d+)\S*|:\S+)?")
LAUNCHED = "the program that simgen launches needs one CPU and no runtime"
NEWEST_GCN3 = "23.1"
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


def read(line: str) -> Posted:
    """Read a line.

    Raises:
        UsageError: it is no line for a shell, or has no apu_se.py in it.
    """
    try:
        words = shlex.split(re.sub(r"\\\n", " ", line.strip().removeprefix("$")))
    except ValueError as error:
        raise UsageError(
            f"{printable(line)}: no command line ({error}); check its quotes"
        ) from None
    at = next((n for n, word in enumerate(words) if Path(word).name == SCRIPT), None)
    if at is None:
        raise UsageError(f"{printable(line)}: has no {SCRIPT}; write the line from gem5 on")
    found = Posted()
    _before(words[:at], found)
    _settle_gpu(words[at + 1 :], found)
    _after(words[at + 1 :], found)
    return found


def _before(words: list[str], found: Posted) -> None:
    """Docker, its image, gem5, and gem5's own options."""
    program = next((n for n, word in enumerate(words) if PROGRAM.fullmatch(word)), None)
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
    found.rows.append((words[program], "GEM5=FOLDER, of the checkout that it is built in"))
    rest = words[program + 1 :]
    table = script_options.options(script_options.OWN)
    while rest:
        word, value = _taken(rest, table)
        cure = script_options.UNUSABLE.get(word)
        if cure:
            found.rows.append((_shown(word, value), cure))
        elif word.startswith("-"):
            _pass_on(word, value, found)


def _settle_gpu(words: list[str], found: Posted) -> None:
    """The version and the GPU: what the line says, or gem5's defaults of that time."""
    given = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    found.is_discrete = "--dgpu" in given
    arch = given.get("--gfx-version", "")
    if "--gfx-version" in given and not arch:
        arch = words[words.index("--gfx-version") + 1]
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


def _after(words: list[str], found: Posted) -> None:
    """apu_se.py's options."""
    table = script_options.options(script_options.SCRIPT)
    rest, program, arguments = list(words), "", ""
    while rest:
        if not rest[0].startswith("-"):  # a pipe, or what follows the program
            found.rows.append((" ".join(rest), "not an option of apu_se.py"))
            break
        word, value = _taken(rest, table)
        name = word if word in table else script_options.set_by(word, apu_se.SET, table) or word
        several = word not in table and sum(each.startswith(word) for each in table) > 1
        shown = _shown(word, value)
        if several:
            found.rows.append((shown, "left out: apu_se.py has several options that begin so"))
        elif name in ("-c", "--cmd"):
            program = value
        elif name in ("-o", "--options"):
            arguments = value
        elif name in ("--gfx-version", "--dgpu"):
            found.rows.append((shown, f"{option('arch')} {found.arch}"))
        elif name in ("-n", "--num-cpus"):
            found.rows.append((shown, f"left out: {LAUNCHED}"))
        elif name in ("-e", "--env", "-h", "--help", "--benchmark-root"):
            found.rows.append((shown, "left out: simgen makes the program itself"))
        elif name in apu_se.SET:
            flag = "--num-compute-units" if name == "-u" else name
            found.run += [flag, value]
            found.rows.append((shown, f"{flag} {value} of simgen run"))
        else:
            _pass_on(word, value, found)
    _name_workload(program, arguments, found)


def _name_workload(program: str, arguments: str, found: Posted) -> None:
    name = Path(program).name
    config = re.search(r"(?:^|\s)-{1,2}config[\s=](\S+)", arguments)
    test = re.fullmatch(r"(?:dnnmark_)?test_(?:(fwd|bwd)_)?(\w+)", name)
    shown = f"-c {program}" if program else "no -c"
    if config and Path(config[1]).is_file():
        found.workload = config[1]
        found.passes = (test and test[1]) or ""
        found.rows.append((f"{shown} … -config {config[1]}", f"the workload {config[1]}"))
    elif test:
        found.workload = name
        said = "; to have the sizes of -config, name that file in its place" if config else ""
        found.rows.append((shown, f"the workload {name}{said}"))
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
    return word, words.pop(0)


def _shown(word: str, value: str) -> str:
    return f"{word} {value}" if value else word
