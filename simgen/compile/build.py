"""Sources -> code objects and programs, through the cache, several at a time."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from simgen.compile import render, toolchain
from simgen.compile.cache import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simgen.compile.cache import Cache

_MACRO = r"^#define KERNEL (\w+)$"
_ENTRY = r"__global__[^(]*(?:\([^)]*\))?\s*void\s+(\w+)"


class Builder:
    """Compiles what is not in the cache yet."""

    def __init__(self, cache: Cache, progress: Callable[[int, int], None] | None = None) -> None:
        """`progress` is called with the kernels compiled and those to compile, for each target."""
        self.cache, self.progress = cache, progress

    def code_objects(
        self,
        sources: Sequence[str],
        arch: str,
        rewrite: Callable[[str], str] | None = None,
    ) -> list[bytes]:
        """A linked AMDGPU code object for each kernel source, in order.

        `rewrite` gets the assembly text of each and returns what is assembled in its place.
        """

        def one(source: str) -> bytes:
            text = self._assembly(source, arch)
            return self._code_object(rewrite(text) if rewrite else text, arch)

        made = []
        workers = min(len(sources), os.cpu_count() or 1) or 1
        with ThreadPoolExecutor(workers) as pool:
            for linked in pool.map(one, sources):
                made.append(linked)
                if self.progress:
                    self.progress(len(made), len(sources))
        return made

    def executable(
        self,
        files: Mapping[str, bytes],
        main: str,
        flags: Sequence[str],
        libraries: Mapping[str, Sequence[str]] | None = None,
    ) -> bytes:
        """An x86-64 program of `main`, one of `files`; the others it includes or embeds.

        It is static, or linked dynamically to `libraries` (`toolchain.compile_dynamic`).
        """
        key = Key("x86-64 program")
        key.add("label", f"program {main}")
        key.add("compiler", toolchain.identity())
        key.add("flags", "\n".join((*toolchain.HOST_FLAGS, *flags)))
        for name in sorted(files):
            content = files[name]
            key.add(name, content if b"\0" in content else content.decode())
        if libraries is None:
            return self.cache.get_or_build(key, lambda: toolchain.compile_host(files, main, flags))
        key.add("libraries", "\n".join(f"{n}: {' '.join(f)}" for n, f in libraries.items()))
        return self.cache.get_or_build(
            key, lambda: toolchain.compile_dynamic(files, main, flags, libraries)
        )

    def _assembly(self, source: str, arch: str) -> str:
        whole = render.self_contained(source)
        entry = re.search(_MACRO, source, re.M) or re.search(_ENTRY, source)
        key = _device_key("assembly", entry, toolchain.DEVICE_FLAGS, arch)
        key.add("source", whole)
        build = self.cache.get_or_build
        return build(key, lambda: toolchain.assembly(whole, arch).encode()).decode()

    def _code_object(self, text: str, arch: str) -> bytes:
        entry = re.search(r"^\s*\.amdhsa_kernel\s+(\w+)", text, re.MULTILINE)
        key = _device_key("code object", entry, toolchain.ASSEMBLER_FLAGS, arch)
        key.add("assembly", text)
        return self.cache.get_or_build(key, lambda: toolchain.assemble(text, arch))


def _device_key(kind: str, entry: re.Match[str] | None, flags: Sequence[str], arch: str) -> Key:
    """The key of what is made for a GPU, but for what it is made from; `entry` tells the kernel."""
    key = Key(kind)
    key.add("label", f"{kind} {arch} {entry[1] if entry else '?'}")
    key.add("compiler", toolchain.identity())
    key.add("flags", "\n".join(flags))
    key.add("arch", arch)
    return key
