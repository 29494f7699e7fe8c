"""Kernels that watch what is theirs: what a replacement borrows is not what a launch owns.

A kernel keeps values in registers and in the LDS that its launch asks for, from its beginning to
its end. Where one has changed, it comes to a word that is no instruction, and the simulator ends.
"""

from __future__ import annotations

from probing import ASKED_NBYTES

from simgen.isa.legalise.assembly import DYNAMIC_LDS, Instruction, parse, raise_counts

_VALUE = "0x5ca1ab1e"
_ENDS = "0xbe801d00"  # s_setpc_b64 s[0:1]: MGPUSim decodes it, and panics when it executes it
_LDS = "group_segment_fixed_size"


def guarded(text: str) -> str:
    """Assembly text of kernels of one dimension, of at most ASKED_NBYTES / 4 work-items."""
    lines = text.split("\n")
    for kernel in parse(lines):
        at, value, read = (f"v{kernel.vgprs + n}" for n in range(3))
        first = -(-kernel.sgprs // 2) * 2
        lanes, scalar = f"s[{first}:{first + 1}]", f"s{first + 2}"
        begin = -(-kernel.counts[_LDS][1] // 4) * 4
        raise_counts(lines, kernel, kernel.vgprs + 3, first + 3)
        lines[kernel.start] += f"""
\ts_mov_b64 {lanes}, exec
\ts_mov_b32 {scalar}, {_VALUE}
\ts_mov_b32 m0, -1
\tv_and_b32_e32 {at}, 0x3ff, v0
\tv_lshlrev_b32_e32 {at}, 2, {at}
\tv_xor_b32_e32 {value}, {_VALUE}, {at}
\tds_write_b32 {at}, {value} offset:{begin}
\ts_waitcnt lgkmcnt(0)"""
        bad = f".Lcanary_{kernel.name}"
        for place, item in kernel.items.items():
            if isinstance(item, Instruction) and item.mnemonic == "s_endpgm":
                lines[place] = f"""\
\ts_mov_b64 exec, {lanes}
\ts_mov_b32 m0, -1
\tds_read_b32 {read}, {at} offset:{begin}
\ts_waitcnt lgkmcnt(0)
\tv_cmp_ne_u32_e32 vcc, {read}, {value}
\ts_cbranch_vccnz {bad}_{place}
\tv_xor_b32_e32 {read}, {_VALUE}, {at}
\tv_cmp_ne_u32_e32 vcc, {read}, {value}
\ts_cbranch_vccnz {bad}_{place}
\ts_cmp_lg_u32 {scalar}, {_VALUE}
\ts_cbranch_scc1 {bad}_{place}
\ts_endpgm
{bad}_{place}:
\t.long {_ENDS}"""
        lines.append(f"\t.set {kernel.name}.{DYNAMIC_LDS}, {ASKED_NBYTES}")
    return "\n".join(lines)
