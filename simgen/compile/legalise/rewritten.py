"""What a rewriting leaves: assembly text, and what it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping  # noqa: TC003 - of a dataclass
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Legalised:
    """Assembly text after a rewriting, and what it took."""

    text: str
    instructions: int = 0  # that it had before; 0 where nobody counted
    replaced: Mapping[str, int] = field(default_factory=dict)  # of those, by mnemonic
    added: int = 0  # instructions that it has more than before
    emulated: Mapping[str, str] = field(default_factory=dict)
    # mnemonic -> why what stands for it is right in emulation only

    def then(self, after: Legalised) -> Legalised:
        """Both as one, where `after` was made of this text."""
        return Legalised(
            after.text,
            self.instructions or after.instructions,
            dict(Counter(self.replaced) + Counter(after.replaced)),
            self.added + after.added,
            {**self.emulated, **after.emulated},
        )
