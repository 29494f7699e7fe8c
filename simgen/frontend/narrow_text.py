"""Whether a kernel's text rounds to a narrow type on the way, or only as it stores results.

A kernel that reads 16-bit numbers, computes in float32 and stores 16-bit numbers is judged by
float32's bounds and one rounding. If the text does more in the narrow type, its bounds admit that.
What the text does not show (assembly, PTX, Triton's types) counts as narrow.
"""

from __future__ import annotations

import re

# Types of a kernel's text -> element type.
TYPES = {
    "half": "f16", "half2": "f16", "__half": "f16", "__half2": "f16", "_Float16": "f16",
    "__fp16": "f16", "float16_t": "f16", "half_t": "f16", "__bf16": "bf16", "bfloat16": "bf16",
    "hip_bfloat16": "bf16", "__hip_bfloat16": "bf16", "__hip_bfloat162": "bf16",
    "__nv_bfloat16": "bf16", "__nv_bfloat162": "bf16", "nv_bfloat16": "bf16",
    "nv_bfloat162": "bf16", "bfloat162": "bf16",
}  # fmt: skip
_ALIAS = (
    r"\busing\s+(\w+)\s*=\s*(?:{0})\s*;",
    r"\btypedef\s+(?:{0})\s+(\w+)\s*;",
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(?:{0})[ \t]*$",
)
_PARAMETER = re.compile(r"\b(?:typename|class)\s+(\w+)")
_ARITHMETIC = re.compile(
    r"\b__h(?:add|sub|mul|div|fma|mad)\w*\s*\(|\b__(?:float2?2?|double2)bfloat162_\w*\s*\("
    r"|\bh2?(?:exp|exp2|exp10|log|log2|log10|sqrt|rsqrt|rcp|sin|cos|tanh)\s*\("
    r"|\batomicAdd_\w*half\w*"
)
_TO_FLOAT = r"(?:__half2float|__bfloat162float|__low2float|__high2float|float|static_cast<float>)"
# A conversion to the narrow type, up to the bracket that opens its operand.
_FROM_FLOAT = (
    r"(?:__float2(?:half|bfloat16)(?:_r[nzud])?|__double2half"
    r"|static_cast<\s*(?:{0})\s*>|(?:{0}))\s*\("
)


def rounds(text: str, entry: str, kind: str) -> bool:
    """Whether the text of a kernel, without comments, has numbers of the narrow element type `kind`
    elsewhere than in loads that become float32 and in stores."""
    names = {name for name, each in TYPES.items() if each == kind}
    behind = entry.partition("<")[2]
    if any(re.search(rf"\b{re.escape(name)}\b", behind) for name in names):
        names |= set(_PARAMETER.findall(text))
    known: set[str] = set()
    while known != names:
        known = set(names)
        either = "|".join(map(re.escape, sorted(known)))
        for pattern in _ALIAS:
            names |= set(re.findall(pattern.format(either), text, re.M))
    if _ARITHMETIC.search(text):
        return True
    narrow = rf"(?:{either})"
    declared = re.compile(
        rf"\b{narrow}\s*(?:const\s*)?\*\s*(?:(?:const|__restrict__|__restrict|restrict)\b\s*)*(\w+)"
    )
    pointers = set(declared.findall(text))
    # Variables, arrays and parameters by value.
    if re.search(rf"\b{narrow}\s+(?:const\s+)?\w+\s*(?:[=;,\[{{]|\)\s*[;{{,]|\()", text):
        return True
    rest = declared.sub("", re.sub(r"\b(?:typename|class)\s+\w+", "", text))
    rest = _without_stores(rest, either)
    if re.search(rf"\(\s*{narrow}\s*\)|\bstatic_cast<\s*{narrow}\s*>", rest):
        return True
    if re.search(rf"\b(?:__float2(?:half|bfloat16)\w*|__double2half|{either})\s*\(", rest):
        return True
    return any(_computes(rest, pointer) for pointer in pointers)


def _without_stores(text: str, either: str) -> str:
    """Without conversions of all that is stored: `p[i] = (half)(a * b);` becomes `p[i] = ;`."""
    call = re.compile(
        r"=\s*(?:"
        + _FROM_FLOAT.format(either)
        + rf"|\(\s*(?:{either})\s*\)\s*(?:[\w.]+\s*(?=;)|(\w*\()))"
    )
    made, at = [], 0
    while found := call.search(text, at):
        end = found.end()
        if text[end - 1] == "(":
            end = closed(text, end)
        if not re.match(r"\s*;", text[end:]):
            made.append(text[at : found.end()])
            at = found.end()
            continue
        inside = text[found.end() : end - 1] if text[found.end() - 1] == "(" else ""
        made += [text[at : found.start()], "= (", inside, ")"]
        at = end
    return "".join(made) + text[at:]


def closed(text: str, at: int) -> int:
    """Where the bracket that opened before `at` is closed, or the end."""
    depth = 1
    while depth and at < len(text):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
    return at


def _computes(text: str, pointer: str) -> bool:
    """Whether an element that the pointer leads to is an operand before it is a float32."""
    for found in re.finditer(rf"(?<![\w.])\*?\s*{re.escape(pointer)}\s*(\[)?", text):
        before = text[: found.start()].rstrip()
        is_element = bool(found[1]) or found[0].startswith("*")
        if not is_element:
            continue
        end = closed(text, found.end()) if found[1] else found.end()
        after = text[end:].lstrip()
        if re.search(rf"{_TO_FLOAT}\s*\($|\(\s*float\s*\)$", before) and (
            after.startswith(")") or before.endswith(")")
        ):
            continue
        if re.match(r"=(?!=)", after):  # a store
            continue
        if before.endswith("=") and after.startswith((";", ",")):  # float v = p[i];
            continue
        return True
    return False
