"""Every layer at its default and at ragged sizes, in every type that it takes, through compilers
that may refuse: NVIDIA's, and AMD's where kernels need nearly all registers.

The judges are the compilers. All 4,248 kernels for an H200 and 4,118 for gem5's gfx902 were
compiled once; those that show each choice of each template are here, in 90 s of a processor.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import nvrtc
import pytest
from covering import covering
from layer_variants import lowered
from machine_code import metadata, no_scratch_no_stack_no_spills, together

import simgen
from simgen.errors import SimgenError
from simgen.isa import toolchain
from simgen.layers import LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simgen.ground.ir import Kernel

TYPES = (None, "f16", "bf16", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "i8", "i32")
# None: the default.
SIZES = (
    None, "n=3 c=37 h=1 w=1", "n=1 c=999 h=1 w=1", "n=2 c=499 h=1 w=1", "n=2 c=17 h=9 w=11",
    "n=101 c=130 h=5 w=7", "n=1 c=1 h=1 w=1", "n=7 c=1001 h=1 w=1",
)  # fmt: skip
SIZES_OF: dict[str, tuple[str | None, ...]] = {
    "fc": (
        None, "n=101 c=999 h=1 w=1 num_output=1001", "n=3 c=37 h=1 w=1 num_output=5",
        "n=100 c=9162 h=1 w=1 bias=true x_scale=.5 w_scale=.02 y_scale=.25",
        "n=1 c=4097 h=1 w=1 num_output=1000",
    ),
    "gemm": (
        None, *(f"m=1001 n=999 k=998 {t}" for t in ("", "transa=true", "transb=true")),
        *(f"m=100 n=4096 k=9162 {t}" for t in ("", "transa=true", "transa=true transb=true")),
        "m=33 n=17 k=19", "m=1 n=1001 k=517", "m=130 n=2050 k=515 transa=true transb=true",
    ),
    "sparse_gemm": (None, "m=33 n=12 k=40 sparsity=0.75", "m=101 n=37 k=99"),
    "structured_gemm": (None, "m=33 n=12 k=40", "m=130 n=37 k=100"),
    "recurrent": (
        None, *(f"shape=3x2x6 hidden_size={n} cell={c}" for n in (7, 130) for c in ("gru", "lstm")),
    ),
    "heads": (None, "shape=2x5x6 heads=3", "shape=3x7x33 heads=11"),
    "embedding": (None, *(f"shape=3x11 vocabulary=99 features={n}" for n in (6, 37))),
    "mask": (None, "shape=2x5x7 mask=lengths", "shape=2x5x7"),
    "attention": (
        None, "shape=1x8x1x128 kv_heads=2 keys=4096 page=16 lengths=true sinks=true",
        "shape=2x4x9x20 value_size=12 mask=bias softcap=5 algo=split",
        "shape=1x16x4x576 value_size=512 kv_heads=1 keys=100 mask=keep",
    ),
    "gate": (None, "shape=3x37", "shape=3x40 gate_packed=true", "shape=3x38 gate_packed=true"),
    "router": (
        None, "shape=9x16 scores_mode=sigmoid correction=true groups=4 top_groups=2",
        "shape=5x100 top_k=8 normalised=false",
    ),
    "expert_blocks": (None, "shape=700x3 experts=9 block_rows=4"),
    "experts": (None, "shape=24x64 experts=8 intermediate=20", "shape=1x8 stored=2"),
    "attention_sum": (None, "shape=3x11 vocabulary=5"),
    "reduce_mean": (None, "shape=2x5x6", "shape=3x7x999"),
    "rearrange": (None, "shape=2x4x3x5x7"),
}  # fmt: skip
PRODUCTS = ("fc", "fused_fc", "gemm", "conv", "fused_conv")
PARTS = 4
TOGETHER = 16


def kernels(kind: str, machine: str) -> Iterator[tuple[str | None, Kernel]]:
    """(type, kernel) of all."""
    every = product(LAYERS[kind].passes, SIZES_OF.get(kind, SIZES), TYPES)
    for direction, sizes, name in every:
        settings = dict(each.split("=") for each in (sizes or "").split())
        for kernel in lower(f"{kind}_{direction}", settings, name, machine):
            yield name, kernel


def lower(
    word: str, settings: dict[str, str], name: str | None, machine: str
) -> tuple[Kernel, ...]:
    """Those of a layer; none where simgen refuses it, which nothing else may do."""
    try:
        return simgen.plan(word, type=name, set=settings, plan_for=machine).workload.kernels
    except SimgenError:
        return ()


def chosen(machine: str, kinds: tuple[str, ...]) -> list[Kernel]:
    """What shows each choice of each template, and what is left of fours in each kind of type."""
    found, labels = {}, {}
    for name, kernel in (each for kind in kinds for each in kernels(kind, machine)):
        found[kernel.name] = (kernel,)
        size = dict(kernel.constants).get("size")
        is_narrow = name is not None and name != "i32"
        labels[kernel.name] = [(f"{kernel.template} {is_narrow}", size % 4)] if size else []
    kept = covering(found, pairs=kinds == PRODUCTS, sizes=False, labels=labels)
    return [found[name][0] for name in kept]


@pytest.mark.skipif(nvrtc.library() is None, reason=f"{nvrtc.WHEEL} is not installed")
@pytest.mark.parametrize("part", range(PARTS))
def test_nvidias_compiler_takes_each_kernel(part: int, once: Callable[..., Any]) -> None:
    kept = once(chosen, "h200", tuple(lowered()))[part::PARTS]
    # Tensor maps, and wgmma, are of this processor alone.
    for arch, own in (
        ("sm_90a", [k for k in kept if k.maps]), ("sm_90", [k for k in kept if not k.maps])
    ):  # fmt: skip
        for at in range(0, len(own), TOGETHER):  # a third of the time goes into each start
            some = own[at : at + TOGETHER]
            if nvrtc.refusal(together(some), arch):
                said = {k.name: nvrtc.refusal(together([k]), arch) for k in some}
                assert not any(said.values()), {name: text for name, text in said.items() if text}


def test_products_of_every_type_leave_amds_compiler_enough_registers() -> None:
    products = [k for k in chosen("gem5-gfx902", PRODUCTS) if "tile_k" in dict(k.constants)]
    assert any(re.search("x9162_t128x", kernel.name) for kernel in products)
    for at in range(0, len(products), TOGETHER):
        some = products[at : at + TOGETHER]
        text = toolchain.assembly(together(some), "gfx902")
        assert len(metadata(text, "vgpr_spill_count")) == len(some)
        no_scratch_no_stack_no_spills(text)


def test_products_by_matrix_instructions_leave_registers_of_gfx11() -> None:
    for name, (m, n, k) in product(("f16", "i8"), ((4096, 9164, 128), (4095, 9163, 129))):
        found: dict[str, Kernel] = {}
        for a, b in product(("false", "true"), repeat=2):
            settings = {"m": m, "n": n, "k": k, "transa": a, "transb": b}
            given = {key: str(each) for key, each in settings.items()}
            found |= {each.name: each for each in lower("gemm_fwd", given, name, "rx7900xtx")}
        assert sum("_m16x16w" in each for each in found) == 4
        text = toolchain.assembly(together(list(found.values())), "gfx1100")
        no_scratch_no_stack_no_spills(text)
