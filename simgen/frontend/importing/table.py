"""Operators of ONNX -> what makes layers of them; the files of this room fill it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.frontend.importing.draft import NodeSite

    Translator = Callable[[NodeSite], None]

OPERATORS: dict[str, Translator] = {}


def operator(*kinds: str) -> Callable[[Translator], Translator]:
    """Declares what translates nodes of these operators."""

    def declare(made: Translator) -> Translator:
        for kind in kinds:
            if kind in OPERATORS:
                raise RuntimeError(f"{kind} is translated twice")
            OPERATORS[kind] = made
        return made

    return declare
