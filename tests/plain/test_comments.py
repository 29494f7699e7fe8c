"""Comments and docstrings stand by themselves: none begins as the end of another sentence."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simgen", "simgen_examine", "simgen_rocm")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
HANGING = ("of", "that", "those", "whose", "and")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Comments and docstrings of a file, each with its line; a comment of several lines is one."""
    last = 0
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type != tokenize.COMMENT:
                continue
            alone = token.line.lstrip().startswith("#")
            if not alone or token.start[0] != last + 1:
                yield token.start[0], token.string.lstrip("#: ")
            last = token.start[0] if alone else 0
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def test_no_text_hangs_on_the_line_before() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "templates" not in path.parts  # their comments are part of generated texts
        for line, text in texts(path)
        if text.partition(" ")[0].lower() in HANGING
    ]
    assert not found, "\n".join(found)
