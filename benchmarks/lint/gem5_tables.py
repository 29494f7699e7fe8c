"""Makes data/lint/gem5-*.json: what each version of gem5 does with instructions, by its sources.

    python benchmarks/lint/gem5_tables.py CHECKOUT VERSION=TAG...

The decoder's tables say which class an opcode becomes, the class's execute() what that does:
whether it ends the simulation, which modifiers and forms it reads. Names: data/encodings.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from gem5_findings import COMPLETED, EDGES, EXCHANGES, GIVES_BACK, NAMED_WRONG, NOTES, WRONG

from simgen.isa.legalise.machine_code import FORMATS

DATA = Path(__file__).parents[2] / "data"
MODELS = {
    "gcn3": (("src/arch/gcn3", "src/arch/amdgpu/gcn3"), ("gfx803",)),
    "vega": (("src/arch/amdgpu/vega",), ("gfx902", "gfx908", "gfx90a", "gfx942", "gfx950")),
}
# These have tables of their own from 25.0 on: the others' products of matrices have a time.
APART = ("gfx908", "gfx950")
ALSO = {"gfx803": "gfx801", "gfx902": "gfx900"}  # architectures of the same instruction set
_TABLE = re.compile(r"Decoder::(table\w+)\[\]\s*=\s*\{(.*?)\};", re.S)
_METHOD = re.compile(
    r"Decoder::(decode_\w+)\(MachInst[^)]*\)(?: const)?\n    \{(.*?)\n    \}", re.S
)
_EXECUTE = re.compile(r"(Inst_\w+)::execute\(\s*GPUDynInstPtr\s+\w+\)\n    \{(.*?)\n    \}", re.S)
# Of packed ones, whose file has no space before its functions.
_PACKED = re.compile(
    r"^void (Inst_VOP3P__\w+)::execute\(GPUDynInstPtr \w+\)\n\{(.*?)\n\}", re.S | re.M
)
_COMPLETE = re.compile(
    r"(Inst_\w+)::completeAcc\(\s*GPUDynInstPtr\s+\w+\)\n    \{(.*?)\n    \}", re.S
)
# Of loads into a half of a register, where completeAcc() has not read the register before.
_HALF = re.compile(r"replaceBits\((\w+)\[lane\]")
# The cache of scalars takes all that it is asked for for a load, and so it answers (Sequencer.cc:
# readCallback asserts that it was one).
_SCALAR_CACHE = "src/mem/ruby/protocol/GPU_VIPER-SQC.sm"
_ASSERTED = re.compile(r"assert\([^;]*;")
# Of comparisons, what a helper has written is written once more, where nothing was set.
_OVER = re.compile(r"(?s)sdwabHelper.*\}\s*vcc\.write\(\);\s*\Z")
_WIDE = re.compile(
    r"(?s)VecOperandU32& vdst,.*vdst\[lane\] = src1\[lane\] << bits\(src0\[lane\], 3, 0\)"
)
# Of gfx9, sums that clamp lets saturate.
_SATURATING = ("Inst_VOP3__V_ADD_U32", "Inst_VOP3__V_SUB_U32", "Inst_VOP3__V_SUBREV_U32")
_MODIFIERS = {"abs": r"\.ABS\b", "neg": r"\.NEG\b", "clamp": r"\.CLAMP\b", "omod": r"\.OMOD\b"}
# src/arch/amdgpu/common/dtype: exponents have a bias of 7 and 15, which is right for gfx950 alone.
_OCP = re.compile(r"AMDGPU::mxb?float8\b")
HAVE_OCP = ("gfx950",)
# Buffers: calcAddr() tests a lane once, and takes a field for the size of swizzled elements that
# gfx9 has no more: its elements have four bytes.
_TESTED_ONCE = re.compile(
    r"(buffer_offset|buf_off \+ stride \* buf_idx) >=\s+rsrc_desc\.numRecords"
)
_ELEMENTS = re.compile(r"elem_size = 2 << rsrc_desc\.elemSize")
SEVERAL = re.compile(r"buffer_(load|store)_dwordx[234]\Z")
# A product of two numbers of a type is one of that type.
_ROUNDED = re.compile(r"result\[i\]\[j\] \+= item_A \* item_B;")
_HALVES = re.compile(r"v_mfma_f32_\w+x\d+_?(\w+_)?b?f16(_1k)?\Z")
ALIASES = {  # gem5 calls them otherwise, and does the same
    "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_mul_lo_i32", "v_pk_ashrrev_i16",
}  # fmt: skip
_FLOAT = re.compile(r"_[FB]?F(16|32|64)\b|_F(16|32|64)_|_LEGACY")
# A source that is only read, and yet may be no scalar register: readSrc() asserts that it is none.
_NO_SCALAR = re.compile(r"^\s+VecOperand\w+ (\w+)\(gpuDynInst, \w+\.SRC0\)", re.M)
# DPP's row_half_mirror: -0x7 in place of ~0x7, so the lane becomes negative, which is asserted.
_HALF_MIRROR = re.compile(r"currLane & -0x7\b")
# Of products of matrices, templates do the work: what moves blocks of A and lanes of B, and the
# type that all results have until they are written.
_MATRIX = {"cbsz": r"\bCBSZ\b", "blgp": r"\bBLGP\b"}
# Of scalar loads, the constant: gfx9's has a sign.
_UNSIGNED = re.compile(r"struct InFmt_SMEM_1 \{\s*unsigned int\s+OFFSET : 21;")
# Scalar instructions with a constant of 16 bits and a sign.
_ZERO_EXTENDED = re.compile(r"ScalarRegI32 simm16 = \(ScalarRegI32\)instData\.SIMM16;")
# global_*: a constant without its sign, the lower half of a base, and the offset as two words.
_FLAT_UNSIGNED = re.compile(r"ScalarRegU32 saddr, ScalarRegU32 offset\)")
_HALF_BASE = re.compile(r"ConstScalarOperandU32 sbase\(gpuDynInst, saddr\)")
_TWO_WORDS = re.compile(r"calcAddr\(GPUDynInstPtr gpuDynInst, ConstVecOperandU64 &vaddr,")
# Buffers: the offset that is no register.
_SOFFSET = re.compile(
    r"(?s)reg = extData\.SOFFSET;\s*srcOps\.emplace_back\(reg, getOperandSize\(opNum\), true,"
    r"\s*true"
    r"|Inst_MUBUF::isScalarRegister\(.*?case 1:\s*return true;"
)
# Of an infinity, a float of another size that has no sign.
_CONVERSIONS = "src/arch/amdgpu/common/dtype/mxfp_convert.hh"
_INFINITY = re.compile(r"has_infinity\) \{\s*out = std::numeric_limits<dFMT>::infinity\(\);\s*\}")
# What a version does with operands and forms of any instruction.
_LITERAL = re.compile(r"case REG_SRC_LITERAL:\s*assert\(NumDwords == 1\);")
_NO_VCC_HI = re.compile(r"(?s)regIdx\(int dword\) const(?!.*?REG_VCC_HI\))")
_MOVES = re.compile(r"count -= \(dppCtrl - SQ_DPP_ROW_SL1")
# DPP's row_mirror: the number of the row in place of its first lane.
_MIRROR = re.compile(r"localRowOffset = \(15 - localRowOffset\);\s*newLane = \(rowNum \|")
_WRITES_EXEC = re.compile(r"execMask\(\)\s*=|EXEC|Helper")
_KEEPS = re.compile(r"assert\(sel == SDWA_DWORD\);")
_PARTS = re.compile(r"origBits_thisByte = bits\(origDstVal, high_bit, low_bit\)")
# A result in a scalar register, which is taken for a vector register.
_FIRST_LANE = re.compile(r"(?s)Inst_VOP1::initOperandInfo\(\)(.*?)\n    \}")
# Atomics return the values that the line has when all of its lanes have been served.
_ATOMIC_LOG = "src/mem/ruby/common/WriteMask.cc"
# From 25.0 on, what some GPUs have in place of others' instructions: functions that change entries
# of the primary table, which holds each opcode of VOP2 four times.
_OVERRIDES = re.compile(r"void Decoder::(fixup\w+)\(\)\s*\{(.*?)\n    \}", re.S)
_OVERRIDDEN = re.compile(r"tableDecodePrimary\[(\d+)\] = &Decoder::(\w+);")
_CHOSEN = re.compile(r"GfxVersion::(\w+)\)\s*\{\s*(fixup\w+)\(\);")
# From 25.0 on, how long each product of matrices takes on a GPU; what has no time ends the
# simulation (scoreboard_check_stage.cc). The names are those that classes give themselves.
_TIMES = re.compile(r"\{GfxVersion::(gfx\w+),\s*\{(.*?)\}\s*\}", re.S)
_TIMED = re.compile(r'\{"(v_\w+)", *\d+')
_NAMED = re.compile(r'([MN]{2}EM__\w+)\s*=\s*"(\w+)"')
_CALLED = re.compile(r"using (Inst_VOP3P_MAI__\w+)\s*=[^;]*?&\s*([MN]{2}EM__\w+)\s*>;")
_NARROW = re.compile(r"\bfloat result\[M\]\[N\]")
# The second part of what lies in two lines begins at an element, whose number is that of the bytes
# before, divided by its own (in the oldest versions, not even that).
_CUTS = re.compile(r"d_data\)\)\[lane \* N \+\s*req1->getSize\(\)(\])?")
# Of 64 bits, a compare and swap keeps 32 of each lane.
_NARROW_SWAP = re.compile(r"<VecElemU32\*>\(\s*gpuDynInst->x_data\)\)\[lane\] = data")
_UNLIMITED = re.compile(r"AtomicOp(Inc|Dec)\(\) *\{ *\}\s*void execute\(T \*b\) *\{ \*b [+-]= 1;")
# The comparisons F and TRU have the same result whatever their sources are.
_NO_INPUTS = re.compile(
    r"V_(CVT_F\d+_[IU]|CVT_F32_UBYTE|CVT_OFF|CVT_F64_[IU]|LDEXP|CMPX?_(F|TRU)_F)"
)


class Sources:
    """The files of a model at a tag."""

    def __init__(self, checkout: Path, tag: str, folders: tuple[str, ...]) -> None:
        self.checkout, self.tag = checkout, tag
        listed = self._git("ls-tree", "-r", "--name-only", tag, *folders).split()
        read = [p for p in listed if p.endswith(".cc") and ("decoder" in p or "insts" in p)]
        self.helpers = "".join(self._show(p) for p in listed if p.endswith("insts/inst_util.hh"))
        self.decoder = "".join(self._show(p) for p in read if "decoder" in p)
        shapes = "".join(self._show(p) for p in listed if p.endswith("gpu_decoder.hh"))
        self.unsigned = bool(_UNSIGNED.search(shapes))
        self.headers = "".join(self._show(p) for p in listed if p.endswith("insts/instructions.hh"))
        moving = "".join(self._show(p) for p in listed if p.endswith("gpu_mem_helpers.hh"))
        cuts = _CUTS.search(moving)
        self.cuts, self.cuts_words = bool(cuts), bool(cuts and cuts[1])
        shared = "".join(self._show(p) for p in listed if p.endswith("insts/op_encodings.hh"))
        self.narrow_swap = bool(_NARROW_SWAP.search(shared))
        self.flat_unsigned = bool(_FLAT_UNSIGNED.search(shared))
        self.half_base = bool(_HALF_BASE.search(shared))
        self.two_words = bool(_TWO_WORDS.search(shared))
        operands = "".join(self._show(p) for p in listed if p.endswith("/operand.hh"))
        self.literals = not _LITERAL.search(operands)
        self.vcc_hi = not _NO_VCC_HI.search(operands)
        formats = "".join(self._show(p) for p in listed if p.endswith("insts/op_encodings.cc"))
        self.soffset = not _SOFFSET.search(formats)
        first = _FIRST_LANE.search(formats)
        self.first_lane = not first or "instData.OP == 2" in first[1]
        self.infinities = not any(
            _INFINITY.search(self._show(path))
            for path in self._git("ls-tree", "--name-only", tag, _CONVERSIONS).split()
        )
        self.logged = "log.push_back" in self._show(_ATOMIC_LOG)
        self.tested_once = bool(_TESTED_ONCE.search(shared))
        self.elements = bool(_ELEMENTS.search(shared))
        # Of atomics, a functor that all share does the work: these two take no limit.
        self.unlimited = set(_UNLIMITED.findall(self._show("src/base/amo.hh")))
        self.times = {gpu: set(_TIMED.findall(of)) for gpu, of in _TIMES.findall(
            self._show("src/gpu-compute/compute_unit.cc"))}  # fmt: skip
        said = dict(_NAMED.findall(self.headers))
        self.called = {of: said[name] for of, name in _CALLED.findall(self.headers)}
        self.bodies: dict[str, str] = {}
        self.completed: dict[str, str] = {}
        for path in read:
            self.bodies |= dict(_EXECUTE.findall(self._show(path)))
            self.bodies |= dict(_PACKED.findall(self._show(path)))
            self.completed |= dict(_COMPLETE.findall(self._show(path)))
        self.stores_scalars = "Event:Store" in self._show(_SCALAR_CACHE)

    def gpus(self) -> set[str]:
        """The processors that the version knows; before it listed them, those of GCN3."""
        text = self._show("src/gpu-compute/GPU.py")
        found = re.search(r"class GfxVersion\(ScopedEnum\):\s*vals = \[(.*?)\]", text, re.S)
        return set(re.findall(r"gfx\w+", found[1] if found else "gfx801 gfx803"))

    def _git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.checkout, capture_output=True, check=True)
        return done.stdout.decode(errors="replace")

    def _show(self, path: str) -> str:
        return self._git("show", f"{self.tag}:{path}")


def classes(decoder: str, arch: str) -> dict[tuple[str, int], str | None]:
    """(format or segment, opcode) -> the class that the decoder makes, None if it makes none."""
    tables = {name: re.findall(r"&Decoder::(\w+)", body) for name, body in _TABLE.findall(decoder)}
    made = {
        name: (m[1] if (m := re.search(r"return new (\w+)", body)) else None)
        for name, body in _METHOD.findall(decoder)
    }
    changes = dict(_OVERRIDES.findall(decoder))
    for gpu, change in _CHOSEN.findall(decoder):
        for at, method in _OVERRIDDEN.findall(changes[change]) if gpu == arch else ():
            tables["tableDecodePrimary"][int(at)] = method
    found: dict[tuple[str, int], str | None] = {}
    for at, method in enumerate(tables["tableDecodePrimary"]):
        word = at << 23
        kind = next((f for f in FORMATS if word & f.mask == f.bits), None)
        if kind and method in made and kind.name in ("VOP2", "SOP2", "SOPK"):
            found[kind.name, word >> kind.shift & (1 << kind.width) - 1] = made[method]
    for name, methods in tables.items():
        key = name.removeprefix("tableSubDecode_").removeprefix("OPU_").removeprefix("OP_")
        if name != "tableDecodePrimary":
            for opcode, method in enumerate(methods):
                found[key.lower() if key in ("FLAT", "GLOBAL", "SCRATCH") else key, opcode] = (
                    made.get(method)
                )
    return found


def same(gem5: str, mnemonic: str) -> bool:
    """Whether gem5's class is what the assembler calls so."""

    def plain(text: str) -> str:
        text = re.sub(r"_(e32|e64|sdwa|dpp)$", "", text.lower())
        text = re.sub(r"^(global|scratch|flat)_", "", text)
        text = re.sub(r"(\dx\d+x\d+)_\d+b_", r"\1_", text)  # of matrix instructions: its blocks
        for old, new in (("_tru_", "_t_"), ("_lg_", "_ne_"), ("_legacy", ""), ("_u32_u16", "_u32"),
                         ("_co_", "_"), ("_1k", ""), ("scalef32", "scale"), ("pk32", "pk"),
                         ("_", "")):  # fmt: skip
            text = text.replace(old, new)
        return text

    return plain(gem5.partition("__")[2]) == plain(mnemonic)


def facts(
    sources: Sources, arch: str, made: dict[str, set[str]], said: dict[str, str],
    notes: dict[str, list[str]],
) -> None:  # fmt: skip
    """Add to `made`, `said` and `notes` what the model does with an architecture's instructions."""
    decoded = classes(sources.decoder, arch)
    encodings = json.loads((DATA / "encodings" / f"{arch}.json").read_text())
    for name, opcodes in encodings.items():
        for opcode, lines in opcodes.items():
            words = [line.split()[0] for line in lines]
            if name in ("VOP1", "VOP2"):
                words += [
                    f"{each[:-4]}_dpp"
                    for each in words
                    if each.endswith("_e32") and not re.search("mad[am]k|fma[am]k", each)
                ]
            for word in words:
                key = word.split("_")[0] if name == "FLAT" else name
                of = decoded.get((key, int(opcode)))
                one(word, of, sources.bodies, arch, made, said)
                timed = sources.called.get(of or "") in sources.times.get(arch, ())
                if sources.times and word.startswith("v_mfma") and not timed:
                    made["ends"].add(word)
                if name == "SMEM" and "load" in word and sources.unsigned:
                    made["negative"].add(word)
                if re.match("s_(buffer_)?store", word) and not sources.stores_scalars:
                    made["ends"].add(word)
                if word.startswith("global_") and word not in made["ends"]:
                    made["negative"] |= {word} if sources.flat_unsigned else set()
                    made["base"] |= {word} if sources.half_base else set()
                if word == "v_readfirstlane_b32" and not sources.first_lane:
                    made["wrong"].add(word)
                    said[word] = (
                        "takes its result for a vector register, and ends where the kernel has "
                        "none of that number"
                    )
                for pattern, reason in COMPLETED:
                    if re.search(pattern, sources.completed.get(of or "", "")):
                        made["wrong"].add(word)
                        said[word] = reason
                if word in EXCHANGES and word not in made["ends"]:
                    body = sources.bodies.get(of or "", "")
                    for call, reason in GIVES_BACK:
                        if call not in body and word not in made["wrong"]:
                            made["wrong"].add(word)
                            said[word] = reason
                if word not in made["ends"] and clears(sources.completed.get(of or "", "")):
                    made["edges"].add(word)
                    said[word] = "clears the other half of its result, as GPUs with ECC may"
                if word.startswith("v_mfma") and word not in made["ends"]:
                    matrix(word, sources.headers, made, said)
                swaps = re.match(r"(flat|global)_atomic_cmpswap_x2\Z", word)
                if swaps and sources.narrow_swap and word not in made["ends"]:
                    made["wrong"].add(word)
                    said[word] = "compares and writes the lower 32 bits of each lane, packed"
                counts = re.match(r"\w+_atomic_(inc|dec)(_x2)?\Z", word)
                if counts and counts[1].title() in sources.unlimited and word not in made["ends"]:
                    made["wrong"].add(word)
                    said[word] = "counts on past its limit"
                for reason in noted(word, of, sources, arch):
                    if word not in made["ends"] and reason not in notes[word]:
                        notes[word].append(reason)


def noted(word: str, of: str | None, sources: Sources, arch: str) -> list[str]:
    """What is named once, of an instruction that does not end the simulation."""
    body = sources.bodies.get(of or "", "")
    found = [
        reason
        for name, pattern, reason in NOTES
        if re.match(rf"{name}(_e32|_e64|_sdwa|_dpp)?\Z", word) and re.search(pattern, body)
    ]
    if re.match("buffer_(load|store|atomic)_", word):
        if sources.tested_once and SEVERAL.match(word):
            found.append(
                "loads or stores all words of a lane whose first lies in the buffer, "
                "those behind its end too"
            )
        if sources.elements and arch.startswith("gfx9"):
            found.append("of swizzled buffers, takes two bytes for an element, where gfx9 has four")
    if re.match("(flat|global)_atomic_", word) and not sources.logged:
        found.append(
            "where it returns and lanes of a wavefront share a word, gives them what the last "
            "of them left there"
        )
    if word.startswith("v_mfma"):
        found.append("writes no lanes that EXEC leaves out, where a GPU writes them all")
    return found


def one(
    word: str, of: str | None, bodies: dict[str, str], arch: str, made: dict[str, set[str]],
    said: dict[str, str],
) -> None:  # fmt: skip
    body = bodies.get(of or "", "")
    empty = of in bodies and not body.strip() and not of.endswith("_NOP")
    if of is None or empty or "panicUnimplemented" in body:
        made["ends"].add(word)
        return
    if "V_CMPX" in of and not _WRITES_EXEC.search(body):
        made["wrong"].add(word)
        said[word] = "leaves EXEC as it was"
    if not same(of, word) and word not in ALIASES:
        other = of.partition("__")[2].lower()
        fused = word.startswith("v_fma") and other == f"v_mad{word[5:]}".partition("_e")[0]
        made["edges" if fused else "wrong"].add(word)
        said[word] = f"gem5 takes it for {other}" + (", which rounds twice" if fused else "")
    for pattern, reason in WRONG:
        if re.search(pattern, body):
            made["wrong"].add(word)
            said[word] = reason
    for name, pattern, reason in NAMED_WRONG:
        if word == name and re.search(pattern, body):
            made["wrong"].add(word)
            said[word] = reason
    if _OCP.search(body) and arch not in HAVE_OCP:
        made["wrong"].add(word)
        said[word] = (
            "has gfx950's 8-bit floats (OCP) in place of gfx942's (FNUZ): numbers are off by 2"
        )
    scalar = _NO_SCALAR.search(body)
    if scalar and re.search(rf"\b{scalar[1]}\.(readSrc|read)\(\)", body):
        made["no_scalar"].add(word)
    for prefix, pattern, reason in EDGES:
        if word.startswith(prefix) and re.search(pattern, body) and word not in made["wrong"]:
            made["edges"].add(word)
            said[word] = reason
    if word.endswith(("_sdwa", "_dpp")):
        form = "SDWA" if word.endswith("_sdwa") else "DPP"
        helped = re.search(r"\b(vop2Helper|dotHelper|sdwabHelper)\b", body)
        if form == "SDWA" and _OVER.search(body):
            made["wrong"].add(word)
            said[word] = "writes 0 over its result"
        if word.startswith("v_lshlrev_b16") and _WIDE.search(body):
            made["wrong"].add(word)
            said[word] = "leaves what it shifts out of 16 bits"
        if not helped and not re.search(rf"if \(is{form}Inst\(\)\)", body):
            made["ends" if f"is{form}Inst" in body else "no_form"].add(word)
    elif of.startswith("Inst_VOP3__") and body and _FLOAT.search(of):
        for modifier in unread(of.partition("__")[2], body):
            made[modifier].add(word)
    elif of in _SATURATING and arch.startswith("gfx9") and not re.search(r"\.CLAMP\b", body):
        made["clamp"].add(word)
    elif of.startswith("Inst_SOPK__") and _ZERO_EXTENDED.search(body) and word.endswith("_i32"):
        made["negative"].add(word)
    elif of == "Inst_VOP3__V_CNDMASK_B32":  # of any 32 bits, and yet it has these
        for modifier in ("abs", "neg"):
            if not re.search(_MODIFIERS[modifier], _ASSERTED.sub("", body)):
                made[modifier].add(word)


def clears(completed: str) -> bool:
    """Whether a load into half of a register loses the other half."""
    half = _HALF.search(completed)
    return bool(half) and not re.search(rf"\b{half[1]}\.read\(\)", completed)


def matrix(word: str, headers: str, made: dict[str, set[str]], said: dict[str, str]) -> None:
    for modifier, pattern in _MATRIX.items():
        if not re.search(pattern, headers):
            made[modifier].add(word)
    if word.startswith("v_mfma_f64") and _NARROW.search(headers):
        made["wrong"].add(word)
        said[word] = "adds in float32, to which it rounds the result"
    if _HALVES.match(word) and _ROUNDED.search(headers):
        made["edges"].add(word)
        said[word] = "rounds each product to 16 bits before it adds it"


def unread(name: str, body: str) -> list[str]:
    """The modifiers that a float instruction may have and execute() does not read."""
    no_float_result = name.startswith("V_CMP") or re.search(r"V_CVT_\w*[IU]\d+_F|FREXP_EXP", name)
    lacks = set()
    if _NO_INPUTS.match(name) and "LDEXP" not in name:
        lacks = {"abs", "neg"}
    if "DIV_SCALE" in name:  # whose bits of abs name its other result
        lacks = {"abs"}
    if no_float_result:
        lacks |= {"clamp", "omod"}
    read = _ASSERTED.sub("", body)  # that there are none, of sources that have none
    return [m for m, p in _MODIFIERS.items() if m not in lacks and not re.search(p, read)]


def table_of(sources: Sources, archs: tuple[str, ...]) -> dict[str, Any]:
    """What a version's model does with the instructions of some architectures."""
    made: dict[str, set[str]] = defaultdict(set)
    said: dict[str, str] = {}
    notes: dict[str, list[str]] = defaultdict(list)
    for arch in archs:
        facts(sources, arch, made, said, notes)
    for word in made["edges"] if not sources.infinities else ():
        if word.startswith("v_cvt_f32_f16"):
            said[word] += "; -infinity becomes infinity"
    listed = {b for arch in archs for b in ([arch, ALSO[arch]] if arch in ALSO else [arch])}
    return {
        "architectures": sorted(listed & sources.gpus()),
        "ends": sorted(made["ends"]), "no_form": sorted(made["no_form"]),
        **{each: {w: said[w] for w in sorted(made[each])} for each in ("wrong", "edges")},
        "notes": {word: "; ".join(notes[word]) for word in sorted(notes) if notes[word]},
        "no_scalar": sorted(made["no_scalar"]),
        "cuts": sources.cuts, "cuts_words": sources.cuts_words,
        "half_mirror": not _HALF_MIRROR.search(sources.helpers),
        "moves": not _MOVES.search(sources.helpers), "mirror": not _MIRROR.search(sources.helpers),
        "parts": not _PARTS.search(sources.helpers),
        "keeps": not _KEEPS.search(sources.helpers), "soffset": sources.soffset,
        "literals": sources.literals, "infinities": sources.infinities, "vcc_hi": sources.vcc_hi,
        "offsets": not sources.two_words,
        "ignores": {k: sorted(made[k]) for k in _MODIFIERS}
        | {k: sorted(made[k] - made["ends"]) for k in (*_MATRIX, "negative", "base") if made[k]},
    }  # fmt: skip


def main() -> None:
    checkout = Path(sys.argv[1])
    (DATA / "lint").mkdir(exist_ok=True)
    for each in sys.argv[2:]:
        version, _, tag = each.partition("=")
        tables = []
        for folders, archs in MODELS.values():
            sources = Sources(checkout, tag, folders)
            if "tableDecodePrimary" not in sources.decoder:
                continue
            simulated = sources.gpus()
            archs = tuple(each for each in archs if each in simulated)
            apart = [each for each in archs if each in APART and sources.times]
            groups = [tuple(each for each in archs if each not in apart), *((a,) for a in apart)]
            tables += [table_of(sources, group) for group in groups]
        commit = subprocess.run(
            ["git", "rev-parse", "--short=10", f"{tag}^{{commit}}"], cwd=checkout,
            capture_output=True, check=True, text=True,
        ).stdout.strip()  # fmt: skip
        text = {"simulator": "gem5", "version": version, "source": f"gem5's sources, {commit}",
                "tables": tables}  # fmt: skip
        (DATA / "lint" / f"gem5-{version}.json").write_text(json.dumps(text, indent=1) + "\n")
        for table in tables:
            counts = {k: len(v) for k, v in table.items() if not isinstance(v, bool)}
            print(version, table["architectures"][0], counts,
                  {k: len(v) for k, v in table["ignores"].items()})  # fmt: skip


if __name__ == "__main__":
    main()
