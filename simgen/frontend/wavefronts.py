"""What a source in HIP asks of AMD's GPUs that NVIDIA's have not.

Their warps have 32 lanes, and a wavefront has 64: a kernel whose results depend on that is refused,
not run. Sources that count by `warpSize`, or say the widths of their shuffles, do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from simgen.ask.build import Destination
from simgen.frontend import dialect
from simgen.ground.ir import CUDA_MACROS, CUDA_WARP, NVIDIA_HIP_MACROS, WAVEFRONT

_DEEPEST = 16  # names of names
_ALL_ROWS = 0xF
_BEYOND_ROWS = (*range(0x130, 0x140), 0x142, 0x143)  # wave_shl and so on, row_bcast
_UNKNOWN = WAVEFRONT + 1  # a width of which nobody can tell
_SHUFFLE = re.compile(r"\b__shfl(?:_down|_up|_xor)?(_sync)?\s*\(")
# Lane functions that have no width, and those of AMD's instructions that ask for the wavefront.
_OF_ALL_LANES = re.compile(
    r"\b(?:__(?:ballot|any|all|match_any|match_all|reduce_\w+)(?:_sync)?|__activemask|__lane_id"
    r"|coalesced_threads|__builtin_amdgcn_(?:mbcnt_(?:lo|hi)|readlane|readfirstlane|ds_bpermute"
    r"|ballot_w64|wavefrontsize))\s*\("
)
_BY_64 = re.compile(r"[/%]\s*64[uUlL]*(?![\w.])|&\s*(?:63|0[xX]3[fF])[uUlL]*\b|>>\s*6[uUlL]*\b")
_TILE = re.compile(r"\b(?:tiled_partition|thread_block_tile)\s*<\s*(\w+)")
_DPP = re.compile(r"\b__builtin_amdgcn_(?:mov|update)_dpp\s*\(")
_ASSEMBLY = re.compile(
    r'\basm\s*(?:volatile|__volatile__)?\s*\(\s*"\s*((?:[vs]|ds|flat|global|buffer)_\w+)'
)
_INSTRUCTION = re.compile(r"\b__builtin_amdgcn_\w+|\bext_vector_type\b")
_HALVED = re.compile(  # by a loop, from where it begins
    r"\bfor\s*\(\s*(?:unsigned\s+)?\w+\s+(\w+)\s*=\s*(\w+)\s*;[^;]*;\s*\1\s*(?:>>=|/=)"
)
_WHOLE = re.compile(
    r"\b(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+)?(?:int|unsigned|size_t|auto)\s+(\w+)"
    r"\s*=\s*(\w+)\s*;"
)


def fact_and_cure(
    text: str, defines: Iterable[tuple[str, str]], block: int, here: str
) -> tuple[str, str] | None:
    """What of a source in HIP NVIDIA's GPUs cannot do, and what to do then; None: nothing.

    `block`: work-items of its work-groups; `here`: the text of what stands for HIP there.
    """
    other = f"build with another {Destination.targets}"
    macros = dict((*CUDA_MACROS, *NVIDIA_HIP_MACROS, *defines))
    code = "\n".join(dialect.compiled_lines(text, macros, texts=True))
    known = {name: value for name, value in macros.items() if re.fullmatch(r"\(?\w+\)?", value)}
    known |= dict(_WHOLE.findall(code))
    for match in (*_INSTRUCTION.finditer(code), *_ASSEMBLY.finditer(code)):
        name = match[1] if match.re is _ASSEMBLY else match[0]
        if not re.search(rf"\b{name}\b", here):
            return f"{name} has no counterpart on NVIDIA's GPUs", other
    cure = f"write widths up to 32 or count by warpSize, or {other}"
    for match in _TILE.finditer(code):
        if _number(match[1], known) > CUDA_WARP:
            return f"{match[0]}> is a whole wavefront, and warps have {CUDA_WARP} lanes here", cure
    if block <= CUDA_WARP:
        return None
    found = _of_wavefronts(code, known)
    return (f"{found}, and warps have {CUDA_WARP} lanes here", cure) if found else None


def _of_wavefronts(code: str, known: Mapping[str, str]) -> str:
    """What in a source has other results where fewer than 64 lanes go together; empty: nothing."""
    is_portable = bool(re.search(r"\b(?:warpSize|__AMDGCN_WAVEFRONT_SIZE(?:__)?)\b", code))
    halved = {**known, **dict(_HALVED.findall(code))}
    shuffles = list(_SHUFFLE.finditer(code))
    for match in shuffles:
        name = match[0].rstrip(" (")
        _, by, *rest = _arguments(code, match.end())[1 if match[1] else 0 :] + [""] * 2
        if rest[0]:
            width = _number(rest[0], known)
            if width > CUDA_WARP and not (is_portable and width == _UNKNOWN):
                return f"{name} is of {rest[0].strip()} lanes"
        elif not is_portable and not ("_xor" in name and _number(by, halved) < CUDA_WARP):
            return f"{name} without a width is of the {WAVEFRONT} lanes of a wavefront"
    for match in _DPP.finditer(code):
        how, rows = [_number(each, known) for each in _arguments(code, match.end())][-4:-2]
        if rows != _ALL_ROWS or how in _BEYOND_ROWS:
            return f"{match[0].rstrip(' (')} goes beyond a row of 16 lanes"
    asks = _OF_ALL_LANES.search(code)
    if asks and not is_portable:
        return f"{asks[0].rstrip(' (')} is of the {WAVEFRONT} lanes of a wavefront"
    by_64 = _BY_64.search(re.sub(r"\b[A-Za-z_]\w*\b", lambda n: known.get(n[0], n[0]), code))
    if by_64 and (shuffles or asks):
        return f"'{by_64[0]}' counts wavefronts of {WAVEFRONT}"
    return ""


def _arguments(code: str, start: int) -> list[str]:
    """What is between a call's parentheses, of which the first is before `start`."""
    found, depth = [""], 1
    for c in code[start:]:
        depth += (c in "([{") - (c in ")]}")
        if not depth:
            break
        if c == "," and depth == 1:
            found.append("")
        else:
            found[-1] += c
    return found


def _number(text: str, known: Mapping[str, str]) -> int:
    """The number that a word stands for."""
    word = text.strip().strip("()").strip()
    for _ in range(_DEEPEST):
        word = known.get(word, word).strip("() ")
    if word == "warpSize":
        return CUDA_WARP
    try:
        return int(word.rstrip("uUlL"), 0)
    except ValueError:
        return _UNKNOWN
