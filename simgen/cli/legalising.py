"""legalise: anybody's code object as one that a simulator executes right."""

from __future__ import annotations

from pathlib import Path

import click

from simgen.cli.options import verbosity


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--simulator", "-s", required=True, metavar="S[@V]", help="As `simgen lint` has it.")
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path, dir_okay=False),
              metavar="OUT", help="The code object to write.")  # fmt: skip
@click.option("--arch", default="", metavar="A", help="Of assembly that names no processor.")
@click.option(
    "--dynamic-lds",
    type=click.IntRange(0, 2**16),
    metavar="BYTES",
    help="The most LDS that launches ask for beside what kernels declare.",
)
@verbosity
def legalise(
    file: Path,
    simulator: str,
    output: Path,
    arch: str,
    dynamic_lds: int | None,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write FILE as a code object that a simulator executes right.

    FILE is a code object or assembly of anybody's, or a container with one code object for a
    processor that the simulator has. Kernels keep their names, arguments and metadata; what the
    simulator lacks or executes wrongly is replaced, as in kernels of simgen. What has no
    replacement is refused (exit code 4), and nothing is written. Replacements of exchanges between
    lanes take LDS behind all that a work-group owns: of kernels that access LDS, --dynamic-lds says
    where that ends.

    \b
    simgen legalise kernel.co --simulator mgpusim -o kernel_mgpusim.co
    """
    from simgen.bundle import outputs
    from simgen.errors import RefusedError, UsageError
    from simgen.ground.storage.files import write_atomic
    from simgen.isa.legalise import facts
    from simgen.isa.lint import containers, linting, rewriting

    outputs.new_file(output)
    named, version = facts.named(simulator)
    held = list(containers.found(file, arch))
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
    write_atomic(output, code)
    if quiet:
        return
    before = linting.code_objects([chosen], named, version)
    count = sum(each.instructions for each in before)
    print(f"{output}: {count} instructions became {looked.instructions}")
    for mnemonic, times in sorted(made.replaced.items()) if verbose else ():
        print(f"  {mnemonic}: {times}")
    for mnemonic, why in made.emulated.items():
        print(f"right in emulation only: {mnemonic}: {why}")
