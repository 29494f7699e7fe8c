"""The compiler: clang and LLD as the `ziglang` wheel carries them.

One wheel holds clang for AMD GPUs and x86-64 and the linker; no ROCm, no root. `zig clang` and
`zig ld.lld` are those programs themselves, not Zig's wrapper `zig cc`, so no C library is built.

`SIMGEN_CLANG` names another clang, with LLD beside it, for distributions that have their own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.errors import MissingError, SimgenError, UsageError, did_you_mean, one_line
from simgen.ground import machine, resources
from simgen.ground.storage.files import scratch_folder
from simgen.isa import child, lacking

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PINNED = "0.17.0"  # version of ziglang: clang 22.1.8. pyproject.toml pins the same
OTHER = "SIMGEN_CLANG"
OLDEST = 22  # the clang that ziglang has: older ones lack flags, and give other instructions
NO_CONFIG = "--no-default-config"  # files of the distribution would change the output unseen
CURE = f"install it: python -m pip install ziglang=={PINNED}"

AMD_TARGET = "amdgcn-amd-amdhsa"
AMD_ARCHS = tuple(machine.architectures())

# Why each flag of the device compiler is there:
# No fused multiply-add takes 16-bit operands and 32-bit ones: simulators lack v_fma_mix_f32. They
# are of gfx8 and gfx9; LLVM 22 drops all kernels of a gfx11 that is told to lack them.
HALF_FLAGS = ("-Xclang", "-target-feature", "-Xclang", "-fma-mix-insts")
DEVICE_FLAGS = (
    "--target=x86_64-unknown-linux-gnu",  # HIP's host side: the same on every machine
    "--offload-device-only",
    "-nogpulib",  # no ROCm device library and no headers: the prelude has what kernels need
    "-nogpuinc",
    "-nostdinc",
    "-std=c++20",
    "-O3",
    "-fno-vectorize",  # work-items are the vectors; its narrow integer vectors cost v_perm_b32
    "-ffp-contract=off",  # fused multiply-adds only where the kernel says so: same bits everywhere
    "-fno-ident",
    "-mcode-object-version=5",  # clang's default, 6, is unknown to the simulators
    # gem5 and MGPUSim lack most sub-dword (SDWA) and data-parallel (DPP) forms:
    "-mllvm",
    "-amdgpu-sdwa-peephole=0",
    "-mllvm",
    "-amdgpu-dpp-combine=0",
    "-mllvm",
    "-amdgpu-kernarg-preload-count=0",  # simulators load no kernel arguments into registers
    # It divides in 16 bits where it knows a number to be small. Such instructions clear the upper
    # half of the register, which kernels then rely on; gem5 leaves it as it was.
    "-mllvm",
    "-opt-disable=correlated-propagation",
    "-Wall",
    "-Wno-unused-function",  # the prelude has unused functions
    "-Wno-unused-const-variable",
    "-Werror",
)
ASSEMBLER_FLAGS = ("-mcode-object-version=5",)
HOST_FLAGS = (
    "--target=x86_64-unknown-linux-gnu",
    "-ffreestanding",
    "-nostdinc",
    "-fno-stack-protector",
    "-fno-pic",
    "-fno-asynchronous-unwind-tables",
    "-ffp-contract=off",
    "-fno-ident",
    "-Wall",
    "-Wno-unused-function",  # the prelude has unused functions
    "-Wno-unused-const-variable",
    "-Werror",
)


class RejectedError(SimgenError):
    """A compiler does not accept what simgen has made, or a user, whose source is in it."""

    def __init__(self, said: str, message: str) -> None:
        super().__init__(message)
        self.said = said


@cache
def zig() -> Path:
    """The program.

    Raises:
        MissingError: ziglang is not installed.
    """
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise MissingError(f"compiler: the Python package ziglang is not installed; {CURE}")
    program = Path(spec.submodule_search_locations[0]) / "zig"
    if not program.exists():
        raise MissingError(f"compiler: {program} is missing; {CURE}")
    return program


def identity() -> str:
    """What cache keys hold of the compiler; the pinned version where none is installed.

    The version of the wheel, not a digest of the program: programs for different machines give
    the same code, so that one set of precomputed kernels serves all of them.

    Raises:
        MissingError: `SIMGEN_CLANG` names none that will do.
    """
    if other := os.environ.get(OTHER):
        return _other(other).version
    return _identity_of_zig()


@cache
def _identity_of_zig() -> str:
    try:
        package = zig().parent
    except MissingError:
        return f"ziglang {PINNED}"
    found = sorted(package.parent.glob("ziglang-*.dist-info"))
    if len(found) != 1:
        raise MissingError(f"compiler: cannot tell the version of {package}; {CURE}")
    return f"ziglang {found[0].name.removeprefix('ziglang-').removesuffix('.dist-info')}"


def check() -> None:
    """
    Raises:
        MissingError: there is no compiler, or `SIMGEN_CLANG` names none that will do.
    """
    _words("clang")


@dataclass(frozen=True)
class _Clang:
    """A clang that a user names, and its linker."""

    program: Path
    linker: Path
    version: str  # the line that it tells


@cache
def _other(name: str) -> _Clang:
    place = f"{OTHER} {name}"
    cure = f"name a clang of LLVM {OLDEST} or newer, or unset it to use the package ziglang"
    program = shutil.which(name)
    try:
        told, targets = (_told(program or name, word) for word in ("--version", "-print-targets"))
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingError(f"{place}: cannot be started ({one_line(str(error))}); {cure}") from None
    line = told.split("\n", 1)[0].strip()
    found = re.search(r"\bclang version (\d+)\.", line)
    if found is None or program is None:
        raise MissingError(f"{place}: does not say which clang it is; {cure}")
    if int(found[1]) < OLDEST:
        raise MissingError(f"{place}: is clang {found[1]}, and kernels need {OLDEST}; {cure}")
    if not re.search(r"^\s*amdgcn\b", targets, re.MULTILINE):
        raise MissingError(f"{place}: was built without AMD GPUs; {cure}")
    folders = (Path(program).parent, Path(program).resolve().parent)
    names = [folder / each for folder in folders for each in ("ld.lld", f"ld.lld-{found[1]}")]
    linker = next((each for each in names if each.is_file()), None)
    if linker is None:
        raise MissingError(f"{place}: no ld.lld lies beside it; install LLD {found[1]} there")
    return _Clang(Path(program), linker, line)


def _told(program: str, word: str) -> str:
    environment = {"PATH": os.defpath, "LC_ALL": "C"}
    return subprocess.run(
        [program, word], env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def _words(program: str) -> list[str]:
    """How `clang` or `ld.lld` is started."""
    if not (name := os.environ.get(OTHER)):
        return [str(zig()), program]
    other = _other(name)
    return [str(other.linker)] if program == "ld.lld" else [str(other.program), NO_CONFIG]


def assembly(
    source: str, arch: str, *, lines: bool = False, flags: Sequence[str] | None = None
) -> str:
    """AMDGPU assembly text of self-contained HIP text, with others than `device_flags`, if given.

    `lines` adds which line of the source each instruction comes from; instructions stay the same.
    """
    tables = ("-gline-tables-only",) if lines else ()
    flags = device_flags(source, arch) if flags is None else flags
    with _folder({"kernel.hip": source.encode()}) as folder:
        said = _run(
            folder, "clang", "-x", "hip", f"--offload-arch={arch}", *flags,
            *tables, "-S", "kernel.hip", "-o", "kernel.s",
        )  # fmt: skip
        text = (folder / "kernel.s").read_text()
    return aligned(text, said) if set(_TOLD) <= set(flags) else text


# What a kernel may have written is loaded by vectors: another cache keeps what was there before.
VECTOR_LOADS = ("-mllvm", "-amdgpu-scalarize-global-loads=0")


# No access of what is smaller than a word is wider than what it is known to be aligned to; and the
# last of the compiler's passes tells how accesses of several words are aligned (`aligned`).
_TOLD = ("-mllvm", "-print-after=branch-relaxation")
SPLIT = ("-Xclang", "-target-feature", "-Xclang", "-unaligned-access-mode")
ALIGNED_FLAGS = (*SPLIT, *_TOLD)
_WORDS = r"(?:flat|global|scratch)_(?:load|store)_dwordx[234]"
_TOLD_ACCESS = re.compile(rf"^[^\n:]*\b({_WORDS.upper()})(?:_\w+)?\b[^\n]*", re.M)
_ACCESS = re.compile(rf"^\t({_WORDS})\b.*", re.M)
_ALIGN = re.compile(r"\(\w[^()]*\(s(\d+)\)[^()]*?(?:, align (\d+)\b[^()]*)?\)")


def aligned(text: str, told: str) -> str:
    """Assembly text in which `; align 4` stands behind accesses of several words whose addresses
    are multiples of less than 8 (two words) or 16 bytes; `told` is what the compiler's last pass
    left, in the same order. Where that cannot be read, they are multiples of words."""
    found = list(_TOLD_ACCESS.finditer(told))
    names = [each[1].lower() for each in found]
    known = names == [each[1] for each in _ACCESS.finditer(text)]
    nbytes = iter([min(_alignments(each[0]), default=4) for each in found] if known else ())

    def marked(access: re.Match[str]) -> str:
        multiple = next(nbytes, 4)
        least = 8 if access[1].endswith("x2") else 16
        return access[0] if multiple >= least else f"{access[0]} ; align {multiple}"

    return _ACCESS.sub(marked, text)


def _alignments(access: str) -> list[int]:
    """The alignments of the places that an access is known to have: their sizes, unless told."""
    return [int(told or int(bits) // 8) for bits, told in _ALIGN.findall(access)]


def device_flags(
    source: str, arch: str, *, keeps_scalars: bool = False, gem5: bool = False
) -> tuple[str, ...]:
    """What a kernel is compiled with: DEVICE_FLAGS, and what kernels of 16-bit floats need, and
    those for a simulator that keeps its cache of scalars between kernels, and for `gem5`."""
    simulated = arch.startswith(("gfx8", "gfx9"))
    halves = HALF_FLAGS if simulated and "_Float16" in source else ()
    more = (*(VECTOR_LOADS if keeps_scalars else ()), *(ALIGNED_FLAGS if gem5 else ()))
    return (*DEVICE_FLAGS, *halves, *more)


# What makes PTX of the same kernels. Why each flag that DEVICE_FLAGS has not is there:
PTX_FLAGS = (
    "--target=x86_64-unknown-linux-gnu",
    "--cuda-device-only",
    "-Wno-unknown-cuda-version",  # a CUDA toolkit on this machine is not used
    "-nocudalib",  # no CUDA toolkit: templates/prelude/clang_cuda.h has what kernels need
    "-nocudainc",
    "-nostdinc",
    "-std=c++20",
    "-O3",
    "-fno-vectorize",
    "-fno-jump-tables",  # simulators have no indirect branches
    "-ffp-contract=off",
    "-fno-ident",
    "-Wall",
    "-Wno-unused-function",
    "-Wno-unused-const-variable",
    "-Wno-pass-failed",  # loops that are unrolled elsewhere, and too long here
    "-Werror",
)
# The oldest version of PTX that has the architecture, and shuffles with a mask; without one, clang
# asks for a CUDA toolkit.
PTX_VERSIONS = {"sm_35": 60, "sm_61": 60, "sm_70": 60, "sm_75": 63, "sm_86": 71}


def ptx_flags(arch: str) -> tuple[str, ...]:
    """What a kernel is compiled to PTX with."""
    return (
        "-x", "cuda", f"--cuda-gpu-arch={arch}", f"--cuda-feature=+ptx{PTX_VERSIONS[arch]}",
        *PTX_FLAGS,
    )  # fmt: skip


def ptx(source: str, arch: str) -> str:
    """PTX of self-contained CUDA text; `arch` is one of PTX_VERSIONS."""
    with _folder({"kernel.cu": source.encode()}) as folder:
        _run(folder, "clang", *ptx_flags(arch), "-S", "kernel.cu", "-o", "kernel.ptx")
        return (folder / "kernel.ptx").read_text()


def assemble(text: str, arch: str) -> bytes:
    """A linked AMDGPU code object from assembly text."""
    with _folder({"kernel.s": text.encode()}) as folder:
        _run(
            folder, "clang", f"--target={AMD_TARGET}", f"-mcpu={arch}", *ASSEMBLER_FLAGS,
            "-c", "kernel.s", "-o", "kernel.o",
        )  # fmt: skip
        _run(folder, "ld.lld", "-shared", "--no-undefined", "kernel.o", "-o", "kernel.co")
        return (folder / "kernel.co").read_bytes()


# Private memory by scratch_load and scratch_store, not by buffers (legalise/private_memory).
SCRATCH_FLAGS = ("-Xclang", "-target-feature", "-Xclang", "+enable-flat-scratch")


# A local variable that is read before it is set has one value on all targets: NaN, or bytes 0xAA.
# The optimiser removes these stores where it sees that all is set first. Memory is read as whatever
# type a pointer is cast to, as HIP's own vectors and halves allow, being unions.
MEANING_FLAGS = ("-fno-strict-aliasing", "-ftrivial-auto-var-init=pattern")


def own_flags(suffix: str, arch: str, *, gem5: bool = False) -> tuple[str, ...]:
    """What a user's source in HIP ("hip") or OpenCL C ("cl") is compiled with; `gem5`: so that no
    load or store is wider than what it moves is known to be aligned, and with SCRATCH_FLAGS."""
    if gem5:
        private = SCRATCH_FLAGS if arch.startswith("gfx9") else ()
        return (*own_flags(suffix, arch), *ALIGNED_FLAGS, *private)
    mixing = HALF_FLAGS if arch.startswith(("gfx8", "gfx9")) else ()
    if suffix == "cl":
        left_out = ("--offload-device-only", "-std=c++20", "-Wall", "-Werror")
        common = [f for f in DEVICE_FLAGS[1:] if f not in left_out and not f.startswith("-W")]
        language = ("-x", "cl", "-cl-std=CL2.0", "-cl-no-stdinc", f"-mcpu={arch}")
        return (f"--target={AMD_TARGET}", *language, *common, *mixing, *MEANING_FLAGS, "-w")
    common = [flag for flag in DEVICE_FLAGS if not flag.startswith("-W")]
    return ("-x", "hip", f"--offload-arch={arch}", *common, *mixing, *MEANING_FLAGS, "-w")


def llvm_flags(arch: str) -> tuple[str, ...]:
    """What text in LLVM's language that another compiler has optimised is compiled with.

    Triton allows fused multiply-adds everywhere.
    """
    at = DEVICE_FLAGS.index("-fno-ident")
    common = [flag for flag in DEVICE_FLAGS[at:] if not flag.startswith("-W")]
    whole = ("-Xclang", "-disable-llvm-passes", "-ffp-contract=fast", "-nogpulib")
    target = ("-x", "ir", f"--target={AMD_TARGET}", f"-mcpu={arch}", *HALF_FLAGS)
    return (*target, "-O3", *whole, *common, "-w")


# The compiler of a user's text sees the files that simgen gives to it, and no others. Otherwise
# `#include "/etc/passwd"`, `#embed` or a name in a macro would put a file into a bundle, and no key
# would hold it.
ENCLOSED = ("-ivfsoverlay", "files.yaml")


def _enclose(folder: Path, names: Iterable[str]) -> None:
    """Write what ENCLOSED names for a folder with the files `names`."""
    root = os.path.realpath(folder)
    files = [{"name": n, "type": "file", "external-contents": f"{root}/{n}"} for n in names]
    told = {
        "version": 0, "case-sensitive": True, "use-external-names": False,
        "redirecting-with": "redirect-only",
        "roots": [{"name": root, "type": "directory", "contents": files}],
    }  # fmt: skip
    (folder / ENCLOSED[1]).write_text(json.dumps(told))


# The assembler has no such limits: it is not given text that may make it read a file. A macro may
# put the name of a directive together from its arguments.
_READS = re.compile(r"\.(?:include|incbin)\b", re.I)
_MADE_DIRECTIVE = re.compile(r"^[ \t]*(?:[\w.$]+:[ \t]*)?(\.i?\w*)?\\", re.I | re.M)
_PIECE = re.compile(
    r"(?<![\w.$])\.(?:i|in|inc|incb|incbi|incl|inclu|includ)?(?![\w.$]|[ \t]*[-+*/)])", re.I
)


def check_reads_nothing(text: str, place: str) -> None:
    """Refuse assembly text that reads other files, or may do so.

    Raises:
        UsageError: it has such a directive.
    """
    found = _READS.search(text)
    pieces = _PIECE.search(text)
    for made in _MADE_DIRECTIVE.finditer(text):
        if not found and (pieces or made[1] in (".", ".i", ".in", ".inc")):
            found = made
    if found:
        line = text.count("\n", 0, found.end()) + 1
        said = one_line(text.split("\n")[line - 1].strip())[:80]
        fact = f"line {line} of its assembly may read another file ({said})"
        raise UsageError(f"{place}: {fact}; put the text itself there")


def own_assembly(
    source: str | bytes, flags: Sequence[str], file: str, place: str,
    edits: Sequence[tuple[str, str]] = (),
) -> str:  # fmt: skip
    """AMDGPU assembly text of a user's source; `file` is what its lines say they are of; `edits`
    are patterns of LLVM's language, ahead of all passes, and what stands in their place.

    Raises:
        UsageError: the compiler does not accept it; with the first line that it says.
    """
    text = source if isinstance(source, str) else ""
    flags = (*flags, *ENCLOSED)
    with _folder({file: source.encode() if isinstance(source, str) else source}) as folder:
        _enclose(folder, [file])
        if edits:
            ahead = ("-emit-llvm", "-Xclang", "-disable-llvm-passes")
            words = (*flags, *ahead, "-S", file, "-o", "kernel.ll")
            done = _started(folder, "clang", *words, place=place)
            if not done.returncode:
                made = folder / "kernel.ll"
                ahead_of_passes = made.read_text()
                for pattern, instead in edits:
                    ahead_of_passes = re.sub(pattern, instead, ahead_of_passes)
                made.write_text(ahead_of_passes)
                (arch,) = [f.partition("=")[2] for f in flags if f.startswith(_ARCHES)]
                telling = _TOLD if set(_TOLD) <= set(flags) else ()
                words = (*_text_flags(arch), *telling, "-S", "kernel.ll", "-o", "kernel.s")
                done = _started(folder, "clang", *words, place=place)
        else:
            done = _started(folder, "clang", *flags, "-S", file, "-o", "kernel.s", place=place)
        if done.returncode:
            raise UsageError(_own_error(done, file, place, text))
        made_text = (folder / "kernel.s").read_text()
    check_reads_nothing(made_text, place)
    return aligned(made_text, done.stderr) if set(_TOLD) <= set(flags) else made_text


# clang keeps what is volatile behind generic addresses, where LDS and memory are one; relaxed
# atomic accesses, of the types that they may have, happen each time too, and it finds out what they
# access.
VOLATILE = (
    r"\b(load|store) volatile ((?:i8|i16|i32|i64|half|float|double|ptr)\b[^\n]*?)"
    r", align (1|2|4|8)\b",
    r'\1 atomic \2 syncscope("agent") monotonic, align \3',
)
# Multiply-adds of these types stay two instructions: MGPUSim has no fused ones.
_UNFUSED = r"(?:<\d+ x )?(?:double|half)\b>?"
_OPERAND = r"(<[^>]*>|splat \([^)]*\)|[^\s,()]+)"
SEPARATE = (
    (rf"\bcontract ({_UNFUSED})", r"\1"),
    (
        rf"%(\S+) = call ({_UNFUSED}) @llvm\.fmuladd\.\w+\({_UNFUSED} {_OPERAND}, "
        rf"{_UNFUSED} {_OPERAND}, {_UNFUSED} {_OPERAND}\)[^\n]*",
        r"%product.\1 = fmul \2 \3, \4\n  %\1 = fadd \2 %product.\1, \5",
    ),
)
_ARCHES = ("--offload-arch=", "-mcpu=")


def _text_flags(arch: str) -> tuple[str, ...]:
    """What a user's source that clang has put into LLVM's language is compiled with."""
    at = DEVICE_FLAGS.index("-O3")
    common = [flag for flag in DEVICE_FLAGS[at:] if not flag.startswith("-W")]
    return ("-x", "ir", f"--target={AMD_TARGET}", f"-mcpu={arch}", "-nogpulib", *common, "-w")


def assemble_foreign(text: str, arch: str, place: str) -> bytes:
    """A linked AMDGPU code object of assembly text that a user has, with line tables.

    Raises:
        UsageError: the assembler does not accept it; with the first line that it says.
    """
    check_reads_nothing(text, place)
    lines = () if re.search(r"^\s*\.(file|loc)\b", text, re.M) else ("-g",)
    with _folder({"input.s": text.encode()}) as folder:
        done = _started(
            folder, "clang", f"--target={AMD_TARGET}", f"-mcpu={arch}", *lines, "-c", "input.s",
            "-o", "input.o", place=place,
        )  # fmt: skip
        if done.returncode:
            raise UsageError(_first_error(done, "input.s", place))
        linked = _started(folder, "ld.lld", "-shared", "input.o", "-o", "input.co", place=place)
        if linked.returncode:
            raise UsageError(_first_error(linked, "input.o", place))
        return (folder / "input.co").read_bytes()


def _own_error(done: subprocess.CompletedProcess[str], file: str, place: str, source: str) -> str:
    """The first error in a user's source, whose lines may be of several files."""
    found = re.search(r"^([^\s:][^:\n]*):(\d+):\d+: (?:fatal )?error: (.*)$", done.stderr, re.M)
    if not found:
        return _first_error(done, file, place)
    said = lacking.message(found[3], source)
    return f"{place if found[1] == file else found[1]}:{found[2]}: {said}"


def _first_error(done: subprocess.CompletedProcess[str], name: str, place: str) -> str:
    """What a compiler said first about a file of a user, as a message."""
    found = re.search(rf"^{re.escape(name)}:(\d+):\d+: (?:fatal )?error: (.*)$", done.stderr, re.M)
    if found:
        return f"{place}:{found[1]}: {found[2]}; correct it"
    first = next(iter(done.stderr.strip().splitlines()), "it said nothing")
    return f"{place}: the compiler does not accept it ({first}); correct it"


def compile_device(source: str, arch: str) -> bytes:
    """A linked AMDGPU code object from self-contained HIP text, with nothing in between."""
    return assemble(assembly(source, arch), arch)


def host_object(files: Mapping[str, bytes], main: str, flags: Sequence[str]) -> bytes:
    """What a program of `compile_host` can be linked with, from `main`, one of `files`."""
    with _folder(files) as folder:
        _run(folder, "clang", *HOST_FLAGS, *flags, "-c", main, "-o", "main.o")
        return (folder / "main.o").read_bytes()


def compile_host(
    files: Mapping[str, bytes], main: str, flags: Sequence[str], beside: bytes = b""
) -> bytes:
    """A static x86-64 Linux program from `main`, one of `files`, and an object `beside` it (none:
    empty), without a C library.

    With ENCLOSED among the flags, a user's text is in it.
    """
    with _folder(files) as folder:
        if set(ENCLOSED) <= set(flags):
            _enclose(folder, files)
            # LLVM's own assembler would read at once what inline assembly names.
            text = ("-fno-integrated-as", "-S", main, "-o", "main.s")
            _run(folder, "clang", *HOST_FLAGS, *flags, *text)
            check_reads_nothing((folder / "main.s").read_text(), "host")
            _run(folder, "clang", HOST_FLAGS[0], "-c", "main.s", "-o", "main.o")
        else:
            _run(folder, "clang", *HOST_FLAGS, *flags, "-c", main, "-o", "main.o")
        others = ("beside.o",) if beside else ()
        if beside:
            (folder / "beside.o").write_bytes(beside)
        _run(
            folder, "ld.lld", "-static", "-z", "noexecstack", "--gc-sections",
            "-z", "noseparate-code", "main.o", *others, "-o", "main",
        )  # fmt: skip
        return (folder / "main").read_bytes()


def compile_dynamic(
    files: Mapping[str, bytes],
    main: str,
    flags: Sequence[str],
    libraries: Mapping[str, Sequence[str]],
) -> bytes:
    """A dynamically linked x86-64 Linux program from `main`, one of `files`.

    `libraries` holds the functions that it calls by the library's name (SONAME). It is linked to
    empty libraries of these names: none needs to be here, and with no version of a function
    asked for, any version of the library will do.
    """
    with _folder(files) as folder:
        _run(folder, "clang", *HOST_FLAGS, *flags, "-c", main, "-o", "main.o")
        for name, functions in libraries.items():
            stub = "".join(f"void {function}(void) {{}}\n" for function in functions)
            (folder / "stub.c").write_text(stub)
            _run(folder, "clang", *HOST_FLAGS, "-fpic", "-c", "stub.c", "-o", "stub.o")
            _run(folder, "ld.lld", "-shared", f"-soname={name}", "stub.o", "-o", name)
        _run(
            folder, "ld.lld", "-dynamic-linker", "/lib64/ld-linux-x86-64.so.2", "-z", "noexecstack",
            "--gc-sections", "-z", "noseparate-code", "main.o", *libraries, "-o", "main",
        )  # fmt: skip
        return (folder / "main").read_bytes()


@contextlib.contextmanager
def _folder(files: Mapping[str, bytes]) -> Iterator[Path]:
    """A temporary folder with `files` in it. Compilers run inside, so no path gets into outputs."""
    with scratch_folder("compile") as made:
        for name, content in files.items():
            (made / name).write_bytes(content)
        yield made


def _started(
    folder: Path, *command: str, place: str = "compiler"
) -> subprocess.CompletedProcess[str]:
    # Nothing of the caller's environment: CPATH and the like would change the output unseen.
    environment = {"PATH": os.defpath, "LC_ALL": "C", "TMPDIR": str(folder)}
    words = [*_words(command[0]), *command[1:]]
    return child.run(words, place, cwd=folder, env=environment)


def _run(folder: Path, *command: str) -> str:
    """Start a program that has to end well. Returns what it said."""
    done = _started(folder, *command)
    if done.returncode:
        raise RejectedError(
            done.stderr,
            f"{_first_mistake(folder, done.stderr)}\n"
            f"{' '.join(command)}\n{done.stdout}{done.stderr}".rstrip(),
        )
    return done.stderr


def _first_mistake(folder: Path, said: str) -> str:
    """The first error in what simgen has made: its template and line where they can be told."""
    found = re.search(r"^(?:\./)?([^\s:][^:\n]*):(\d+):\d+: (?:fatal )?error: (.*)$", said, re.M)
    if not found:
        return "compiler: does not accept what simgen has made; this is what it says:"
    place, number, fact = f"{found[1]}:{found[2]}", int(found[2]), found[3]
    templates = resources.folder("templates")
    with contextlib.suppress(OSError, IndexError):
        line = (folder / found[1]).read_text().splitlines()[number - 1]
        for path in sorted(templates.glob("kernels/**/*.h*")):
            lines = path.read_text().splitlines()
            if line in lines:
                place = f"templates/{path.relative_to(templates)}:{lines.index(line) + 1}"
                break
    cure = "correct it"
    if unknown := re.search(r"undeclared identifier '(\w+)'", fact):
        functions = re.findall(r"__forceinline__ \w+ ([a-z]\w*)\(", _prelude())
        cure = did_you_mean(unknown[1], functions)
        cure += "; docs/contributing/adding-a-layer.md lists more"
    return f"{place}: {fact}; {cure}"


def _prelude() -> str:
    folder = resources.folder("templates") / "prelude"
    return "".join((folder / name).read_text() for name in ("host.h", "common.h"))
