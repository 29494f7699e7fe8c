"""Which simgen this is: the release, and the commit where it is not exactly a release.

    0.2.0                     a release: the commit with the tag v0.2.0
    0.2.0+g570782ae51         a commit after 0.2.0, or before its tag
    0.2.0+g570782ae51.dirty   the same, with changes that are in no commit

In a checkout, its commit is read, so that the version is that of the code that runs; commands that
execute something ask git for changes, too. Nothing else is needed: no tag and no earlier commit. A
package has what was found when it was built, and an archive of git has its commit in this file.
Hatchling reads this file by itself, so it imports nothing else.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

RELEASE = "0.2.0"
ARCHIVED = "$Format:%H %D$"  # git archive puts a commit and its tags here
DIGITS = 10  # a commit's, which are shown
BUILT = Path(__file__).resolve().parents[1] / "built-version"  # in a package
_ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def version(*, exactly: bool = False) -> str:
    """The version of this simgen. In a checkout, git tells `exactly` whether it is a release, and
    whether there are changes; without, no program is started, as commands promise that only read.
    """
    if (_ROOT / ".git").exists():
        return _of_checkout() if exactly else _of_files()
    if found := re.fullmatch(r"([0-9a-f]{40,64}) (.*)", ARCHIVED):
        tagged = f"tag: v{RELEASE}" in found[2].split(", ")
        return RELEASE if tagged else f"{RELEASE}+g{found[1][:DIGITS]}"
    try:
        return BUILT.read_text().strip()
    except OSError:
        return RELEASE


def _of_files() -> str:
    """What the files of git say of the commit of a checkout."""
    try:
        home = _ROOT / ".git"
        if home.is_file():  # a worktree
            home = (_ROOT / home.read_text().removeprefix("gitdir:").strip()).resolve()
        shared = home / "commondir"
        shared = (home / shared.read_text().strip()).resolve() if shared.exists() else home
        head = (home / "HEAD").read_text().strip()
        if head.startswith("ref:"):
            name = head.removeprefix("ref:").strip()
            packed = shared / "packed-refs"
            if (shared / name).exists():
                head = (shared / name).read_text().strip()
            else:
                lines = (line.split() for line in packed.read_text().splitlines())
                head = next(words[0] for words in lines if words[1:] == [name])
    except (OSError, StopIteration, ValueError):
        head = ""
    known = re.fullmatch(r"[0-9a-f]{40,64}", head)
    return f"{RELEASE}+{f'g{head[:DIGITS]}' if known else 'unknown'}"


def _of_checkout() -> str:
    import subprocess

    command = (
        "git", "describe", "--always", "--dirty", "--long", f"--abbrev={DIGITS}",
        "--tags", f"--match=v{RELEASE}",
    )  # fmt: skip
    # A hook of git has these set for another repository.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        told = subprocess.run(
            command, cwd=_ROOT, env=kept, capture_output=True, text=True, timeout=30, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return _of_files()  # there is no git, or it refuses another user's folder
    pattern = r"(?:v.*-(?P<since>\d+)-g)?(?P<commit>[0-9a-f]+)(?P<dirty>-dirty)?"
    found = re.fullmatch(pattern, told)
    if found is None:
        return f"{RELEASE}+unknown"
    if found["since"] == "0" and not found["dirty"]:
        return RELEASE
    return f"{RELEASE}+g{found['commit'][:DIGITS]}{'.dirty' if found['dirty'] else ''}"
