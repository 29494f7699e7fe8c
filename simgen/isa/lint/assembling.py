"""Assembly text of anybody's -> a code object, with the lines that its instructions come from."""

from __future__ import annotations

import re

from simgen.errors import UsageError, did_you_mean
from simgen.isa import toolchain

_TARGET = re.compile(r'^\s*\.amdgcn_target\s+"?[\w.-]*?-(gfx[0-9a-f]+)', re.M)
_READS = re.compile(r"^\s*\.(incbin|include)\b", re.M)
_OURS = re.compile(rb"^\s*(\.amdgcn_target|\.amdhsa_kernel|\.amdgpu_hsa_kernel)", re.M)


def is_amd_assembly(content: bytes) -> bool:
    """Whether assembly text is for an AMD GPU."""
    return bool(_OURS.search(content))


def processor(text: str, place: str, arch: str = "") -> str:
    """The processor that assembly text is for: what it says, or else `arch`.

    Raises:
        UsageError: neither says one, or nobody knows it.
    """
    said = _TARGET.search(text)
    name = said[1] if said else arch
    if not name:
        raise UsageError(f"{place}: it does not say its processor; give it: --arch gfx902, say")
    if name not in toolchain.AMD_ARCHS:
        raise UsageError(
            f"{place}: processor {name}: not known; {did_you_mean(name, toolchain.AMD_ARCHS)}"
        )
    return name


def decoded_text(content: bytes, place: str) -> str:
    """Assembly text as it was read.

    Raises:
        UsageError: it is no text, or reads other files.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{place}: not a text; give assembly, or a code object") from None
    if found := _READS.search(text):
        line = text.count("\n", 0, found.start(1)) + 1
        raise UsageError(f"{place}:{line}: .{found[1]} reads another file; put its text there")
    return text


def assembled(content: bytes, place: str, arch: str = "") -> bytes:
    """The linked code object of assembly text, with line tables.

    Raises:
        UsageError: the text is not assembly of a processor that is known.
    """
    text = decoded_text(content, place)
    return toolchain.assemble_foreign(text, processor(text, place, arch), place)
