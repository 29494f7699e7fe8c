"""What in gem5's sources shows that an instruction is wrong, and what is told of it.

Each pattern is searched in the body of execute(): of WRONG for all instructions, of EDGES and NOTES
for those whose mnemonic begins with, or is, the name.
"""

# What execute() holds where its result is wrong; each was seen in wrong results too.
WRONG = (
    ("findFirstOneMsb", "gives the number of the highest bit set, not that of the zeros above it"),
    ("REG_PI", "multiplies by the bits of pi taken as a number: nearly all results are wrong"),
    (r"(?s)data\(gpuDynInst, extData\.DATA0\).*bits\(ds_pattern, 15\)",  # assemblers: in ADDR
     "takes v0 for its source, where it writes a result at all"),
    (r"(?s)ConstVecOperandU8 data\(.*bits\(data\[lane\], 23, 16\)",
     "writes zeros: of the source, it reads the lowest byte alone"),
    (r"rsrcDesc\(gpuDynInst, instData\.SBASE\)",
     "takes its buffer from registers with half the numbers"),
    # Of two or three words: initMemWrite<2> and <3> look for those of a lane behind each other.
    (r"(?s)\A(?!.*data3\b).*rsrcDesc.*\[lane ?\* ?4\]\s*= data0",
     "stores words of other lanes"),
    # What was not read by readSrc() is a vector register of the operand's number.
    (r"(?s)VecOperand\w+ src1\(gpuDynInst, extData\.SRC1\).*\bsrc1\.read\(\)",
     "takes the number of its second source for that of a vector register: of v6 that is 262"),
    (r"numeric_limits<ScalarRegI(8|16)>::digits",
     "takes the bit below the sign for it: 64 becomes -64, and 16384 of 16 bits -16384"),
    (r"(?s)\A(?!.*src0\.read\(\)).*std::abs\(src0\.rawData\(\) - src1\.rawData\(\)\)",
     "reads neither source, and gives 0"),
    (r"= src1\[lane\] - src0\[lane\]\s*- bits\(vcc\.rawData\(\), lane\);\s*"
     r"sdst\.setBit\(lane, \(src1\[lane\] \+", "has the borrow of the contrary difference"),
    (r"bits\(src0\[lane\], 7, 0\)\s*- bits\(src1\[lane\], 7, 0\)\)\)\s*<< 16",
     "adds differences, not their magnitudes"),
    (r"sext<INBITS>\(dotClampI<INBITS>\(C\[i\], clamp\) & mask\(INBITS\)\)",
     "cuts each product to the bits of a factor before it adds them"),
    # It has no last branch, for what is not scaled, and results that nobody set are 0.
    (r"exp2 <= 53\) \{\s*vdst\[lane\] = std::ldexp\(src0\[lane\], 128\);\s*\}\s*\}\s*\}",
     "leaves 0 where it scales nothing: of numerators of 2^53 and more, quotients are NaNs"),
    (r"(?s)ConstVecOperandF64 src\(.*VecElemF32 int_part\(0\.0\);.*std::modf\(",
     "has negative fractions of negative numbers, and those of the most below 1"),
    (r"std::modf\(", "has negative fractions of negative numbers"),
    (r"(?s)OperandI(32|64) src0.*& \(\(1 << bits\(src[12].*\) - 1\);(?!.*0xffffffff)",
     "does not extend the sign of the field"),
    (r"\|= \(permuted_val << i\)", "moves its bytes by bits, so that they lie over each other"),
    (r"ArmISA::FPSCR fpscr;", "takes how it rounds, and NaNs, from flags that nobody has set"),
    (r"(?s)\A(?!.*CLAMP).*std::clamp\(", "clamps what nothing tells it to clamp"),
)  # fmt: skip
# The same of instructions by name.
NAMED_WRONG = (
    ("s_cmp_lt_u32", r"src0\.rawData\(\) <= src1\.rawData\(\)", "is true of equal numbers"),
)
# The same in completeAcc(), of loads.
COMPLETED = (
    (r"(?s)OperandU32 vdst.*reinterpret_cast<VecElemU64", "takes each second word of what it read"),
)
# What does not go to memory is taken for a load, and has to give back what loads do.
EXCHANGES = ("ds_swizzle_b32", "ds_permute_b32", "ds_bpermute_b32")
GIVES_BACK = (
    ("scheduleWriteOperandsFromLoad",
     "leaves the register of its result busy: what reads it waits for good"),
    ("rdLmReqsInPipe--",
     "leaves a request counted: behind 256 of them in the place of a wavefront, accesses to LDS "
     "there wait for good"),
)  # fmt: skip
FUSED = "does not round the product: results differ in their last place, more where sums cancel"
EDGES = (
    ("v_div_fmas", r"//\s*vdst\.write", "writes no result; v_div_fixup then divides anew"),
    ("v_div_fixup", r"isinf\(src1\[lane\]\)\) \{",
     "quotients by an infinity are infinities, and so is 0/0"),
    ("v_add_f64", "FP_SUBNORMAL", "takes subnormals for zeros"),
    ("v_mul_f64", "FP_SUBNORMAL", "takes subnormals for zeros"),
    ("v_ldexp_f64", "FP_SUBNORMAL", "takes subnormals for zeros"),
    ("v_cvt_u32_f", r"exp > 31\) \{\s*vdst\[lane\] = UINT_MAX",
     "of negative numbers gives the bits in place of 0, of 2^31 and more the largest number"),
    ("v_cvt_i32_f", r"exp > 30\b", "2^30 and more becomes the largest number, -2^30 the least"),
    ("v_cvt_flr_i32_f32", r"\(VecElemI32\)std::floor\(src\[lane\]\)",
     "2^31 and more, and NaN, become the least number"),
    ("v_cvt_rpi_i32_f32", r"\(VecElemI32\)std::floor\(src\[lane\] \+ 0\.5\)",
     "2^31 and more, and NaN, become the least number"),
    ("v_mul_legacy_f32", r"= src0\[lane\] \* src1\[lane\]",
     "0 times infinity or NaN is NaN, where 0 is right"),
    ("v_mad_legacy_f32", r"std::fma\(",
     "0 times infinity or NaN is NaN, where 0 is right, and products are not rounded"),
    ("v_rndne_f32", "roundNearestEven", "what rounds to -0 becomes 0"),
    ("v_rndne_f64", "roundNearestEven",
     "what rounds to -0 becomes 0; halves from 2^31 on go down, odd numbers from 2^52 on up"),
    ("v_rcp_f64", r"\+INFINITY", "+infinity is the inverse of -0"),
    ("v_rsq_f64", r"\+INFINITY", "+infinity is the inverse of the root of -0"),
    ("v_cvt_f32_f16", r"mxfloat16 tmp\(src",
     "constants are no halves to it; signs that it changes, of zeros and subnormals, are wrong"),
    ("v_pk_min_f16", "fplibMin", "a NaN wins over a number"),
    ("v_pk_max_f16", "fplibMax", "a NaN wins over a number"),
    ("v_sad_u32", r"(?s)ConstVecOperandI32.*std::abs\(", "takes its sources for signed numbers"),
    *((f"v_cmpx_{each}_u16_e64", "ConstVecOperandI16", "compares numbers with signs")
      for each in ("ge", "gt", "le")),
    *((f"s_bfe_{each}64", r"\(1 << bits\(src1", "knows no fields of 32 bits and more")
      for each in "ui"),
    ("v_alignbyte_b32", r"8ULL \* \(VecElemU64\)bits\(src2\[lane\], 4, 0\)",
     "takes more bits of the third source than the two that manuals from CDNA on have"),
    ("s_subb_u32", r"\(src1\.rawData\(\) \+ scc\.rawData\(\)\) > src0",
     "borrows nothing for 2^32 - 1 and a borrow"),
    ("v_med3_f32", r"median\(", "gives the greater of two numbers beside a NaN"),
    ("v_mad_f32", r"std::fma\(", FUSED), ("v_mac_f32", r"std::fma\(", FUSED),
    ("v_madmk_f32", r"std::fma\(", FUSED), ("v_madak_f32", r"std::fma\(", FUSED),
    ("v_cmp_lg_f32_e64", r"src0\[lane\] != src1\[lane\]", "is true of NaNs"),
    ("v_cvt_f16_f32", "mxfloat16 out",
     "what lies beyond 65504 becomes no infinity, and subnormal halves are wrong"),
    ("v_cmp", r"bits\(src1\[lane\], 0\) \|\| bits\(src1\[lane\], 1\)",
     "takes quiet NaNs for signalling ones, and these for quiet ones"),
)  # fmt: skip
# What is wrong for values that hardly any kernel has, of instructions that nearly all have: named
# once, refused nowhere.
NOTES = (
    ("v_mul_f32", "FP_SUBNORMAL",
     "takes a subnormal first factor for zero, so that the product is 0 (NaN with infinity); sums "
     "and v_fma_f32 keep it"),
    (r"v_(min|max)3?_f(32|64)", r"std::fm(in|ax)\(",
     "of zeros with both signs, may give the other one: what divides by it, copies its sign or "
     "looks at bits shows that, and nothing else"),
    ("v_div_scale_f32", r"vdst\[lane\] = src0\[lane\];\s*vcc\.setBit\(lane, 0\)",
     "scales nothing: a quotient is right with its v_div_fixup_f32, which divides anew there"),
)  # fmt: skip
