"""Ordinary kernels, as people write them, on MGPUSim: is each right, refused or wrong?

Their texts lie in ordinary_kernels/, each behind a line "// ---- NAME"; what they compute stands in
ordinary_floats, ordinary_integers and ordinary_lanes. All have one frame: x points to 4 times ITEMS
words, y to 2 times ITEMS words, which the kernel CLEAR sets to 0 for those that add to them.
"""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from canaries import guarded
from probing import FLOATS, outputs, run

from simgen.isa import legalise, toolchain
from simgen.kernels import render
from simgen.targets.mgpusim.target import model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Reference = Callable[["Words"], Any]

ITEMS, BLOCK = 512, 256
ROWS_IN, ROWS_OUT = 4, 2
FOLDER = Path(__file__).parent / "ordinary_kernels"
MODES = ("emu", "timing")
RIGHT, REFUSED, WRONG, DEAD = "right", "refused", "wrong", "dead"


CLEAR = "clear"


class Words:
    """The input of a kernel, as what it takes it for."""

    def __init__(self, words: Array) -> None:
        self.u = words
        self.i = words.view("i4")
        self.f = words.view("f4")
        flat = words.ravel()
        self.bytes, self.shorts, self.u64 = flat.view("u1"), flat.view("u2"), flat.view("u8")
        self.halves = flat.view("f2")


@dataclass(frozen=True)
class Ordinary:
    """A kernel. `reference` returns what y begins with, or that and a bound for each value."""

    name: str
    inputs: str  # a key of INPUTS
    reference: Reference
    cleared: bool  # y is 0 before

    @property
    def words(self) -> Array:
        seed = int.from_bytes(self.name.encode()[:4], "little")
        return INPUTS[self.inputs](np.random.default_rng(seed))


REGISTERED: dict[str, Ordinary] = {}


def kernel(
    inputs: str, *, cleared: bool = False
) -> Callable[[Callable[[Words], Any]], Callable[[Words], Any]]:
    """Register a reference under its own name."""

    def register(reference: Reference) -> Reference:
        name = reference.__name__
        assert name not in REGISTERED
        REGISTERED[name] = Ordinary(name, inputs, reference, cleared)
        return reference

    return register


def _of(values: Any) -> Array:
    """Values of any type, as the words of a kernel's input."""
    return np.ascontiguousarray(values).reshape(-1).view("u4").reshape(ROWS_IN, ITEMS).copy()


def _floats(low: float, high: float) -> Callable[[np.random.Generator], Array]:
    return lambda rng: _of(rng.uniform(low, high, (ROWS_IN, ITEMS)).astype("f4"))


def _edges(rng: np.random.Generator) -> Array:
    """Special values and numbers of all magnitudes, in random pairs."""
    words = rng.integers(0, 2**32, (ROWS_IN, ITEMS), "u4")
    near_one = rng.uniform(1, 2, (ROWS_IN, ITEMS)).astype("f4").view("u4")
    kind = rng.integers(0, 3, (ROWS_IN, ITEMS))
    words = np.select([kind == 0, kind == 1], [rng.choice(FLOATS, words.shape), near_one], words)
    return _quiet(words)


def _half_edges(rng: np.random.Generator) -> Array:
    """Numbers on the grid of float16, between two of its points, and right beside the middle."""
    at = rng.integers(0, 0x7C00, (ROWS_IN, ITEMS)).astype("u2").view("f2").astype("f8")
    step = np.maximum(np.abs(at) * 2.0**-11, 2.0**-25)
    offset = rng.choice([0, 0.5, 1, 1 + 2.0**-9, 1 - 2.0**-9], at.shape)
    words = ((at + step * offset) * rng.choice([-1, 1], at.shape)).astype("f4").view("u4")
    return np.where(rng.random(at.shape) < 0.2, _edges(rng), words)


def _quiet(words: Array) -> Array:
    """No signalling NaNs: what becomes of them is not defined."""
    nan = (words & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, words | 0x400000, words).astype("u4")


def _words(rng: np.random.Generator) -> Array:
    words = rng.integers(0, 2**32, (ROWS_IN, ITEMS), "u4")
    words[:, ::7] >>= rng.integers(0, 32, words[:, ::7].shape, "u4")  # all magnitudes
    words[0, :2], words[1, 2:4] = (0, 0xFFFFFFFF), (0, 0x80000000)
    return words


def _sorted(rng: np.random.Generator) -> Array:
    words = _words(rng)
    words[0] = np.sort(words[0])
    words[1, ::2] = words[0, ::2]
    return words


def _counts(rng: np.random.Generator) -> Array:
    words = _words(rng)
    words[2:] = rng.normal(size=(2, ITEMS)).astype("f4").view("u4")
    return words


def _rare(rng: np.random.Generator) -> Array:
    chance = np.repeat(np.resize([0.02, 0, 1, 0.5], ITEMS // 64), 64)
    return _of(np.where(rng.random((ROWS_IN, ITEMS)) < chance, 5, -5).astype("i4"))


def _halves(rng: np.random.Generator) -> Array:
    return _of(rng.normal(0, 3, 2 * ROWS_IN * ITEMS).astype("f2"))


INPUTS: dict[str, Callable[[np.random.Generator], Array]] = {
    "floats": _floats(-8, 8),
    "positive": _floats(0.1, 10),
    "units": _floats(-2, 2),
    "exponents": _floats(-100, 95),
    "edges": _edges,
    "half_edges": _half_edges,
    "halves": _halves,
    "words": _words,
    "sorted": _sorted,
    "counts": _counts,
    "rare": _rare,
    "ties": lambda rng: _of(rng.integers(0, 9, (ROWS_IN, ITEMS)).astype("f4")),
    "whole": lambda rng: _of(rng.integers(-9, 10, (ROWS_IN, ITEMS)).astype("f4")),
}


def texts() -> dict[str, str]:
    """The source of each kernel, self-contained."""
    common = (FOLDER / "common.h").read_text()
    found = {}
    for path in sorted(FOLDER.glob("*.hip")):
        parts = re.split(r"^// ---- (\w+)\n", path.read_text(), flags=re.MULTILINE)
        found |= dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name: render.self_contained(common + text) for name, text in found.items()}


def kernels() -> list[Ordinary]:
    """All of them."""
    import ordinary_floats
    import ordinary_integers
    import ordinary_lanes

    assert ordinary_floats
    assert ordinary_integers
    assert ordinary_lanes
    return list(REGISTERED.values())


@dataclass(frozen=True)
class Built:
    """A kernel after the compiler: its code object, or why there is none or it cannot be timed."""

    elf: bytes = b""
    refusal: str = ""
    untimed: str = ""

    def refused(self, mode: str) -> str:
        return self.refusal or (self.untimed if mode == "timing" else "")


def built(which: Iterable[Ordinary], arch: str, *, legal: bool = True) -> dict[str, Built]:
    """Each kernel, and CLEAR."""
    sources = texts()

    def build(name: str) -> Built:
        text = toolchain.assembly(sources[name], arch)
        if not legal:
            return Built(toolchain.assemble(text, arch))
        try:
            made = legalise.rewrite(guarded(text), model(arch))
        except legalise.NoRuleError as refusal:
            return Built(refusal=str(refusal))
        why = "; ".join(f"{mnemonic}: {why}" for mnemonic, why in made.emulated.items())
        return Built(toolchain.assemble(made.text, arch), untimed=why)

    names = [*(item.name for item in which), CLEAR]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(build, names), strict=True))


def execute(
    folder: Path, arch: str, mode: str, objects: Mapping[str, bytes], seconds: int = 300
) -> dict[str, Array] | str:
    """What each kernel left in y, (2 * ITEMS,) words; or how the simulator died."""
    inputs = {name: REGISTERED[name].words for name in objects if name != CLEAR}
    size = dict.fromkeys(inputs, ROWS_OUT)
    first = {name: CLEAR for name in inputs if REGISTERED[name].cleared}
    objects = {name: elf for name, elf in objects.items() if name != CLEAR or first}
    try:
        done = run(
            folder, arch, objects, inputs,
            words_out=size, block=BLOCK, mode=mode, seconds=seconds, first=first,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"does not end in {seconds} s"
    if done.returncode:
        return (re.findall(r"simgen: error: (.*)", done.stdout) or [done.stderr])[-1]
    return outputs(folder, inputs, words_out=size, block=BLOCK)


def wrong(item: Ordinary, got: Array) -> str:
    """The first value that is wrong, in words; empty if there is none."""
    with np.errstate(all="ignore"):
        expected = item.reference(Words(item.words))
    values, bounds = expected if isinstance(expected, tuple) else (expected, None)
    mine = got.ravel().view(values.dtype)[: values.size]
    same = mine == values
    if values.dtype.kind == "f":
        same |= np.isnan(mine) & np.isnan(values)
    if bounds is not None:
        with np.errstate(all="ignore"):
            same |= abs(mine.astype("f8") - values.astype("f8")) <= bounds
    if same.all():
        return ""
    at = int(np.flatnonzero(~same)[0])
    return f"{item.name}[{at}] is {mine[at]!r}, not {values[at]!r}; {(~same).sum()} of {same.size}"
