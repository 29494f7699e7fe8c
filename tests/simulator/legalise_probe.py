"""Kernels in assembly that run many rows one behind another on MGPUSim, legalised or not.

Six words of input for each item lie in v2 to v7 (the first lane's also in s8 to s13) before the
instructions of a row; VCC, s[22:23] and s[26:27] hold patterns, SCC is 1, v10 to v13, s20 and s21
hold what nobody computes. Behind a row are stored those of v10 to v13, s20 and s21 (outputs 0 to 5)
that it names, and one word with the item's bits of s[22:23] and of VCC, SCC, and whether the item's
word in LDS that the launch asks for beside the kernel's own is what it was. So a replacement that
clobbers one of them is seen. Inputs that a row overwrites are there again for the next.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from legalise_rows import MASK, MASK_BITS, SCC, UNTOUCHED, VCC, VCC_BITS, Inputs, Row

from simgen.bundle.writing import workload_text
from simgen.ground.ir import (
    GUARD,
    PAGE,
    Buffer,
    Distribution,
    DType,
    Fill,
    Kernel,
    Language,
    Launch,
    Node,
    OwnSource,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.isa.legalise import Legalised, roles
from simgen.isa.legalise.assembly import DYNAMIC_LDS, instruction
from simgen.kernels.stages import CODE_OBJECT, LEGALISED
from simgen.targets.base import Job
from simgen.targets.mgpusim.target import MGPUSim
from simgen.tensors import data_file
from simgen.tensors.header import read_header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

WORDS_IN = 6
LANES = 64
LDS_NBYTES = 0x8000
ASKED_NBYTES = 0x400  # of LDS, which begin behind those
VGPRS, SGPRS = 40, 60  # of the frame and the rows; temporaries lie above
FIRST_VECTOR, FIRST_SCALAR = 10, 20  # registers of outputs 0 and 4
ASKED = VCC + 1  # the word in LDS
FLAGS = {MASK: 0, VCC: 1, SCC: 2, ASKED: 3}  # bits of the last word

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


def vector_inputs(waves: int) -> Words:
    """Pairs of special values in words 0 and 1, all of them apart; a shuffle of them in others."""
    values = np.concatenate([FLOATS, INTEGERS[2:]])
    pairs = np.array(list(product(values, repeat=2)), np.uint32)
    chosen = _sample(pairs, waves * LANES)
    if waves > 1:  # what the first lane has in a scalar: a NaN, too
        chosen[LANES] = np.array([np.nan, 1], np.float32).view(np.uint32)
    return _filled(chosen)


def scalar_inputs(waves: int) -> Words:
    """The same, with one pair for a whole wavefront."""
    values = INTEGERS[[0, 1, 3, 4, 5, 8, 9, 10, 14, 15, 16, 18, 19, 20, 21]]
    pairs = np.array(list(product(values, repeat=2)), np.uint32)
    return np.repeat(_filled(_sample(pairs, waves)), LANES, axis=1)


def _sample(pairs: Words, count: int) -> Words:
    """So many of the pairs, a fixed choice; the first ones again if there are not so many."""
    chosen = np.random.default_rng(11).permutation(pairs)
    return np.resize(chosen, (count, 2))


def _filled(pairs: Words) -> Words:
    rng = np.random.default_rng(7)
    rest = [rng.permutation(column) for column in (*pairs.T, *pairs.T)]
    words = np.stack([*pairs.T, *rest]).astype(np.uint32)
    words[4:, ::3] = words[2:4, ::3]  # so that 64-bit values are equal now and then
    words[1, ::5] = words[0, ::5]  # and 32-bit ones
    return words


PLAIN = Inputs(np.ones((WORDS_IN, 8 * LANES), np.uint32))  # to see which outputs a row has


@cache
def stored(row: Row) -> list[int]:
    """The registers of a row that are stored, as numbers of outputs."""
    with np.errstate(all="ignore"):
        return sorted({*row.outputs, *(k for k in row.expected(PLAIN) if k < MASK)})


def text(name: str, rows: Sequence[Row], arch: str, items: int) -> str:
    """Assembly of a kernel that runs rows one behind another."""
    gcn3 = arch == "gfx803"
    lines = _loads(items, gcn3=gcn3)
    for k, row in enumerate(rows):
        lines += [
            *(_untouched(j) for j in stored(row)),
            "s_mov_b64 s[22:23], s[26:27]",
            "s_mov_b64 vcc, s[24:25]",
            "s_cmp_eq_u32 s8, s8",
        ]
        lines += _place_of_region(row, gcn3=gcn3)
        code = [part.strip().replace("@", f".L{name}_{k}_") for part in row.code.split(";")]
        lines += [*code, *_stores(row, items, gcn3=gcn3), *_restored(code, arch)]
    return _module(name, arch, [*lines, "s_endpgm"])


def _untouched(output: int) -> str:
    if output < 4:
        return f"v_mov_b32_e32 v{FIRST_VECTOR + output}, {UNTOUCHED + output:#x}"
    return f"s_mov_b32 s{FIRST_SCALAR + output - 4}, {UNTOUCHED + output:#x}"


def _loads(items: int, *, gcn3: bool) -> list[str]:
    """The inputs, with copies; where outputs go: v1, or v[38:39] on gfx803."""
    stride = 4 * items
    lines = [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_lshl_b32 s8, s2, 6",
        "v_or_b32_e32 v0, s8, v0",
        "v_lshlrev_b32_e32 v1, 2, v0",
        "s_waitcnt lgkmcnt(0)",
    ]
    add = ("v_add_u32_e32 v{}, vcc, {}, v{}" if gcn3 else "v_add_u32_e32 v{}, {}, v{}").format
    if gcn3:
        for base in (4, 6):
            lines += [
                f"v_mov_b32_e32 v39, s{base + 1}",
                f"v_add_u32_e32 v38, vcc, s{base}, v1",
                "v_addc_u32_e64 v39, vcc, 0, v39, vcc",
            ]
            if base == 4:
                for k in range(WORDS_IN):
                    lines += [f"flat_load_dword v{2 + k}, v[38:39]", *_further(stride, gcn3=True)]
    else:
        lines += ["v_mov_b32_e32 v38, v1"]
        for k in range(WORDS_IN):
            lines += [f"global_load_dword v{2 + k}, v38, s[4:5]", add(38, hex(stride), 38)]
    lines += ["s_waitcnt vmcnt(0) lgkmcnt(0)"]
    for k in range(WORDS_IN):
        lines += [f"v_readfirstlane_b32 s{8 + k}, v{2 + k}", f"s_mov_b32 s{52 + k}, s{8 + k}"]
        lines += [f"v_mov_b32_e32 v{32 + k}, v{2 + k}"]
    for register, value in ((24, VCC_BITS), (26, MASK_BITS)):
        lines += [
            f"s_mov_b32 s{register}, {value & 0xFFFFFFFF:#x}",
            f"s_mov_b32 s{register + 1}, {value >> 32:#x}",
        ]
    return [
        *lines,
        "s_mov_b32 m0, -1",
        *_asked("v_xor_b32_e32 v18, -1, v17", "ds_write_b32 v17, v18"),
    ]


def _asked(*lines: str) -> list[str]:
    """Lines with the place in LDS of the item's word in v17; the last one accesses it."""
    place = ("v_and_b32_e32 v17, 63, v0", "v_lshlrev_b32_e32 v17, 2, v17")
    return [*place, *lines[:-1], f"{lines[-1]} offset:{LDS_NBYTES}", "s_waitcnt lgkmcnt(0)"]


def _further(stride: int, *, gcn3: bool) -> list[str]:
    if not gcn3:
        return [f"v_add_u32_e32 v1, {stride:#x}, v1"]
    return [
        f"v_add_u32_e32 v38, vcc, {stride:#x}, v38",
        "v_addc_u32_e64 v39, vcc, 0, v39, vcc",
    ]


def _place_of_region(row: Row, *, gcn3: bool) -> list[str]:
    if not row.words:
        return []
    lines = ["v_lshlrev_b32_e32 v17, 2, v0"]
    if gcn3:
        lines += [
            "v_sub_u32_e32 v18, vcc, v38, v17",
            "v_subbrev_u32_e32 v19, vcc, 0, v39, vcc",
            "s_mov_b64 vcc, s[24:25]",
        ]
    else:
        lines += ["v_sub_u32_e32 v19, v1, v17"]
    return lines


def _stores(row: Row, items: int, *, gcn3: bool) -> list[str]:
    lines = [
        "s_cselect_b32 s30, 4, 0",
        "v_cndmask_b32_e64 v16, 0, 1, s[22:23]",
        "v_cndmask_b32_e64 v17, 0, 2, vcc",
        "v_or_b32_e32 v16, v16, v17",
        "v_or_b32_e32 v16, s30, v16",
        *_asked("ds_read_b32 v18, v17"),
        "v_xor_b32_e32 v18, -1, v18",
        "v_cmp_eq_u32_e64 s[28:29], v17, v18",
        "v_cndmask_b32_e64 v17, 0, 8, s[28:29]",
        "v_or_b32_e32 v16, v16, v17",
    ]
    if row.words:
        lines += _further(4 * items * row.words, gcn3=gcn3)
    registers = [f"v{FIRST_VECTOR + k}" for k in stored(row) if k < 4]
    for k in stored(row):
        if k >= 4:
            registers.append(f"v{14 + k}")
            lines.append(f"v_mov_b32_e32 v{14 + k}, s{FIRST_SCALAR + k - 4}")
    for register in (*registers, "v16"):
        to = f"flat_store_dword v[38:39], {register}" if gcn3 else (
            f"global_store_dword v1, {register}, s[6:7]"
        )  # fmt: skip
        lines += [to, *_further(4 * items, gcn3=gcn3)]
    return lines


def _restored(code: Sequence[str], arch: str) -> list[str]:
    """Inputs, patterns and m0 that a row wrote to."""
    copies = {f"v{2 + k}": f"v_mov_b32_e32 v{2 + k}, v{32 + k}" for k in range(WORDS_IN)}
    copies |= {f"s{8 + k}": f"s_mov_b32 s{8 + k}, s{52 + k}" for k in range(WORDS_IN)}
    copies |= {"m0": "s_mov_b32 m0, -1"}
    effects = [roles.effect(instruction(line), arch) for line in code if not line.endswith(":")]
    written = {register for effect in effects if effect for register in effect.writes}
    return [copies[register] for register in sorted(written & copies.keys())]


def _module(name: str, arch: str, lines: list[str]) -> str:
    accum = f"\t\t.amdhsa_accum_offset {VGPRS}\n" if arch == "gfx942" else ""
    body = "".join(line + "\n" if line.endswith(":") else f"\t{line}\n" for line in lines)
    return f"""\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
\t.amdhsa_code_object_version 5
\t.text
\t.globl\t{name}
\t.p2align\t8
\t.type\t{name},@function
{name}:
{body}.Lfunc_end_{name}:
\t.size\t{name}, .Lfunc_end_{name}-{name}
\t.section\t.rodata,"a",@progbits
\t.p2align\t6, 0x0
\t.amdhsa_kernel {name}
\t\t.amdhsa_group_segment_fixed_size {LDS_NBYTES}
\t\t.amdhsa_kernarg_size 16
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_next_free_vgpr {VGPRS}
\t\t.amdhsa_next_free_sgpr {SGPRS}
{accum}\t.end_amdhsa_kernel
\t.set {name}.{DYNAMIC_LDS}, {ASKED_NBYTES}
"""


class _Assembled:
    """Stands for a Builder: the code objects are there already."""

    linted = False

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.objects = objects

    def products(self, stages: Any, sources: Mapping[str, str]) -> dict[str, Any]:
        return {
            name: {CODE_OBJECT: self.objects[name], LEGALISED: Legalised("")} for name in sources
        }


def run(
    folder: Path,
    arch: str,
    kernels: Mapping[str, bytes],
    inputs: Mapping[str, Words],
    *,
    words_out: Mapping[str, int],
    block: int = LANES,
    mode: str = "emu",
    blocks: int | None = None,
    first: Mapping[str, str] | None = None,
    seconds: int = 600,
) -> subprocess.CompletedProcess[str]:
    """Run kernels (name -> code object) on inputs of shape (words, items) in one process.

    `blocks`: so many of the work-groups are enough. `first` names a kernel that is run on the
    buffers of another one before that.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds`.
    """
    shapes = {name: inputs[name].shape for name in kernels if name in inputs}
    workload = _workload(shapes, words_out, block, blocks, first)
    digest = hashlib.sha256(workload_text(workload)).hexdigest()
    target = MGPUSim(arch=arch, legalise=False)  # which would refuse what is to be shown
    job = Job(workload, {name: name for name in kernels}, data_file.data_id(workload), digest)
    files = target.package.folder(job, _Assembled(kernels))  # type: ignore[arg-type]
    for name, file in files.items():
        to = folder / "mgpusim" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.content)
        to.chmod(0o755 if file.executable else 0o644)
    (folder / "workload.json").write_bytes(workload_text(workload))
    path = folder / "data.h5"
    data_file.write_data(path, workload)
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
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        env={**os.environ, "SIMGEN_MODE": mode, "SIMGEN_TIMEOUT": str(seconds)},
    )


def outputs(
    folder: Path,
    inputs: Mapping[str, Words],
    *,
    words_out: Mapping[str, int],
    block: int = LANES,
    blocks: int | None = None,
) -> dict[str, Words]:
    """What each kernel of a finished run wrote: words_out[name] words for each item."""
    shapes = {name: words.shape for name, words in inputs.items()}
    workload = _workload(shapes, words_out, block, blocks)
    raw = (folder / "results" / "mgpusim" / "outputs.bin").read_bytes()
    return {
        buffer.name.removesuffix(".out"): np.frombuffer(
            raw, "<u4", buffer.spec.size, buffer.offset - workload.outputs_offset
        ).reshape(buffer.spec.shape)
        for buffer in workload.outputs
    }


def _workload(
    shapes: Mapping[str, tuple[int, ...]],
    words_out: Mapping[str, int],
    block: int,
    blocks: int | None,
    first: Mapping[str, str] | None = None,
) -> Workload:
    at, buffers = 0, []
    specs = [
        (f"{name}.{end}", TensorSpec(shape, DType.I32), role)
        for end, role in (("in", Role.INPUT), ("out", Role.OUTPUT))
        for name, (count, items) in shapes.items()
        for shape in [(count if end == "in" else words_out[name], items)]
    ]
    outputs_offset = 0
    fill = Fill(Distribution.UNIFORM, 0, 1)
    for name, spec, role in specs:
        if role is Role.OUTPUT and not outputs_offset:
            outputs_offset = at
        buffers.append(Buffer(name, spec, role, at, fill if role is Role.INPUT else None))
        at += -(-(spec.nbytes + GUARD) // PAGE) * PAGE
    launches = tuple(
        Launch(kernel, (blocks or items // block, 1, 1), (f"{name}.in", f"{name}.out"))
        for name, (_, items) in shapes.items()
        for kernel in ((first or {}).get(name), name)
        if kernel
    )
    step = Step("probe", Pass.FORWARD, (), (), launches)
    names = dict.fromkeys([*(first or {}).values(), *shapes])
    source = OwnSource(Language.HIP, "", "")  # launches of users' kernels alone ask for LDS
    kernels = tuple(
        Kernel(name, "probe", block, lds_nbytes=ASKED_NBYTES, source=source) for name in names
    )
    node = Node("probe", "bypass", (), ())
    return Workload("probe", 0, (node,), tuple(buffers), kernels, (step,), at, outputs_offset)


def words_of(row: Row) -> int:
    """How many words a row leaves for each item."""
    return row.words + len(stored(row)) + 1


def wrong(row: Row, got: Words, inputs: Words, launched: int) -> list[str]:
    """What of a row's stored words (number, items) is not what hardware gives, with examples.

    `launched`: how many of the items there were.
    """
    w = Inputs(inputs)
    with np.errstate(all="ignore"):
        expected = dict(row.expected(w))
    numbers = stored(row)
    for k in numbers:
        expected.setdefault(k, np.full(w.items, UNTOUCHED + k, np.uint32))
    for k, values in {MASK: w.bit(MASK_BITS), VCC: w.bit(VCC_BITS), SCC: 1, ASKED: 1}.items():
        expected.setdefault(k, np.asarray(values, np.uint32))
    flags = {k: got[-1] >> np.uint32(at) & 1 for k, at in FLAGS.items()}
    outputs = dict(zip(numbers, got[row.words :])) | flags
    found = []
    for k, values in sorted(expected.items()):
        wanted = np.broadcast_to(np.asarray(values, np.uint32), (w.items,))
        same = outputs[k] == wanted
        if k < MASK and row.floats:
            same |= _same_floats(outputs[k], wanted, row)
        if k in (MASK, VCC):
            same |= w.bit(row.lanes) == 0
        if not same[:launched].all():
            at = int(np.flatnonzero(~same)[0])
            words = ", ".join(f"{x:#x}" for x in w.u[:4, at])
            found.append(
                f"{row.code}: output {k} of ({words}) is {outputs[k][at]:#x}, "
                f"not {wanted[at]:#x}; {np.count_nonzero(~same[:launched])} of {launched} wrong"
            )
    if row.region:
        kept = got[: row.words].reshape(w.items, row.words)[:launched]
        if not np.array_equal(kept, row.region(w)[:launched]):
            found.append(f"{row.code}: stored {kept[0]}, not {row.region(w)[0]}")
    return found


def _same_floats(got: Words, wanted: Words, row: Row) -> NDArray[np.bool_]:
    """NaNs have no bits; a zero may have either sign, and a result be an ULP off, where told."""
    a, b = got.view(np.float32), wanted.view(np.float32)
    same = np.isnan(a) & np.isnan(b)
    if row.any_zero:
        same |= (a == 0) & (b == 0)
    apart = abs(got.astype(np.int64) - wanted.astype(np.int64))
    return same | (apart <= row.ulps) & np.isfinite(a) & np.isfinite(b)
