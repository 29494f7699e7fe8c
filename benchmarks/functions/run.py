"""Measure the functions of templates/own at all float32 arguments, beside the C library's.

    python benchmarks/functions/run.py --jobs 32            # all arguments, 10^9 pairs
    python benchmarks/functions/run.py --sample 1000000     # a sample of each
    python benchmarks/functions/run.py --on cuda            # what CUDA's own functions do, on a GPU

Prints a row for each function: how many numbers its worst result is from the nearest one, with the
argument, its largest error in units in the last place, and what HIP, CUDA and OpenCL document.
Exits with 1 where a function of float32 exceeds that. `--write` puts the two numbers into
functions.csv, `--table` prints them for RESULTS.md. `--program FILE` keeps the compiled program, or
uses the one that is there, on a machine without the compiler. On this CPU, instructions of AMD GPUs
are rounded right; `--off 1` moves results of those that the manuals allow a unit to by one, up and
down.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from simgen.ground import resources
from simgen.isa import toolchain
from simgen.kernels import own
from simgen.targets import host

HERE = Path(__file__).parent
TABLE = HERE / "functions.csv"
ALL, PAIRS, CHUNK = 2**32, 10**9, 2**25
FORMAT = "<QQQdQQQ"  # `found` of sweep.cpp
# What the manuals allow to be off: v_exp_f32, v_log_f32, v_rcp_f64, v_rsq_f32.
OFF = """
static inline float simgen_moved(float y)
{
    const unsigned bits = __builtin_bit_cast(unsigned, y), normal = (bits & 0x7fffffff) - 0x800000u < 0x7effffffu;
    return normal ? __builtin_bit_cast(float, bits + (bits * 2654435761u >> 31 ? 1 : -1)) : y;
}
static inline double simgen_moved(double y) { return y * (1 + 0x1p-26); }
"""  # noqa: E501


def rows() -> list[dict[str, str]]:
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def bound(row: dict[str, str]) -> int:
    """HIP's number, or CUDA's where HIP has none; of float64, HIP's are those of a short range."""
    found = [int(row[key]) for key in ("hip", "cuda") if row[key]]
    return max(found) if row["of"] == "double" else found[0]


def compiled(folder: Path, *, off: bool) -> Path:
    """The program of the sweep."""
    text = (HERE / "sweep.cpp").read_text()
    made = "".join(
        f"    {row['of'].upper()}({at}, {row['name']}, {row['truth']})\n"
        for at, row in enumerate(rows())
    )
    headers = own.header("hip.h")
    if off:
        for name in ("exp2(float x)", "log2(float x)", "rcp(double x)", "rsq(float x)"):
            headers = headers.replace(
                f"simgen_{name} {{ return ", f"simgen_{name} {{ return simgen_moved("
            )
        headers = "\n".join(
            line.replace("; }", "); }", 1) if "return simgen_moved(" in line else line
            for line in headers.split("\n")
        )
        headers = OFF + headers
    prelude = (resources.folder("templates") / "prelude" / "host.h").read_text()
    whole = f"{prelude}{headers}{text.replace('@TABLE@', made)}"
    names = re.findall(r"LIBRARY[12]\((?!name)(\w+)\)", text)
    functions = [*names, *(f"{name}l" for name in names), "rintl", "ldexpl"]
    libraries = {"libm.so.6": functions, "libc.so.6": ["write", "_exit"]}
    flags = [*host.FLAGS, "-mfma", "-mf16c", "-w"]
    program = folder / "sweep"
    program.write_bytes(
        toolchain.compile_dynamic({"sweep.cpp": whole.encode()}, "sweep.cpp", flags, libraries)
    )
    program.chmod(0o755)
    return program


def measured(program: Path | str, at: int, first: int, count: int) -> tuple[float, ...]:
    words = [str(program), str(at), str(first), str(count)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return struct.unpack(FORMAT, done.stdout)


def worst(parts: list[tuple[float, ...]]) -> tuple[float, ...]:
    far = max(parts, key=lambda part: part[0])
    error = max(parts, key=lambda part: part[3])
    return (*far[:3], *error[3:6], sum(part[6] for part in parts))


def argument(bits: float, kind: str) -> str:
    if kind == "double":
        return repr(float(np.array(bits, np.uint64).view(np.float64)))
    return str(np.array(int(bits) & 0xFFFFFFFF, np.uint32).view(np.float32))


def page() -> str:
    """What RESULTS.md says of them: functions with the same numbers in a row."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows():
        key = tuple(row[name] or "-" for name in ("most", "hip", "cuda", "opencl"))
        groups.setdefault(key, []).append(f"`{row['name']}`")
    lines = [f"| {' '.join(names)} | {' | '.join(key)} |" for key, names in groups.items()]
    head = ["| functions | off by | HIP | CUDA | OpenCL |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *lines])


def on_gpu(chosen: set[str], sample: int) -> None:
    import on_cuda

    table = [
        row for row in rows() if row["of"] != "double" and (not chosen or row["name"] in chosen)
    ]
    with tempfile.TemporaryDirectory() as name:
        most = on_cuda.found(table, Path(name), sample or ALL, sample or PAIRS)
    print(f"{'function':<12}{'off by':>8}  {'CUDA':>5}  at (of pairs: the number)")
    for row, (off, at) in zip(table, most, strict=True):
        where = argument(at, "single") if row["of"] == "single" else str(at)
        off_by = "wrong" if off >= 2**31 - 1 else off
        print(f"{row['name']:<12}{off_by:>8}  {row['cuda']:>5}  {where}")


def keep(table: list[dict[str, str]]) -> None:
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--sample", type=int, default=0, help="arguments of each; 0: all")
    parser.add_argument("--on", default="host", choices=("host", "cuda"))
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--off", type=int, default=0, choices=(0, 1))
    parser.add_argument("--program", type=Path, help="the compiled program: kept, or used")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write", action="store_true", help="keep what was found in the table")
    given = parser.parse_args()
    chosen = set(filter(None, given.only.split(",")))
    if given.table:
        print(page())
        return
    if given.on == "cuda":
        on_gpu(chosen, given.sample)
        return
    table, wrong = rows(), []
    print(
        f"{'function':<12}{'off by':>8}  {'at':<28}{'ulp':>8}  {'HIP':>4}{'CUDA':>5}{'OpenCL':>7}"
    )
    with (
        tempfile.TemporaryDirectory() as name,
        ThreadPoolExecutor(given.jobs) as pool,
    ):
        program = given.program and given.program.resolve()
        if not (program and program.exists()):
            made = compiled(Path(name), off=bool(given.off))
            program = shutil.copy(made, program) if program else made
        for at, row in enumerate(table):
            if chosen and row["name"] not in chosen:
                continue
            total = ALL if row["of"] == "single" else PAIRS
            step = total // given.sample if given.sample and row["of"] == "single" else 0
            count = given.sample or total
            if step > 1:
                starts = np.linspace(0, ALL - 4096, max(count // 4096, 1)).astype(int)
                pieces = [(at, int(start), 4096) for start in starts]
            else:
                pieces = [(at, i, min(CHUNK, count - i)) for i in range(0, count, CHUNK)]
            found = worst(list(pool.map(lambda piece: measured(program, *piece), pieces)))
            off = "wrong" if found[0] >= 2**40 else str(int(found[0]))
            where = [argument(found[1], row["of"])]
            where += [argument(found[2], row["of"])] * (row["of"] == "pair")
            where += [argument(found[4], row["of"])] * (row["of"] == "double")
            signs = f"  {int(found[6])} zeros of the other sign" if found[6] else ""
            exceeds = found[0] > bound(row)
            print(
                f"{row['name']:<12}{off:>8}  {', '.join(where):<28}{found[3]:8.3f}  "
                f"{row['hip']:>4}{row['cuda']:>5}{row['opencl']:>7}{'  EXCEEDS' * exceeds}{signs}",
                flush=True,
            )
            if exceeds:
                wrong.append(row["name"])
            row["most"], row["units"] = off, f"{found[3]:.2f}"
            if given.write:
                keep(table)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
