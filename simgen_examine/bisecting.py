"""bisect: the first launch, instruction and lane that two targets execute unlike."""

from __future__ import annotations

from pathlib import Path

import click

from simgen.ask.checks import BisectChoices
from simgen.ask.kinds import Whole
from simgen.cli import completing
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import number
from simgen.cli.options import asks, verbosity


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=completing.bundle)
@click.argument("a")
@click.argument("b")
@asks(BisectChoices)
@number("--ulps", kind=Whole("N", 0, 2**20), default=0,
        help="Words that differ by at most this are equal [default: 0].")  # fmt: skip
@json_option
@verbosity
def bisect(
    bundle: Path,
    a: str,
    b: str,
    code: str | None,
    ulps: int,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Find the first instruction where two targets differ.

    The search finds the launch, the instruction and the lane of BUNDLE. Both targets run the same
    code objects. The search first replays launches, then the differing kernel with its registers
    stored at the start of a block, then before each instruction of that block. The last output is a
    reproducer of a few lines of assembly. Modes of MGPUSim are written mgpusim:emu and
    mgpusim:timing. Exit code 6: the targets differ.

    \b
    simgen build softmax_fwd --target mgpusim --target gem5-se --arch gfx942
    simgen bisect softmax_fwd mgpusim gem5-se
    simgen bisect softmax_fwd mgpusim:emu mgpusim:timing
    """
    import sys

    from simgen.bundle import writing as bundles
    from simgen.cli import following
    from simgen.errors import MismatchError
    from simgen.ground.storage import files
    from simgen.kernels import cache
    from simgen_examine.bisect import opening, telling

    def tell(text: str) -> None:
        if verbose and not as_json:
            print(text, file=sys.stderr, flush=True)

    base = cache.default().own
    base.mkdir(parents=True, exist_ok=True)
    with (
        bundles.opened(bundle) as made,
        files.scratch_folder("bisect", base) as folder,
    ):
        following.Printing(quiet or as_json).notice_origin(made)
        run = opening.search(made, a, b, folder, code=code or "", ulps=ulps, tell=tell)
        place = run.place()
    took = f"{run.a.runs + run.b.runs} runs, {run.a.seconds + run.b.seconds:.0f} s of simulation"
    if as_json:
        answer("bisect", telling.as_json(place, run.of, run.a, run.b, run.arch))
    elif not quiet:
        if place is None:
            print(f"{a} and {b} leave the same, word by word ({took})")
        else:
            print(*telling.lines(place, run.of, run.a, run.b, run.arch), took, sep="\n")
    if place is not None:
        what = f"{place.item.mnemonic} in " if place.item else ""
        raise MismatchError(
            f"{a} and {b} differ: {what}kernel {run.of.launches[place.launch].kernel}"
        )
