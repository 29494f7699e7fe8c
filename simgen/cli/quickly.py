"""quick: build, run and diff in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simgen.ask.build import BuildChoices
from simgen.ask.choice import choices
from simgen.ask.run import RunChoices
from simgen.cli import completing, defaults, options, streams
from simgen.cli.answers import json_option
from simgen.cli.options import asked, asks, given_options, verbosity


@click.command(cls=options.OptionsCommand)
@click.argument("workload", shell_complete=completing.workload)
@click.option(
    "--on",
    "target",
    metavar="T",
    shell_complete=completing.targets,
    help="Target to run on. [default: host]",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    shell_complete=completing.bundle,
    help="Bundle to make. [default: its workload's name]",
)
@asks(BuildChoices)
@json_option
@verbosity
def quick(
    workload: str,
    target: str | None,
    output: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Build WORKLOAD, run it on a target, and check the result.

    It is `simgen build`, `run` and `diff` one after the other, with their options. What is there is
    built again; a result with the same options is not made again.

    \b
    simgen quick softmax_fwd
    simgen quick lenet5 --on mgpusim --mode timing --set n=1
    """
    from simgen.bundle import writing as bundles
    from simgen.bundle.planning import Plan, chosen_targets
    from simgen.cli import comparing, pipeline, present

    target = target or (defaults.value("target") or "host").split(",")[0].strip()
    known = {each.name for each in choices(BuildChoices)}
    quiet = quiet or as_json
    run = given_options({name: each for name, each in given.items() if name not in known})
    wanted = RunChoices(target, options=run)
    targets = chosen_targets((target,), {})
    workload = streams.read(workload, ".dnnmark")
    plan = Plan(workload, asked(BuildChoices, given), targets)
    path = Path(output or plan.problem.name)
    with present.stages(quiet) as tell:
        made, builder = plan.write(path, targets, replace_results=False, tell=tell)
    if not quiet:
        pipeline.say_built(made, len(plan.network.layers), builder.cache, verbose)
    with bundles.opened(path) as bundle:
        if not pipeline.done(bundle, wanted, quiet):
            pipeline.run_one(bundle, wanted, quiet, verbose, ends=False)
    comparing.judge(path, None, None, as_json=as_json, strict=False, quiet=quiet, verbose=verbose)
