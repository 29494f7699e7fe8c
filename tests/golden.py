"""Digests of all that a change of templates can change: kernels' texts, and their machine code.

    tests/data/kernel_texts.txt    each kernel of the built-in workloads, and those that cover the
                                   choices of every template (covering.py)
    tests/data/machine_code.txt    the code objects of those kernels of the built-in workloads that
                                   cover the choices of their templates, each for an architecture
                                   that its name chooses; the title is the compiler

Each line is a digest and a name. Tests compare them with what is rendered and compiled now. A
kernel that is rewritten on purpose changes its text and, as a rule, nothing of its machine code:

    python tests/golden.py accept texts         # look at git diff tests/data, then commit
    python tests/golden.py accept code

What the help and a shell offer before targets and layers are imported (data/offered.json) is made
from them: `python tests/golden.py accept offered`.

Before and after a larger change, all kernels that tests know (some 6000), or those of some layers:

    python tests/golden.py write /tmp/before.txt --arch gfx902 --arch gfx942 conv fused_conv pool
    python tests/golden.py compare /tmp/before.txt

`compare` compiles what the file names, found by the names of kernels, with the templates as they
are now, and ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

from covering import covering
from layer_variants import accepts, inputs_of, lowered, shapes_of, variants

import simgen
from simgen.cli import completing, offered
from simgen.frontend import atrex, deepbench, network, problem
from simgen.frontend.operation import FAMILIES
from simgen.ground import plugins
from simgen.ground.ir import DType
from simgen.ground.machine import NO, descriptions, fitted
from simgen.isa import toolchain
from simgen.isa.legalise import Model
from simgen.kernels import render, stages
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.layers import LAYERS, conversion
from simgen.reports.exports import EXPORTS
from simgen.workload import lowering as workloads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simgen.ground.ir import Kernel, TensorSpec
    from simgen.layers import Layer

DATA = Path(__file__).parent / "data"
TEXTS, CODE = DATA / "kernel_texts.txt", DATA / "machine_code.txt"
ARCHS = ("gfx803", "gfx902", "gfx942")  # of the tests, each for a part of the kernels
DIGITS = 16  # of a digest that are kept: changes are found, nobody is kept from forging one

# Where kernels are other ones: rests modulo vectors, rows longer than a work-group, large sizes.
SHAPES = (
    (1, 1, 1, 1), (5, 13, 1, 1), (67, 4, 1, 1), (3, 100, 1, 1), (1, 1000, 1, 1), (2, 4096, 1, 1),
    (2, 4099, 1, 1), (2, 3, 5, 7), (1, 17, 8, 8), (2, 300, 1, 3), (3, 37, 11, 11), (301, 6, 1, 1),
    (2, 2, 48, 48),
)  # fmt: skip


@cache
def built_in() -> dict[str, Kernel]:
    """Name -> kernel of the workloads and networks that come with simgen."""
    found: dict[str, Kernel] = {}
    for word in problem.built_in():
        named = problem.find(word, (), None)
        planned = workloads.lower(network.resolve(named.config), named.name, named.passes, 0)
        found |= {kernel.name: kernel for kernel in planned.kernels}
    return found


@cache
def of_layer(kind: str) -> dict[str, Kernel]:
    """Name -> kernel of a layer's variants in all `SHAPES`; narrow ones for simulators too."""
    found: dict[str, Kernel] = {}
    for variant in variants(kind):
        for shape in shapes_of(kind, SHAPES):
            for direction in variant.layer.able if accepts(variant.layer, shape) else ():
                for inputs in _of_types(variant.layer, inputs_of(variant.layer, shape)):
                    layer = variant.layer.reading(inputs)
                    plans = [layer]
                    if any(x.dtype.is_narrow for x in inputs):
                        plans.append(replace(layer, machine=replace(fitted(), use_matrix=NO)))
                    for each in plans:
                        for kernel in conversion.lower(each, inputs, direction).kernels:
                            found.setdefault(kernel.name, kernel)
    return found


def _of_types(layer: Layer, inputs: tuple[TensorSpec, ...]) -> Iterator[tuple[TensorSpec, ...]]:
    """The inputs, and those of half precision where the layer takes them."""
    yield inputs
    if layer.any_float and all(x.dtype.nbytes > 1 for x in inputs):
        half = DType.table["f16"]
        yield tuple(replace(x, dtype=half) if x.dtype.is_float else x for x in inputs)


@cache
def chosen() -> dict[str, Kernel]:
    """Name -> kernel of those whose texts are kept."""
    kept = dict(built_in())
    for kind in lowered():
        found = of_layer(kind)
        each = {name: (kernel,) for name, kernel in found.items()}
        names = covering(each, pairs=False, sizes=False, values=True)
        kept |= {name: found[name] for name in names}
    return kept | of_nvidia()


@cache
def of_nvidia() -> dict[str, Kernel]:
    """Name -> kernel of 16-bit convolutions with channels last, and of products with 2:4 sparsity,
    which are planned for GPUs only that have mma.sync or wgmma."""
    found: dict[str, Kernel] = {}
    sizes = {"n": 2, "c": 64, "h": 14, "w": 14, "num_output": 64, "algo": "channels_last"}
    for machine in ("a100", "h200"):
        made = simgen.plan("structured_gemm_fwd", type="f16", plan_for=machine)
        found |= {kernel.name: kernel for kernel in made.workload.kernels}
        for stride in (1, 2):
            for word in ("conv_fwd", "conv_bwd_data", "conv_bwd_weight"):
                settings = {**sizes, "stride": stride}
                made = simgen.plan(word, set=settings, type="f16", plan_for=machine)
                found |= {kernel.name: kernel for kernel in made.plan.workload.kernels}
    return found


def texts() -> dict[str, str]:
    """Name -> digest of the text of each kernel that is kept, and of the prelude."""
    made = {name: digest(render.kernel(kernel).encode()) for name, kernel in chosen().items()}
    return made | {render.PRELUDE: digest(render.prelude().encode())}


def code(kernels: Iterable[Kernel], arch: str, builder: Builder) -> dict[str, str]:
    """ "arch/name" -> digest of the code object of each kernel."""
    named = {f"{arch}/{kernel.name}": render.kernel(kernel) for kernel in kernels}
    made = builder.products(stages.amdgcn(Model.gpu(arch)), named)
    return {name: digest(products[stages.CODE_OBJECT]) for name, products in made.items()}


def code_of_tests(arch: str, builder: Builder) -> dict[str, str]:
    """As `code`, of the kernels of the built-in workloads that are kept for this architecture.

    Machine code is made of a text, of flags and of rules: texts are all kept (`texts`), and what
    flags and rules do to a template shows in any kernel that has its choices.
    """
    # Weights that stay in local memory are planned for GPUs that have more of it.
    found = {name: kernel for name, kernel in sorted(built_in().items()) if not kernel.chained}
    each = {name: (kernel,) for name, kernel in found.items()}
    names = covering(each, pairs=False, sizes=False)
    turn = {name: ARCHS[zlib.crc32(name.encode()) % len(ARCHS)] for name in names}
    return code([found[name] for name in names if turn[name] == arch], arch, builder)


def problems() -> list[str]:
    """The problems of all lists."""
    found = [each.name for family in FAMILIES for each in deepbench.problems(family)]
    return found + [each.name for each in atrex.operators()]


def offered_now() -> dict[str, Any]:
    """What data/offered.json has to hold."""
    posted: dict[str, list[list[int]]] = {}  # ranges of numbers, both ends included
    for name in problems():
        part, number = name.rpartition("/")[0], int(name.rpartition("/")[2])
        ranges = posted.setdefault(part, [])
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return {
        "targets": offered.asked(),
        "brought": {name: each.value for name, each in plugins.named("simgen.targets").items()},
        "workloads": list(problem.listed()),
        "problems": posted,
        "algorithms": list(completing.algorithms_of(LAYERS.values())),
        "types": list(DType.table),
        "machines": list(descriptions()),
        "exports": [each for each in EXPORTS if each not in plugins.named("simgen.exports")],
    }


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def write(path: Path, title: str, found: Mapping[str, str]) -> None:
    lines = [title, *(f"{value} {name}" for name, value in sorted(found.items()))]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def read(path: Path) -> tuple[str, dict[str, str]]:
    """(title, name -> digest)."""
    title, *lines = path.read_text().splitlines()
    pairs = [line.split(" ", 1) for line in lines]
    return title, {name: value for value, name in pairs}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """One line for each name whose digest is another one, or that is in one of both only."""
    changed = [f"changed: {name}" for name in before if now.get(name, before[name]) != before[name]]
    gone = [f"gone: {name}" for name in before if name not in now]
    return changed + gone + [f"new: {name}" for name in now if name not in before]


def _accept(what: str, builder: Builder) -> int:
    if what == "offered":
        offered.path().write_text(json.dumps(offered_now(), indent=1) + "\n")
        return 0
    path, title = {
        "texts": (TEXTS, "texts of kernels; see tests/golden.py"),
        "code": (CODE, toolchain.identity()),
    }[what]
    if what == "texts":
        now = texts()
    else:
        now = {}
        for arch in ARCHS:
            now |= code_of_tests(arch, builder)
    before = read(path)[1] if path.exists() else {}
    for line in differences(before, now):
        print(line)
    write(path, title, now)
    return 0


def _write(path: Path, archs: Sequence[str], kinds: Sequence[str], builder: Builder) -> int:
    wanted = {} if kinds else dict(built_in())
    for kind in kinds or lowered():
        wanted |= of_layer(kind)
    now: dict[str, str] = {}
    for arch in archs or ARCHS:
        now |= code(wanted.values(), arch, builder)
    write(path, toolchain.identity(), now)
    print(f"{len(now)} code objects of {len(wanted)} kernels")
    return 0


def _compare(path: Path, builder: Builder) -> int:
    title, before = read(path)
    if title != toolchain.identity():
        sys.exit(f"{path}: made by {title}, and this is {toolchain.identity()}")
    known = dict(built_in())
    for kind in lowered():
        known |= of_layer(kind)
    now: dict[str, str] = {}
    for arch in sorted({name.split("/")[0] for name in before}):
        names = [name.split("/", 1)[1] for name in before if name.startswith(f"{arch}/")]
        now |= code([known[name] for name in names if name in known], arch, builder)
    found = differences(before, now)
    print(*found, f"{len(found)} of {len(before)} differ", sep="\n")
    return bool(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    accept = commands.add_parser("accept", help="write tests/data again")
    accept.add_argument("what", choices=("texts", "code", "offered"))
    record = commands.add_parser("write", help="digests of code objects to a file")
    record.add_argument("path", type=Path)
    record.add_argument("--arch", action="append", choices=toolchain.AMD_ARCHS)
    record.add_argument("kinds", nargs="*", help="layers; without one, all and the built-in ones")
    compare = commands.add_parser("compare", help="with those of a file")
    compare.add_argument("path", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        builder = Builder(Cache(Path(folder)), _told)
        if given.command == "accept":
            return _accept(given.what, builder)
        if given.command == "write":
            return _write(given.path, given.arch, given.kinds, builder)
        return _compare(given.path, builder)


def _told(done: int, of: int) -> None:
    end = "\n" if done == of else "\r"
    print(f"{done} of {of} compiled", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
