"""Mistakes in layers, and whether the plain contract sees them.

    python benchmarks/contract/run.py [--only TEXT] [-o TABLE.md]

Each mutant is one change of one line, in a copy of the tree: of a launch's geometry, which is for
tests/plain/test_launch_geometry.py to see, or of what a layer promises, for test_layers.py. The
contract runs over covering sets of variants (tests/covering.py); a mutant that these let pass is
tried over all of them (EVERY_VARIANT), so that the table says what the sets cost.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GEOMETRY, LAYERS = "tests/plain/test_launch_geometry.py", "tests/plain/test_layers.py"


@dataclass(frozen=True)
class Mutant:
    file: str  # below simgen/layers
    old: str
    new: str
    tests: str = GEOMETRY
    only: str = ""  # tests of these layers, as `pytest -k` has it


MUTANTS = (
    Mutant("product/matrix_product.py", "self.batch * self.m * self.n,\n            self._scales",
           "self.batch * self.m + self.n,\n            self._scales", only="gemm or fc"),
    Mutant("product/matrix_product.py", "(width * BLOCK // slices)", "(width * BLOCK)",
           only="gemm or fc"),
    Mutant("product/matrix_product.py", "ceil(many / self._results_of_a_group)",
           "ceil(few / self._results_of_a_group)", only="gemm or fc"),
    Mutant("product/matrix_product.py", "lanes * (self._rows if", "lanes * (1 if",
           only="gemm or fc"),
    Mutant("product/tile.py", "ceil(n / self.columns), ceil(m / self.rows)",
           "ceil(m / self.columns), ceil(n / self.rows)", only="gemm or fc"),
    Mutant("product/tile.py", "self.rows // self.item_rows * (self.columns // self.item_columns)",
           "self.rows // self.item_rows * (self.rows // self.item_columns)", only="gemm or fc"),
    Mutant("elementwise.py", "ceil(size / (BLOCK * VECTOR))", "size // (BLOCK * VECTOR) + 1",
           only="sgd or add or bypass"),
    Mutant("softmax.py", "ceil(outer * inner / mapped.rows)", "ceil(outer / mapped.rows)",
           only="softmax"),
    Mutant("joining.py", "(sum(groups), 1, 1)", "(max(groups), 1, 1)", only="concat"),
    Mutant("norm/lrn.py", "ceil(axis / length), 1)", "axis // length, 1)", only="lrn"),
    Mutant("norm/batch_norm_kernels.py", "grid = tiling.groups(self.view.features)",
           "grid = ends.groups(self.view.features)", only="bn"),
    Mutant("reduction.py", "ceil(features / self.lanes) * self.chunks",
           "ceil(features * self.chunks / self.lanes)", only="bn"),
    Mutant("pool/pooling.py", "ceil(rows.windows / tall) * ceil(columns.windows / results)",
           "ceil(rows.windows * columns.windows / (tall * results))", only="pool"),
    Mutant("conv/direct.py", "each.rows.count * ceil(each.columns.count / mapped.wide)\n",
           "ceil(each.rows.count * each.columns.count / mapped.wide)\n", only="conv-fwd"),
    Mutant("conv/direct.py", "blocks = each.groups * ceil(each.group_out / mapped.filters)",
           "blocks = ceil(each.groups * each.group_out / mapped.filters)", only="conv-fwd"),
    Mutant("conv/direct.py", "return pairs * ceil(g.group_filters / (mapped.filters",
           "return pairs * ceil(g.group_filters / (1 + mapped.filters", only="conv-bwd_weight"),
    Mutant("conv/implicit_gemm.py", "(across, down, g.groups * found.splits)",
           "(across, down, found.splits)", only="conv-bwd_weight"),
    Mutant("conv/geometry.py", "count=ceil((g.image[at] - phase) / stride)",
           "count=ceil(g.image[at] / stride)", only="conv-bwd_data"),
    Mutant("conv/geometry.py", "first=phase,", "first=0,", only="conv-bwd_data"),
    Mutant("conv/fft.py", "(ceil(total / lines), 1, 1)", "(total // lines + 1, 1, 1)",
           only="conv-fwd"),
    Mutant("conv/algorithms.py", "TensorSpec((self.splits, self._size()))",
           "TensorSpec((self.splits + 1, self._size()))", only="conv"),
    # What layers promise.
    Mutant("activation.py", "self.ceiling", "6.0", LAYERS, "activation"),
    Mutant("pool/pooling.py", "Rounding.CEIL", "Rounding.FLOOR", LAYERS, "pool"),
    Mutant("pool/along_axis.py", "along.pad + along.extent]", "along.extent]", LAYERS, "pool"),
    Mutant("norm/lrn.py", "padded[k : k + extent] for k in range(self.local_size)",
           "padded[k : k + extent] for k in range(self.local_size - 1)", LAYERS, "lrn"),
    Mutant("conv/geometry.py", "return self.filters // self.groups",
           "return self.filters // min(self.groups, 2)", LAYERS, "conv"),
    Mutant("product/gemm.py", "self.beta", "1.0", LAYERS, "gemm"),
    Mutant("dropout.py", "* WORD)", "* WORD / 2)", LAYERS, "dropout"),
    Mutant("softmax.py", 'Algo.LOG', 'Algo.FAST', LAYERS, "softmax"),
    Mutant("norm/batch_norm.py", "self.epsilon", "1e-5", LAYERS, "bn"),
)  # fmt: skip


def copied(to: Path) -> Path:
    for name in ("simgen", "templates", "data", "tests", "pyproject.toml", "cachefiles"):
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, to / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, to / name)
    return to


def seen(tree: Path, mutant: Mutant, *, every: bool = False) -> str:
    """The first test that fails; "" for none."""
    variables = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    variables.pop("EVERY_VARIANT", None)
    if every:
        variables["EVERY_VARIANT"] = "1"
    words = ["-q", "-x", "-p", "no:cacheprovider", mutant.tests]
    if mutant.only:
        words += ["-k", mutant.only]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tree,
        env=variables,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if not failed:
        sys.exit(f"{mutant}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return failed[0].split(" - ")[0].partition("::")[2] or failed[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants of files whose path has this")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    lines = ["| file | mutant | first test that fails |", "|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="contract-") as folder:
        tree = copied(Path(folder))
        for mutant in MUTANTS:
            if given.only not in mutant.file:
                continue
            path = tree / "simgen/layers" / mutant.file
            text = path.read_text()
            if mutant.old not in text:
                sys.exit(f"{mutant.file}: has no {mutant.old!r} any more")
            path.write_text(text.replace(mutant.old, mutant.new))
            found = seen(tree, mutant)
            if not found:
                found = f"**none**; of all variants: {seen(tree, mutant, every=True) or 'none'}"
            path.write_text(text)
            change = f"`{' '.join(mutant.old.split())}` → `{' '.join(mutant.new.split())}`"
            lines.append(f"| {mutant.file} | {change} | {found} |")
            print(lines[-1], flush=True)
    if given.output:
        given.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
