"""bisect: the first launch, instruction and lane that two targets execute unlike."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.checks import BisectChoices
from simgen.cli import completing
from simgen.cli.answers import answer, json_option
from simgen.cli.options import asked, asks, verbosity

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.bundle.folder import Bundle
    from simgen.ground.examined import Bisection
    from simgen_examine.bisect.searching import Divergence, Search


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=completing.bundle)
@click.argument("a", shell_complete=completing.simulated)
@click.argument("b", shell_complete=completing.simulated)
@asks(BisectChoices)
@json_option
@verbosity
def bisect(
    bundle: Path, a: str, b: str, as_json: bool, quiet: bool, verbose: bool, **given: Any
) -> None:
    """Find the first instruction where two targets differ.

    The search finds the launch, the instruction and the lane of BUNDLE. Both targets run the same
    code objects. The search first replays launches, then the differing kernel with its registers
    stored at the start of a block, then before each instruction of that block. The last output is a
    reproducer of a few lines of assembly. Modes of MGPUSim are written mgpusim:emu and
    mgpusim:timing, and TARGET@FOLDER is another build, in that checkout of gem5 or MGPUSim. Exit
    code 6: the targets differ.

    \b
    simgen build softmax_fwd --target mgpusim --target gem5-se --arch gfx942
    simgen bisect softmax_fwd mgpusim gem5-se
    simgen bisect softmax_fwd mgpusim:emu mgpusim:timing
    GEM5=~/gem5 simgen bisect softmax_fwd gem5-se gem5-se@~/gem5-last-week
    """
    from simgen.bundle import writing as bundles
    from simgen.cli import following
    from simgen_examine.bisect import telling

    def tell(text: str) -> None:
        if verbose and not as_json:
            print(text, file=sys.stderr, flush=True)

    with bundles.opened(bundle) as made:
        following.Printing(quiet or as_json).notice_origin(made)
        place, run = _searched(made, a, b, asked(BisectChoices, given), tell)
    took = f"{run.a.runs + run.b.runs} runs, {run.a.seconds + run.b.seconds:.0f} s of simulation"
    if as_json:
        answer("bisect", telling.as_json(place, run))
    elif not quiet:
        if place is None:
            print(f"{a} and {b} leave the same, word by word ({took})")
        else:
            print(*telling.lines(place, run), took, sep="\n")
    telling.bisection(place, run).check()


def find(
    made: Bundle, a: str, b: str, choices: BisectChoices,
    tell: Callable[[str], None] = lambda _: None,
) -> Bisection:  # fmt: skip
    """What `simgen bisect` finds in an opened bundle; `tell` gets a line as the search goes on.

    Raises:
        UsageError: the bundle has no such target, or they are for different processors.
        RefusedError: a target runs no code objects of AMD's.
        MissingError: one cannot run here.
        RunError: one ends early.
        DamagedError: the bundle's data are not what they were.
    """
    from simgen_examine.bisect import telling

    return telling.bisection(*_searched(made, a, b, choices, tell))


def _searched(
    made: Bundle, a: str, b: str, choices: BisectChoices, tell: Callable[[str], None]
) -> tuple[Divergence | None, Search]:
    from simgen.ground.storage import files
    from simgen.kernels import cache
    from simgen_examine.bisect import opening

    base = cache.default().own
    base.mkdir(parents=True, exist_ok=True)
    with files.scratch_folder("bisect", base) as folder:
        run = opening.search(
            made, a, b, folder, code=choices.code or "", ulps=choices.ulps or 0, tell=tell
        )
        return run.place(), run
