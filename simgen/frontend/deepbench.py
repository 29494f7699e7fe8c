"""DeepBench's problems by name, `deepbench/FAMILY/NUMBER`: lists of operations, in data/deepbench.

    family     what                                training  server  device
    gemm       dense products of matrices          1..160    ..235   ..248
    conv       convolutions, forward and backward  1..94     ..201   ..217
    rnn        recurrent layers                    1..53     ..122   ..125
    sparse     a sparse matrix times a dense one             1..24   ..32
    allreduce  all-reduces                         1..7

Numbers are those of the lines in DeepBench's own lists, one set after the other; what is there
twice, or is a slip, keeps its number, and says so. Sets have the types of DeepBench's programs:
training f32 and f16, inference (`server` and `device`) i8 too, sparse products and all-reduces f32
alone. In training, convolutions and recurrent layers run backward too.

Products have alpha = beta = 1, "so that no work is elided" (DeepBench's README; its program for
NVIDIA GPUs hands over integers by pointer, which are read as the smallest of floats).

Source: code/kernels/*.h of DeepBench at da81ba7; types: the *_bench.cu of code/nvidia.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from io import StringIO

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.operation import FAMILIES, ConvOperation, LibraryOperation
from simgen.ground import resources
from simgen.ground.ir import Pass
from simgen.ground.storage.files import read_regular

ROOT = "deepbench"
MAX_NBYTES = 2**20  # size limit of a list
FORWARD_ONLY = (Pass.FORWARD,)
TRAINING = "training"


@dataclass(frozen=True)
class Listed:
    """A problem of a list."""

    family: str
    number: int
    set: str  # training, server or device
    operation: LibraryOperation
    note: str  # what is to be said of it, or ""

    @property
    def name(self) -> str:
        return f"{ROOT}/{self.family}/{self.number}"

    def __str__(self) -> str:
        told = f", {self.note}" if self.note else ""
        return f"{self.name}, {self.set} set{told}: {self.operation}"

    @property
    def types(self) -> tuple[str, ...]:
        """The element types that DeepBench has it in, the one of its minimum precision last."""
        if self.family in ("sparse", "allreduce"):
            return ("f32",)
        return ("f32", "f16") if self.set == TRAINING else ("f32", "f16", "i8")

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes that DeepBench times."""
        backward = self.set == TRAINING and self.family in ("conv", "rnn")
        return ConvOperation.PASSES if backward else FORWARD_ONLY


@cache
def problems(family: str) -> tuple[Listed, ...]:
    """All problems of a family; the one with a number n is at n - 1."""
    path = resources.folder("data") / ROOT / f"{family}.csv"
    usual = {"alpha": "1", "beta": "1"} if family == "gemm" else {}
    found = []
    for row in csv.DictReader(StringIO(read_regular(path, MAX_NBYTES).decode())):
        number, of_set, note = (row.pop(key) for key in ("number", "set", "note"))
        operation = FAMILIES[family].read({**row, **usual}.items(), f"{path}, {number}")
        found.append(Listed(family, int(number), of_set, operation, note))
    return tuple(found)


def samples() -> list[str]:
    """A name of each family, for those who mistype one."""
    return [problems(family)[0].name for family in FAMILIES]


def find(word: str) -> Listed | None:
    """The problem that a word names; None where it is no name of this form.

    Raises:
        UsageError: there is no such family or number.
    """
    root, *parts = word.split("/")
    if root != ROOT or not parts:
        return None
    where = f"workload {printable(word)}"
    family, *rest = parts
    if family not in FAMILIES:
        fact = f"{ROOT} has no family {printable(family)}"
        raise UsageError(f"{where}: {fact}; {did_you_mean(family, FAMILIES)}")
    known = problems(family)
    if len(rest) == 1 and re.fullmatch(r"[1-9]\d{0,5}", rest[0]) and int(rest[0]) <= len(known):
        return known[int(rest[0]) - 1]
    cure = f"list them with: simgen list {ROOT} {family}"
    raise UsageError(f"{where}: {family} has the problems 1 to {len(known)}; {cure}")
