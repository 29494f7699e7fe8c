"""What launchers and scripts say when they stop: "place: fact; cure", as all of simgen does."""

from __future__ import annotations

import re

import pytest

from simgen.ground import resources

TEMPLATES = resources.folder("templates")
TEXT = r'"((?:[^"\\]|\\.)*)"'
# The calls that end a program with a message; what the first group matches holds its text.
CALLS = {
    "launchers/*.c*": rf"\bstop\(EXIT_\w+, [^;]*?,\s*({TEXT}(?:\s*(?:KNOWN|STATE_WORD|{TEXT}))*)\)",
    "launchers/*.h": rf"\bstop\(EXIT_\w+, [^;]*?,\s*({TEXT}(?:\s*{TEXT})*)\)",
    "launchers/mgpusim/*.go": rf"\bfail\(exit\w+,\s*({TEXT}(?:\s*\+\s*{TEXT})*)",
    "launchers/cuda_run.py": rf"\bstop\(\d, [^;]*?, (f?{TEXT})\)",
    "targets/*.j2": r'\bfail (?:\d|"\$class") (.*)',
}
# Whose cure comes from what is put into them.
FILLED = (
    "%s%s%s (%s); %s",
    "MGPUSim cannot",
    "; %s",
    "head -n 1",  # of a file that says why and what to do
    "$ended",
    "$deadlock",
    "the bundle sets $2; $3",
)
CURE = re.compile(r"; \S|\(known:|known: |KNOWN|\{BLOCKING\}")


def messages(files: str) -> list[tuple[str, str]]:
    return [
        (path.name, found[1])
        for path in sorted(TEMPLATES.glob(files))
        for found in re.finditer(CALLS[files], path.read_text())
    ]


@pytest.mark.parametrize(("files", "least"), [*zip(CALLS, (35, 8, 40, 8, 45), strict=True)])
def test_each_has_a_fact_and_a_cure(files: str, least: int) -> None:
    found = messages(files)
    assert len(found) >= least, "the calls are written in another way than this test reads"
    bare = [
        each
        for each in found
        if not CURE.search(each[1]) and not any(part in each[1] for part in FILLED)
    ]
    assert bare == []


@pytest.mark.parametrize("files", CALLS)
def test_none_asks_the_reader(files: str) -> None:
    assert [each for each in messages(files) if each[1].rstrip('"').endswith("?")] == []
