"""What users can do about an instruction that a simulator does not execute, by the kind of source.

The legaliser and lint see instructions: their cures are for those who write these, or for simgen's
own kernels. Who writes HIP, or a function of Triton, is told what of that becomes the instruction.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices, Destination
from simgen.ground.ir import Language
from simgen.isa.legalise import NoRuleError

if TYPE_CHECKING:
    from simgen.errors import RefusedError

_C = (
    ("buffer_(wbl2|inv)", "give atomics relaxed order, and leave fences of the whole GPU out"),
    ("s_sendmsg", "leave out printf and asserts"),
    (
        "ds_(add|sub|min|max|and|or|xor|inc|dec|cmpst|wrxchg)_",
        "let atomics change global memory, not shared",
    ),
    ("v_s?mfma", "multiply without built-in functions for matrices"),
    ("flat_", "let each pointer be to global memory or to LDS alone, as in an if and its else"),
    (r"v_\w+_f64", "compute quotients, roots and functions of doubles in float32"),
)
_TARGETS = Destination.targets.flag
_TRITON = (
    ("buffer_(wbl2|inv)", 'give atomics sem="relaxed", and leave out tl.device_print'),
    ("s_sendmsg", "leave out tl.device_print and tl.device_assert"),
    ("(scratch|buffer)_", "make its blocks smaller, or num_warps larger"),
    (r"\w+_(fp8|bf8)", "keep 8-bit floats out of it"),
    (r"\w+_[iu]64", "keep integers of 64 bits out of it"),
    (r"\w+_(f64|f16|bf16)", "compute in float32"),
    ("", f"write the function without what becomes that, or build with another {_TARGETS}"),
)
_MACHINE_CODE = (("v_s?mfma", "multiply without instructions for matrices"),)
_CURES = {
    Language.HIP: _C, Language.OPENCL: _C, Language.TRITON: _TRITON,
    Language.ASSEMBLY: _MACHINE_CODE, Language.OBJECT: _MACHINE_CODE,
}  # fmt: skip
# For those who write simgen's kernels, or compile by themselves.
_OF_OTHERS = re.compile(rf"{BuildChoices.algo.flag}|-mllvm|simgen legalise|fused\(\)")
_ELSE = f"write the kernel without what becomes that, or take another {_TARGETS}"
_MNEMONIC = re.compile(r": ((?:v|s|ds|flat|global|scratch|buffer)_\w+)")


def fitting(said: str, language: Language | None) -> str:
    """The text of a refusal, "place: instruction ...: fact; cure", with a cure for a language; that
    of no user's kernel, and one that names no instruction, as it is."""
    fact, separator, cure = said.rpartition("; ")
    named = _MNEMONIC.search(f": {said}")
    if language is None or not separator or not named:
        return said
    for pattern, better in _CURES.get(language, ()):
        if re.match(pattern, named[1]):
            return f"{fact}; {better}"
    return f"{fact}; {_ELSE}" if _OF_OTHERS.search(cure) else said


def fit(refusal: RefusedError, language: Language | None) -> None:
    """The same of an error."""
    refusal.args = (fitting(str(refusal), language), *refusal.args[1:])
    if isinstance(refusal, NoRuleError):
        refusal.fact = fitting(refusal.fact, language)
