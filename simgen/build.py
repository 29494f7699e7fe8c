"""Sources -> code objects and programs, through the cache, several at a time."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from simgen import render, toolchain
from simgen.cache import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simgen.cache import Cache


class Builder:
    """Compiles what is not in the cache yet."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

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

        workers = min(len(sources), os.cpu_count() or 1) or 1
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, sources))

    def executable(self, files: Mapping[str, bytes], main: str, flags: Sequence[str]) -> bytes:
        """A static x86-64 program of `main`, one of `files`; the others it includes or embeds."""
        key = Key("x86-64 program")
        key.add("label", f"program {main}")
        key.add("compiler", toolchain.identity())
        key.add("flags", "\n".join((*toolchain.HOST_FLAGS, *flags)))
        for name in sorted(files):
            content = files[name]
            key.add(name, content if b"\0" in content else content.decode())
        return self.cache.get_or_build(key, lambda: toolchain.compile_host(files, main, flags))

    def _assembly(self, source: str, arch: str) -> str:
        whole = render.self_contained(source)
        entry = re.search(r"__global__[^(]*(?:\([^)]*\))?\s*void\s+(\w+)", source)
        key = Key("assembly")
        key.add("label", f"assembly {arch} {entry[1] if entry else '?'}")
        key.add("compiler", toolchain.identity())
        key.add("flags", "\n".join(toolchain.DEVICE_FLAGS))
        key.add("arch", arch)
        key.add("source", whole)
        build = self.cache.get_or_build
        return build(key, lambda: toolchain.assembly(whole, arch).encode()).decode()

    def _code_object(self, text: str, arch: str) -> bytes:
        entry = re.search(r"^\s*\.amdhsa_kernel\s+(\w+)", text, re.MULTILINE)
        key = Key("code object")
        key.add("label", f"code object {arch} {entry[1] if entry else '?'}")
        key.add("compiler", toolchain.identity())
        key.add("flags", "\n".join(toolchain.ASSEMBLER_FLAGS))
        key.add("arch", arch)
        key.add("assembly", text)
        return self.cache.get_or_build(key, lambda: toolchain.assemble(text, arch))
