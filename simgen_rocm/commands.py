"""cache miopen: what MIOpen will ask its kernel database for, and whether that has it."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.build import BuildChoices
from simgen.ask.kinds import Whole
from simgen.cli import completing
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import number
from simgen.cli.options import verbosity
from simgen.errors import MissingError, UsageError, did_you_mean, one_line, printable

if TYPE_CHECKING:
    from simgen_rocm.miopen_cache import KernelCache, Key

THERE, MISSING, TAKEN, BUILT = "there", "missing", "taken over", "built"
OTHER = "there, another one"


@click.command()
@click.argument("configs", nargs=-1, shell_complete=completing.workload)
@click.option("--gfx", default="gfx902", show_default=True, metavar="G", help="GPU.",
              shell_complete=completing.words("gfx801", "gfx803", "gfx900", "gfx902"))  # fmt: skip
@number(
    "--num-cus",
    kind=Whole("N", 1),
    default=4,
    show_default=True,
    help="Number of compute units of the GPU.",
)
@click.option(
    "--miopen",
    "version",
    default="2.9.0",
    show_default=True,
    metavar="V",
    shell_complete=completing.words("1.7.0", "2.9.0"),
    help="Version of MIOpen: 1.7.0 (gem5 20.1 and 21.0) or 2.9.0 (gem5 21.1 and later).",
)
@click.option(
    "--pass",
    "passes",
    metavar="P",
    shell_complete=completing.passes,
    help="Passes of a network, such as fwd,bwd.",
)
@click.option("--set", "settings", multiple=True, metavar="K=V", help="Set a config key.")
@click.option(
    "--rows",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also include the kernels of this cachefiles.csv of gem5-resources.",
)
@click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder that MIOpen will look in: report what it has. Exit code 3: kernels are missing.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Take missing kernels from this folder, and compare the rest.",
)
@click.option(
    "--sources",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="MIOpen's src/kernels: compile kernels that are still missing.",
)
@click.option(
    "--compiler",
    metavar="PROGRAM",
    shell_complete=completing.files,
    help="[default: /opt/rocm/bin/clang-ocl]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the kernels as a cachefiles.csv, for generate_cachefiles.py.",
)
@json_option
@verbosity
def miopen(
    configs: tuple[str, ...], as_json: bool, quiet: bool, verbose: bool, **given: Any
) -> None:
    """List the kernels that MIOpen requests from its database when DNNMark runs CONFIGS.

    MIOpen cannot compile under gem5, so the database must have all of them beforehand. Kernels of
    rocBLAS (fully connected layers, products of convolutions) come with rocBLAS.

    \b
    simgen cache miopen softmax_fwd alexnet.dnnmark -o cachefiles.csv
    simgen cache miopen lrn_fwd --set n=4 --gfx gfx900 --num-cus 8 --in cachefiles
    simgen cache miopen --rows cache.csv --in new --from old --sources src/kernels
    """
    from simgen.bundle import outputs
    from simgen.ground.machine import architectures
    from simgen_rocm import miopen_cache

    version, gpu, units = given["version"], given["gfx"], given["num_cus"]
    if gpu not in architectures():
        raise UsageError(
            f"--gfx {printable(gpu)}: no such GPU; {did_you_mean(gpu, architectures())}"
        )
    if version not in miopen_cache.VERSIONS:
        cure = did_you_mean(version, miopen_cache.VERSIONS)
        raise UsageError(f"--miopen {version!r}: not in one of gem5's images; {cure}")
    if gpu not in miopen_cache.GPUS[version]:
        known = ", ".join(miopen_cache.GPUS[version])
        raise UsageError(f"--gfx {gpu}: MIOpen {version} is older; take one of {known}")
    _check(configs, given)
    if given["output"]:
        outputs.new_file(given["output"])
    rows = _rows(configs, given)
    if given["rows"]:
        rows = list(dict.fromkeys((*rows, *miopen_cache.read_rows(given["rows"]))))
    states = dict.fromkeys((miopen_cache.key(*row, gpu) for row in rows), "")
    if given["folder"]:
        cache = miopen_cache.VERSIONS[version](given["folder"], gpu, units)
        states = _states(cache, list(states), rows, given)
    if given["output"]:
        _write(given["output"], rows)
    if as_json:
        told = [{"kernel": n, "arguments": a, "state": s} for (n, a), s in states.items()]
        answer("miopen", {"gfx": gpu, "units": units, "miopen": version, "kernels": told})
    elif not quiet:
        _print(states, given)
    lacking = [name for (name, _), state in states.items() if state == MISSING]
    if lacking:
        raise MissingError(
            f"{given['folder']}: {len(lacking)} of {len(states)} kernels are missing, such as "
            f"{lacking[0]}; compile them with --sources, or with gem5-resources' "
            "generate_cachefiles.py from what -o writes"
        )


def _check(configs: tuple[str, ...], given: dict[str, Any]) -> None:
    """Refuse what does not go together."""
    if not configs and not given["rows"]:
        raise UsageError("cache miopen: no config is given; name one, or give --rows")
    for option in ("source", "sources"):
        if given[option] and not given["folder"]:
            name = {"source": "--from", "sources": "--sources"}[option]
            raise UsageError(f"{name}: nothing to put kernels into; give --in, too")
    if given["compiler"] and not given["sources"]:
        raise UsageError("--compiler: nothing to compile; give --sources, too")


def _rows(configs: tuple[str, ...], given: dict[str, Any]) -> list[tuple[str, str]]:
    """(program, arguments) of all kernels, each once."""
    from simgen.bundle.planning import Plan
    from simgen_rocm import dnnmark, gem5_dnnmark

    found: list[tuple[str, str]] = []
    for word in configs:
        plan = Plan(word, BuildChoices(set=given["settings"], passes=given["passes"]))
        found += gem5_dnnmark.keys(dnnmark.plan(plan.workload), given["version"])
    return list(dict.fromkeys(found))


def _states(
    cache: KernelCache, wanted: list[Key], rows: list[tuple[str, str]], given: dict[str, Any]
) -> dict[Key, str]:
    """What the folder has of them, after it was given what it lacks."""
    from simgen_rocm import miopen_cache

    found = cache.read(wanted)
    states = {each: THERE if each in found else MISSING for each in wanted}
    if given["source"]:
        others = type(cache)(given["source"], cache.gpu, cache.units).read(wanted)
        taken = {each: code for each, code in others.items() if each not in found}
        cache.add(taken)
        states |= dict.fromkeys(taken, TAKEN)
        states |= {k: OTHER for k, code in found.items() if others.get(k, code) != code}
    if given["sources"]:
        left = [row for row in rows if states[miopen_cache.key(*row, cache.gpu)] == MISSING]
        compiler = given["compiler"] or miopen_cache.COMPILER
        made = miopen_cache.build(left, cache.gpu, given["sources"], compiler)
        cache.add(made)
        states |= dict.fromkeys(made, BUILT)
    return states


def _write(path: Path, rows: list[tuple[str, str]]) -> None:
    from simgen.ground.storage.files import write_atomic

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomic(path, text.getvalue().encode())


def _print(states: dict[Key, str], given: dict[str, Any]) -> None:
    from simgen.cli import present

    for (name, arguments), state in states.items():
        print(f"{state + ': ' if state else ''}{one_line(name + arguments)}")
    print(f"{present.many(len(states), 'kernel')} for {given['gfx']}, MIOpen {given['version']}")
