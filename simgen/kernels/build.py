"""Sources -> what their stages make, through the cache, several at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.isa import child
from simgen.kernels import stages as stages_
from simgen.kernels.stages import SOURCE, Products, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simgen.kernels.cache import Cache


class Builder:
    """Compiles what is not in the cache yet."""

    linted: ClassVar[bool] = True  # whether machine code is looked at before it goes into a bundle

    def __init__(self, cache: Cache, progress: Callable[[int, int], None] | None = None) -> None:
        """`progress` is called with the kernels compiled and those to compile, for each target."""
        self.cache, self.progress = cache, progress

    def products(self, stages: Sequence[Stage], sources: Mapping[str, Any]) -> dict[str, Products]:
        """What the stages make of each source, by its name, in order.

        Raises:
            SimgenError: what a stage raises, for the first source that it does.
        """

        def one(source: Any) -> Products:
            made = {SOURCE: source}
            for stage in stages:
                source = made[stage.product] = stage.make(source, self.cache)
            return made

        found = {}
        workers = min(len(sources), os.cpu_count() or 1) or 1
        with child.pool(workers) as pool:
            for name, made in zip(sources, pool.map(one, sources.values()), strict=True):
                found[name] = made
                if self.progress:
                    self.progress(len(found), len(sources))
        return found

    def executable(
        self,
        files: Mapping[str, bytes],
        main: str,
        flags: Sequence[str],
        libraries: Mapping[str, Sequence[str]] | None = None,
        beside: bytes = b"",
    ) -> bytes:
        """An x86-64 program of files (`stages.x86`)."""
        made: Any = files
        for stage in stages_.x86(main, flags, libraries, beside):
            made = stage.make(made, self.cache)
        return bytes(made)

    def object(self, files: Mapping[str, bytes], main: str, flags: Sequence[str]) -> bytes:
        """What a program can be linked with, `beside` it."""
        return stages_.x86_object(files, main, flags, self.cache)
