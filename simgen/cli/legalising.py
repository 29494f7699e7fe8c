"""legalise: anybody's code object as one that a simulator executes right."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from simgen.ask.checks import LegaliseChoices
from simgen.cli import streams
from simgen.cli.answers import OPTION, answer, json_option
from simgen.cli.options import asked, asks, verbosity
from simgen.errors import UsageError


@click.command()
@click.argument(
    "file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)
)
@asks(LegaliseChoices)
@json_option
@verbosity
def legalise(file: Path, as_json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
    """Replace instructions that a simulator lacks or gets wrong.

    FILE is a code object or assembly from any compiler, or a container with one code object for a
    processor that the simulator has. Kernels keep their names, arguments and metadata. Instructions
    that the simulator lacks or executes wrongly are replaced, as in simgen's own kernels. If one
    has no replacement, the command is refused (exit code 4) and writes nothing.

    Replacements of exchanges between lanes take LDS beyond the work-group's own. For kernels that
    access LDS, pass --dynamic-lds with the bytes that launches request, 0 for none.

    \b
    simgen legalise kernel.co --simulator mgpusim -o kernel_mgpusim.co
    """
    from simgen.bundle import outputs
    from simgen.ground.storage.files import write_atomic
    from simgen.isa.lint import checking

    file = Path(streams.read(str(file), ".co", ".s"))
    wanted = asked(LegaliseChoices, given)
    if wanted.output == streams.STREAM:
        if as_json:
            raise UsageError(f"{OPTION}: stdout is the code object; write that to a file with -o")
        sys.stdout.buffer.write(checking.legalise(file, wanted).code)
        return
    output = Path(wanted.output or "")
    outputs.new_file(output)
    made = checking.legalise(file, wanted)
    write_atomic(output, made.code)
    if as_json:
        answer("legalise", {"output": str(output), **made.as_json()})
        return
    if quiet:
        return
    print(f"{output}: {made.before} instructions became {made.after}")
    for mnemonic, times in sorted(made.replaced.items()) if verbose else ():
        print(f"  {mnemonic}: {times}")
    for mnemonic, why in made.emulated.items():
        print(f"right in emulation only: {mnemonic}: {why}")


for _each in legalise.params:
    _each.required |= _each.name in (LegaliseChoices.simulator.name, LegaliseChoices.output.name)
