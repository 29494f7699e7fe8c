"""What a rewriting leaves: assembly text, and what it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


def _is_instruction(line: str) -> bool:
    return line.startswith("\t") and not line.startswith("\t.")


@dataclass(frozen=True)
class Legalised:
    """Assembly text after a rewriting, and what it took."""

    text: str
    instructions: int = 0  # instructions before the rewriting; 0: not counted
    replaced: Mapping[str, int] = field(default_factory=dict)  # replaced instructions by mnemonic
    added: int = 0  # instructions that it has more than before
    emulated: Mapping[str, str] = field(default_factory=dict)
    # mnemonic -> why what stands for it is right in emulation only

    @classmethod
    def counted(cls, before: Sequence[str], lines: Sequence[str]) -> Legalised:
        """Count the changes of a text's lines, each of which may have become several."""
        replaced, added = Counter[str](), 0
        for old, new in zip(before, lines, strict=True):
            if new != old:
                replaced[old.split()[0]] += 1
                added += sum(map(_is_instruction, new.split("\n"))) - 1
        return cls("\n".join(lines), 0, dict(sorted(replaced.items())), added)

    def then(self, after: Legalised) -> Legalised:
        """Both as one, where `after` was made of this text."""
        return Legalised(
            after.text,
            self.instructions or after.instructions,
            dict(Counter(self.replaced) + Counter(after.replaced)),
            self.added + after.added,
            {**self.emulated, **after.emulated},
        )
