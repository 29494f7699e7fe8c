"""Products of floats by integers of 8 and 4 bits on the host: by scalars, and as the matrix
instructions of each maker take them; every kind of scale, and mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narrow
import pytest
from layer_bundles import make

from simgen.bundle import results
from simgen.ground.dtypes import BF16
from simgen.ground.ir import Pass
from simgen.ground.machine import find
from simgen.kernels import render
from simgen.targets.host import Host
from simgen.tensors import exact_values

if TYPE_CHECKING:
    from pathlib import Path

    from layer_bundles import Made

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

NARROWED = f"{BF16.c}::widen({BF16.c}::narrow("


def planned(dtype: str, machine: str = "", config: Path = narrow.MIXED) -> Workload:
    """For a machine that is named; without, by scalars."""
    known = find(machine, "test") if machine else None
    return narrow.planned(dtype, config, (Pass.FORWARD,), known)


def some_of(folder: Path, names: list[str]) -> Path:
    """A config of some of the layers: compiling takes most of a test."""
    _, *sections = narrow.MIXED.read_text().split("\n\n[")
    kept = [f"[{each}" for each in sections if each.splitlines()[1] in {f"name={n}" for n in names}]
    assert len(kept) == len(names)
    config = folder / "some.dnnmark"
    config.write_text("\n\n".join(kept))
    return config


def wrong(made: Made) -> list[str]:
    done = made.run()
    assert (done.returncode, done.stderr) == (0, "")
    folder = made.bundle.results("host")
    assert folder is not None
    return narrow.wrong(made.bundle, results.collect(made.bundle, made.target, folder))


@pytest.mark.parametrize(
    ("dtype", "machine"),
    [("bf16", ""), ("f16", "h200"), ("bf16", "h200"), ("f16", "mi210"), ("bf16", "rx7900xtx")],
)
def test_integers_beside_floats(tmp_path: Path, builder: Builder, dtype: str, machine: str) -> None:
    work = planned(dtype, machine)
    stored = {b.spec.dtype.name for b in work.buffers if b.name.endswith((".w", ".b"))}
    assert stored == {"i8", dtype}
    by_matrix = {k.name for k in work.kernels if dict(k.constants).get("multiply") != "scalars"}
    tiled = {launch.kernel for launch in work.launches if "_t" in launch.kernel}
    assert not machine or len(by_matrix & tiled) == len(tiled)
    assert wrong(make(tmp_path / "b", work, builder, sanitize=not machine)) == []


TAKEN = "fused(left[i], right[j], sum[i][j])"
DOT = "dot(xs[f], ws, sum[r][f])"
SIGNED = "(static_cast<int>(word << (32 - BITS)) >> (32 - BITS)) - ZERO)"
WORD = "reinterpret_cast<const unsigned*>(weights)[at / SHARED]"
# Text -> what it becomes; the layers that are wrong then, and one that is not.
MISTAKES = {
    "no scale of all": ({"*= ALPHA;": "+= 0 * ALPHA;"}, "all_tiled all_short columns", "batch"),
    "no zero point": (
        {" - ZERO;": ";", " - ZERO);": ");"}, "all_short outputs_tiled turned batch", ""
    ),
    "no sign of 4 bits": ({SIGNED: "int(word & 15) - ZERO)"}, "groups_few", "groups_of_8"),
    "swapped halves of bytes": (
        {
            f"const unsigned word =\n        {WORD} >> at % SHARED * BITS;":
            f"unsigned word = {WORD};\n"
            "    word = (word & 0x0f0f0f0f) << 4 | (word >> 4 & 0x0f0f0f0f);\n"
            "    word >>= at % SHARED * BITS;"
        },
        "groups_tiled groups_short", "",
    ),
    "no scale of outputs": (
        {"return sum * channel_scales[channel];": "return sum + 0 * channel_scales[channel];"},
        "outputs_tiled outputs_short columns", "all_short",
    ),
    "the scale of another output": (
        {"sum * channel_scales[channel]": "sum * channel_scales[channel ^ 1]"},
        "outputs_short columns", "all_short",
    ),
    "the scale of the first group": (
        {"(K / GROUP) + k / GROUP)": "(K / GROUP))"}, "groups_few turned batch", "outputs_of_4"
    ),
    "the scale of another row": (
        {"load(scales, row * (K / GROUP)": "load(scales, 0 * row"}, "outputs_of_4 groups_short", ""
    ),
    "the scales of the first matrix": (
        {"item * (ELEMENTS / GROUP)": "item * 0"}, "batch", "groups_of_8"
    ),
    "the first matrix": (
        {"item * (ELEMENTS / 8 * Stored::BITS)": "item * 0"}, "batch", "groups_of_8"
    ),
    "a sum in the narrow type": (
        {TAKEN: f"{NARROWED}{TAKEN}))", DOT: f"{NARROWED}{DOT}))"},
        "outputs_tiled groups_short groups_of_8", "",
    ),
}  # fmt: skip
MATRIX_MISTAKES = {
    "weights cut off": (
        {"Held::narrow(values.": "Held::keep(values."}, "groups_few groups_of_8", "all_tiled"
    ),
    "the other half of a word": (
        {"<< i * sizeof(Held) % 4 * 8;": "<< (i ^ 1) * sizeof(Held) % 4 * 8;"},
        "all_tiled groups_of_8", "all_short",
    ),
}  # fmt: skip


def changed(work: Workload, mistake: dict[str, str]) -> dict[str, str]:
    sources = render.kernels(work)
    for right, by in mistake.items():
        assert any(right in text for text in sources.values()), right
        sources = {name: text.replace(right, by) for name, text in sources.items()}
    return sources


def seen(
    folder: Path, builder: Builder, mistake: tuple[dict[str, str], str, str], machine: str = ""
) -> None:
    by, expected, right = mistake
    config = some_of(folder, [*expected.split(), *right.split()])
    work = planned("bf16", machine, config)
    found = wrong(make(folder / "b", work, builder, sources=changed(work, by), optimise=False))
    assert {line.split(".")[0] for line in found} == set(expected.split())


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_seen(tmp_path: Path, builder: Builder, mistake: str) -> None:
    seen(tmp_path, builder, MISTAKES[mistake])


@pytest.mark.parametrize("mistake", MATRIX_MISTAKES)
def test_mistakes_before_matrix_instructions_are_seen(
    tmp_path: Path, builder: Builder, mistake: str
) -> None:
    seen(tmp_path, builder, MATRIX_MISTAKES[mistake], "h200")


def test_sums_are_exact(tmp_path: Path, builder: Builder) -> None:
    names = ["all_short", "outputs_short", "outputs_of_4", "groups_tiled", "turned", "batch"]
    work = exact_values.with_exact_values(planned("f32", config=some_of(tmp_path, names)))
    verdicts = make(tmp_path / "b", work, builder).good()
    assert {name for name, verdict in verdicts.items() if verdict.exact} == set(names)
