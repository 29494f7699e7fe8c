"""Kernels of a few instructions in assembly, legalised or not, run on MGPUSim.

Every kernel has the same frame. Six words of input for each item lie in v2 to v7 (the first
lane's also in s8 to s13) before the instructions under test; behind them are read and stored:

    0 to 3   v10 to v13         4, 5   s20, s21
    6        the item's bit of the mask s[22:23]
    7        SCC                8      the item's bit of VCC

VCC and s[22:23] hold patterns before, SCC is 1. So the frame reads all of them behind the
instructions under test: a replacement that clobbers one is seen.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen import data, legalise, toolchain
from simgen.bundle import workload_text
from simgen.data_header import read_header
from simgen.ir import (
    GUARD,
    PAGE,
    Buffer,
    Distribution,
    DType,
    Fill,
    Kernel,
    Launch,
    Node,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.targets.base import Job
from simgen.targets.mgpusim import MGPUSim

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

WORDS_IN, WORDS_OUT = 6, 9
VCC_PATTERN, MASK_PATTERN = 0x00FF33550F0F0FF0, 0x123456789ABCDEF0
LANES = 64
LDS_NBYTES = 0x8000

FLOATS = np.array(
    [0, -0.0, 1, -1, 0.5, -0.5, 1.5, -2.5, 3.7, -3.7, 1e-45, -1e-45, 1.1754942e-38, 3.4e38, -3.4e38,
     np.inf, -np.inf, np.nan, 2147483648, -2147483648, 4e9, 16777217, -1e-3, 8388607.5],
    np.float32,
).view(np.uint32)  # fmt: skip
INTEGERS = np.array(
    [0, 1, 2, 5, 31, 32, 63, 64, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFFFFFF, 0x1000000, 0x12345678,
     0x7FFFFFFF, 0x80000000, 0x80000001, 0xDEADBEEF, 0xFFFFFFF0, 0xFFFFFFFE, 0xFFFFFFFF],
    np.uint32,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Instructions under test, and what they compute."""

    name: str
    code: str
    scalar: bool = False  # every wavefront has one value in all lanes


def vector_inputs() -> Words:
    """Every pair of special values in words 0 and 1; a shuffle of them in the others."""
    values = np.concatenate([FLOATS, INTEGERS[2:]])
    pairs = np.array(list(product(values, repeat=2)), np.uint32)
    items = -(-len(pairs) // LANES) * LANES
    return _filled(np.resize(pairs, (items, 2)))


def scalar_inputs() -> Words:
    """The same, with one pair for a whole wavefront."""
    values = INTEGERS[[0, 1, 3, 4, 5, 8, 9, 10, 14, 15, 16, 18, 19, 20, 21]]
    pairs = np.array(list(product(values, repeat=2)), np.uint32)
    return np.repeat(_filled(pairs), LANES, axis=1)


def _filled(pairs: Words) -> Words:
    rng = np.random.default_rng(7)
    rest = [rng.permutation(column) for column in (*pairs.T, *pairs.T)]
    words = np.stack([*pairs.T, *rest]).astype(np.uint32)
    words[4:, ::3] = words[2:4, ::3]  # so that 64-bit values are equal now and then
    return words


def text(case: Case, arch: str, items: int) -> str:
    """Assembly of one kernel."""
    gcn3 = arch == "gfx803"
    stride = 4 * items

    def address(base: int) -> list[str]:
        if gcn3:
            return [
                f"v_mov_b32_e32 v21, s{base + 1}",
                f"v_add_u32_e32 v20, vcc, s{base}, v1",
                "v_addc_u32_e64 v21, vcc, 0, v21, vcc",
            ]
        return [
            f"v_mov_b32_e32 v21, s{base + 1}",
            f"v_add_co_u32_e32 v20, vcc, s{base}, v1",
            "v_addc_co_u32_e32 v21, vcc, 0, v21, vcc",
        ]

    step = f"v_add_u32_e32 v1, {'vcc, ' if gcn3 else ''}{stride:#x}, v1"
    kind, off = ("flat", "") if gcn3 else ("global", ", off")
    lines = [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_lshl_b32 s8, s2, 6",
        "v_or_b32_e32 v0, s8, v0",
        "v_lshlrev_b32_e32 v1, 2, v0",
        "s_waitcnt lgkmcnt(0)",
    ]
    for k in range(WORDS_IN):
        lines += [*address(4), f"{kind}_load_dword v{2 + k}, v[20:21]{off}", step]
    lines += ["s_waitcnt vmcnt(0)"]
    lines += [f"v_readfirstlane_b32 s{8 + k}, v{2 + k}" for k in range(WORDS_IN)]
    lines += [f"v_mov_b32_e32 v{10 + k}, 0" for k in range(4)]
    for register, value in ((24, VCC_PATTERN), (22, MASK_PATTERN)):
        lines += [
            f"s_mov_b32 s{register}, {value & 0xFFFFFFFF:#x}",
            f"s_mov_b32 s{register + 1}, {value >> 32:#x}",
        ]
    lines += ["s_mov_b64 s[20:21], 0", "s_mov_b32 m0, -1"]
    lines += ["s_cmp_eq_u32 s8, s8", "s_mov_b64 vcc, s[24:25]"]
    lines += [line.strip() for line in case.code.split(";")]
    lines += [
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "s_cselect_b32 s30, 1, 0",
        "v_mov_b32_e32 v14, s20",
        "v_mov_b32_e32 v15, s21",
        "v_cndmask_b32_e64 v16, 0, 1, s[22:23]",
        "v_mov_b32_e32 v17, s30",
        "v_cndmask_b32_e64 v18, 0, 1, vcc",
        "v_lshlrev_b32_e32 v1, 2, v0",
    ]
    for k in range(WORDS_OUT):
        data_in = f"v{10 + k}"
        store = f"{kind}_store_dword v[20:21], {data_in}{off}"
        lines += [*address(6), store, step]
    return _module(case.name, arch, [*lines, "s_endpgm"])


def _module(name: str, arch: str, lines: list[str]) -> str:
    accum = "\t\t.amdhsa_accum_offset 32\n" if arch == "gfx942" else ""
    body = "".join(line + "\n" if line.endswith(":") else f"\t{line}\n" for line in lines)
    return f"""\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
\t.amdhsa_code_object_version 5
\t.text
\t.globl\t{name}
\t.p2align\t8
\t.type\t{name},@function
{name}:
{body}.Lfunc_end0:
\t.size\t{name}, .Lfunc_end0-{name}
\t.section\t.rodata,"a",@progbits
\t.p2align\t6, 0x0
\t.amdhsa_kernel {name}
\t\t.amdhsa_group_segment_fixed_size {LDS_NBYTES}
\t\t.amdhsa_kernarg_size 16
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_next_free_vgpr 32
\t\t.amdhsa_next_free_sgpr 32
{accum}\t.end_amdhsa_kernel
"""


class _Assembled:
    """Stands for a Builder: the code objects are there already."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.objects = objects

    def code_objects(self, sources: Any, arch: str, rewrite: Any = None) -> list[bytes]:
        return [self.objects[source] for source in sources]


def run(
    folder: Path,
    arch: str,
    kernels: Mapping[str, bytes],
    inputs: Mapping[str, Words],
    *,
    words_out: int = WORDS_OUT,
    block: int = LANES,
    mode: str = "emu",
    seconds: int = 600,
    first: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run kernels (name -> code object) on inputs of shape (words, items) in one process.

    `first` names a kernel that is run on the buffers of another one before that.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds`.
    """
    shapes = {name: inputs[name].shape for name in kernels if name in inputs}
    workload = _workload(shapes, words_out, block, first or {})
    digest = hashlib.sha256(workload_text(workload)).hexdigest()
    target = MGPUSim(arch=arch, legalise=False)  # which would refuse what is to be shown
    job = Job(workload, {name: name for name in kernels}, data.data_id(workload), digest)
    files = target.folder(job, _Assembled(kernels))  # type: ignore[arg-type]
    for name, file in files.items():
        to = folder / "mgpusim" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.content)
        to.chmod(0o755 if file.executable else 0o644)
    (folder / "workload.json").write_bytes(workload_text(workload))
    path = folder / "data.h5"
    data.write_data(path, workload)
    entries = read_header(path).entries
    for buffer, entry in zip(workload.inputs, entries, strict=False):
        shape = buffer.spec.shape
        name = buffer.name.removesuffix(".in")
        np.memmap(path, "<u4", "r+", entry.offset, shape)[:] = inputs[name].reshape(shape)
    digests = {
        f"mgpusim/{n}": hashlib.sha256(file.content).hexdigest() for n, file in files.items()
    }
    manifest = {
        "simgen": "test",
        "compiler": "test",
        "data": {"file": "data.h5", "id": job.data_id.hex()},
        "targets": {"mgpusim": target.settings()},
        "files": {"workload.json": digest, **digests},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return subprocess.run(
        ["sh", str(folder / "mgpusim" / "run.sh")],
        env=os.environ | {"SIMGEN_MODE": mode, "SIMGEN_TIMEOUT": str(seconds)},
        capture_output=True,
        text=True,
        timeout=seconds + 60,
    )


def outputs(
    folder: Path, inputs: Mapping[str, Words], *, words_out: int = WORDS_OUT, block: int = LANES
) -> dict[str, Words]:
    """What each kernel of a finished run wrote, (words_out, items)."""
    workload = _workload({name: words.shape for name, words in inputs.items()}, words_out, block)
    raw = (folder / "results" / "mgpusim" / "outputs.bin").read_bytes()
    return {
        buffer.name.removesuffix(".out"): np.frombuffer(
            raw, "<u4", buffer.spec.size, buffer.offset - workload.outputs_offset
        ).reshape(buffer.spec.shape)
        for buffer in workload.outputs
    }


def _workload(
    shapes: Mapping[str, tuple[int, ...]],
    words_out: int,
    block: int,
    first: Mapping[str, str] | None = None,
) -> Workload:
    at, buffers = 0, []
    specs = [
        (f"{name}.{end}", TensorSpec(shape, DType.I32), role)
        for end, role in (("in", Role.INPUT), ("out", Role.OUTPUT))
        for name, (count, items) in shapes.items()
        for shape in [(count if end == "in" else words_out, items)]
    ]
    outputs_offset = 0
    fill = Fill(Distribution.UNIFORM, 0, 1)
    for name, spec, role in specs:
        if role is Role.OUTPUT and not outputs_offset:
            outputs_offset = at
        buffers.append(Buffer(name, spec, role, at, fill if role is Role.INPUT else None))
        at += -(-(spec.nbytes + GUARD) // PAGE) * PAGE
    first = first or {}
    launches = tuple(
        Launch(kernel, (items // block, 1, 1), (f"{name}.in", f"{name}.out"))
        for name, (_, items) in shapes.items()
        for kernel in (first.get(name), name)
        if kernel
    )
    step = Step("probe", Pass.FORWARD, (), (), launches)
    kernels = tuple(
        Kernel(name, "probe", block) for name in dict.fromkeys([*first.values(), *shapes])
    )
    node = Node("probe", "bypass", (), ())
    return Workload("probe", 0, (node,), tuple(buffers), kernels, (step,), at, outputs_offset)


def assembled(case: Case, arch: str, items: int, *, legal: bool = True) -> bytes:
    """The code object of a case."""
    source = text(case, arch, items)
    return toolchain.assemble(legalise.rewrite(source, arch).text if legal else source, arch)
