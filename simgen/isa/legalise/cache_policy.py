"""The cache policy of vector loads: through the L1 cache of a compute unit, or past it.

Each vector memory instruction of an AMD GPU carries bits that say which caches it may hit. A load
that is coherent among all compute units of the GPU misses in L1 and is answered by L2; these bits
are put on every load here. Scalar loads have a cache of their own and stay as they are, and so do
stores, which go through L1 to L2 in any case.

Source: LLVM, AMDGPUUsage.html, "Memory Model" of each generation: the code sequence of a monotonic
atomic load at agent scope.

What simulators do with the bits: gem5's VIPER protocol invalidates the line in L1 (TCP), sends the
load to L2 and counts a miss. MGPUSim 4.2.0 reads none of them.
"""

from __future__ import annotations

import re

from simgen.ground import machine

CACHED, BYPASS = "cached", "bypass"
POLICIES = (CACHED, BYPASS)

# Architecture -> the bits of a load that misses in L1.
BITS = {arch.name: arch.bypass_l1 for arch in machine.architectures().values()}

_LOAD = re.compile(r"(\s*(?:global|flat|buffer)_load_\w+ [^;]*?)(\s*(?:;.*)?)")


def bypass(text: str, arch: str) -> str:
    """Assembly text for `arch` (one of BITS) in which every vector load misses in L1.

    As compilers write them, loads are CACHED.
    """
    return "\n".join(_bypass(line, BITS[arch]) for line in text.split("\n"))


def _bypass(line: str, bits: str) -> str:
    load = _LOAD.fullmatch(line)
    if load is None or bits in load[1].split():
        return line
    return f"{load[1]} {bits}{load[2]}"
