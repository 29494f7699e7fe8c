"""What a compiler says of a user's source, as a message: what is not here, and what to do."""

from __future__ import annotations

import re
from functools import cache

from simgen.ground import resources
from simgen.ground.ir import NOT_THERE

_NAMED = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no template named|no type named"
    r"|no member named|no matching function for call to|expected namespace name"
    r"|undeclared function) ?'?([\w:]*)'?"
)
_UNKNOWN = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no template named|undeclared function"
    r"|no member named) ?'?(\w*)'?(?! in 'struct)"
)
# Types and families that the languages have: names of functions stand in data/own_functions.txt.
_FAMILIES = (
    ("CUDA's",
     r"__nv_\w+|cu[A-Z]\w+|__pipeline_\w+|__grid_constant__|__cluster_dims__|__trap|__nanosleep"),
    ("HIP's", r"__hip_\w+|hip[A-Z]\w+|__ockl_\w+|__ocml_\w+|__llvm_\w+|__builtin_\w+"),
    ("HIP's and CUDA's",
     r"atomic\w+|(?:u?char|u?short|u?int|u?long|u?longlong|float|double)[1-4]_?\w*|make_\w+"
     r"|\w+_scan\w*|(?:labeled|binary)_partition|invoke_one\w*"),
)  # fmt: skip
_OF_OPENCL = re.compile(
    r"convert_\w+|as_\w+|v(?:load|store)\w*|atom(?:ic)?_\w+|\w*image\w*|sampler_t|\w*pipe\w*"
    r"|sub_group_\w+|work_group_\w+|(?:CLK|M|FLT|DBL|HUGE)_\w+"
)
_ABSENT = re.compile("^'[^']*' file not found")
_OF_LIBRARY = re.compile(
    r"no (?:template|type|member) named '(\w+)' in (?:namespace )?'(std|cooperative_groups)\b"
)
# What a compiler says of other things than names, and what to do.
_SAID = (
    ("device-side kernel call", "kernels start no kernels here; make it a [[launch]]"),
    ("'operator new", "kernels get no memory while they run; pass a tensor"),
    ("clusters of work-groups", "leave them out"),
    (r"cannot use '(?:try|throw)'", "kernels have no exceptions; leave them out"),
)
# Unknown name -> what it belongs to, and what is here instead.
_CURES = (
    (r"printf|puts|cout", "kernels print nothing here; leave it out"),
    (r"alloca", "local arrays have a fixed size here; give it one"),
    (r"cuda", "CUDA's library of cuda:: names is not here; write it with what is"),
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
    if cure_of_it := next((c for pattern, c in _SAID if re.search(pattern, said)), None):
        return f"{said}; {cure_of_it}"
    known = _cure(said)
    if not known and (has := _has(said, source)):
        return f"{has} is not here; write it with what is (docs/own-kernels.md)"
    fact = re.sub(r"; did you mean '[^']*'\?", "", said) if known else said
    if known:
        return f"{fact}; {known}"
    if _NAMED.search(said):
        pattern = rf'^{re.escape(NOT_THERE)}"([^"]*)"'
        if gone := sorted(set(re.findall(pattern, source, re.MULTILINE))):
            names = ", ".join(gone[:4]) + (", ..." if len(gone) > 4 else "")
            cure = f"bring what it includes and is not beside it: {names}"
    return f"{fact}; {cure}"


@cache
def documented() -> dict[str, str]:
    """The languages of each function that HIP (H), CUDA (C) or OpenCL C (O) document."""
    made: dict[str, str] = {}
    text = (resources.folder("data") / "own_functions.txt").read_text().replace("\n  ", " ")
    for line in text.splitlines():
        languages, _, *names = line.split()
        if languages != "#":
            made |= {name: made.get(name, "") + languages for name in names}
    return made


def _has(said: str, source: str) -> str | None:
    """The name that is not known, as a language's that has it."""
    if of := _OF_LIBRARY.search(said):
        return f"`{of[2]}::{of[1]}`" if of[2] == "std" else f"`{of[1]}` of cooperative groups"
    named = _UNKNOWN.search(said)
    if not named:
        return None
    name, languages = named[1], documented().get(named[1], "")
    if '"source.cl"' in source:
        return f"OpenCL's `{name}`" if "O" in languages or _OF_OPENCL.fullmatch(name) else None
    whose = [word for key, word in (("H", "HIP's"), ("C", "CUDA's")) if key in languages]
    whose = whose or [word for word, pattern in _FAMILIES if re.fullmatch(pattern, name)][:1]
    return f"{' and '.join(whose)} `{name}`" if whose else None


def _cure(said: str) -> str | None:
    named = _NAMED.search(said)
    if not named:
        return None
    if said.startswith("expected namespace"):
        return None
    return next((c for pattern, c in _CURES if re.fullmatch(pattern, named[1])), None)
