"""What rules cost on gem5: kernels of 32 equal instructions, as built and with --no-legalise.

    GEM5=/path/to/gem5 python benchmarks/gem5/rules.py VERSION ARCH [-o FOLDER]

A kernel has 4,096 work-items. Instructions and cycles are for each of them, without those of
the same kernel with none. FOLDER must not lie under /tmp, which apu_se.py redirects.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import simgen
from simgen.errors import RunError, SimgenError
from simgen.targets.gem5.se import Gem5Se

TIMES = 32
# %0 is read and written; %1 and %2 are read; s: all three are scalars.
VECTOR = """\
v_bfe_i32 %0, %1, 3, 9; v_perm_b32 %0, %0, %1, %2; v_or3_b32 %0, %0, %1, %2;
v_xad_u32 %0, %0, %1, %2; v_xnor_b32 %0, %0, %1; v_swap_b32 %0, %1; v_add_i32 %0, %0, %1;
v_sub_i32 %0, %0, %1 clamp; v_add_i16 %0, %0, %1; v_add_u32 %0, %0, %1 clamp;
v_min3_i16 %0, %0, %1, %2; v_med3_u16 %0, %0, %1, %2; v_mad_u32_u16 %0, %0, %1, %2;
v_cvt_pk_i16_i32 %0, %0, %1; v_alignbyte_b32 %0, %0, %1, %2; v_pk_add_u16 %0, %0, %1;
v_pk_mad_i16 %0, %0, %1, %2; v_pk_max_i16 %0, %0, %1; v_pk_fma_f16 %0, %0, %1, %2;
v_fma_f16 %0, %0, %1, %2; v_add_f16 %0, %0, %1; v_cvt_f32_f16 %0, %1; v_cvt_f16_f32 %0, %1;
v_dot4_i32_i8 %0, %1, %2, %0; v_cndmask_b32_e64 %0, %0, -%1, vcc;
v_add_f32_e64 %0, %0, %1 clamp; v_trunc_f32_e64 %0, %1 clamp; v_mad_f32 %0, %0, %1, %2;
v_div_fixup_f32 %0, %0, %1, %2; v_sin_f32 %0, %1; v_ffbh_u32 %0, %1;
v_readfirstlane_b32 s20, %0;
v_add_u32_sdwa %0, %0, %1 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD;
v_mov_b32_dpp %0, %1 row_shr:3 row_mask:0xf bank_mask:0xf"""
SCALAR = """\
s_movk_i32 %0, -1024; s_addk_i32 %0, -3; s_bfe_i32 %0, %1, 0x90003; s_bfe_i32 %0, %1, %2;
s_sext_i32_i8 %0, %1; s_absdiff_i32 %0, %1, %2; s_pack_ll_b32_b16 %0, %0, %1;
s_mul_hi_u32 %0, %0, %1; s_lshl1_add_u32 %0, %1, %2; s_cmp_lt_u32 %0, %1; s_setprio 1;
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0"""
SOURCE = """\
__global__ void cost(const int* x, const int* u, int* y)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    int v = x[i], a = v ^ 0x5a5a, b = v >> 3;
    int s = u[0], t = u[1], w = u[2];
    FORM
    y[i] = v + s;
}
"""
SETTINGS = """\
source = "cost.hip"
kernel = "cost"
inputs = { x = "i32[4096]", u = "i32[3]" }
outputs = { y = "i32[4096]" }
args = ["x", "u", "y"]
grid = 16
reference = "x"  # results are not compared
block = 256
"""
OPERANDS = {
    False: '"+v"(v) : "v"(a), "v"(b) : "vcc", "s20"',
    True: '"+s"(s) : "s"(t), "s"(w) : "scc"',
}


def measured(folder: Path, form: str, *, scalar: bool, target: Gem5Se) -> tuple[float, float]:
    """Instructions that its wavefronts execute, and cycles."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = "\\n".join([form] * TIMES if form else ())
    line = f'asm volatile("{text}" : {OPERANDS[scalar]});'
    (folder / "cost.hip").write_text(SOURCE.replace("FORM", line))
    (folder / "cost.toml").write_text(SETTINGS)
    bundle = simgen.plan(str(folder / "cost.toml")).build(folder / "b", target)
    (launch,) = bundle.run("gem5-se", timeout=600.0).launches
    return launch["instructions"] / 64, launch["cycles"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version")
    parser.add_argument("arch")
    parser.add_argument("-o", "--output", type=Path, default=Path("gem5-rules"))
    given = parser.parse_args()
    targets = [
        Gem5Se(gem5_version=given.version, arch=given.arch, legalise=each) for each in (True, False)
    ]
    print("| instruction | as built: instructions, cycles | with `--no-legalise` |\n|---|---|---|")
    for forms, scalar in ((VECTOR, False), (SCALAR, True)):
        empty = measured(given.output, "", scalar=scalar, target=targets[0])
        for form in (each.strip() for each in forms.split(";")):
            cells = []
            for target in targets:
                try:
                    found = measured(given.output, form, scalar=scalar, target=target)
                    each = [(a - b) / TIMES for a, b in zip(found, empty, strict=True)]
                    cells.append("{:.1f}, {:.0f}".format(*each))
                except RunError:
                    cells.append("ends")
                except SimgenError as error:
                    cells.append(f"refused: {str(error).splitlines()[0][:90]}")
            print(f"| `{form}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
