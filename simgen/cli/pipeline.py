"""build and run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.build import BuildChoices, Destination, Making
from simgen.ask.choice import choices
from simgen.ask.run import JobChoices, RunChoices, RunCommand
from simgen.cli import completing, defaults, options
from simgen.cli.answers import answer, json_option, result
from simgen.cli.options import asked, asks, given_options, planned, reproduce, verbosity
from simgen.errors import UsageError

if TYPE_CHECKING:
    from simgen.bundle.planning import Plan
    from simgen.bundle.writing import Bundle
    from simgen.kernels.cache import Cache
    from simgen.running.runs import Ended

BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@click.command(cls=options.BuildCommand)
@click.argument("workload", shell_complete=completing.workload)
@asks(Destination, BuildChoices, Making)
@json_option
@verbosity
def build(as_json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
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

    If the bundle exists, the targets are added to it. A build that would invalidate results in it
    is refused (exit code 4); --replace removes them.
    """
    _import_numpy()
    from simgen.cli import present
    from simgen.targets import matrix, queueing

    plan, output, targets = planned(given)
    making = asked(Making, given)
    quiet = quiet or as_json
    with present.stages(quiet) as tell:
        made, builder = plan.write(output, targets, replace_results=making.replace, tell=tell)
    if not quiet:
        say_built(made, len(plan.network.layers), builder.cache, verbose)
        for note in plan.taken_for:
            present.say(note)
        if len(made.targets) > 1:
            label = made.workload.machine.label
            present.say(f"one plan for all targets, for {label}: {plan.planned_for.why}")
        for target in targets:
            notes = target.package.notes(made.path / target.name, details=verbose)
            queued = queueing.notes(target, made.workload)
            for note in (*notes, *matrix.notes(target, made.workload), *queued):
                present.say(note)
        print(f"reproduce: {reproduce(given, made)}")
    results = []
    if making.run:
        ended = run_one(made, RunChoices(replace=making.replace), quiet, verbose, verified=True)
        results = [result(ended.result, ended.folder)]
        if not quiet:
            _say_not_run(made)
    elif not quiet:
        print(f"next: simgen run {shlex.quote(str(output))}")
    if as_json:
        answer(
            "build",
            {
                **_built(made, plan, builder.cache),
                "results": results,
                "reproduce": reproduce(given, made),
            },
        )


def _import_numpy() -> None:
    """Without the threads that its BLAS starts, and which wait busily: a build multiplies no
    matrices, and they take a fifth of its processor time."""
    threads = os.environ.get(BLAS_THREADS)
    os.environ[BLAS_THREADS] = threads or "1"
    import numpy  # noqa: F401

    if threads is None:
        del os.environ[BLAS_THREADS]


def _built(made: Bundle, plan: Plan, cache: Cache) -> dict[str, Any]:
    from collections import Counter

    return {
        "bundle": str(made.path), "workload": made.workload.name,
        "simgen": made.manifest["simgen"], "layers": len(plan.network.layers),
        "launches": len(made.workload.launches),
        "tensor_bytes": sum(each.spec.held for each in made.workload.buffers),
        "targets": list(made.targets), "planned_for": made.workload.machine.label,
        "removed": list(made.gone), "compiled": Counter(map(str, cache.outcomes)),
        "notes": [*plan.notes, *plan.taken_for],
    }  # fmt: skip


def _say_not_run(made: Bundle) -> None:
    """The other targets that this machine could run, and has no results of."""
    from simgen.running import process

    for name in made.targets:
        if not made.has(name) and not process.obstacles(made, name):
            words = shlex.join(["simgen", "run", str(made.path), *RunChoices(name).words()])
            print(f"not run: {name}; {words}")


def say_built(made: Bundle, layers: int, cache: Cache, verbose: bool) -> None:
    from collections import Counter

    from simgen.cli import present
    from simgen.ground.ir import CONTRACTS, CUDA_WARP

    workload = made.workload
    nbytes = sum(buffer.spec.held for buffer in workload.buffers)
    present.say(
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


@click.command(cls=options.OptionsCommand)
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=completing.bundle)
@asks(RunCommand, JobChoices)
@json_option
@verbosity
def run(bundle: Path, as_json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
    """Run BUNDLE on a target; results go to BUNDLE/results/TARGET.

    Results of other than default options go to TARGET@OPTION=VALUE,..., next to existing ones. If
    the result exists, the run is refused (exit code 4) unless --replace is given.

    \b
    simgen run softmax_fwd
    simgen run softmax_fwd --on gem5-se --timeout 3600
    GEM5=~/gem5 simgen run softmax_fwd
    simgen run softmax_fwd --on cuda --warmup 3 --repeats 20
    simgen run softmax_fwd --on gem5-se --sweep num_compute_units=2,4,8
    simgen run conv_fwd --sweep n=1,4,16 --sweep algo=direct,winograd --dry-run
    simgen run alexnet --on gem5-se --layers conv2..pool2 --inputs host
    simgen run alexnet --on gem5-se --resume
    simgen run resnet50 --on mgpusim --mode timing --representatives --jobs 8
    simgen run conv_fwd --on mgpusim --mode timing --sample 5%
    simgen run resnet50 --on mgpusim --representatives --scale-model 8
    simgen run resnet50 --on mgpusim --jobs 40 --executor slurm

    Each point of a sweep has its own result, TARGET@OPTION=VALUE,.... Settings of the build also
    get their own bundle, BUNDLE@SETTING=VALUE,.... Finished points are not run again, so the same
    command continues after an interruption.

    \b
    Other results:
    --layers                 TARGET@LAYERS
    --representatives        TARGET@representatives
    --sample 5%              TARGET@sample=0.05,sampled
    --scale-model 8          TARGET@scale_model=8,scaled
    --jobs alone             TARGET@pieces
    --warm none              TARGET@warm=none,...

    These also continue after an interruption. Exit code 5: the run, or points of the sweep, failed.
    """
    from simgen.bundle import finding
    from simgen.bundle import writing as bundles
    from simgen.cli.following import Printing
    from simgen.running import sweeps

    jobs = asked(JobChoices, given)
    known = {each.name for each in (*choices(RunCommand), *choices(JobChoices))}
    options = given_options({name: each for name, each in given.items() if name not in known})
    wanted = asked(RunCommand, given, options=options)
    if as_json and (jobs.given() or wanted.piece is not None):
        raise UsageError("--json: jobs and pieces leave no result here; ask with: simgen status")
    quiet = quiet or as_json
    with bundles.opened(bundle) as loaded:
        wanted = defaults.of_run(wanted, loaded)
        Printing(quiet).notice_origin(loaded, wanted.target)
        if jobs.given():
            _jobs(loaded, wanted, jobs, quiet)
        elif wanted.piece is not None:
            sweeps.run_piece(loaded, wanted, Printing(quiet))
        elif wanted.grid:
            _sweep(loaded, wanted, quiet, verbose, as_json)
        else:
            folder = done(loaded, wanted, quiet) if wanted.unless_done else None
            if folder is None:
                ended = run_one(loaded, wanted, quiet, verbose)
                told = result(ended.result, ended.folder)
            elif as_json:
                told = result(finding.find_result(loaded, folder.name), folder)
            if as_json:
                answer("run", {"bundle": str(bundle), "results": [told], "failed": []})


def done(bundle: Bundle, wanted: RunChoices, quiet: bool) -> Path | None:
    """The folder of the result of a run with the same options, if there is one."""
    from simgen.cli.following import Printing
    from simgen.running import runs

    chosen = runs.choose(bundle, wanted, Printing(quiet))
    folder = bundle.path / "results" / runs.name_of(chosen, wanted)
    if not bundle.has(folder.name):
        return None
    if not quiet:
        print(f"results: {folder}, of a run before")
    return folder


def _jobs(bundle: Bundle, wanted: RunCommand, jobs: JobChoices, quiet: bool) -> None:
    from simgen.cli import workflows

    ask = RunCommand
    for each in (ask.again, ask.replace, ask.piece):
        if getattr(wanted, each.name):
            other = ask.piece if each is ask.piece else ask.replace
            cure = f"leave it out, or {JobChoices.executor}"
            raise UsageError(f"{other}: a workflow has its own jobs; {cure}")
    workflows.run_jobs(bundle, wanted, jobs, quiet)


def _sweep(bundle: Bundle, wanted: RunCommand, quiet: bool, verbose: bool, as_json: bool) -> None:
    from simgen.cli import sweeping
    from simgen.running import sweeps

    listener = sweeping.PrintingSweep(quiet, verbose)
    if wanted.dry_run:
        found = sweeps.listed(bundle, wanted, listener)
        sweeping.points([(point.name, there) for point, there in found], as_json)
        return
    swept = sweeps.run(bundle, wanted, listener)
    if not quiet:
        sweeping.table(swept)
    if as_json:
        made = [
            result(each.result, each.bundle.path / "results" / each.result.name)
            for each in swept.points
        ]
        told = {"bundle": str(bundle.path), "results": made}
        answer("run", {**told, "failed": list(swept.failed)})
    swept.check()
    if not quiet:
        print(f"next: simgen report {shlex.join(map(str, swept.bundles))} -o report")


def run_one(
    bundle: Bundle,
    wanted: RunChoices,
    quiet: bool,
    verbose: bool,
    *,
    verified: bool = False,
    ends: bool = True,
) -> Ended:
    from simgen.cli.following import Printing, say_ran
    from simgen.running import runs

    bundle, ended = runs.run(bundle, wanted, Printing(quiet), verified=verified)
    if not quiet:
        say_ran(bundle, ended, verbose)
        print(f"results: {ended.folder}")
        if not ends:
            return ended
        where = shlex.quote(str(bundle.path))
        compared = bool(ended.result.outputs)
        print(f"next: simgen {f'diff {where}' if compared else f'report {where} -o report'}")
    return ended
