"""What each instruction does with its operands: the one table that the rewriting rests on.

A line of the table is a form, and the instructions that have it. A word of the form stands for an
operand, in the order of assembly text:

    d   a result        s   a source         b   both: read, and written (in part, or sometimes)
    i   no register: a constant, a label     o   a scalar base of two registers, or `off`
    a   an address: one vector register (with a base) or two                  -   no operand

with the number of its 32-bit registers where that is not one (`d2`), or `m` for two that hold one
bit of each lane. `<` and `>` announce what the
instruction reads and writes besides: scc, vcc, exec, m0. Vector and LDS instructions read EXEC.
"*" at the end stands for any number of the last operand. A name has neither _e32 nor _e64.

Source: AMD, "Graphics Core Next Architecture, Generation 3" (2016), "Vega 7nm" (2020) and "AMD
Instinct MI300" (2025) instruction set architectures, chapters "Instructions"; LLVM's
AMDGPU/SOPInstructions.td, VOP*Instructions.td, DSInstructions.td, FLATInstructions.td.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from simgen.isa.legalise.assembly import Instruction, registers, source_modifiers

GCN3 = "gfx8"
_WORD = re.compile(r"([dsbioa])(\d*|m)(\*?)\Z")
_BRACES = re.compile(r"\{([^{}]*)\}")
_SPECIAL = {
    "scc": ("scc",),
    "vcc": ("vcc_lo", "vcc_hi"),
    "exec": ("exec_lo", "exec_hi"),
    "m0": ("m0",),
}

# Both architectures. Twice the same name: forms with another number of operands.
_BOTH = """
i                s_nop s_branch s_setprio s_sleep s_sethalt s_trap
i*               s_waitcnt
i <scc           s_cbranch_scc{0,1}
i <vcc           s_cbranch_vcc{z,nz}
i <exec          s_cbranch_exec{z,nz}
i <m0            s_sendmsg
-                s_endpgm s_barrier s_icache_inv s_dcache_{inv,wb} s_wakeup s_ttracedata
d s              s_{mov,brev}_b32 s_ff{0,1}_i32_b32 s_flbit_i32_b32 s_flbit_i32 s_sext_i32_i{8,16}
d s >scc         s_{not,wqm,quadmask}_b32 s_bcnt{0,1}_i32_b32 s_abs_i32
d2 s2            s_{mov,brev}_b64 s_swappc_b64
d2 s2 >scc       s_{not,wqm,quadmask}_b64
d s2             s_ff{0,1}_i32_b64 s_flbit_i32_b64 s_flbit_i32_i64
d s2 >scc        s_bcnt{0,1}_i32_b64
b s <scc         s_cmov_b32
b2 s2 <scc       s_cmov_b64
b s              s_bitset{0,1}_b32
b2 s             s_bitset{0,1}_b64
d2               s_getpc_b64 s_memtime s_memrealtime
s2               s_setpc_b64 s_rfe_b64
d2 s             s_bitreplicate_b64_b32
d2 s2 <exec >exec >scc   s_{and,or,xor,andn1,andn2,orn1,orn2,nand,nor,xnor}_saveexec_b64
d2 s2 <exec >exec >scc   s_{andn1,andn2}_wrexec_b64
d s s >scc       s_{add,sub}_{u,i}32 s_{min,max}_{i,u}32 s_absdiff_i32 s_lshl{1,2,3,4}_add_u32
d s s >scc       s_{and,or,xor,andn2,orn2,nand,nor,xnor,lshl,lshr}_b32 s_ashr_i32 s_bfe_{u,i}32
d s s <scc >scc  s_addc_u32 s_subb_u32
d s s            s_bfm_b32 s_mul_i32 s_mul_hi_{u,i}32 s_pack_{ll,lh,hh}_b32_b16
d2 s s           s_bfm_b64
d s s <scc       s_cselect_b32
d2 s2 s2 <scc    s_cselect_b64
d2 s2 s2 >scc    s_{and,or,xor,andn2,orn2,nand,nor,xnor}_b64
d2 s2 s >scc     s_{lshl,lshr}_b64 s_ashr_i64 s_bfe_{u,i}64
s s >scc         s_cmp_{eq,lg,gt,ge,lt,le}_{i,u}32 s_bitcmp{0,1}_b32
s2 s2 >scc       s_cmp_{eq,lg}_u64
s2 s >scc        s_bitcmp{0,1}_b64
d i              s_movk_i32 s_getreg_b32
i s              s_setreg_b32
i i              s_setreg_imm32_b32
b i <scc         s_cmovk_i32
s i >scc         s_cmpk_{eq,lg,gt,ge,lt,le}_{i,u}32
b i >scc         s_addk_i32
b i              s_mulk_i32
d2 i             s_call_b64
d s2 s           s_load_dword
d2 s2 s          s_load_dwordx2
d4 s2 s          s_load_dwordx4
d8 s2 s          s_load_dwordx8
d16 s2 s         s_load_dwordx16
d s4 s           s_buffer_load_dword
d2 s4 s          s_buffer_load_dwordx2
d4 s4 s          s_buffer_load_dwordx4
-                v_nop v_clrexcp
d s              v_mov_b32 v_readfirstlane_b32 v_not_b32 v_bfrev_b32 v_ffb{h_u,h_i,l_b}32
d s              v_{ceil,floor,fract,trunc,rndne,rcp,rsq,sqrt,exp,log,sin,cos}_f{16,32}
d s              v_{rcp_iflag,exp_legacy,log_legacy,frexp_mant}_f32 v_frexp_mant_f16
d s              v_frexp_exp_i32_f32 v_frexp_exp_i16_f16 v_screen_partition_4se_b32
d s              v_cvt_f32_{i32,u32,f16,ubyte0,ubyte1,ubyte2,ubyte3} v_cvt_{u,i}32_f32
d s              v_cvt_f16_{f32,u16,i16} v_cvt_{u,i}16_f16 v_cvt_{rpi,flr}_i32_f32
d s              v_cvt_off_f32_i4 v_cvt_norm_{i,u}16_f16 v_sat_pk_u8_i16
d2 s             v_cvt_f64_{i32,u32,f32}
d s2             v_cvt_{i32,u32,f32}_f64 v_frexp_exp_i32_f64
d2 s2            v_{ceil,floor,fract,trunc,rndne,rcp,rsq,sqrt,frexp_mant}_f64 v_mov_b64
b b              v_swap_b32
b s              v_mov_b32_dpp
d s s            v_{add,sub,subrev,mul,min,max}_f{16,32} v_mul_legacy_f32 v_ldexp_f{16,32}
d s s            v_{and,or,xor,xnor}_b32 v_{min,max}_{i,u}{16,32} v_{add,sub,subrev}_u16
d s s            v_mul_{i32_i,u32_u}24 v_mul_hi_{i32_i,u32_u}24 v_mul_lo_u{16,32} v_mul_hi_{u,i}32
d s s            v_{lshlrev,lshrrev}_b{16,32} v_ashrrev_i{16,32} v_bfm_b32 v_bcnt_u32_b32
d s s            v_mbcnt_{lo,hi}_u32_b32 v_readlane_b32 v_{add,sub}_i{16,32}
d s s            v_cvt_pk_{u16_u32,i16_i32} v_cvt_pkrtz_f16_f32 v_cvt_pknorm_{i,u}16_f{16,32}
d s s            v_cvt_pk_{fp8,bf8}_f32 v_pack_b32_f16
d s s            v_pk_{add,mul,min,max}_f16 v_pk_{add,sub,min,max}_{i,u}16 v_pk_mul_lo_u16
d s s            v_pk_{lshlrev,lshrrev}_b16 v_pk_ashrrev_i16
b s s            v_writelane_b32 v_mac_f{16,32} v_fmac_f32 v_dot2c_f32_f16 v_pk_fmac_f16
b2 s2 s2         v_fmac_f64
d s s i          v_madak_f{16,32} v_fmaak_f32
d s i s          v_madmk_f{16,32} v_fmamk_f32
d s s sm         v_cndmask_b32
dm s s           v_cmp_{f,lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt,tru}_f{16,32}
dm s s           v_cmp_{f,lt,eq,le,gt,ne,ge,t}_{i,u}{16,32} v_cmp_class_f{16,32}
dm s2 s2         v_cmp_{f,lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt,tru}_f64
dm s2 s2         v_cmp_{f,lt,eq,le,gt,ne,ge,t}_{i,u}64
dm s2 s          v_cmp_class_f64
dm s s >exec     v_cmpx_{f,lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt,tru}_f{16,32}
dm s s >exec     v_cmpx_{f,lt,eq,le,gt,ne,ge,t}_{i,u}{16,32} v_cmpx_class_f{16,32}
dm s2 s2 >exec   v_cmpx_{f,lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt,tru}_f64
dm s2 s2 >exec   v_cmpx_{f,lt,eq,le,gt,ne,ge,t}_{i,u}64
dm s2 s >exec    v_cmpx_class_f64
d s s s          v_mad_f{16,32} v_fma_f{16,32} v_mad_legacy_f{16,32} v_mad_{i32_i,u32_u}24
d s s s          v_mad_{u,i}16 v_mad_legacy_{u,i}16 v_mad_u32_u16 v_mad_i32_i16 v_fma_legacy_f16
d s s s          v_{min3,max3,med3}_{f,i,u}{16,32} v_bfe_{u,i}32 v_bfi_b32 v_lerp_u8 v_perm_b32
d s s s          v_align{bit,byte}_b32 v_sad_{u8,hi_u8,u16,u32} v_msad_u8 v_cube{id,sc,tc,ma}_f32
d s s s          v_div_fixup_f{16,32} v_div_fixup_legacy_f16 v_cvt_pk_u8_f32
d s s s          v_{lshl_add,add_lshl,add3,xad}_u32 v_{lshl_or,and_or,or3}_b32
d s s s          v_pk_mad_{u,i}16 v_pk_fma_f16 v_mad_mix_f32 v_fma_mix_f32
d s s s          v_dot2_{f32_f16,i32_i16,u32_u16} v_dot{4_i32_i8,4_u32_u8,8_i32_i4,8_u32_u4}
b s s s          v_mad_mix{lo,hi}_f16 v_fma_mix{lo,hi}_f16
d s s s <vcc     v_div_fmas_f32
d dm s s s       v_div_scale_f32
d2 dm s2 s2 s2   v_div_scale_f64
d2 s2 s2 s2 <vcc v_div_fmas_f64
d2 s2 s2 s2      v_fma_f64 v_div_fixup_f64 v_pk_fma_f32
d2 s2 s2         v_{add,mul,min,max}_f64 v_pk_{add,mul}_f32 v_pk_mov_b32
d2 s2 s          v_ldexp_f64 v_trig_preop_f64
d2 s s2          v_{lshlrev,lshrrev}_b64 v_ashrrev_i64
d2 s2 s s2       v_lshl_add_u64 v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8
d4 s2 s s4       v_mqsad_u32_u8
d2 dm s s s2     v_mad_{u64_u,i64_i}32
d s              ds_read_{b32,u8,i8,u16,i16} ds_swizzle_b32
b s              ds_read_{u8,i8,u16}_d16 ds_read_{u8,i8,u16}_d16_hi
d2 s             ds_read_b64 ds_read2_b32 ds_read2st64_b32
d3 s             ds_read_b96
d4 s             ds_read_b128 ds_read2_b64 ds_read2st64_b64
d s s            ds_{bpermute,permute}_b32
s s              ds_write_b{8,16,32} ds_write_b{8,16}_d16_hi
s s2             ds_write_b64
s s3             ds_write_b96
s s4             ds_write_b128
s s s            ds_write2_b32 ds_write2st64_b32
s s2 s2          ds_write2_b64 ds_write2st64_b64
s s              ds_{add,sub,rsub,inc,dec,min,max}_u32 ds_{min,max}_i32 ds_{and,or,xor}_b32
s s              ds_{add,min,max}_f32
s s2             ds_{add,sub,rsub,inc,dec,min,max}_u64 ds_{min,max}_i64 ds_{and,or,xor}_b64
s s2             ds_{add,min,max}_f64
d s s            ds_{add,sub,rsub,inc,dec,min,max}_rtn_u32 ds_{min,max}_rtn_i32
d s s            ds_{and,or,xor,wrxchg}_rtn_b32 ds_{add,min,max}_rtn_f32
d2 s s2          ds_{add,sub,rsub,inc,dec,min,max}_rtn_u64 ds_{min,max}_rtn_i64
d2 s s2          ds_{and,or,xor,wrxchg}_rtn_b64 ds_{add,min,max}_rtn_f64
s s s            ds_{cmpst,mskor}_b32 ds_cmpst_f32
d s s s          ds_{cmpst,mskor}_rtn_b32 ds_cmpst_rtn_f32
s s2 s2          ds_{cmpst,mskor}_b64
d2 s s2 s2       ds_{cmpst,mskor}_rtn_b64
d s2             flat_load_{dword,ubyte,sbyte,ushort,sshort}
b s2             flat_load_{ubyte,sbyte,short}_d16 flat_load_{ubyte,sbyte,short}_d16_hi
d2 s2            flat_load_dwordx2
d3 s2            flat_load_dwordx3
d4 s2            flat_load_dwordx4
s2 s             flat_store_{dword,byte,short} flat_store_{byte,short}_d16_hi
s2 s2            flat_store_dwordx2
s2 s3            flat_store_dwordx3
s2 s4            flat_store_dwordx4
s2 s             flat_atomic_{swap,add,sub,smin,umin,smax,umax,and,or,xor,inc,dec,add_f32}
d s2 s           flat_atomic_{swap,add,sub,smin,umin,smax,umax,and,or,xor,inc,dec,add_f32}
s2 s2            flat_atomic_cmpswap flat_atomic_{swap,add,sub,smin,umin,smax,umax,and,or,xor}_x2
s2 s4            flat_atomic_cmpswap_x2
d s2 s2          flat_atomic_cmpswap
d2 s2 s2         flat_atomic_{swap,add,sub,smin,umin,smax,umax,and,or,xor}_x2
d2 s2 s4         flat_atomic_cmpswap_x2
"""
_GFX942 = """
i*               buffer_{wbl2,inv}
b s s            v_dot4c_i32_i8
d s s            v_{add,sub,subrev}_u32
d dm s s         v_{add,sub,subrev}_co_u32
d dm s s sm      v_{addc,subb,subbrev}_co_u32
d a o            global_load_{dword,ubyte,sbyte,ushort,sshort}
b a o            global_load_{ubyte,sbyte,short}_d16 global_load_{ubyte,sbyte,short}_d16_hi
d2 a o           global_load_dwordx2
d3 a o           global_load_dwordx3
d4 a o           global_load_dwordx4
a s o            global_store_{dword,byte,short} global_store_{byte,short}_d16_hi
a s2 o           global_store_dwordx2
a s3 o           global_store_dwordx3
a s4 o           global_store_dwordx4
a s o            global_atomic_{swap,add,sub,smin,umin,smax,umax,and,or,xor,inc,dec,add_f32}
d a s o          global_atomic_{swap,add,sub,smin,umin,smax,umax,and,or,xor,inc,dec,add_f32}
a s2 o           global_atomic_cmpswap
a s2 o           global_atomic_{swap,add,sub,smin,umin,smax,umax,and,or,xor}_x2
a s2 o           global_atomic_add_f64
a s4 o           global_atomic_cmpswap_x2
d a s2 o         global_atomic_cmpswap
d2 a s2 o        global_atomic_{swap,add,sub,smin,umin,smax,umax,and,or,xor}_x2
d2 a s2 o        global_atomic_add_f64
d2 a s4 o        global_atomic_cmpswap_x2
"""
_GFX803 = """
-                buffer_wbinvl1 buffer_wbinvl1_vol
d dm s s         v_{add,sub,subrev}_u32
d dm s s sm      v_{addc,subb,subbrev}_u32
"""


@dataclass(frozen=True)
class Operand:
    """One operand: how it is used, and how many 32-bit registers it has."""

    role: str  # one letter, see above
    width: int = 1  # 0: an address, which has one or two
    lane_mask: bool = False  # a bit of each lane

    @property
    def is_read(self) -> bool:
        return self.role in "sboa"

    @property
    def is_written(self) -> bool:
        return self.role in "db"


@dataclass(frozen=True)
class Roles:
    """What an instruction reads and writes."""

    operands: tuple[Operand, ...]
    repeats: bool = False  # the last operand, any number of times
    reads: frozenset[str] = frozenset()  # without being named: scc, vcc_lo, exec_hi, m0
    writes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Effect:
    """The registers that one instruction reads and writes, named or not."""

    reads: frozenset[str]
    writes: frozenset[str]


def base(mnemonic: str) -> str:
    """The name that both lengths of an encoding share."""
    return mnemonic.removesuffix("_e32").removesuffix("_e64")


def forms(mnemonic: str, arch: str) -> tuple[Roles, ...]:
    """The forms of an instruction, which differ in the number of operands; none if not known."""
    return table(arch).get(base(mnemonic), ())


def roles_of(item: Instruction, arch: str) -> Roles | None:
    """The roles of an instruction's operands; None if it, or one with so many, is not known."""
    count = len(item.operands)
    for roles in forms(item.mnemonic, arch):
        least = len(roles.operands) - roles.repeats
        if count == len(roles.operands) or (roles.repeats and count >= least):
            return roles
    return None


def pairs(item: Instruction, roles: Roles) -> list[tuple[str, Operand]]:
    """Each operand with its role."""
    last = roles.operands[-1:]
    given = (*roles.operands, *last * (len(item.operands) - len(roles.operands)))
    return list(zip(item.operands, given))


@lru_cache(maxsize=1 << 15)
def effect(item: Instruction, arch: str) -> Effect | None:
    """What an instruction reads and writes: registers by name, "scc". None if not known."""
    roles = roles_of(item, arch)
    if roles is None:
        return None
    reads, writes = set(roles.reads), set(roles.writes)
    for text, operand in pairs(item, roles):
        named = named_registers(text)
        if operand.is_read:
            reads.update(named)
        if operand.is_written:
            writes.update(named)
    return Effect(frozenset(reads), frozenset(writes))


@lru_cache(maxsize=1 << 12)
def named_registers(operand: str) -> tuple[str, ...]:
    """The 32-bit registers of an operand under its modifiers, scc among them."""
    body = source_modifiers(operand)[2]
    if body in ("scc", "src_scc"):
        return ("scc",)
    return {
        "vccz": _SPECIAL["vcc"], "src_vccz": _SPECIAL["vcc"],
        "execz": _SPECIAL["exec"], "src_execz": _SPECIAL["exec"],
    }.get(body, registers(body))  # fmt: skip


# The table as text -> the table ----------------------------------------------------------------


@cache
def table(arch: str) -> dict[str, tuple[Roles, ...]]:
    """Name -> its forms."""
    found: dict[str, tuple[Roles, ...]] = {}
    for line in (_BOTH + (_GFX803 if arch.startswith(GCN3) else _GFX942)).strip().split("\n"):
        words = line.split()
        form = tuple(w for w in words if w[0] in "<>-" or _WORD.match(w))
        for name in (n for word in words[len(form) :] for n in _expanded(word)):
            limited = name.startswith("ds_") and arch.startswith(GCN3)
            roles = _roles(form, not name.startswith("s_"), limited)
            others = found.get(name, ())
            if roles not in others:
                found[name] = (*others, roles)
    return found


@cache
def _roles(form: tuple[str, ...], masked: bool, limited: bool) -> Roles:
    """The form of instructions that run in the lanes of exec (`masked`), and whose addresses m0
    bounds (`limited`)."""
    operands, reads, writes = [], set[str](), set[str]()
    for word in form:
        if word[0] in "<>":
            (reads if word[0] == "<" else writes).update(_SPECIAL[word[1:]])
        elif m := _WORD.match(word):
            usual = {"a": 0, "o": 2}.get(m[1], 1)
            width = 2 if m[2] == "m" else int(m[2] or usual)
            operands.append(Operand(m[1], width, m[2] == "m"))
    if masked:
        reads.update(_SPECIAL["exec"])
    if limited:
        reads.add("m0")
    repeats = any(word.endswith("*") for word in form)
    return Roles(tuple(operands), repeats, frozenset(reads), frozenset(writes))


def _expanded(word: str) -> list[str]:
    """Every name that a word such as s_{and,or}_b{32,64} stands for."""
    m = _BRACES.search(word)
    if not m:
        return [word]
    return [
        name
        for choice in m[1].split(",")
        for name in _expanded(word[: m.start()] + choice + word[m.end() :])
    ]
