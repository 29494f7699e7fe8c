"""Functions of Triton: compiled by the `triton` package, for a GPU that need not be here.

The package's compiler runs in a program of its own (templates/own/triton_program.py): it executes
the file of the function. What it makes for an AMD GPU, in LLVM's language, is compiled by the clang
that all kernels are compiled by, with flags for simulators that Triton's own LLVM has no way to be
given, and goes the same way. Behind a function's own arguments its kernel takes addresses of memory
that Triton's launcher would give it: none is needed, or the function is refused.

Sources: python/triton/compiler/compiler.py and third_party/amd/backend/{compiler,driver}.py of
Triton.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.ask.choice import spelled
from simgen.errors import MissingError, RefusedError, UsageError, one_line
from simgen.ground import resources
from simgen.ground.storage.files import scratch_folder
from simgen.ground.storage.schema import SchemaError, parse
from simgen.isa import child, toolchain
from simgen.kernels.cache import Cache, Key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.ground.ir import OwnSource

# Versions that kernels were compiled with. LLVM's text of 3.8 has numbers that clang does not read,
# and it leaves no bits.
KNOWN = ((3, 4), (3, 5), (3, 6), (3, 7), (3, 9))
# architectures that it compiles for, with warps of 64 lanes
ARCHS = ("gfx908", "gfx90a", "gfx942", "gfx950")
LANES = 64
MOST_LDS = 2**16
# Environment variables that locate Python's packages and their libraries. Others are removed: they
# may change what is compiled, and the executed file is a user's.
KEPT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
INSTALL = "install it: python -m pip install 'triton>=3.4,!=3.8.*,<3.10'"
PROGRAM = Path("own") / "triton_program.py"
FILE = "source.py"
_ARGUMENTS = re.compile(r"(?<=^    \.args:\n)(?:      .*\n)+", re.M)
_KIND = re.compile(r"^(        \.value_kind: +)(?!hidden_)\S+", re.M)


# Products and sums: Triton's option enable_fp_fusion lets its last passes fuse them all.
_SEPARATE = re.compile(rb"(= f(?:mul|add|sub|neg) )(?!(?:\w+ )*?(?:contract|fast) )")


def version() -> str:
    """Version of the package.

    Raises:
        MissingError: it is not here, or another one than simgen knows.
    """
    try:
        found = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise MissingError(f"triton: the package is not installed; {INSTALL}") from None
    numbers = tuple(int(each) for each in re.findall(r"\d+", found)[:2])
    if numbers not in KNOWN:
        known = ", ".join(".".join(map(str, each)) for each in KNOWN)
        fact = f"version {one_line(found)} is here, and simgen knows {known}"
        raise MissingError(f"triton: {fact}; {INSTALL}")
    return found


def assembly(
    own: OwnSource, arch: str, place: str, cache: Cache, *, matrix: bool = True,
    keeps: bool = False, gem5: bool = False, rounded: bool = False,
) -> tuple[str, bool]:  # fmt: skip
    """Assembly text of a Triton function by clang, and whether its multiply-adds are fused where
    the function does not demand it; with `matrix`, `tl.dot` may be instructions for matrices;
    `keeps`, `gem5` and `rounded` as `own.assembly`.

    Raises:
        MissingError: there is no Triton.
        UsageError: it does not compile.
        RefusedError: Triton has nothing for the processor, or the function needs what no launcher
            of ours gives.
    """
    if arch not in ARCHS:
        raise RefusedError(
            f"{place}: Triton compiles nothing for {arch}; build with {spelled('arch')} gfx942 "
            f"(Triton has {', '.join(ARCHS)})"
        )
    made = _compiled(own, "hip", arch, LANES, "llir", place, cache, matrix=matrix)
    assert own.triton is not None
    if made["lds_nbytes"] > MOST_LDS:
        raise RefusedError(
            f"{place}: it takes {made['lds_nbytes']} bytes of LDS, and a work-group has {MOST_LDS};"
            " make its blocks or num_stages smaller"
        )
    if any(made["scratch_nbytes"]) or made["warps"] != own.triton.warps:
        raise RefusedError(
            f"{place}: it needs memory or warps beside those of the launch, which Triton's own "
            "launcher gives; leave tensor descriptors and warp specialisation out"
        )
    taken = sum(kind != "constexpr" for _, kind in own.triton.signature)
    code = base64.b64decode(made["content"])
    more = toolchain.VECTOR_LOADS if keeps else ()
    more = (*more, *(toolchain.ALIGNED_FLAGS if gem5 else ()))
    fused = not own.contract and not (rounded and b"@llvm.fma." in code)
    if fused:
        code = _SEPARATE.sub(rb"\1contract ", code)
    return of_llvm(code, arch, own.entry, made["lds_nbytes"], taken, place, cache, more), fused


def of_llvm(
    code: bytes, arch: str, entry: str, lds_nbytes: int, taken: int, place: str, cache: Cache,
    more: Sequence[str] = (),
) -> str:  # fmt: skip
    """Assembly text by clang of what Triton made in LLVM's language, as text or bits: with the LDS
    that it asks for, and of the kernel's arguments the first `taken` in use."""
    flags = (*toolchain.llvm_flags(arch), *more)
    key = Key("triton assembly")
    key.add("label", f"triton assembly {arch} {entry}")
    key.add("compiler", toolchain.identity())
    key.add("flags", "\n".join(flags))
    key.add("source", hashlib.sha256(code).hexdigest())
    text = cache.get_or_build(
        key, lambda: toolchain.own_assembly(code, flags, "source.ll", place).encode()
    ).decode()
    return with_its_own(text, lds_nbytes, taken)


def with_its_own(text: str, lds_nbytes: int, taken: int) -> str:
    """Text of clang in which the kernel has the LDS that Triton's launcher asks for, and of whose
    arguments those behind the first `taken` are empty."""
    text = re.sub(r"(group_segment_fixed_size:? +)\d+", rf"\g<1>{lds_nbytes}", text)

    def emptied(match: re.Match[str]) -> str:
        first, *entries = re.split(r"^(?=      - )", match[0], flags=re.M)
        own, behind = entries[:taken], entries[taken:]
        return "".join([first, *own, *(_KIND.sub(r"\1hidden_none", each) for each in behind)])

    return _ARGUMENTS.sub(emptied, text)


def _compiled(
    own: OwnSource, backend: str, arch: str, lanes: int, text: str, place: str, cache: Cache,
    *, matrix: bool,
) -> dict[str, Any]:  # fmt: skip
    """What Triton makes: the `content` in a language, and what a launch of it takes."""
    build = own.triton
    assert build is not None
    program = (resources.folder("templates") / PROGRAM).read_text()
    request = {
        "file": FILE, "entry": own.entry, "signature": build.signature,
        "constants": build.constants, "multiples": build.multiples, "warps": build.warps,
        "stages": build.stages, "backend": backend, "arch": arch, "lanes": lanes, "text": text,
        "matrix": matrix, "fusion": not own.contract,
    }  # fmt: skip
    key = Key("triton")
    key.add("label", f"triton {arch} {own.entry}")
    key.add("version", version())
    key.add("program", program)
    key.add("request", json.dumps(request))
    key.add("source", own.text)

    def run() -> bytes:
        return _run(program, request, own.text, place)

    try:
        made: dict[str, Any] = parse(cache.get_or_build(key, run))
    except SchemaError:
        raise UsageError(f"{place}: Triton's reply cannot be read; {INSTALL}") from None
    return made


def _run(program: str, request: dict[str, Any], source: str, place: str) -> bytes:
    """The reply to a request, which is none of an error.

    Raises:
        UsageError: the function does not compile, or takes more than a compiler may.
    """
    with scratch_folder("triton") as folder:
        (folder / "program.py").write_text(program)
        (folder / FILE).write_text(source)
        (folder / "request.json").write_text(json.dumps(request))
        words = [sys.executable, "-P", str(folder / "program.py"), str(folder)]
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        own = {"LC_ALL": "C.UTF-8", "TMPDIR": str(folder), "HOME": str(folder)}
        done = child.run(words, place, cwd=folder, env=kept | own)
        reply = folder / "reply.json"
        if not reply.is_file():
            said = [line for line in done.stderr.splitlines() if line.strip()]
            of_python = said and said[0].startswith("Traceback")
            fact = one_line(said[-1 if of_python else 0]) if said else "it says nothing"
            raise UsageError(
                f"{place}: Triton's compiler ends with {done.returncode} ({fact}); change the "
                "function, its constexprs or num_warps"
            )
        raw = reply.read_bytes()
        told = json.loads(raw)
        if "error" in told:
            at = f", line {told['line']}" if told["line"] else ""
            raise UsageError(f"{place}{at}: {_fact(told['error'], done.stderr)}; correct it")
        return raw


def _fact(said: str, errors: str) -> str:
    """What the compiler says, on a line; where that is that a pass failed, what the pass says."""
    if "PassManager" in said:
        found = re.search(r"error: (.*)", errors)
        said = found[1] if found else said
    return one_line(" ".join(said.split()))[:300].rstrip(".;")
