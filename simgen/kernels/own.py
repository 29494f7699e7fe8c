"""Kernels of users: from sources to assembly text in which each is called as the workload says.

HIP and OpenCL C are compiled with a header of ours in place of ROCm's (templates/own), which has no
device library; what that would have had to give is refused by the compiler, in the user's line.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from simgen.ask.build import Destination
from simgen.ask.choice import spelled
from simgen.errors import RefusedError, UsageError, did_you_mean, printable
from simgen.ground import resources
from simgen.ground.ir import (
    CUDA_MACROS,
    CUDA_WARP,
    HIP_MACROS,
    NVIDIA_HIP_MACROS,
    VARIABLE,
    VARIABLE_TYPE,
    Kernel,
    Language,
    OwnSource,
)
from simgen.isa import toolchain
from simgen.isa.legalise.assembly import CONTRACTED, DYNAMIC_LDS, GROUP, readable
from simgen.isa.lint import naming
from simgen.kernels import triton

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simgen.kernels.cache import Cache

FOLDER = "own"
PRELUDE_TYPES = ("float2", "float4", "int2", "int4")  # types that templates/prelude/host.h defines
_LOCAL_INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', re.M)
_INLINE_SPACES = r"(?:\d+[A-Za-z_]\w*?)*?"  # names of name spaces that sources leave out
# Types in C++ symbols, by their words in order of the alphabet.
_CODES = {
    "float": "f", "double": "d", "_Float16": "DF16_", "bool": "b", "char": "c", "char signed": "a",
    "char unsigned": "h", "short": "s", "short unsigned": "t", "int": "i", "unsigned": "j",
    "int unsigned": "j", "long": "l", "long unsigned": "m", "long long": "x",
    "long long unsigned": "y", "int8_t": "a", "uint8_t": "h", "int16_t": "s", "uint16_t": "t",
    "int32_t": "i", "uint32_t": "j", "int64_t": "[lx]", "uint64_t": "[my]", "size_t": "m",
}  # fmt: skip
_ALIGNED = r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
# `extern __shared__ TYPE NAME[][N];`, its words in any order and with attributes anywhere.
_DYNAMIC_LDS = re.compile(
    rf"((?:(?:{_ALIGNED}|\bvolatile\b)\s*)*\b(?=[^;{{}}#]*\bextern\b)(?=[^;{{}}#]*\b__shared__\b)"
    r"(?:extern|__shared__)\b(?:[^;{}#]|\{[^{}]*\})+?)\b(\w+)\s*\[\s*\]((?:\s*\[[^][]*\])*)\s*"
    rf"(?:{_ALIGNED}\s*)?;"
)
_OF_LDS = re.compile(rf"\bextern\b|\b__shared__\b|{_ALIGNED}")
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.S)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.M)
_OPENCL_CASTS = "".join(
    f"#define as_{t}{n}(x) __builtin_astype((x), {t}{n})\n#define convert_{t}{n}(x) "
    + (f"__builtin_convertvector((x), {t}{n})\n" if n else f"(({t})(x))\n")
    for t in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double")
    for n in ("", 2, 3, 4, 8, 16)
)
_OPENCL_CASTS += "".join(
    f"#define convert_{t}{n}{sat}_{mode}(x) convert_{t}{n}{sat}({way}(x))\n"
    for t in ("char", "uchar", "short", "ushort", "int", "uint")
    for n in ("", 2, 3, 4, 8, 16)
    for sat in ("", "_sat")
    for mode, way in (("rte", "rint"), ("rtz", "trunc"), ("rtn", "floor"), ("rtp", "ceil"))
)
# What NVRTC takes of CUDA's headers, where it finds them.
_OF_TOOLKIT = re.compile(
    r"(?:cuda_(?:fp|bf)\d+|mma|cooperative_groups|cuda_pipeline(?:_primitives)?|cuComplex"
    r"|cuda_awbarrier(?:_primitives)?|curand_kernel)\.h|(?:cooperative_groups|cuda|cub)/[\w./]+"
)
_GROUPS = tuple(f"cooperative_groups/{name}.h" for name in ("reduce", "scan"))
# CUDA's vector types; HIP has them with operators.
_VECTORS = (
    "float", "double", "int", "uint", "char", "uchar", "short", "ushort", "long", "ulong",
    "longlong", "ulonglong",
)  # fmt: skip
_OF_CLANG = ("__AMDGCN__", "__AMDGPU__", "__AMD__")  # macros that nvcc does not define
_C_LINKAGE = re.compile(r'extern\s+"C"\s*(\{?)')
# On the first directive of a function, which says who sees it (`.protected`, `.hidden`, ...), or of
# one that nobody else sees how it lies.
_BEGIN = re.compile(r"^\t\.\w+\t\S+ +; -- Begin function (\S+)\n", re.M)
# An instance of a template has a section of its own, which is named before the function.
_SECTION = re.compile(r"^\t\.section\t\.text\.[^\n]*$", re.M)
# What lanes of a warp leave each other without a barrier: LDS that is volatile, for the first warp.
_OF_A_WARP = re.compile(r"<=?\s*(?:31|32|63|64|warpSize|WARP_?SIZE|warp_?size)\b")
_OBJECT = re.compile(r"^([\w.$]+):\n(?:\t\.(?:quad|long|short|byte|zero)\t[^\n]*\n)+", re.M)
_QUAD = re.compile(r"\t\.quad\t([\w.$]+(?:\+\d+)?)", re.M)
# What clang asks of a runtime for functions that it does not see; ours ask nothing.
_SERVICES = re.compile(
    r"^ +- \.offset:.*\n +\.size:.*\n +\.value_kind: +hidden_(?:hostcall_buffer|multigrid_sync_arg"
    r"|heap_v1|default_queue|completion_action|queue_ptr)\n", re.M,
)  # fmt: skip
_INLINE = re.compile(r"^\t;;#ASMSTART\n.*?^\t;;#ASMEND$", re.M | re.S)
_PTX = re.compile(r"^[ \t]*(?:\{ *)?([a-z]\w*(?:\.\w+)+)[ \t]", re.M)
_VECTOR = re.compile(r"^[ \t]*(v_\w+)[ \t]+([^;\n]*)", re.M)
_PLACED = re.compile(r"([\w.$]+)(?:\+\d+)?@")
_TAIL = "\t.section\t.AMDGPU.gpr_maximums"
# Where code is not what a launcher copies: data of the file, and functions that were not inlined.
_ELSEWHERE = re.compile(r"^\s+\S.*\s([\w.$]+)@(gotpcrel32|rel32)@lo", re.M)


def header(name: str) -> str:
    """A header of templates/own with what it includes of these."""
    text = (resources.folder("templates") / FOLDER / name).read_text()
    return _LOCAL_INCLUDE.sub(lambda match: header(match[1]), text)


def assembly(
    kernel: Kernel, arch: str, cache: Cache, *, matrix: bool = True, gem5: bool = False,
    rounded: bool = False, keeps: bool = False,
) -> str:  # fmt: skip
    """Assembly text of a user's kernel, under the workload's name for it; `matrix`: whether what is
    to run it has instructions for matrices; `gem5` as `toolchain.own_flags`; `rounded`: its fused
    multiply-adds round the product, too; `keeps`: it keeps its cache of scalars between kernels.

    Raises:
        UsageError: the source does not compile, or has no such kernel.
        RefusedError: it is for another processor.
        MissingError: it is of Triton, which is not here.
    """
    own = kernel.source
    assert own is not None
    if own.arch and own.arch != arch:
        raise RefusedError(
            f"kernel {kernel.name}: it is for {own.arch}, not for {arch}; "
            f"build with {spelled('arch')} {own.arch}"
        )
    fused = own.contract not in ("", "off")
    if own.language is Language.TRITON:
        text, fused = triton.assembly(
            own, arch, f"kernel {kernel.name}", cache, matrix=matrix, keeps=keeps, gem5=gem5,
            rounded=rounded,
        )  # fmt: skip
    else:
        text = (
            own.text
            if own.language is Language.ASSEMBLY
            else _compiled(kernel, own, arch, cache, gem5=gem5, rounded=rounded, keeps=keeps)
        )
    made = renamed(text, own.entry, kernel.name)
    if rounded and fused:
        made += f"\t.set {kernel.name}.{CONTRACTED}, 1\n"
    symbols = {DYNAMIC_LDS: kernel.lds_nbytes}
    symbols |= dict(zip(GROUP, kernel.group)) if max(kernel.extents[1:]) > 1 else {}
    told = "".join(
        f"\t.set {kernel.name}.{of}, {value}\n" for of, value in symbols.items() if value
    )
    return made + told


def _compiled(
    kernel: Kernel, own: OwnSource, arch: str, cache: Cache, *, gem5: bool, rounded: bool,
    keeps: bool,
) -> str:  # fmt: skip
    from simgen.kernels.cache import Key

    suffix = {Language.HIP: "hip", Language.OPENCL: "cl"}[own.language]
    name = f"{kernel.name}.{suffix}"
    whole = device_text(own, flat=not kernel.group, rounded=rounded)
    flags = toolchain.own_flags(suffix, arch, gem5=gem5)
    flags = (*flags, *(toolchain.VECTOR_LOADS if keeps else ()))
    # MGPUSim's timing model ends at a word that lies in two cache lines.
    flags = (*flags, *(toolchain.SPLIT if rounded else ()))
    edits = (toolchain.VOLATILE, *(toolchain.SEPARATE if rounded else ()))
    key = Key("own assembly")
    key.add("label", f"own assembly {arch} {kernel.name}")
    key.add("compiler", toolchain.identity())
    key.add("flags", "\n".join(flags))
    key.add("edits", "\n".join(map(" -> ".join, edits)))
    key.add("arch", arch)
    key.add("source", whole)
    made = cache.get_or_build(
        key, lambda: toolchain.own_assembly(whole, flags, f"source.{suffix}", name, edits).encode()
    )
    if ptx := _PTX.search("".join(_INLINE.findall(made.decode()))):
        raise RefusedError(
            f"kernel {kernel.name}: {ptx[1]} in its assembly is PTX, and {arch} a GPU of AMD's; "
            "write it in C++ for other GPUs, behind an #ifdef"
        )
    text = _INLINE.sub(lambda part: _VECTOR.sub(partial(_spelled, arch), part[0]), made.decode())
    return _alone(text, own.entry)


def _spelled(arch: str, line: re.Match[str]) -> str:
    """An instruction of inline assembly with the length that an assembler chooses for it."""
    known = naming.names(arch if arch in naming.architectures() else "gfx902").values()
    if line[1] in known or f"{line[1]}_e32" not in known:
        return line[0]
    result, first, *others = [each.strip() for each in f"{line[2]},".split(",")]
    plain = all(re.fullmatch(r"v\d+|vcc|", each) for each in (result, *others))
    short = plain and not re.match(r"-|\||abs|neg", first)
    return line[0].replace(line[1], f"{line[1]}_e{32 if short else 64}", 1)


def device_text(own: OwnSource, *, flat: bool = False, rounded: bool = False) -> str:
    """Source that needs no other file; `flat`: its work-groups have one dimension; `rounded`: what
    the source demands to be fused is made of other instructions."""
    ahead = f"#define SIMGEN_CONTRACT {own.contract or 'off'}\n"
    ahead += f"#define SIMGEN_ROUNDED {int(rounded)}\n"
    if own.language is Language.OPENCL:
        return (
            f"{ahead}{header('opencl.h')}{_OPENCL_CASTS}{_macros(own.defines)}{_contracting(own)}"
            f'#line 1 "source.cl"\n{own.text}\n'
        )
    return (
        f"#define SIMGEN_WARP {own.warp}\n#define SIMGEN_FLAT {int(flat)}\n{ahead}{header('hip.h')}"
        f"{_dialect(own)}{_variables(own)}{_contracting(own)}"
        f'#line 1 "source.hip"\n{own.text}\n{_instance(own)}'
    )


def host_header(contract: str) -> str:
    """What `host_text` needs ahead of it, for sources of this contract."""
    return f"#define SIMGEN_CONTRACT {contract or 'off'}\n{header('hip.h')}"


def _contracting(own: OwnSource) -> str:
    """What lets the compiler fuse the text behind it; flags are those of all kernels."""
    return f"#pragma clang fp contract({own.contract or 'off'})\n"


def nvidia_text(own: OwnSource) -> str:
    """The same for NVRTC, which is told the instance of a template. HIP's vectors have constructors
    and operators there, so its names stand for types of ours."""
    is_cuda = own.warp == CUDA_WARP
    renamed_types = "typedef uint3 simgen_uint3_of_cuda;\n" + "".join(
        f"#define {prefix}{name} simgen_{prefix}{name}\n"
        for name in (f"{kind}{n}" for kind in _VECTORS for n in range(1, 5))
        for prefix in ("", "make_")
        if not is_cuda
    )
    wanted = [each for each in own.headers if _OF_TOOLKIT.fullmatch(each)]
    if wanted:  # all of which may name these types
        wanted = ["cuda_fp16.h", "cuda_bf16.h", *wanted]
    if "cooperative_groups.h" in wanted:
        wanted += _GROUPS
    included = "".join(f"#if __has_include(<{h}>)\n#include <{h}>\n#endif\n" for h in wanted)
    ahead = f"{included}#define SIMGEN_CUDA {int(is_cuda)}\n{renamed_types}"
    macros = "".join(f"#ifndef {name}\n{_macros([(name, value)])}#endif\n"
                     for name, value in CUDA_MACROS if name not in dict(own.defines))  # fmt: skip
    macros += "" if is_cuda else _macros(NVIDIA_HIP_MACROS)
    if own.variables:
        macros += f'extern "C" {{ __constant__ void *simgen_variables[{len(own.variables)}]; }}\n'
        macros += "#define simgen_variable(at) simgen_variables[at]\n"
    return f'{ahead}{header("hip.h")}{macros}{_variables(own)}#line 1 "source.cu"\n{own.text}\n'


def host_text(own: OwnSource, name: str) -> str:
    """The same for this CPU, where each kernel has a name space of its own.

    Raises:
        RefusedError: lanes of a warp go together in it.
    """
    if "__shared__" in own.text and "volatile" in own.text and _OF_A_WARP.search(own.text):
        raise RefusedError(
            f"host: kernel {name}: lanes of a warp seem to read volatile LDS without a barrier and "
            f"go one after the other on this CPU; build with {Destination.targets} mgpusim or "
            "gem5-se, or write __syncthreads() there"
        )
    text = _C_LINKAGE.sub(lambda match: "inline namespace simgen_c {" if match[1] else "", own.text)
    text = _COMMENT.sub(lambda each: each[1] or " " + "\n" * each[0].count("\n"), text)
    text = _DYNAMIC_LDS.sub(_at_dynamic_lds, text)
    # The prelude has some of the vector types, as kernels of simgen use them.
    renamed_types = "".join(f"#define {t} simgen_{t}\n" for t in PRELUDE_TYPES)
    ahead = f"{renamed_types}#define warpSize {own.warp}\n{_dialect(own)}{_variables(own)}"
    ahead += _contracting(own)
    # The next kernel's text is the same, with the same guards.
    macros = dict.fromkeys(_DEFINED.findall(ahead + text))
    before = "".join(f'#pragma push_macro("{each}")\n' for each in macros)
    back = "".join(f'#pragma pop_macro("{each}")\n' for each in macros)
    behind = "#pragma clang fp contract(off)\n"
    return f'{before}{ahead}#line 1 "{name}.hip"\n{text}\n{back}{behind}'


def _at_dynamic_lds(declared: re.Match[str]) -> str:
    """A pointer to the LDS that launches ask for, in as many lines as its declaration."""
    before, name, extents = declared.groups()
    made = f"typedef {_OF_LDS.sub(' ', before)} simgen_lds_{name}{extents};"
    lines = "\n" * (declared[0].count("\n") - made.count("\n"))
    return f"{made} SIMGEN_DYNAMIC_LDS(simgen_lds_{name}, {name});{lines}"


def _dialect(own: OwnSource) -> str:
    """What sources ask to know for which compiler they are."""
    known = HIP_MACROS
    left_out = [name for name, _ in CUDA_MACROS]
    if own.warp == CUDA_WARP:
        known = CUDA_MACROS
        left_out = [*(name for name, _ in HIP_MACROS), *_OF_CLANG]
    given = {name for name, _ in own.defines}
    made = _macros(each for each in known if each[0] not in given)
    undone = [*(name for name, _ in known), *left_out]
    return "".join(f"#undef {name}\n" for name in undone) + made


def _variables(own: OwnSource) -> str:
    """What its build defines, and what the launcher gives with each launch for variables."""
    return _macros(own.defines) + "".join(
        f"#define {VARIABLE}{name} {VARIABLE}{name}_in()\n#define {VARIABLE}{name}_in(space) "
        f"(*static_cast<space {VARIABLE_TYPE}{name} *>(simgen_variable({at})))\n"
        for at, name in enumerate(own.variables)
    )


def _macros(given: Iterable[tuple[str, str]]) -> str:
    return "".join(f"#define {name} {value}\n" for name, value in given)


def _instance(own: OwnSource) -> str:
    """What makes the compiler emit an instance of a template, if the source does not itself."""
    name, _, arguments = own.entry.partition("<")
    last = re.escape(name.split("::")[-1])
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", own.text, flags=re.S)
    called = rf"\btemplate\s+(?!<)[^;{{}}]*?\b{last}\s*(<[^;{{}}()]*>)?\s*\("
    found = re.findall(called, text)
    written = {re.sub(r"\s", "", told) for told in found}
    if not arguments or {"", re.sub(r"\s", "", f"<{arguments}")} & written:
        return ""
    return f"template __global__ decltype({own.entry}) {own.entry};\n"


def renamed(text: str, entry: str, name: str) -> str:
    """Assembly text in which the kernel that the source calls `entry` is called `name`.

    Raises:
        UsageError: it has no such kernel, or several.
    """
    symbols = re.findall(r"^\s*\.amdhsa_kernel\s+(\S+)", text, re.M)
    symbols = symbols or re.findall(r"^\s*\.globl\s+(\S+)\.kd$", text, re.M)
    found = (
        [symbol for symbol in symbols if symbol == entry]
        or [symbol for symbol in symbols if _is_called(symbol, entry)]
        or [symbol for symbol in symbols if _is_called(symbol, entry, _INLINE_SPACES)]
    )
    if len(found) != 1:
        if found:
            cure = f"write which: {', '.join(found)}"
            raise UsageError(f"kernel {printable(entry)}: several kernels are called so; {cure}")
        cure = did_you_mean(entry, map(readable, symbols))
        if not symbols and "<" not in entry:
            cure = f"of a template, name an instance, such as {entry}<float>"
        raise UsageError(f"kernel {printable(entry)}: no such kernel in its source; {cure}")
    (symbol,) = found
    if symbol == name:
        return text
    if name in symbols:
        raise UsageError(f"kernel {name}: another one is called so too; name it {symbol}")
    return re.sub(rf"(?<![\w$]){re.escape(symbol)}(?![\w$])", name, text)


def _alone(text: str, entry: str) -> str:
    """Clang's text without other kernels, and without functions that are inlined where they are
    used: what these ask of a machine is nothing that the kernel does."""
    text = _SECTION.sub("\t.text", text)
    parts = _BEGIN.split(text)  # what is before, then name and text of each function
    if len(parts) == 1:
        return text
    last, tail, rest = parts[-1].partition(_TAIL)
    functions = dict(zip(parts[1::2], (*parts[2::2][:-1], last), strict=True))
    tables = {each[1]: {n.partition("+")[0] for n in _QUAD.findall(each[0])}
              for each in _OBJECT.finditer(rest)}  # fmt: skip
    kernels = [n for n in functions if re.search(rf"\.amdhsa_kernel {re.escape(n)}$", text, re.M)]
    wanted = [n for n in kernels if n == entry] or [n for n in kernels if _is_called(n, entry)]
    wanted = wanted or [n for n in kernels if _is_called(n, entry, _INLINE_SPACES)]
    if not tail or len(wanted) != 1:
        return text
    kept, todo = dict.fromkeys(wanted), list(wanted)
    while todo:
        body = functions[todo.pop()]
        read = {*_PLACED.findall(body)}
        while more := {n for each in read & tables.keys() for n in tables[each]} - read:
            read |= more
        todo += (new := [n for n in functions if n not in kept and n in read])
        kept |= dict.fromkeys(new)
    # Objects that nothing kept reads have addresses of these.
    gone = functions.keys() - kept.keys()
    rest = _QUAD.sub(lambda q: "\t.quad\t0" if q[1].partition("+")[0] in gone else q[0], rest)
    if re.search(r"\.has_indirect_call, 1$", functions[wanted[0]], re.M):
        rest = _SERVICES.sub("", rest)
    begins = dict(zip(parts[1::2], _BEGIN.finditer(text), strict=True))
    # Text before a function, which names its section, may have been removed altogether.
    code = "\t.text\n".join(begins[n][0] + functions[n] for n in kept)
    return parts[0] + code + tail + rest


def _is_called(symbol: str, entry: str, between: str = "(?:12_GLOBAL__N_1)?") -> bool:
    """Whether a C++ symbol is of a function `entry`, or of an instance of a template."""
    *spaces, plain = re.sub(r"<.*", "", entry).split("::")
    tagged = f"{len(plain)}{plain}"
    around = between.join(f"{len(each)}{each}" for each in (*spaces, plain))
    named = re.search(around, symbol)
    at = named.end() - len(tagged) if named else -1
    if not symbol.startswith("_Z") or at < 0:
        return False
    behind = symbol[at + len(tagged) :]
    arguments = entry.partition("<")[2].rstrip().removesuffix(">")
    return bool(re.match(_mangled(arguments), behind)) if arguments else behind[:1] != "I"


def _mangled(arguments: str) -> str:
    """A pattern of arguments of a template in a C++ symbol, in which whole numbers and types of C
    are spelled in one way."""
    while (inner := re.sub(r"<[^<>]*>|\([^()]*\)", "", arguments)) != arguments:
        arguments = inner
    parts = []
    for each in map(str.strip, arguments.split(",")):
        number = {"true": "1", "false": "0"}.get(each, each.rstrip("uUlL"))
        if re.fullmatch(r"-?(?:0[xX][\da-fA-F]+|[1-9]\d*|0)", number):
            parts.append(rf"L(?:[a-z]|\d\w*?[A-Za-z_]){str(int(number, 0)).replace('-', 'n')}E")
        else:
            parts.append(_CODES.get(" ".join(sorted(each.split())), ".+"))
    return "I" + "".join(parts)


def check_image(text: str, kernel: str, whole: bool) -> None:
    """Refuse text that needs a loader; `whole`: data beside the code is there when it runs.

    Raises:
        RefusedError: it needs one.
    """
    for symbol, kind in _ELSEWHERE.findall(text):
        if kind == "gotpcrel32" or not whole:
            raise RefusedError(
                f"kernel {kernel}: it refers to {readable(symbol)}, data or a function outside of "
                "its code, which nobody loads; pass constants as a tensor, and inline functions"
            )
