"""legalise: anybody's code object as one that a simulator executes right."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from simgen.ask.checks import SimulatorChoice
from simgen.cli import streams
from simgen.cli.answers import OPTION, answer, json_option
from simgen.cli.options import verbosity


@click.command()
@click.argument(
    "file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    *SimulatorChoice.simulator.flags,
    required=True,
    metavar="S[@V]",
    help="Simulator and version, such as gem5@24.0; see `simgen lint --help`.",
)
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path, dir_okay=False),
              metavar="OUT", help="Code object to write; - is stdout.")  # fmt: skip
@click.option("--arch", default="", metavar="A", help="Processor of assembly that names none.")
@click.option(
    "--dynamic-lds",
    type=click.IntRange(0, 2**16),
    metavar="BYTES",
    help="Largest LDS size that launches request in addition to what kernels declare.",
)
@json_option
@verbosity
def legalise(
    file: Path,
    simulator: str,
    output: Path,
    arch: str,
    dynamic_lds: int | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
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
    from simgen.errors import RefusedError, UsageError
    from simgen.ground.storage.files import write_atomic
    from simgen.isa.legalise import facts
    from simgen.isa.lint import containers, linting, rewriting

    file = Path(streams.read(str(file), ".co", ".s"))
    if streamed := str(output) == streams.STREAM:
        if as_json:
            raise UsageError(f"{OPTION}: stdout is the code object; write that to a file with -o")
        quiet = True
    else:
        outputs.new_file(output)
    named, version = facts.named(simulator)
    held = list(containers.code_objects(file, arch))
    fits = [each for each in held if linting.simulated(each, named, version)]
    if held and not fits:
        (skipped, *_) = linting.code_objects(held[:1], named, version)
        raise RefusedError(
            f"{held[0].place}: {skipped.skipped}; compile it for a processor that it has"
        )
    if len(fits) != 1:
        have = "none" if not fits else f"{len(fits)}"
        raise UsageError(
            f"{file}: {have} of its {len(held)} code objects are for processors of {named} "
            f"{version}; give one code object"
        )
    (chosen,) = fits
    code, made = rewriting.rewritten(chosen.code, chosen.place, named, version, dynamic_lds)
    (looked,) = linting.code_objects([containers.Held(output, "", code)], named, version)
    left = [finding for finding in looked.findings if finding.refused]
    if left:
        raise RefusedError(
            f"{chosen.place}: kernel {left[0].kernel}: {left[0].instruction}: {left[0].reason}, "
            f"and nothing replaces it; {left[0].cure}"
        )
    if streamed:
        sys.stdout.buffer.write(code)
    else:
        write_atomic(output, code)
    if quiet and not as_json:
        return
    before = linting.code_objects([chosen], named, version)
    count = sum(each.instructions for each in before)
    if as_json:
        answer(
            "legalise",
            {
                "output": str(output),
                "instructions_before": count,
                "instructions": looked.instructions,
                "replaced": dict(made.replaced),
                "right_in_emulation_only": dict(made.emulated),
            },
        )
        return
    print(f"{output}: {count} instructions became {looked.instructions}")
    for mnemonic, times in sorted(made.replaced.items()) if verbose else ():
        print(f"  {mnemonic}: {times}")
    for mnemonic, why in made.emulated.items():
        print(f"right in emulation only: {mnemonic}: {why}")
