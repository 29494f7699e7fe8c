"""DeepBench's lists: every problem planned, one in ten compiled, a sample run and compared; all of
them natively, and all-reduces over several GPUs.

    python benchmarks/deepbench/run.py plan    [--plan-for M]
    python benchmarks/deepbench/run.py compile [--plan-for M] [--every 10]
    python benchmarks/deepbench/run.py run     [--on host mgpusim] [--scale-to 2e6]
    python benchmarks/deepbench/run.py native  [--minutes 8] [--rows native.json] [--share 1/2]
    python benchmarks/deepbench/run.py tables  --rows first.json second.json
    python benchmarks/deepbench/run.py allreduce [--gpus 2]

`plan` lowers all problems whose layer simgen has, in all their passes and types, and compiles
nothing. `compile` makes the code objects of every tenth for MGPUSim's MI300A. `run` takes 60
problems (`--count`), as many of each family, set and pass, spread over their work; scales them down
and runs them; and prints a row for each: verdicts, and what the rule did not keep. `native` runs
every problem that builds on this machine's GPU, beside PyTorch's libraries (native.py, on_gpu.py);
with `--on host`, on this CPU and scaled down, which shows all of it but the GPU. It needs CuPy and
PyTorch. Rows that are in the file already are not measured again. Of a machine with two GPUs, each
may have its `--share` (with CUDA_VISIBLE_DEVICES, and `--rows` of its own); `tables` puts them
together. `allreduce` runs the ring and the tree over GPUs, beside NCCL (on_gpus.py).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import simgen
from simgen.errors import SimgenError
from simgen.frontend import deepbench
from simgen.frontend.operation import FAMILIES, TYPES
from simgen.ground.storage.files import write_atomic
from simgen.kernels import cache, render
from simgen.kernels.build import Builder
from simgen.targets import TARGETS
from simgen.targets.base import Job
from simgen.tensors import data_file


def problems(types: bool = True):
    """(problem, pass, type) of all that simgen has a layer for."""
    for family in FAMILIES:
        for each in deepbench.problems(family):
            for direction in each.passes:
                for dtype in each.types if types else ("f32",):
                    yield each, direction, dtype


def planned(each, direction, dtype, machine, scale_to=None):
    passes = None if each.family == "gemm" else str(direction)
    return simgen.plan(each.name, passes=passes, type=dtype, plan_for=machine, scale_to=scale_to)


def plan(asked) -> None:
    counted, refused = Counter(), Counter()
    start = time.perf_counter()
    for each, direction, dtype in problems():
        try:
            assert planned(each, direction, dtype, asked.plan_for).workload.launches
            counted[each.family, each.set, str(direction), dtype] += 1
        except SimgenError as error:
            refused[each.family, dtype, str(error).partition(": ")[2]] += 1
    taken = time.perf_counter() - start
    print(f"planned for {asked.plan_for}: {counted.total()} in {taken:.1f} s")
    print("\n| family | set | pass | types | problems |\n|---|---|---|---|---|")
    rows = {}
    for (family, of_set, direction, dtype), count in counted.items():
        rows.setdefault((family, of_set, direction, count), []).append(dtype)
    for (family, of_set, direction, count), types in rows.items():
        print(f"| {family} | {of_set} | {direction} | {', '.join(types)} | {count} |")
    for (family, dtype, fact), count in refused.items():
        print(f"\nrefused: {count} of {family} in {dtype}: {fact}")


def compile_some(asked) -> None:
    store = Path(tempfile.mkdtemp())
    builder, failed, built = Builder(cache.Cache(store)), [], 0
    start = time.perf_counter()
    some = list(problems(types=False))[:: asked.every]
    for each, direction, dtype in some:
        workload = planned(each, direction, dtype, asked.plan_for).workload
        job = Job(workload, render.kernels(workload), data_file.data_id(workload), "")
        try:
            TARGETS["mgpusim"]().package.folder(job, builder)
            built += len(workload.kernels)
        except SimgenError as error:
            failed.append(f"{each.name} {direction}: {error}")
    shutil.rmtree(store)
    taken = time.perf_counter() - start
    print(f"{len(some)} problems, {built} kernels for MGPUSim's MI300A in {taken:.0f} s")
    print(*failed, sep="\n")


def sample(count: int, families):
    """As many of each family, set and pass, spread over their work."""
    strata = {}
    for each, direction, _ in problems(types=False):
        if each.family not in families:
            continue
        strata.setdefault((each.family, each.set, direction), []).append((each, direction))
    share, more = divmod(count, len(strata))
    for at, found in enumerate(strata.values()):
        wanted = share + (at < more)
        found.sort(key=lambda pair: pair[0].operation.flops)
        for nth in range(wanted):
            yield found[(2 * nth + 1) * len(found) // (2 * wanted)]


def targets_of(asked) -> list[str]:
    return asked.on or ["host", "mgpusim"]


def run(asked) -> None:
    heads = ("problem", "pass", "operations", "scaled to", *targets_of(asked), "not kept")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for each, direction in sample(asked.count or 60, asked.families):
        folder = Path(tempfile.mkdtemp())
        try:
            row = one(each, direction, asked, folder)
        except SimgenError as error:
            row = [*[""] * (2 + len(targets_of(asked))), f"refused: {error}"]
        finally:
            shutil.rmtree(folder)
        print(f"| {each.name} | {direction} | {' | '.join(row)} |", flush=True)


def one(each, direction, asked, folder: Path) -> list[str]:
    made = planned(each, direction, "f32", asked.plan_for, asked.scale_to)
    whole = planned(each, direction, "f32", asked.plan_for)
    bundle = made.build(folder / "bundle", targets_of(asked))
    cells = []
    for target in targets_of(asked):
        start = time.perf_counter()
        bundle.run(target, timeout=asked.timeout)
        taken = time.perf_counter() - start
        right = bundle.diff(target, "reference")
        cells.append(f"{'right' if right else 'WRONG'}, {taken:.1f} s")
    lost = [note.partition(": ")[2] for note in made.notes if note.startswith("not kept")]
    return [f"{work(whole):.3g}", f"{work(made):.3g}", *cells, *(lost or [""])]


def work(made) -> float:
    from simgen.workload import costs

    return sum(each.count.flops for each in costs.costs_of(made.workload))


def run_natively(asked) -> None:
    import native
    from on_gpu import OnGpu

    path = asked.rows[0]
    rows = native.Rows.at(path)
    todo = native.tasks(asked.families, asked.types)[asked.share[0] - 1 :: asked.share[1]]
    todo = [task for task in todo if re.search(asked.only, f"{task.key} {task.operation}")]
    todo = todo[: asked.count] if asked.count else todo
    machine = OnGpu(asked.plan_for, asked.algo)
    if asked.on == ["host"]:
        machine = native.OnHost(asked.scale_to)
    with tempfile.TemporaryDirectory() as folder:
        # One cache of compiled kernels for all processes, and none that stays.
        os.environ["CUPY_CACHE_DIR"] = f"{folder}/cupy"
        native.run(todo, rows, machine, Path(folder), workers=asked.workers, minutes=asked.minutes)
    write_tables(todo, rows, path.with_suffix(".md"))


def put_together(asked) -> None:
    import native

    rows = native.Rows(Path())
    for path in asked.rows:
        rows.found |= native.Rows.at(path).found
    write_tables(native.tasks(asked.families, asked.types), rows, Path("native.md"))


def write_tables(todo, rows, path: Path) -> None:
    import native

    head = ["# DeepBench, natively", "", f"    {shlex.join(['python', *sys.argv])}"]
    write_atomic(path, native.page(todo, rows, head).encode())
    print(*native.summary(todo, rows), "", *native.by_algorithm(rows), sep="\n")
    print(*native.refusals(rows), f"\nwhole tables: {path}", sep="\n")


def reduce_over_gpus(asked) -> None:
    from on_gpus import OnGpus

    with tempfile.TemporaryDirectory() as folder:
        os.environ["CUPY_CACHE_DIR"] = f"{folder}/cupy"
        print(*OnGpus(asked.gpus).run(Path(folder), asked.plan_for), sep="\n")


def share(text: str) -> tuple[int, int]:
    which, _, of = text.partition("/")
    found = int(which), int(of)
    if not 1 <= found[0] <= found[1]:
        raise ValueError(text)
    return found


MODES = {
    "plan": plan,
    "compile": compile_some,
    "run": run,
    "native": run_natively,
    "tables": put_together,
    "allreduce": reduce_over_gpus,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=tuple(MODES))
    parser.add_argument("--plan-for", help="mgpusim-mi300a; of `native`: h200")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--on", nargs="+", help="targets of `run`: host mgpusim; `native`: host")
    parser.add_argument("--count", type=int, help="problems of `run`: 60; of `native`: all")
    parser.add_argument("--scale-to", type=float, default=2e6)
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--minutes", type=float, default=8, help="of `native`")
    parser.add_argument("--rows", type=Path, nargs="+", default=[Path("native.json")])
    parser.add_argument("--share", type=share, default=(1, 1), help="of `native`: 1/2")
    parser.add_argument("--gpus", type=int, default=2, help="of `allreduce`")
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 2) - 1)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument(
        "--algo", help="of `native`: of layers that have a choice, as --algo of build"
    )
    parser.add_argument("--only", default="", help="of `native`: tasks with this pattern")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    asked = parser.parse_args()
    on_gpus = asked.what in ("native", "allreduce")
    asked.plan_for = asked.plan_for or ("h200" if on_gpus else "mgpusim-mi300a")
    MODES[asked.what](asked)


if __name__ == "__main__":
    main()
