"""What a compiler says of a user's source, as a message: what is not here, and what to do."""

from __future__ import annotations

import re

from simgen.ir import NOT_THERE

_NAMED = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no template named|no type named"
    r"|no member named|no matching function for call to|expected namespace name"
    r"|undeclared function) ?'?([\w:]*)'?"
)
_ABSENT = re.compile("^'[^']*' file not found")
# By the name that is not known: what it is of, and what is here instead.
_CURES = (
    (r"printf|puts|cout", "kernels print nothing here; leave it out"),
    (r"malloc|free|new", "kernels get no memory while they run; pass a tensor"),
    (r"hipcub|cub|rocprim|thrust|rocthrust|Block\w+|Warp(Reduce|Scan)|Device\w+",
     "CUB, Thrust and rocPRIM are not here; write the step with shuffles or LDS"),
    (r"(hip|cu)rand\w*", "random numbers of a library are not here; pass them as a tensor"),
    (r"(hip|cuda)?(Texture|Surface|Array)\w*|(cuda|hip)(Texture|Surface)Object_t|CUtexObject|tex[123]D\w*|texture|surf[123]D\w*",
     "textures and surfaces are not here; pass a tensor, and index it"),
    (r"clock\w*|wall_clock64|globaltimer", "kernels read no clock here; simgen measures launches"),
    (r"wmma|rocwmma|nvcuda|mma", "matrix fragments are not here; multiply elements"),
    (r"this_grid|grid_group|this_multi_grid|this_cluster|cluster_group",
     "work-groups of a grid cannot wait for each other here; make it two launches"),
    (r"cooperative_groups|cg", "of cooperative groups, blocks, tiles and coalesced ones are here"),
    (r"__shfl\w*|__ballot\w*|__any_sync|__all_sync|__match_any_sync|__reduce_\w+",
     "masks of wavefronts have 64 bits; write ~0ull, or bring CUDA as a .cu file"),
    (r"(cuda|hip|nvtx)\w*", "functions of the host's runtime are not for kernels; leave them out"),
    (r"(cu)?(fft|blas|sparse)\w*", "types of that library are not here; write them yourself"),
)  # fmt: skip


def message(said: str, source: str, cure: str = "correct it") -> str:
    """The fact and the cure of a compiler's message on a source; `cure`: where nothing better is
    known."""
    if _ABSENT.search(said):
        return f"{said}; name it in an #include of its own, and copy it beside the source"
    known = _cure(said)
    fact = re.sub(r"; did you mean '[^']*'\?", "", said) if known else said
    if known:
        return f"{fact}; {known}"
    if _NAMED.search(said):
        pattern = rf'^{re.escape(NOT_THERE)}"([^"]*)"'
        if gone := sorted(set(re.findall(pattern, source, re.MULTILINE))):
            names = ", ".join(gone[:4]) + (", ..." if len(gone) > 4 else "")
            cure = f"bring what it includes and is not beside it: {names}"
    return f"{fact}; {cure}"


def _cure(said: str) -> str | None:
    named = _NAMED.search(said)
    if not named:
        return None
    if said.startswith("expected namespace"):
        return None
    return next((c for pattern, c in _CURES if re.fullmatch(pattern, named[1])), None)
