"""status, and `simgen show BUNDLE`: how things stand in bundles."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.cli.answers import answer, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from simgen.bundle.folder import Bundle
    from simgen.running.status import Standing

# seconds between two looks; a state.bin's marks are read anew each time
INTERVAL = 1.0
HEADS = ("state", "steps", "since (UTC)", "verdict", "")


@click.command()
@click.argument("paths", nargs=-1, metavar="[BUNDLE|FOLDER]...", type=click.Path(path_type=Path))
@click.option("--watch", is_flag=True, help="Refresh each second, until nothing runs.")
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.html",
              help="With --watch: write a page, which refreshes itself in a browser.")  # fmt: skip
@json_option
def status(paths: tuple[Path, ...], watch: bool, page: Path | None, as_json: bool) -> None:
    """Print the state of runs, and the verdicts of diff.

    States are not run, running, stopped, failed and finished.

    Arguments are bundles, or folders of bundles. [default: this folder] Runs of other processes and
    sweeps are included; so are runs on other machines if they share the folder and it has locks.

    \b
    simgen status
    simgen status alexnet --watch
    simgen status alexnet --watch --page live.html
    simgen status studies/ --json
    """
    from simgen.errors import UsageError
    from simgen.running import status as standings

    if watch and as_json:
        raise UsageError("--watch: JSON is of one look; leave out --watch or --json")
    if page and not watch:
        raise UsageError("--page: it is refreshed by --watch; add that")
    found = standings.bundles_in(paths or (Path(),))
    if watch:
        _watch(found, page)
        return
    told = _look(found)
    if as_json:
        answer("status", {"results": [each.as_json() for each in told]})
        return
    _table(told)


def shown_bundle(given: dict[str, Any]) -> Path | None:
    """The bundle that `simgen show` is about; none where an option says it is a workload."""
    from click.core import ParameterSource

    from simgen.bundle import manifest

    context = click.get_current_context()
    path = Path(given["workload"])
    about = [
        name
        for name in given
        if name != "workload" and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    ]
    return path if not about and manifest.has_our_format(path / "manifest.json") else None


def show_bundle(path: Path, as_json: bool, verbose: bool) -> None:
    """What the bundle was built from and for, its tensors and work, its results.

    Raises:
        UsageError: there is none.
        DamagedError: it is not what was built.
    """
    from simgen.bundle import writing
    from simgen.running import status as standings

    with writing.opened(path) as bundle:
        told = standings.of_bundle(bundle)
        if as_json:
            answer("bundle", _as_json(bundle, told))
            return
        from simgen.cli import present

        present.say(_heading(bundle))
        present.inputs(bundle.workload, parameters=verbose)
        present.work(bundle.workload)
        present.planned(bundle.workload, "")
        present.queues(bundle.workload)
        if verbose:
            present.dispatches(bundle.workload)
        rows = [(name, _settings(each)) for name, each in bundle.targets.items()]
        present.table(None, ("target", "built with"), rows)
        _table(told, bundles=False)


def _heading(bundle: Bundle) -> str:
    """ "lenet5: a bundle of lenet5.dnnmark (n=4; pass fwd), seed 0, by simgen 0.2.0"."""
    from simgen.ask.build import BuildChoices
    from simgen.bundle import recipe
    from simgen.errors import UsageError

    by = f"by simgen {bundle.manifest['simgen']} with {bundle.manifest['compiler']}"
    try:
        made = recipe.of_bundle(bundle)
    except UsageError:  # bundles of earlier versions do not keep their config
        name, seed = bundle.workload.name, bundle.workload.seed
        return f"{bundle.path}: a bundle of {name}, seed {seed}, {by}"
    chosen, ask = made.choices, BuildChoices
    other = (*recipe.FILES, ask.set, ask.seed)
    given = {each: value for each, value in chosen.given().items() if each not in other}
    said = [
        *(f"{key}={value}" for key, value in chosen.set),
        f"pass {','.join(made.passes)}",
        *(each.name if value is True else f"{each.name}={value}" for each, value in given.items()),
        *(["values given"] if made.gives_values or "exact" in chosen.values else []),
    ]
    return (
        f"{bundle.path}: a bundle of {made.source or made.name} ({'; '.join(said)}), "
        f"seed {chosen.seed}, {by}"
    )


def _settings(settings: Any) -> str:
    shown = {k: ("no", "yes")[v] if type(v) is bool else v for k, v in settings.items()}
    return " ".join(f"{name}={value}" for name, value in shown.items())


def _as_json(bundle: Bundle, told: Sequence[Standing]) -> dict[str, Any]:
    from simgen.ground.ir import to_json
    from simgen.workload import costs

    works = costs.costs_of(bundle.workload)
    kept = ("name", "simgen", "compiler", "config", "targets")
    return {
        "bundle": str(bundle.path),
        **{name: bundle.manifest[name] for name in kept},
        "results": [each.as_json() for each in told],
        "planned_for": {"machine": bundle.workload.machine.label},
        "work": [costs.as_json(each) for each in works],
        "total": to_json(costs.total(works)),
        "memory_bytes": costs.memory(bundle.workload),
        "workload": to_json(bundle.workload),
    }


def _look(paths: Sequence[Path]) -> list[Standing]:
    from simgen.running import status as standings

    return [line for path in paths for line in standings.at(path)]


def _table(told: Sequence[Standing], *, bundles: bool = True) -> None:
    """A line for each result, with a column for each setting that was swept."""
    from simgen.cli import present

    heads, named = present.by_settings(list(dict.fromkeys(each.result for each in told)))
    start = [[each.bundle] if bundles else [] for each in told]
    rows = [
        (*first, *named[each.result], *row[2:])
        for first, each, row in zip(start, told, _rows(told), strict=True)
    ]
    present.table(
        None, [*(["bundle"] if bundles else []), *heads, *HEADS], rows, ("since (UTC)", "steps", "")
    )


def _rows(told: Sequence[Standing]) -> list[tuple[str, ...]]:
    return [
        (
            each.bundle,
            each.result,
            each.state.value,
            "" if each.steps is None else f"{each.steps} of {each.of}",
            each.when.removesuffix("+00:00").replace("T", " "),
            each.verdict,
            each.fact,
        )
        for each in told
    ]


def _write_page(path: Path, told: Sequence[Standing]) -> None:
    """A page with a bar of the steps of each result."""
    from simgen.ground.storage.files import write_atomic
    from simgen.kernels import render
    from simgen.running.status import RunState

    shares = [100 * (each.steps or 0) / each.of if each.of else 0 for each in told]
    runs = any(each.state is RunState.RUNNING for each in told)
    rows = zip(_rows(told), shares, strict=True)
    text = render.page("live.html.j2", heads=("bundle", "result", *HEADS), rows=rows, runs=runs)
    write_atomic(path, text.encode())


def _watch(paths: Sequence[Path], page: Path | None) -> None:
    """A table that is drawn anew; where there is no terminal, a line for each change."""
    import sys

    from rich.console import Console
    from rich.live import Live

    from simgen.running.status import RunState

    console, before = Console(), set[tuple[str, ...]]()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            told = _look(paths)
            rows = _rows(told)
            if page:
                _write_page(page, told)
            if sys.stdout.isatty():
                live.update(_drawn(rows), refresh=True)
            else:
                for row in rows:
                    if row not in before:
                        print("  ".join(cell for cell in row if cell), flush=True)
                before = set(rows)
            if all(each.state is not RunState.RUNNING for each in told):
                return
            time.sleep(INTERVAL)


def _drawn(rows: Sequence[tuple[str, ...]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table("bundle", "result", *HEADS, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        made.add_row(*map(Text, row))
    return made
