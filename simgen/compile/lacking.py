"""What a compiler says of a user's source, as a message: what is not here, and what to do."""

from __future__ import annotations

import re

from simgen.ir import NOT_THERE

_NAMED = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no template named|no type named"
    r"|no member named|no matching function for call to|expected namespace name"
    r"|undeclared function) ?'?([\w:]*)'?"
)
_UNKNOWN = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no template named|undeclared function"
    r"|no member named) ?'?(\w*)'?(?! in 'struct)"
)
# What the languages have: a name of these that is not known is not here.
_LANGUAGES = (
    ("CUDA's", r"__nv_\w+|cu[A-Z]\w+|__pipeline_\w+|memcpy_async|__nanosleep|__isGlobal|__isShared"
     r"|__dp[24]a_\w+|__cvta_\w+|__trap|__brkpt|__prof_trigger|__grid_constant__|__cluster_dims__"),
    ("HIP's", r"__hip_\w+|hip[A-Z]\w+|__ockl_\w+|__ocml_\w+|__llvm_\w+|__builtin_\w+"
     r"|__bitinsert_\w+|__lastbit_\w+|safeAtomic\w+"),
    ("HIP's and CUDA's",
     r"(?:acosh|asinh|atanh|(?:a?(?:sin|cos|tan))pi|sincospi|cyl_bessel_i[01]|erfc?|erfcinv|erfcx"
     r"|erfinv|exp10|fdim|j[01n]|y[01n]|lgamma|tgamma|log[b12]?\w*|ilogb|ll?rint|ll?round|nan"
     r"|nextafter|r?norm(?:[34]d)?|normcdf(?:inv)?|r?cbrt|remainder|remquo|rhypot|scalbl?n"
     r"|ldexp|frexp|modf|sinh|cosh|tanh?|a(?:sin|cos|tan)2?|exp(?:2|m1)?|pow[i]?|fmod|f?divide"
     r"|saturate|isnormal|fpclassify)f?"
     r"|h2?(?:exp|log|sin|cos|tan|sqrt|rsqrt|rcp|ceil|floor|rint|trunc)\w*|__h\w+|__half\w*|__bfl\w+"
     r"|__\w+2\w+_r[nudz]|__[fd]\w+_r[nudz]|__\w+2(?:half|bfloat16|float|double|int|uint|ll|ull)\w*"
     r"|__v(?:abs|add|sub|avg|cmp|max|min|neg|sad|set|i[bm]|hadd)\w*[24s]?|__\w+_sync"
     r"|atomic\w+|__(?:ld|st)\w+|__\w*(?:mul|sad|add|perm|popc|clz|ffs|fns|brev)\w*"
     r"|(?:u?char|u?short|u?int|u?long|u?longlong|float|double|half)[1-4]_?\w*|make_\w+"
     r"|(?:inclusive|exclusive)_scan\w*|labeled_partition|binary_partition|invoke_one\w*"),
)  # fmt: skip
_OF_OPENCL = re.compile(
    r"(?:a?(?:sin|cos|tan)(?:h|pi)?|atan2(?:pi)?|cbrt|copysign|erfc?|exp(?:m1|10)?|fdim|fract|frexp"
    r"|hypot|ilogb|ldexp|lgamma(?:_r)?|log(?:1p|b|10)?|maxmag|minmag|modf|nan|nextafter|pown|powr"
    r"|remainder|remquo|rootn|round|sincos|tgamma|half_\w+|native_\w+|degrees|radians|smoothstep"
    r"|cross|distance|length|normalize|fast_\w+|bitselect|select|is[a-z]+|signbit|any|all"
    r"|shuffle2?|convert_\w+|as_\w+|v(?:load|store)\w*|atom(?:ic)?_\w+|read_\w+|write_\w+"
    r"|get_\w+|work_group_\w+|sub_group_\w+|prefetch|vec_step|pipe\w*|enqueue_\w+|async_\w+"
    r"|image\w*|sampler_t|CLK_\w+|M_\w+|FLT_\w+|DBL_\w+|HUGE_\w+)"
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


def _has(said: str, source: str) -> str | None:
    """The name that is not known, as a language's that has it."""
    named = _UNKNOWN.search(said)
    if not named:
        return None
    name = named[1]
    if '"source.cl"' in source:
        return f"OpenCL's `{name}`" if _OF_OPENCL.fullmatch(name) else None
    of = (whose for whose, pattern in _LANGUAGES if re.fullmatch(pattern, name))
    whose = next(of, None)
    return f"{whose} `{name}`" if whose else None


def _cure(said: str) -> str | None:
    named = _NAMED.search(said)
    if not named:
        return None
    if said.startswith("expected namespace"):
        return None
    return next((c for pattern, c in _CURES if re.fullmatch(pattern, named[1])), None)
