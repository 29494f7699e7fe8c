"""show, list, data, cache, doctor: what there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.build import BuildChoices, Destination
from simgen.ask.kinds import Whole
from simgen.cli import completing, logs, standing
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import SEED, number
from simgen.cli.options import BuildCommand, Commands, asks, planned, verbosity
from simgen.errors import MissingError, UsageError, did_you_mean, printable

FETCHED = ("mgpusim",)  # targets whose simulator simgen builds on the first run
UNITS = {"_bytes_per_second": "B/s", "_hz": "Hz"}  # ends of keys, and how people read them

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.bundle.planning import Plan
    from simgen.ground.ir import Workload
    from simgen.targets.base import Target


@click.command(cls=BuildCommand)
@click.argument("workload", shell_complete=completing.workload)
@asks(Destination, BuildChoices)
@click.option(
    "--as",
    "form",
    metavar="F",
    shell_complete=completing.forms,
    help="Print the layers that libraries support, as problem strings (string) or as command "
    "lines of MIOpenDriver (miopen), rocblas-bench (rocblas), hipblaslt-bench (hipblaslt), "
    "cutlass_profiler (cutlass), benchdnn, or DeepBench's own programs (deepbench).",
)
@click.option(
    "--cost",
    is_flag=True,
    help="Print the predicted cost of simulating it: instructions, simulated time, and this "
    "machine's time and memory. A short run calibrates this machine once.",
)
@click.option("--probe", is_flag=True, help="With --cost, calibrate this machine again.")
@click.option(
    "--budget",
    metavar="T",
    shell_complete=completing.words("10m", "1h", "8h"),
    help="Also print how to stay within a time, such as 10m or 2h, and what that gives up.",
)
@json_option
@verbosity
def show(
    form: str | None,
    cost: bool,
    probe: bool,
    budget: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Print layers, shapes, work and memory of a workload.

    Operations are floating-point operations and special functions. Bytes are the minimum traffic:
    each tensor is read or written once. The command lines that run the bundle are printed too. -v
    adds parameters, settings and launches. Layers without kernels for the pass are shown as well.

    A bundle is shown as it was built, with its results, unless options of a workload or of costs
    are given.

    \b
    simgen show softmax_fwd
    simgen show alexnet --pass fwd,bwd --layers conv1..pool1
    simgen show alexnet.dnnmark --json
    simgen show deepbench/conv/17 --as miopen
    simgen show "gem5.opt apu_se.py -u8 -c dnnmark_test_fwd_softmax"
    simgen show resnet50 --set n=1 --target mgpusim --cost --budget 2h
    """
    from simgen.cli import present
    from simgen.errors import UnsupportedError
    from simgen.frontend import problem

    costs = cost or probe or bool(budget)
    if problem.GEM5_LINE.search(given["workload"]):
        _show_posted(given["workload"], as_json)
        return
    if form is None and not costs and (bundle := standing.shown_bundle(given)):
        standing.show_bundle(bundle, as_json, verbose)
        return
    plan, output, targets = planned(given)
    if form is not None:
        _show_lines(plan, form, as_json, quiet)
        return
    if costs:
        from simgen.cli import costing

        told = costing.show(plan, targets, given, budget, again=probe, as_json=as_json)
        if as_json:
            answer("cost", {"targets": told})
        return
    try:
        workload: Workload | None = plan.workload
        unsupported = ""
    except UnsupportedError as error:
        workload, unsupported = None, str(error)
    commands = {}
    if workload:
        commands = {t.name: dict(t.package.commands(output, workload)) for t in targets}
        commands = {name: lines for name, lines in commands.items() if lines}
    if as_json:
        shown = _show_json(plan, workload)
        shown |= {"commands": commands, "unsupported": unsupported or None}
        answer("workload", shown)
        return
    for note in plan.notes:
        present.say(note)
    present.network(plan.network, settings=verbose)
    if unsupported:
        present.say(f"no kernels: {unsupported}")
    elif workload:
        present.inputs(workload, parameters=verbose, constants=plan.constants)
        present.work(workload)
        present.planned(workload, plan.planned_for.why)
        present.queues(workload)
        if verbose:
            present.dispatches(workload)
    for name, lines in commands.items():
        for way, line in lines.items():
            print(f"{name}, {way}:\n  {line}")


def _show_posted(line: str, as_json: bool) -> None:
    """What each word of a command line of gem5 becomes, and the commands that do the same."""
    from simgen.cli import present
    from simgen.frontend import problem
    from simgen.targets.gem5 import posted

    found = posted.read(line, problem.is_known)
    if as_json:
        answer("posted", {"becomes": dict(found.rows), "commands": found.commands()})
        return
    present.table(None, ("in the line", "in simgen"), found.rows)
    for each in found.commands():
        print(each)


def _show_lines(plan: Plan, form: str, as_json: bool, quiet: bool) -> None:
    """The layers as operations of libraries; a notice of those that are none."""
    import sys

    from simgen.errors import message
    from simgen.frontend import exporting
    from simgen.frontend.drivers import table

    if form not in table.FORMS:
        raise UsageError(f"--as {form!r}: no such form; {did_you_mean(form, table.FORMS)}")
    lines, without = exporting.lines(plan.network, plan.problem.passes, form)
    if as_json:
        answer("lines", {"lines": lines, "without": without})
        return
    print("\n".join(lines))
    if without and not quiet:
        reasons: dict[str, list[str]] = {}
        for name, why in without.items():
            plain = why[0] == "[" and why[-1] == "]"
            reasons.setdefault("" if plain else f" ({why})", []).append(name)
        names = "; ".join(f"{', '.join(each)}{why}" for why, each in reasons.items())
        print(message(f"layers that have no such line: {names}"), file=sys.stderr)


def _show_json(plan: Plan, workload: Workload | None) -> dict[str, Any]:
    from simgen.cli import present
    from simgen.ground.ir import to_json
    from simgen.workload import costs

    shown: dict[str, Any] = {
        "name": plan.problem.name,
        "notes": list(plan.notes),
        "layers": [
            {
                **to_json(placed.node),
                "previous": list(placed.previous),
                "reads": [str(source) for source in placed.sources],
                "output": to_json(placed.output),
                "outputs": {port: to_json(spec) for port, spec in placed.outputs},
            }
            for placed in plan.network.layers
        ],
        "workload": to_json(workload) if workload else None,
    }
    if workload:
        works = costs.costs_of(workload)
        shown["constants"] = {name: present.constant(each) for name, each in plan.constants.items()}
        shown["work"] = [costs.as_json(each) for each in works]
        shown["total"] = to_json(costs.total(works))
        shown["memory_bytes"] = costs.memory(workload)
        shown["planned_for"] = {"machine": workload.machine.label, "why": plan.planned_for.why}
        shown["plan"] = [to_json(each) for each in costs.choices(workload)]
    return shown


@click.command(name="list")
@click.argument("what", required=False, default="workloads", shell_complete=completing.lists)
@click.argument("part", required=False, shell_complete=completing.parts)
@json_option
def list_(what: str, part: str | None, as_json: bool) -> None:
    """List workloads, layers, targets, metrics and others.

    The lists are workloads (the default), networks, layers, targets, algorithms, machines, metrics,
    exports, schemas (of JSON) and variables (of the environment).

    `deepbench` lists DeepBench's problems. Add gemm, conv, rnn, sparse or allreduce to list one
    family. `atrex` lists operators of LLM serving; add a family, such as rms_norm.

    A file is a log that MIOpen, rocBLAS or hipBLASLt wrote of a model's run. simgen lists its
    problems, which `simgen build` takes, and how often each was called.

    \b
    simgen list
    simgen list targets --json
    simgen list deepbench conv
    simgen list model.log
    """
    listings: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "layers": _list_layers,
        "workloads": _list_workloads,
        "networks": _list_networks,
        "targets": _list_targets,
        "algorithms": _list_algorithms,
        "machines": _list_machines,
        "metrics": _list_metrics,
        "exports": _list_exports,
        "schemas": _list_schemas,
        "variables": _list_variables,
        "deepbench": lambda: _list_deepbench(part),
        "atrex": lambda: _list_atrex(part),
    }
    if what not in listings and Path(what).is_file():
        listings[what] = lambda: logs.listed(Path(what))
    if what not in listings:
        raise UsageError(f"list {what!r}: unknown; {did_you_mean(what, listings)}")
    if part is not None and what not in ("deepbench", "atrex"):
        raise UsageError(f"list {what} {part!r}: {what} has no parts; leave {part!r} out")
    rows = listings[what]()
    if as_json:
        answer("list", {"list": what, "rows": rows})
        return
    from simgen.cli import present

    shown = [_for_people(row) for row in rows]
    heads = list(shown[0])
    present.table(None, heads, [list(row.values()) for row in shown], heads[:1:-1])


def _for_people(row: Mapping[str, Any]) -> dict[str, str]:
    """A row of a list with units of its size; what is itself a list or an object is left out."""
    from simgen.cli import present

    found = {}
    for key, value in row.items():
        name, unit = next(
            ((key.removesuffix(end), unit) for end, unit in UNITS.items() if key.endswith(end)),
            (key, ""),
        )
        if isinstance(value, bool):
            found[name] = "yes" if value else "no"
        elif isinstance(value, int | float):
            found[name] = f"{present.count(value)}{unit}" if unit else f"{value:.4g}"
        elif isinstance(value, str) or value is None:
            found[name] = value or "-"
    return {name.replace("_", " "): text for name, text in found.items()}


def _list_layers() -> list[dict[str, str]]:
    from simgen.layers import LAYERS
    from simgen.layers.base import Alias

    return [
        {
            "layer": kind,
            "section": layer.section,
            "passes": "nothing to run"
            if layer.given or issubclass(layer, Alias)
            else " ".join(layer.passes) or "not yet",
            "keys": " ".join(layer.config_keys()),
        }
        for kind, layer in sorted(LAYERS.items())
    ]


def _list_workloads() -> list[dict[str, str]]:
    from simgen.frontend import problem

    return [{"workload": name, "what": what} for name, what in problem.listed().items()]


def _list_networks() -> list[dict[str, str]]:
    from simgen.frontend import problem

    return [{"network": name, "what": what} for name, what in problem.networks().items()]


def _list_deepbench(family: str | None) -> list[dict[str, Any]]:
    from simgen.frontend import deepbench
    from simgen.frontend.operation import FAMILIES

    if family is not None and family not in FAMILIES:
        cure = did_you_mean(family, FAMILIES)
        raise UsageError(f"list deepbench {family!r}: no such family; {cure}")
    found = [p for name in FAMILIES if family in (None, name) for p in deepbench.problems(name)]
    return [
        {
            "problem": each.name,
            "set": each.set,
            "what": str(each.operation),
            "types": " ".join(each.types),
            "passes": " ".join(each.passes),
            "flops": each.operation.flops,
            "note": each.note,
        }
        for each in found
    ]


def _list_atrex(family: str | None) -> list[dict[str, Any]]:
    from simgen.frontend import atrex

    if family is not None and family not in atrex.OPERATORS:
        cure = did_you_mean(family, atrex.OPERATORS)
        raise UsageError(f"list atrex {family!r}: no such family; {cure}")
    rows = []
    for each in atrex.operators(family):
        count, smaller = each.needs
        rows.append(
            {
                "operator": each.name,
                "layer": each.kind,
                "keys": each.keys,
                "type": each.type or "i32",
                "flops": count.flops,
                "nbytes": count.read_bytes + count.written_bytes,
                "scale_to": " ".join(smaller) or "-",
                "unlike": each.unlike,
            }
        )
    return rows


def _list_targets() -> list[dict[str, Any]]:
    from simgen.targets import TARGETS, usual_targets

    rows = []
    for name in usual_targets():
        target = TARGETS[name]
        made = target()
        lacks = made.needs.missing()
        rows.append(
            {
                "target": name,
                "what": target.summary,
                "seen_running": _seen(target),
                "on_this_machine": " | ".join(str(lack) for lack in lacks) or "ready",
                "stages": list(made.package.stages()),
            }
        )
    return rows


def _seen(target: type[Target]) -> str:
    """Whether its authors have seen it running, which says how far to trust it."""
    from simgen.targets.base import EVERYTHING

    unseen = target.unseen()
    return "no" if unseen == EVERYTHING else f"yes, not {unseen}" if unseen else "yes"


def _list_machines() -> list[dict[str, Any]]:
    from simgen.ground.machine import descriptions

    return [
        {
            "machine": name,
            "what": told.title,
            "architecture": told.machine.arch,
            "compute_units": told.machine.units,
            "clock_hz": told.machine.clock,
            "dram_bytes_per_second": told.machine.dram_rate,
        }
        for name, told in descriptions().items()
    ]


def _list_metrics() -> list[dict[str, str]]:
    from simgen.ground.metrics import METRICS

    return [
        {
            "metric": metric.name,
            "unit": metric.unit,
            "what": metric.title,
            "formula": metric.formula,
        }
        for metric in METRICS.values()
    ]


def _list_exports() -> list[dict[str, str]]:
    from simgen.reports.exports import EXPORTS

    return [
        {"format": name, "writes": "a file" if each.file else "a folder", "what": each.what}
        for name, each in sorted(EXPORTS.items())
    ]


def _list_schemas() -> list[dict[str, Any]]:
    from simgen.cli import answers

    return [
        {"schema": answers.schema_name(name), "command": line, "json_schema": answers.schema(name)}
        for name, (line, _) in answers.SHAPES.items()
    ]


def _list_variables() -> list[dict[str, Any]]:
    from simgen.cli import variables

    return variables.listed()


def _list_algorithms() -> list[dict[str, str]]:
    from enum import Enum

    from simgen.layers import LAYERS
    from simgen.layers.base import field_types

    rows = []
    for kind, layer in sorted(LAYERS.items()):
        if not layer.passes:
            continue
        hints = field_types(layer)
        for each in layer.keyed_fields():
            values = hints[each.name]
            if isinstance(values, type) and issubclass(values, Enum):
                names = [str(v) for v in values]
                rows.append(
                    {"layer": kind, "key": each.metadata["keys"][0], "values": " ".join(names)}
                )
    return rows


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--bytes",
    "nbytes",
    metavar="N",
    help="Size of a file for DNNMark: a number of bytes, or one with K, M or G (powers of 1024).",
)
@click.option(
    "--like",
    type=click.Choice(("mnist", "cifar10", "text", "pairs")),
    help="Write samples in this format, generated from the seed.",
)
@number(
    "--samples",
    kind=Whole("N", 1, 1_000_000),
    default=1000,
    show_default=True,
    help="With --like: number of images, lines or pairs.",
)
@number("--seed", kind=SEED, default=0, show_default=True, help="Seed of the values.")
@json_option
@verbosity
def data(
    file: Path,
    nbytes: str | None,
    like: str | None,
    samples: int,
    seed: int,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write data for DNNMark's option -mmap, or samples.

    With --bytes, FILE holds raw little-endian float32 values, uniform in [0, 1). With --like, it
    holds training data: images with classes, a text, or pairs of sentences. Labels of MNIST images
    go to a second file, whose name follows from the first.

    \b
    simgen new data mmap.bin --bytes 2G
    simgen new data digits-images-idx3-ubyte --like mnist --samples 1000
    simgen new data words.txt --like text
    """
    if (nbytes is None) == (like is None):
        raise UsageError("new data: say either --bytes, for DNNMark, or --like, for samples")
    from simgen.bundle import outputs

    outputs.new_file(file, "")
    if like is not None:
        from simgen.tensors.samples import making
        from simgen.tensors.samples.images import labels_of

        if like == "mnist":
            outputs.new_file(labels_of(file), "")
        paths = making.write(file, like, samples, seed)
        if as_json:
            answer("files", {"files": [str(path) for path in paths], "next": None})
        for path in paths if not quiet and not as_json else ():
            print(f"{path}: {samples} samples like {like}, seed {seed}")
        return
    from simgen.cli import present
    from simgen.tensors import data_file as datafile

    size = _parse_size(nbytes or "")
    with present.progress(quiet or as_json) as progress:
        datafile.write_raw(file, size, seed, progress=progress("data", present.size))
    if as_json:
        answer("files", {"files": [str(file)], "next": None})
    elif not quiet:
        print(f"{file}: {present.size(size)} of float32, seed {seed}")


def _parse_size(text: str) -> int:
    unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
        raise UsageError(
            f"--bytes {printable(text)}: not a size; write a number such as 4096, 64M or 2G"
        )
    return int(digits) * unit


@click.group(cls=Commands)
def cache() -> None:
    """Manage the cache of compiled kernels and programs."""


@cache.command(name="list")
@json_option
def cache_list(as_json: bool) -> None:
    """List the entries of your cache and of the precomputed set.

    \b
    simgen cache list --json
    """
    from simgen.cli import present
    from simgen.kernels import cache as caches

    roots = {"own": caches.user_root(), "precomputed": caches.precomputed_root()}
    rows = [
        {
            "where": where,
            "entry": entry.digest,
            "what": entry.label,
            "bytes": len(entry.read()[1]),
            "state": str(entry.read()[0]),
        }
        for where, root in roots.items()
        for entry in caches.entries(root)
    ]
    if as_json:
        answer("cache", {"folders": {k: str(v) for k, v in roots.items()}, "entries": rows})
        return
    heads = ("where", "entry", "what", "bytes", "state")
    present.table(
        None, heads, [[str(row[h])[:16] if h == "entry" else row[h] for h in heads] for row in rows]
    )
    for where, root in roots.items():
        print(f"{where}: {root}")


@cache.command(name="verify")
@json_option
def cache_verify(as_json: bool) -> None:
    """Check the digest of every entry. Exit code 7: an entry is damaged.

    \b
    simgen cache verify
    """
    from simgen.cli import present
    from simgen.errors import DamagedError
    from simgen.kernels import cache as caches

    roots = (caches.user_root(), caches.precomputed_root())
    found = [entry for root in roots for entry in caches.entries(root)]
    states = {entry.path: entry.read()[0] for entry in found} | dict(caches.simulators())
    damaged = [path for path, state in states.items() if state is not caches.State.GOOD]
    simulators = len(states) - len(found)
    if as_json:
        told = {"entries": len(found), "simulators": simulators}
        answer("cache_verify", {**told, "damaged": [str(path) for path in damaged]})
    if damaged:
        raise DamagedError(
            f"{damaged[0]}: damaged, and {len(damaged) - 1} more of {len(states)} entries; "
            "builds and runs ignore and replace them, or run: simgen cache clear"
        )
    built = present.many(simulators, "simulator")
    if not as_json:
        print(f"{present.many(len(found), 'entry', 'entries')} and {built}, all good")


@cache.command(name="pack")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder to write to. [default: the set that comes with simgen]",
)
def cache_pack(output: Path | None) -> None:
    """Write the precomputed set: the kernels of the built-in workloads for gem5-se.

    \b
    simgen cache pack -o cachefiles
    """
    from simgen.bundle import outputs
    from simgen.cli import precompute, present
    from simgen.kernels import cache as caches

    root = output or caches.precomputed_root()
    own = root.resolve() == caches.precomputed_root().resolve()
    if own:
        outputs.outside(root)
    else:  # marked first: what is stopped goes on
        outputs.folder(root, "cache", lambda path: any(caches.entries(path)))
    made = precompute.pack(root)
    print(f"{root}: {present.many(len(made), 'entry', 'entries')}")


@cache.command(name="fetch")
@json_option
def cache_fetch(as_json: bool) -> None:
    """Make ready what later runs need: the simulators that simgen builds.

    Run it where there is a network, with SIMGEN_CACHE_DIR on a disk that the nodes of a cluster
    share. MGPUSim needs Go (the extra `mgpusim`) and 230 MB there.

    \b
    SIMGEN_CACHE_DIR=$PWD/cache simgen cache fetch
    """
    from simgen.ask.build import BuildChoices
    from simgen.ask.run import RunChoices
    from simgen.bundle import writing as bundles
    from simgen.bundle.planning import Plan, chosen_targets
    from simgen.cli.following import Printing
    from simgen.ground.storage import files
    from simgen.running import runs

    ready, missing = [], {}
    with files.scratch_folder("fetch") as folder:
        for name in FETCHED:
            (target,) = targets = chosen_targets((name,), {})
            if lacks := target.needs.missing():
                missing[name] = str(lacks[0])
                continue
            choices = BuildChoices(set={"n": 1, "c": 4})
            made, _ = Plan("softmax_fwd", choices, targets).write(folder / name, targets)
            with bundles.opened(made.path) as bundle:
                runs.run(bundle, RunChoices(name), Printing(quiet=True))
            ready.append(name)
    if as_json:
        answer("cache_fetch", {"ready": ready, "missing": missing})
    else:
        for name in ready:
            print(f"{name}: ready")
    if missing:
        name, fact = next(iter(missing.items()))
        raise MissingError(f"{name}: {fact}")


@cache.command(name="clear")
@json_option
def cache_clear(as_json: bool) -> None:
    """Remove your cache's entries, the simulators that simgen built, and notes.

    Notes record which bundles were built here, and what `simgen rates` and `show --cost` measured.
    The precomputed set stays.

    \b
    simgen cache clear
    """
    from simgen.cli import present
    from simgen.kernels import cache as caches

    root = caches.user_root()
    gone = caches.clear(root), caches.clear_simulators(), caches.clear_notes()
    if as_json:
        told = dict(zip(("entries", "simulators", "notes"), gone))
        answer("cache_clear", {"folder": str(root), **told})
        return
    entries = present.many(gone[0], "entry", "entries")
    built, notes = present.many(gone[1], "simulator"), present.many(gone[2], "note")
    print(f"{root}: {entries}, {built} and {notes} removed")


@click.command()
@click.option(
    "--for",
    "target",
    metavar="T",
    shell_complete=completing.targets,
    help="Print how to get what this target needs, from nothing: commands, time and memory.",
)
@click.option(
    "--gem5-version",
    "version",
    metavar="V",
    shell_complete=completing.gem5_versions,
    help="With --for gem5-se or gem5-fs: its version.",
)
@json_option
def doctor(target: str | None, version: str | None, as_json: bool) -> None:
    """Check what this machine has and lacks.

    For each missing program, the cure is printed. Exit code 3: nothing can be built or run.

    \b
    simgen doctor
    simgen doctor --json
    simgen doctor --for gem5-se --gem5-version 24.0
    simgen doctor --for gem5-fs
    """
    if target:
        _show_steps(target, version, as_json)
        return
    if version:
        raise UsageError(
            "--gem5-version: is for --for gem5-se and gem5-fs; add one, or leave it out"
        )
    from simgen.cli import doctor as doctors

    checks = doctors.check()
    if as_json:
        answer("doctor", {"checks": [vars(check) for check in checks]})
    else:
        from simgen.cli import present

        rows = [(c.what, "ok" if c.ok else "missing", c.fact, c.cure) for c in checks]
        present.table(None, ("", "", "found", "cure"), rows)
    if not doctors.usable(checks):
        raise MissingError(
            "this machine: nothing can be built and run; see above how to get what is missing"
        )


def _show_steps(name: str, version: str | None, as_json: bool) -> None:
    from simgen.bundle.planning import chosen_targets
    from simgen.cli import present
    from simgen.targets import TARGETS, usual_targets

    if name not in TARGETS:
        raise UsageError(
            f"--for {printable(name)}: no such target; {did_you_mean(name, usual_targets())}"
        )
    (target,) = chosen_targets([name], {"gem5_version": version} if version else {})
    steps = target.needs.steps()
    if as_json:
        answer("steps", {"steps": [vars(each) for each in steps]})
    elif steps:
        rows = [(each.what, each.command, each.found) for each in steps]
        present.table(None, ("step", "command or figure", "this machine"), rows)
    else:
        print(f"{name}: ready")
