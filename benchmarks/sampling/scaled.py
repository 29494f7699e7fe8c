"""Times a network on a part of the machine, and prints how far each launch is off the whole one.

    python benchmarks/sampling/scaled.py [--part K] [--jobs N] [WORKLOAD [NAME=VALUE...]]

MGPUSim's timing model of an MI300A; ResNet-50 with n=1 by default, of which the launches that
differ are simulated. The bundle lies in `scaled-WORKLOAD` in the current folder; of its whole
launches those count that have ended: an interrupted run goes on, and is compared as far as it is.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import click

import simgen
from simgen.bundle import pieces, result_names, results, run_record
from simgen.bundle import writing as bundles

TARGET = "mgpusim"
WHOLE = result_names.of_pieces(TARGET, result_names.REPRESENTATIVES)


def ended(bundle):
    """Metrics of the launches of the whole run that have ended, by launch."""
    workload, home = bundle.workload, bundle.path / bundles.RESULTS
    if (home / WHOLE / results.FILE).exists():
        found = results.load(home / WHOLE / results.FILE, workload)
        return {
            at: row for at, row in enumerate(found.launches) if at not in results.inferred(found)
        }
    home /= f"stopped-{WHOLE}"
    run = run_record.read_run(home, workload)
    known = {}
    for piece in run.pieces if run else ():
        path = pieces.path(home, piece)
        if path.exists():
            found = results.load(path, workload)
            for step in piece.steps:
                first = workload.first_launches[step]
                for at in range(first, first + len(workload.steps[step].launches)):
                    known[at] = found.launches[at]
    return known


@click.command()
@click.option("--part", default=8)
@click.option("--jobs", default=2)
@click.option("--whole/--no-whole", default=True, help="Run the whole launches, too.")
@click.argument("words", nargs=-1)
def main(part: int, jobs: int, whole: bool, words: tuple[str, ...]) -> None:
    name, *settings = words or ("resnet50", "n=1")
    path = Path(f"scaled-{name}")
    chosen = dict(each.split("=") for each in settings)
    plan = simgen.plan(name, set=chosen, plan_for="mgpusim-mi300a")
    built = simgen.load(path) if path.exists() else plan.build(path, targets=[TARGET])
    how = {"options": {"mode": "timing"}, "representatives": True, "jobs": jobs}
    ran = built.run(TARGET, scale_model=part, replace=True, **how)
    right = bool(built.diff(ran.name))
    if whole:
        built.run(TARGET, replace=True, **how)
    bundle = bundles.load(path)
    scaled = results.load(path / bundles.RESULTS / ran.name / results.FILE, bundle.workload)
    print("| launch | layer | kernel | work-groups | us | scaled | error | host s | scaled |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows = list(compared(bundle.workload, ended(bundle), scaled))
    for at, layer, launch, truth, found in rows:
        print(f"| {at} | {layer} | {launch.kernel[:40]} | {truth['work_groups']:.0f} "
              f"| {truth['seconds'] * 1e6:.2f} | {found['seconds'] * 1e6:.2f} "
              f"| {found['seconds'] / truth['seconds'] - 1:+.1%} "
              f"| {truth['host_seconds']:.1f} | {found['host_seconds']:.1f} |")  # fmt: skip
    times = [(truth["seconds"], found["seconds"]) for *_, truth, found in rows]
    errors = sorted(abs(found / truth - 1) for truth, found in times)
    a, b = map(sum, zip(*times))
    print(f"\n{len(rows)} launches, in all {a * 1e6:.1f} us and {b * 1e6:.1f} us "
          f"({b / a - 1:+.2%}); errors: median {statistics.median(errors):.1%}, 95 % below "
          f"{errors[int(0.95 * len(errors))]:.1%}, worst {errors[-1]:.1%}; diff "
          f"{'all right' if right else 'NOT RIGHT'}")  # fmt: skip


def compared(workload, whole, scaled):
    launches = [(step.layer, launch) for step in workload.steps for launch in step.launches]
    inferred = results.inferred(scaled)
    for at, (layer, launch) in enumerate(launches):
        if at in whole and at not in inferred:
            yield at, layer, launch, whole[at], scaled.launches[at]


if __name__ == "__main__":
    main()
