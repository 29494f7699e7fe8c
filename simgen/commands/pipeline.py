"""build, run, diff: the main job."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.commands.options import (
    BuildCommand,
    Plan,
    RunCommand,
    spelling,
    verbosity,
    workload_options,
)
from simgen.errors import MismatchError, UsageError, did_you_mean

if TYPE_CHECKING:
    from simgen.bundle import Bundle
    from simgen.cache import Cache
    from simgen.results import Result
    from simgen.targets import Target
    from simgen.trace import Run


@click.command(cls=BuildCommand)
@workload_options
@click.option("--run", "and_run", is_flag=True, help="Run it too, on the first target that can.")
@verbosity
def build(and_run: bool, quiet: bool, verbose: bool, **given: Any) -> None:
    """Make a bundle of WORKLOAD: a folder with programs, kernels, data and launch scripts.

    WORKLOAD is a name from `simgen list workloads`, or a .dnnmark or .dnntemplate file.

    \b
    simgen build softmax_fwd
    simgen build softmax_fwd --set n=4 --set c=10 --target host
    simgen build alexnet.dnnmark --target gem5-se --arch gfx902 -o alexnet
    simgen build block.dnntemplate --set N=16 --set K=64
    """
    from simgen import bundle as bundles
    from simgen import cache, present
    from simgen.build import Builder

    plan = Plan(given)
    builder = Builder(cache.default())
    with present.progress("data", quiet) as progress:
        made = bundles.write(
            plan.output, plan.workload, plan.targets, builder, plan.provenance(), progress
        )
    if not quiet:
        _say_built(made, len(plan.network.layers), builder.cache, verbose)
        for target in plan.targets:
            for note in target.notes(made.path / target.name, details=verbose):
                print(note)
        print(f"reproduce: {plan.reproduce()}")
    if and_run:
        _run(made, None, None, {}, quiet, verbose)
    elif not quiet:
        print(f"next: simgen run {shlex.quote(str(plan.output))}")


def _say_built(made: Bundle, layers: int, cache: Cache, verbose: bool) -> None:
    from collections import Counter

    from simgen import present

    workload = made.workload
    nbytes = sum(buffer.spec.nbytes for buffer in workload.buffers)
    print(
        f"{made.path}: {present.many(layers, 'layer')}, "
        f"{present.many(len(workload.launches), 'launch', 'launches')}, "
        f"{present.size(nbytes)} of tensors; targets: {', '.join(made.targets)}"
    )
    counted = Counter(str(outcome) for outcome in cache.outcomes)
    if counted:
        print("compiled: " + ", ".join(f"{n} {what}" for what, n in counted.items()))
    if verbose:
        rows = [(lookup.label, lookup.digest[:16], lookup.outcome) for lookup in cache.lookups]
        present.table(None, ("compiled", "cache entry", ""), rows)


@click.command(cls=RunCommand)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--on", "target", metavar="T", help="Target. [default: the first that can run here]")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End the run after this time.",
)
@verbosity
def run(
    bundle: Path,
    target: str | None,
    timeout: float | None,
    quiet: bool,
    verbose: bool,
    **options: str | int | None,
) -> None:
    """Run BUNDLE on a target; results come to BUNDLE/results/TARGET.

    \b
    simgen run softmax_fwd
    simgen run softmax_fwd --on gem5-se --timeout 3600
    GEM5=~/gem5 simgen run softmax_fwd
    simgen run softmax_fwd --on cuda --warmup 3 --repeats 20
    """
    from simgen import bundle as bundles

    given = {name: value for name, value in options.items() if value is not None}
    _run(bundles.load(bundle), target, timeout, given, quiet, verbose)


def _run(
    bundle: Bundle,
    target: str | None,
    timeout: float | None,
    options: dict[str, str | int],
    quiet: bool,
    verbose: bool,
) -> None:
    from simgen import launch, present, results

    if target is None:
        target, passed = launch.choose(bundle)
        if not quiet:
            for name, reasons in passed.items():
                print(f"not on {name}: {' | '.join(reasons)}")
    elif target not in bundle.targets:
        raise UsageError(
            f"--on {target!r}: no target of the bundle; {did_you_mean(target, bundle.targets)}"
        )
    chosen = launch.target_of(bundle, target)
    for name in options:
        if name not in chosen.run_options:
            raise UsageError(f"{spelling(name)}: {target} has no such option; leave it out")
    environment = {chosen.run_options[name].variable: str(value) for name, value in options.items()}
    bundle = _extended(bundle, chosen, options)
    if not quiet:
        print(f"running on {target}", flush=True)
    with present.waiting(f"running on {target}", quiet) as tick:
        folder = launch.run(
            bundle,
            target,
            timeout=timeout,
            environment=environment,
            tick=tick,
            say=None if quiet else _notice,
        )
    result = results.collect(bundle, chosen, folder)
    results.save(result, bundle.workload, folder / results.FILE)
    if not quiet:
        present.launches(bundle.workload, [result])
        if verbose:
            print((folder / "log.txt").read_text(errors="replace"), end="")
        print(f"results: {folder}")
        print(f"next: simgen diff {shlex.quote(str(bundle.path))}")


def _notice(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _extended(bundle: Bundle, target: Target, options: dict[str, str | int]) -> Bundle:
    """The bundle with all that a run with these options needs."""
    from simgen import bundle as bundles
    from simgen import cache
    from simgen.build import Builder

    name = target.extension(options)
    folder = f"{target.name}/{name}"
    if not name or any(file.startswith(f"{folder}/") for file in bundle.manifest["files"]):
        return bundle
    files = target.extend(options, bundle.workload, Builder(cache.default()))
    return bundles.extend(bundle, folder, files)


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity
def diff(
    bundle: Path, a: str | None, b: str | None, as_json: bool, quiet: bool, verbose: bool
) -> None:
    """Compare the results in BUNDLE with the reference and with each other.

    A and B are targets that have run, results.h5 files, or `reference`. Without them, every
    result is compared with the reference, and every two with each other. Exit code 6: they differ.

    \b
    simgen diff softmax_fwd
    simgen diff softmax_fwd cuda gem5-se
    simgen diff softmax_fwd ../other_machine/results.h5 reference --json
    """
    from simgen import bundle as bundles
    from simgen import data, present
    from simgen import diff as diffs

    made = bundles.load(bundle)
    pairs = _pairs(made, a, b)
    data.verify(made.path / bundles.DATA, made.workload)
    inputs = data.load(made.path / bundles.DATA, made.workload)
    reports = [diffs.diff(made.workload, inputs, one, other) for one, other in pairs]
    if as_json:
        pairs_json = [diffs.to_json(report) for report in reports]
        print(json.dumps({"bundle": str(bundle), "pairs": pairs_json}, indent=1))
    elif not quiet:
        for report in reports:
            present.difference(report, verbose)
        distinct = list({id(r): r for pair in pairs for r in pair if r}.values())
        if len(distinct) > 1:
            present.launches(made.workload, distinct)
    bad = [report for report in reports if not report.passed]
    words = ["simgen", "diff", str(bundle), *(word for word in (a, b) if word)]
    if bad:
        raise MismatchError(f"{bundle}: {bad[0].failure}; see more with: {shlex.join(words)} -v")
    if not as_json and not quiet:
        print(f"reproduce: {shlex.join(words)}")


def _pairs(bundle: Bundle, a: str | None, b: str | None) -> list[tuple[Result, Result | None]]:
    from simgen.diff import REFERENCE

    if a is not None:
        names = [a, b or REFERENCE]
        if names[0] == REFERENCE:
            names.reverse()
        if names[0] == REFERENCE:
            raise UsageError("diff: the reference equals itself; name a target or a results file")
        one, other = (None if n == REFERENCE else _result(bundle, n) for n in names)
        assert one is not None
        return [(one, other)]
    found = [_result(bundle, name) for name in bundle.targets if bundle.results(name)]
    if not found:
        raise UsageError(
            f"{bundle.path}: nothing has run yet; run it with: simgen run {bundle.path}"
        )
    pairs: list[tuple[Result, Result | None]] = [(result, None) for result in found]
    pairs += [(x, y) for at, x in enumerate(found) for y in found[at + 1 :]]
    return pairs


def _result(bundle: Bundle, name: str) -> Result:
    """A target's result, or one from a file."""
    from simgen import launch, results

    if name not in bundle.targets:
        path = Path(name)
        if path.suffix == ".h5" or path.exists():
            return results.load(path)
        raise UsageError(
            f"{bundle.path}: {name!r} is no target of it; "
            f"{did_you_mean(name, [*bundle.targets, 'reference'])}"
        )
    folder = bundle.results(name)
    if folder is None:
        raise UsageError(
            f"{bundle.path}: {name} has not run yet; run it with: "
            f"simgen run {bundle.path} --on {name}"
        )
    return results.collect(bundle, launch.target_of(bundle, name), folder)


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="DIR"
)
@verbosity
def report(bundles: tuple[Path, ...], output: Path, quiet: bool, verbose: bool) -> None:
    """Compare what all results in BUNDLES measured, by layer and pass.

    \b
    DIR/report.html      figures and tables, on one page
    DIR/metrics.csv      metrics of each layer, pass and target
    DIR/correlation.csv  how well every two targets agree
    DIR/trace.sqlite3    metrics of each launch, tied to layer, pass and kernel, to be queried

    \b
    simgen report softmax_fwd -o report
    simgen report alexnet vgg16 -o report
    """
    from simgen import bundle as loader
    from simgen import present, trace
    from simgen import report as reports

    loaded = [loader.load(path) for path in bundles]
    ran = [[_ran(made, name) for name in made.targets if made.results(name)] for made in loaded]
    if not any(ran):
        raise UsageError(f"{bundles[0]}: nothing has run yet; run it with: simgen run {bundles[0]}")
    names = _names(bundles)
    found = [
        row
        for name, made, runs in zip(names, loaded, ran)
        for row in reports.rows(made, [run.result for run in runs], name)
    ]
    page = reports.write(output, found)
    trace.write(output / trace.FILE, zip(names, loaded, ran))
    if not quiet:
        present.report(found)
        present.correlations(reports.correlations(found))
        for name, runs in zip(names, ran):
            if not runs:
                print(f"not in the report: {name}, which has not run")
        print(f"page: {page}")


def _names(bundles: tuple[Path, ...]) -> list[str]:
    """Their folders' names; paths as given, where two have the same name.

    Raises:
        UsageError: a bundle is given twice.
    """
    homes = [path.resolve() for path in bundles]
    for at, home in enumerate(homes):
        if home in homes[:at]:
            raise UsageError(f"{bundles[at]}: given twice; name each bundle once")
    names = [home.name for home in homes]
    return names if len(set(names)) == len(names) else [str(path) for path in bundles]


def _ran(bundle: Bundle, name: str) -> Run:
    """A target's result, when it was complete, and the machine that `simgen run` found then."""
    from simgen import bundle as bundles
    from simgen import results
    from simgen.trace import Run

    result = _result(bundle, name)
    folder = bundle.path / bundles.RESULTS / name
    told = results.provenance(folder / results.FILE)
    ended = datetime.fromtimestamp((folder / bundles.COMPLETE).stat().st_mtime, UTC)
    return Run(replace(result, provenance=told or result.provenance), ended)
