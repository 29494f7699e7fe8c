"""The version of code objects: 5 is what the compiler writes, 4 is what older runtimes load."""

from __future__ import annotations

import re

from simgen.errors import SimgenError


def four(assembly: str, arch: str) -> str:
    """Assembly text of a code object of version 5 (clang's) as one of version 4.

    All HIP runtimes from ROCm 4.1 on load it; version 5 came with 5.2. Kernels that take no
    hidden argument, as all here, are the same in both (LLVM, AMDGPUUsage.html, "Code Object V5
    Metadata"). For ROCm 4.0 the program under gem5 makes version 3 of it.
    """
    text, directives = re.subn(r"(\.amdhsa_code_object_version) 5\b", r"\1 4", assembly)
    text, versions = re.subn(r"(amdhsa\.version:\n\s*- 1\n\s*- )2\b", r"\g<1>1", text)
    if directives != 1 or versions != 1 or "hidden_" in text:
        raise SimgenError("hip: the compiler does not write code objects of version 5; report it")
    return text
