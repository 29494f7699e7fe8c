"""build and run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.cli import completing
from simgen.cli.numbers import SECONDS, Share, Whole
from simgen.cli.options import (
    BuildCommand,
    RunCommand,
    planned,
    reproduce,
    verbosity,
    workload_options,
)
from simgen.cli.workflows import engine_options
from simgen.errors import UsageError

if TYPE_CHECKING:
    from simgen.bundle.writing import Bundle
    from simgen.compile.cache import Cache
    from simgen.running.pieces import Cutting
    from simgen.running.runs import Wish


@click.command(cls=BuildCommand)
@workload_options
@click.option(
    "--run",
    "and_run",
    is_flag=True,
    help="Run it too, on the first target that can run here; the others are named.",
)
@click.option(
    "--replace",
    "replace_results",
    is_flag=True,
    help="Remove results that this build makes invalid.",
)
@verbosity
def build(and_run: bool, replace_results: bool, quiet: bool, verbose: bool, **given: Any) -> None:
    """Make a bundle of WORKLOAD.

    A bundle is a folder with programs, kernels, data and launch scripts.

    WORKLOAD is a name that `simgen list` or `simgen list deepbench` prints, a .dnnmark or
    .dnntemplate file, an .onnx or .pt2 model, or an operation such as gemm:m=35,n=700,k=2048.

    \b
    simgen build softmax_fwd
    simgen build softmax_fwd --set n=4 --set c=10 --target host
    simgen build alexnet.dnnmark --target gem5-se --arch gfx902 -o alexnet
    simgen build block.dnntemplate --set N=16 --set K=64
    simgen build model.onnx --set batch=1 --values model

    If the bundle exists, the targets are added to it. A build that would make results in it invalid
    is refused (exit code 4), unless --replace allows it to remove them.
    """
    from simgen.cli import present
    from simgen.targets import matrix, queueing

    plan, output, targets = planned(given)
    with present.stages(quiet) as tell:
        made, builder = plan.write(output, targets, replace_results=replace_results, tell=tell)
    if not quiet:
        _say_built(made, len(plan.network.layers), builder.cache, verbose)
        for note in plan.taken_for:
            print(note)
        for target in targets:
            notes = target.package.notes(made.path / target.name, details=verbose)
            queued = queueing.notes(target, made.workload)
            for note in (*notes, *matrix.notes(target, made.workload), *queued):
                print(note)
        print(f"reproduce: {reproduce(given, made)}")
    if and_run:
        from simgen.running.runs import Wish

        _run(made, None, {}, Wish(replace=replace_results), quiet, verbose, verified=True)
        if not quiet:
            _say_not_run(made)
    elif not quiet:
        print(f"next: simgen run {shlex.quote(str(output))}")


def _say_not_run(made: Bundle) -> None:
    """The other targets that this machine could run, and has no results of."""
    from simgen.running import process

    for name in made.targets:
        if not made.has(name) and not process.obstacles(made, name):
            print(f"not run: {name}; simgen run {shlex.quote(str(made.path))} --on {name}")


def _say_built(made: Bundle, layers: int, cache: Cache, verbose: bool) -> None:
    from collections import Counter

    from simgen.cli import present
    from simgen.ir import CONTRACTS, CUDA_WARP

    workload = made.workload
    nbytes = sum(buffer.spec.held for buffer in workload.buffers)
    print(
        f"{made.path}: {present.many(layers, 'layer')}, "
        f"{present.many(len(workload.launches), 'launch', 'launches')}, "
        f"{present.size(nbytes)} of tensors; targets: {', '.join(made.targets)}"
    )
    own = next((each.source for each in workload.kernels if each.source), None)
    if own and own.contract:
        lanes = "CUDA: warps of 32" if own.warp == CUDA_WARP else "HIP: wavefronts of 64"
        said = lanes if own.language == "hip" else "OpenCL C: wavefronts of 64"
        print(f"{said}, multiply-adds {CONTRACTS[own.contract]}")
    if made.gone:
        print(f"no longer valid, so removed: {', '.join(made.gone)}")
    counted = Counter(str(outcome) for outcome in cache.outcomes)
    if counted:
        print("compiled: " + ", ".join(f"{n} {what}" for what, n in counted.items()))
    if verbose:
        rows = [(lookup.label, lookup.digest[:16], lookup.outcome) for lookup in cache.lookups]
        present.table(None, ("compiled", "cache entry", ""), rows)


@click.command(cls=RunCommand)
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=completing.bundle)
@click.option(
    "--on",
    "target",
    metavar="T",
    shell_complete=completing.targets,
    help="The target. [default: the first that can run here]",
)
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    help="End the run after this time.",
)
@click.option(
    "--sweep",
    "grid",
    multiple=True,
    metavar="O=V,V...",
    shell_complete=completing.axes,
    help="Run at each of several values of an option below, or of a setting of the build (n, algo, "
    "conv1.n), which are built beside BUNDLE; repeat it for all combinations.",
)
@click.option(
    "--replace",
    "replace_result",
    is_flag=True,
    help="Run it anew where a run with the same options has a result, which goes when this one is "
    "whole; of a sweep, all points.",
)
@click.option("--again", is_flag=True, help="Of a sweep: as --replace.")
@click.option(
    "--unless-done", is_flag=True, help="Do nothing where a run with the same options has a result."
)
@click.option(
    "--layers",
    metavar="L",
    shell_complete=completing.layers,
    help="Run only these layers: conv1..pool1, or layers separated by commas.",
)
@click.option(
    "--inputs",
    metavar="R",
    help="Take the inputs of these layers from a target that has run, a results.h5, or "
    "`reference`. [default: this target's result, or else the reference]",
)
@click.option(
    "--representatives",
    is_flag=True,
    help="Simulate only the first of launches that are alike; the others get its figures.",
)
@click.option(
    "--jobs",
    type=Whole(1),
    metavar="N",
    help="Simulate pieces of the network side by side, N at a time, each from the reference's "
    "tensors.",
)
@click.option(
    "--warm",
    type=click.Choice(("previous", "none")),
    help="What fills the caches of such a piece: the layer before it, which runs first and is not "
    "counted, or nothing. [default: previous]",
)
@click.option(
    "--sample",
    type=Share(),
    metavar="P%",
    help="Simulate about this part of the work-groups of each launch that has enough, and "
    "extrapolate its figures.",
)
@click.option(
    "--scale-model",
    type=Whole(2),
    metavar="K",
    help="Simulate a K-th of the work-groups of each launch on a K-th of the machine: of its "
    "compute units, banks of L2 and memory.",
)
@click.option(
    "--piece",
    type=Whole(1),
    metavar="K",
    help="Simulate only this piece of --representatives or --jobs, from 1 on, and keep it, as jobs "
    "of a cluster do; the command without --piece makes the result.",
)
@click.option(
    "--resume", is_flag=True, help="Continue a stopped run after its last finished layer."
)
@engine_options
@verbosity
def run(
    bundle: Path,
    target: str | None,
    timeout: float | None,
    grid: tuple[str, ...],
    replace_result: bool,
    again: bool,
    unless_done: bool,
    layers: str | None,
    inputs: str | None,
    representatives: bool,
    jobs: int | None,
    warm: str | None,
    sample: float | None,
    scale_model: int | None,
    piece: int | None,
    resume: bool,
    executor: str | None,
    profile: str | None,
    container: str | None,
    workflow_only: bool,
    quiet: bool,
    verbose: bool,
    **options: str | int | None,
) -> None:
    """Run BUNDLE on a target; results go to BUNDLE/results/TARGET.

    With other options than the usual ones they go to TARGET@OPTION=VALUE,..., beside those that
    are there. A run whose result is there is refused (exit code 4) unless --replace allows it.

    \b
    simgen run softmax_fwd
    simgen run softmax_fwd --on gem5-se --timeout 3600
    GEM5=~/gem5 simgen run softmax_fwd
    simgen run softmax_fwd --on cuda --warmup 3 --repeats 20
    simgen run softmax_fwd --on gem5-se --sweep num_compute_units=2,4,8
    simgen run conv_fwd --sweep n=1,4,16 --sweep algo=direct,winograd
    simgen run alexnet --on gem5-se --layers conv2..pool2 --inputs host
    simgen run alexnet --on gem5-se --resume
    simgen run resnet50 --on mgpusim --mode timing --representatives --jobs 8
    simgen run conv_fwd --on mgpusim --mode timing --sample 5%
    simgen run resnet50 --on mgpusim --mode timing --representatives --scale-model 8
    simgen run resnet50 --on mgpusim --mode timing --representatives --jobs 40 --executor slurm

    Each point of a sweep has a result of its own, TARGET@OPTION=VALUE,..., in a bundle of its own,
    BUNDLE@SETTING=VALUE,..., for settings of the build. Points that have one are not run again, so
    the same command continues after an interruption. The result of --layers is TARGET@LAYERS, of
    --representatives TARGET@representatives, of --sample TARGET@sample=0.05,sampled, of
    --scale-model TARGET@scale_model=8,scaled, of --jobs alone TARGET@pieces, with --warm none
    TARGET@warm=none,...; these go on where they were interrupted, too.

    Exit code 5: the run failed, or points of the sweep did.
    """
    from simgen.bundle import writing as bundles
    from simgen.cli.following import Printing
    from simgen.running.runs import Wish

    given = {name: value for name, value in options.items() if value is not None}
    cutting = _cutting(representatives, jobs, warm, sample, scale_model)
    wish = Wish(timeout, layers, inputs, resume, cutting, replace_result)
    if grid and layers is not None and not wish.cutting:
        raise UsageError(
            "--layers: a sweep runs the whole network; leave out --layers or --sweep, or add "
            "--representatives or --jobs"
        )
    if again and not grid:
        raise UsageError("--again: it is for --sweep; write --replace")
    again = again or replace_result
    if again and unless_done:
        raise UsageError("--unless-done: --replace asks for the opposite; leave one out")
    with bundles.opened(bundle) as loaded:
        Printing(quiet).notice_origin(loaded, target)
        if executor or workflow_only or profile or container:
            engine = {"executor": executor or "local", "profile": profile,
                      "container": container, "workflow_only": workflow_only}  # fmt: skip
            _jobs(loaded, target, given, grid, again, wish, piece, engine, quiet)
        elif piece is not None:
            _piece(loaded, target, given, grid, wish, piece, quiet)
        elif grid:
            _sweep(loaded, target, given, grid, again, wish, quiet, verbose)
        elif not (unless_done and _is_done(loaded, target, given, wish, quiet)):
            _run(loaded, target, given, wish, quiet, verbose)


def _is_done(
    bundle: Bundle, target: str | None, options: dict[str, str | int], wish: Wish, quiet: bool
) -> bool:
    """Whether a run with the same options has a result."""
    from simgen.cli.following import Printing
    from simgen.running import runs

    chosen = runs.choose(bundle, target, options, wish, Printing(quiet))
    folder = bundle.path / "results" / runs.name_of(chosen, options, wish)
    if bundle.has(folder.name) and not quiet:
        print(f"results: {folder}, of a run before")
    return bundle.has(folder.name)


def _jobs(
    bundle: Bundle,
    target: str | None,
    options: dict[str, str | int],
    grid: tuple[str, ...],
    again: bool,
    wish: Wish,
    piece: int | None,
    engine: dict[str, Any],
    quiet: bool,
) -> None:
    from simgen.cli import workflows

    if again or piece is not None:
        other = "--replace" if again else "--piece"
        raise UsageError(f"{other}: a workflow has its own jobs; leave it out, or --executor")
    workflows.run_jobs(bundle, target, options, grid, wish, engine, quiet)


def _piece(
    bundle: Bundle,
    target: str | None,
    options: dict[str, str | int],
    grid: tuple[str, ...],
    wish: Wish,
    nth: int,
    quiet: bool,
) -> None:
    from simgen.cli.following import Printing
    from simgen.running import sweeps

    sweeps.run_piece(bundle, target, options, grid, wish, nth, Printing(quiet))


def _cutting(
    representatives: bool,
    jobs: int | None,
    warm: str | None,
    sample: float | None,
    part: int | None,
) -> Cutting | None:
    """How the network is to be cut; None: it is run whole."""
    from simgen.running.pieces import Cutting
    from simgen.workload.pieces import Warm

    if part and warm:
        raise UsageError("--warm: --scale-model fills the caches by itself; leave it out")
    if not (representatives or jobs or sample or part):
        if warm:
            raise UsageError(
                "--warm: a run of the whole network has the caches that it has; leave it out, or "
                "add --representatives, --sample or --jobs"
            )
        return None
    return Cutting(
        representatives, Warm(warm or Warm.PREVIOUS), jobs or 1, sample or 0.0, part or 0
    )


def _sweep(
    bundle: Bundle,
    target: str | None,
    options: dict[str, str | int],
    grid: tuple[str, ...],
    again: bool,
    wish: Wish,
    quiet: bool,
    verbose: bool,
) -> None:
    from simgen.cli import sweeping
    from simgen.running import sweeps

    listener = sweeping.PrintingSweep(quiet, verbose)
    swept = sweeps.run(bundle, target, options, grid, wish, listener, again=again)
    if not quiet:
        sweeping.table(swept)
    swept.check()
    if not quiet:
        print(f"next: simgen report {shlex.join(map(str, swept.bundles))} -o report")


def _run(
    bundle: Bundle,
    target: str | None,
    options: dict[str, str | int],
    wish: Wish,
    quiet: bool,
    verbose: bool,
    *,
    verified: bool = False,
) -> None:
    from simgen.cli.following import Printing, say_ran
    from simgen.running import runs

    bundle, ended = runs.run(bundle, target, options, wish, Printing(quiet), verified=verified)
    if not quiet:
        say_ran(bundle, ended, verbose)
        print(f"results: {ended.folder}")
        where = shlex.quote(str(bundle.path))
        compared = bool(ended.result.outputs)
        print(f"next: simgen {f'diff {where}' if compared else f'report {where} -o report'}")
