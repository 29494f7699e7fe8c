"""Sentences of pages and help texts are short, and begin with their subject."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simgen.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docker/README.md")
PAGES = [*(ROOT / name for name in NAMES), *sorted((ROOT / "docs").rglob("*.md"))]
WORDS = 40  # of a sentence, a list after a colon included; STYLE: 25
HELP_WORDS = 30
ODD = r"(of|whether|what|where|as|that|which)\b"  # first words of texts without a subject
KNOWN = {"AMD", "API", "CPU", "CSV", "CUDA", "GB", "GPU", "JSON", "MB", "NVIDIA", "README"}
FOREIGN = r"\b(foret(ell|old)\w*|mend(s|ed|ing)?|nobody|anybody|somebody|unlike|thereby)\b"


def blocks(page: str) -> Iterator[str]:
    """Paragraphs and items of lists; no tables, no code."""
    page = re.sub(r"^```.*?^```$|^ {4}[^\n]*$|^\|[^\n]*$", "", page, flags=re.M | re.S)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:- |\d+\. |: ))", page):
        yield " ".join(re.sub(r"^\s*(- |\d+\. |: |#+ )", "", block).split())


def sentences(text: str) -> Iterator[str]:
    """A span of code, and a link, count as what they show."""
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`x`", text))
    yield from re.split(r"(?<=[.!?])\s+", text)


def helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """Texts of a command, of its options, and of those below it."""
    if isinstance(command, click.Group):
        for each in command.list_commands(click.Context(command, **main.cli.context_settings)):
            found = command.get_command(click.Context(command, **main.cli.context_settings), each)
            assert found
            yield from helps(found, f"{name} {each}")
    for block in re.split(r"\n\s*\n", command.help or ""):
        if "\b" not in block:
            yield name, " ".join(block.split())
    for param in command.get_params(click.Context(command, **main.cli.context_settings)):
        if isinstance(param, click.Option):
            yield f"{name} {param.opts[0]}", (param.help or "").partition(" [")[0]


def test_no_sentence_of_a_page_is_long() -> None:
    long = [
        f"{page.relative_to(ROOT)}: {len(each.split())} words: {each}"
        for page in PAGES
        for block in blocks(page.read_text())
        for each in sentences(block)
        if len(each.split()) > WORDS
    ]
    assert not long, "\n".join(long)


def test_no_sentence_of_a_help_text_is_long() -> None:
    long = [
        f"{where}: {each}"
        for where, text in helps(main.cli, "simgen")
        for part in text.split("; ")
        for each in sentences(part)
        if len(each.split()) > HELP_WORDS
    ]
    assert not long, "\n".join(long)


def test_a_help_text_begins_with_its_subject_or_verb() -> None:
    odd = [
        f"{where}: {text}"
        for where, text in helps(main.cli, "simgen")
        if re.match(ODD, re.sub(r"^[\w, -]+: ", "", text), re.IGNORECASE)
    ]
    assert not odd, "\n".join(odd)


def test_pages_have_the_fields_words() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {match[0]}: {block}"
        for page in PAGES
        for block in blocks(page.read_text())
        for match in re.finditer(FOREIGN, block, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def test_the_glossary_has_the_abbreviations_that_pages_share() -> None:
    """Those of four pages or more, and every GPU that two name."""
    pages = {page: page.read_text() for page in PAGES if "contributing" not in str(page)}
    glossary = pages[ROOT / "docs/reference/index.md"].partition("```{glossary}")[2]
    where: dict[str, set[Path]] = {}
    for page, text in pages.items():
        plain = re.sub(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)", "", text, flags=re.M | re.S)
        for word in re.findall(r"\b(?:[A-Z]{2,}|L[12]|gfx\w+)\b", plain):
            where.setdefault(word, set()).add(page)
    shared = {
        word for word, found in where.items() if len(found) >= (2 if word[:3] == "gfx" else 4)
    }
    assert len(shared) > 15
    lacking = {word for word in shared if not re.search(rf"\b{word}\b", glossary)}
    assert lacking <= KNOWN, lacking - KNOWN


def test_the_list_of_commands_has_their_whole_first_sentences() -> None:
    context = click.Context(main.cli, **main.cli.context_settings)
    found = {each: main.cli.get_command(context, each) for each in main.cli.list_commands(context)}
    cut = [name for name, each in found.items() if each and "..." in each.get_short_help_str(64)]
    assert not cut
