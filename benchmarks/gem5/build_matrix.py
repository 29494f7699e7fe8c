"""All shipped workloads for all versions of gem5 and architectures: what is refused.

    python benchmarks/gem5/build_matrix.py [--types f32,f16,bf16,i8] [--archs gfx902] [--every N]

Layers have small extents, networks their own. Of each kernel: the compiler's assembly, what the
version's rules make of it, the assembler, and lint. --every 4: all kernels of layers in f32, and
each fourth of the others. Exit code 1: something is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "toolchain")]

from layer_variants import problems_of_one_gpu  # noqa: E402
from test_gem5_history import together  # noqa: E402

import simgen  # noqa: E402
from simgen.errors import SimgenError  # noqa: E402
from simgen.frontend.problem import DNNMARK_NETWORKS  # noqa: E402
from simgen.ground import resources  # noqa: E402
from simgen.isa import toolchain  # noqa: E402
from simgen.isa.legalise import Model, facts  # noqa: E402
from simgen.isa.lint import linting  # noqa: E402
from simgen.isa.lint.containers import Held  # noqa: E402
from simgen.kernels import cache, stages  # noqa: E402
from simgen.kernels.render import kernels  # noqa: E402
from simgen.targets.gem5 import apu_se  # noqa: E402

TOGETHER = 40  # kernels that are assembled at once


def planned(arch: str, types: list[str]) -> dict[str, list[str]]:
    """Source of a kernel -> who has it; what has no such type is left out."""
    networks = sorted(path.stem for path in resources.folder("data").glob("*.dnnmark"))
    jobs = [
        (name, dict(each.split("=") for each in given)) for name, given in problems_of_one_gpu()
    ]
    jobs += [(name, {}) for name in (*networks, *DNNMARK_NETWORKS)]
    found: dict[str, list[str]] = defaultdict(list)
    for type_ in types:
        for name, given in jobs:
            try:
                plan = simgen.plan(name, set=given, type=type_, plan_for=apu_se.machine(arch))
                sources = kernels(plan.workload)
            except SimgenError:
                continue
            for kernel, source in sources.items():
                found[source].append(f"{name} {type_} {kernel}{'' if given else ' (network)'}")
    return found


def refused(model: Model, users: dict[str, list[str]]) -> list[str]:
    store, told = cache.default(), []
    make = {stage.product: stage.make for stage in stages.amdgcn(model)}

    def legalised(source: str) -> str:
        try:
            text = make[stages.ASSEMBLY](source, store)
            return str(make[stages.LEGALISED](text, store).text)
        except SimgenError as error:
            told.append(f"{users[source][0]}: {error}")
            return ""

    with ThreadPoolExecutor() as pool:
        texts = [text for text in dict.fromkeys(pool.map(legalised, users)) if text]
    for at in range(0, len(texts), TOGETHER):
        elf = toolchain.assemble(together(texts[at : at + TOGETHER], model.arch), model.arch)
        if model.version in facts.versions("gem5"):
            (looked,) = linting.code_objects([Held("k.co", "", elf)], "gem5", model.version)
            told += [
                f"{f.kernel}: {f.instruction}: {f.reason}" for f in looked.findings if f.refused
            ]
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", default="f32,f16,bf16,i8")
    parser.add_argument("--archs", default=",".join(apu_se.GPUS))
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    wrong = 0
    for arch in given.archs.split(","):
        users = planned(arch, given.types.split(","))
        taken = {
            source: of
            for at, (source, of) in enumerate(users.items())
            if at % given.every == 0 or any(" f32 " in e and "(network)" not in e for e in of)
        }
        for version, each in apu_se.VERSIONS.items():
            if arch in each.gpus:
                told = refused(Model("gem5", version, arch), taken)
                print(
                    f"{arch} {version}: {len(taken)} kernels, {len(told)} refused",
                    *told,
                    sep="\n  ",
                )
                wrong += len(told)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
