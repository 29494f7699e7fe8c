"""Sources -> code objects and programs, through the cache, several at a time."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from simgen import render, toolchain
from simgen.cache import Key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.cache import Cache


class Builder:
    """Compiles what is not in the cache yet."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    def code_objects(self, sources: Sequence[str], arch: str) -> list[bytes]:
        """A linked AMDGPU code object for each kernel source, in order."""
        workers = min(len(sources), os.cpu_count() or 1) or 1
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda source: self._code_object(source, arch), sources))

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

    def _code_object(self, source: str, arch: str) -> bytes:
        whole = render.self_contained(source)
        entry = re.search(r"__global__[^(]*(?:\([^)]*\))?\s*void\s+(\w+)", source)
        key = Key("code object")
        key.add("label", f"code object {arch} {entry[1] if entry else '?'}")
        key.add("compiler", toolchain.identity())
        key.add("flags", "\n".join(toolchain.DEVICE_FLAGS))
        key.add("arch", arch)
        key.add("source", whole)
        return self.cache.get_or_build(key, lambda: toolchain.compile_device(whole, arch))
