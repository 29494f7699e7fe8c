"""new network: a small network with the costs of others."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simgen.ask.build import BuildChoices
from simgen.ask.kinds import Real
from simgen.cli import completing
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import number
from simgen.cli.options import verbosity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from simgen.workload.synthesis import KindCost, Synthesis

MIN_OPERATIONS, MAX_OPERATIONS = 1e4, 1e15  # operations


@click.command()
@click.argument("workloads", nargs=-1, required=True, metavar="WORKLOAD...",
                shell_complete=completing.workload)  # fmt: skip
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="Config to write, FILE.dnnmark.",
)
@number(
    "--operations",
    kind=Real("N", MIN_OPERATIONS, MAX_OPERATIONS),
    default="2e7",
    show_default=True,
    help="Approximate number of operations of the network.",
)
@click.option("--training", is_flag=True, help="Passes fwd,bwd,sgd; otherwise fwd.")
@number(
    "--within",
    kind=Real("D", 0, 1),
    help="Write nothing if the largest distance exceeds D.",
)
@json_option
@verbosity
def network(
    workloads: tuple[str, ...],
    output: Path,
    operations: float,
    training: bool,
    within: float | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write a small network with the cost profile of WORKLOADS.

    All workloads have the same weight. The network has a layer for each kind of layer in WORKLOADS.
    Sizes are chosen for about the same shares of operations and bytes, operations per byte, and
    parameters. The distances reached, 0 to 1, are printed and stored in the file. More --operations
    reduce them, because small products have few operations per byte.

    \b
    simgen new network alexnet resnet50 language_model -o mix.dnnmark
    simgen new network seq2seq --training --operations 1e8 -o mix.dnnmark
    simgen build mix.dnnmark --training
    """
    from simgen.bundle import outputs
    from simgen.bundle.planning import Plan
    from simgen.cli import present
    from simgen.errors import RefusedError, UsageError
    from simgen.ground.storage.files import write_atomic
    from simgen.workload import synthesis

    if output.suffix != ".dnnmark":
        raise UsageError(f"-o {output}: a config ends in .dnnmark; choose such a name")
    outputs.new_file(output)
    plans = [Plan(word, BuildChoices(inference=False if training else None)) for word in workloads]
    for word, plan in zip(workloads, plans, strict=True):
        if plan.problem.kernel:
            raise UsageError(f"{word}: kernels of your own, which no layer imitates; leave it out")
    sources = [
        synthesis.Imitated(
            plan.problem.name, plan.workload, tuple(p.node.name for p in plan.network.layers)
        )
        for plan in plans
    ]
    words = ["simgen", "new", "network", *workloads, "--operations", f"{operations:g}"]
    command = shlex.join([*words, *(["--training"] if training else [])])
    passes = plans[0].problem.passes
    if any(set(plan.problem.passes) != set(passes) for plan in plans):
        raise UsageError("workloads have different passes; name networks, or layers in one pass")
    made = synthesis.synthesise(sources, passes, operations, (command,))
    quiet = quiet or as_json
    if not quiet:
        kinds = sorted(made.wanted, key=lambda kind: -made.wanted[kind].nbytes)
        heads = ("kind", "operations", "wanted", "bytes", "wanted", "ops / byte", "wanted")
        present.table(None, heads, [_row(made, kind) for kind in kinds])
        print(made.distance)
    if within is not None and made.distance.largest > within:
        fact = f"the largest distance is {made.distance.largest:.3f}, more than {within:g}"
        raise RefusedError(f"--within: {fact}; give it more --operations, or a larger distance")
    write_atomic(output, made.text.encode())
    work = made.work.flops + made.work.transcendentals
    following = f"simgen build {shlex.quote(str(output))}{' --training' if training else ''}"
    if as_json:
        told: dict[str, Any] = {"files": [str(output)], "next": following, "operations": work}
        told["largest_distance"] = made.distance.largest
        shares = {kind: {"made": _cost(made.made, kind), "wanted": _cost(made.wanted, kind)}
                 for kind in made.wanted}  # fmt: skip
        answer("network", {**told, "kinds": shares})
    elif not quiet:
        print(f"{output}: {present.count(work)} operations")
        print(f"next: {following}")


def _cost(of: Mapping[str, KindCost], kind: str) -> dict[str, float]:
    """What a kind takes, for one operation of the whole."""
    from simgen.workload.synthesis import KindCost

    cost = of.get(kind, KindCost())
    return {
        "operations": cost.operations, "bytes": cost.nbytes, "operations_per_byte": cost.intensity,
    }  # fmt: skip


def _row(made: Synthesis, kind: str) -> tuple[str, ...]:
    """A kind's shares of operations and bytes, and its intensity: what is, and what was wanted."""
    from simgen.workload.synthesis import KindCost

    cells = [kind]
    profiles = (made.made, made.wanted)
    for name in ("operations", "nbytes"):
        for which in profiles:
            whole = sum(getattr(each, name) for each in which.values())
            cells.append(f"{getattr(which.get(kind, KindCost()), name) / whole:.1%}")
    return (*cells, *(f"{which.get(kind, KindCost()).intensity:.2f}" for which in profiles))
