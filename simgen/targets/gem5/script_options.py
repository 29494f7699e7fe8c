"""Which options apu_se.py and gem5 itself have, and which of them a bundle sets.

data/gem5_options.json has them by version (benchmarks/gem5/options.py). argparse takes the
beginning of an option for the option where it is the only one that begins so: `--num-compute=8`
sets the compute units too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from simgen.errors import printable
from simgen.ground import resources
from simgen.ground.storage.files import read_regular
from simgen.ground.storage.schema import from_json, parse

MAX_NBYTES = 1 << 20  # size limit of the table
SCRIPT, OWN = "apu_se", "gem5"  # owners of options
STATISTICS = "--stats-file"
# Options with which gem5 prints and ends, waits for a person, or writes where simgen reads.
UNUSABLE = {
    **dict.fromkeys(
        ("--help", "-h", "--build-info", "-B", "--copyright", "-C", "--readme", "-R",
         "--debug-help", "--stats-help", "--list-sim-objects"),
        "gem5 prints it and ends; start gem5 by yourself for it",
    ),
    **dict.fromkeys(("--interactive", "-i", "--pdb"), "it waits for a keyboard; leave it out"),
    **dict.fromkeys(
        ("--outdir", "-d", "--redirect-stdout", "-r", "--redirect-stderr", "-e", "--stdout-file",
         "--stderr-file", "--silent-redirect"),
        "simgen reads what gem5 writes; leave it out",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ScriptOption:
    """An option, the versions that have it, and whether it takes a value."""

    first: str
    last: str  # empty: the newest one still has it
    takes_value: bool

    def is_in(self, version: str) -> bool:
        if not version[:1].isdigit():  # develop
            return not self.last
        return self.first <= version and (not self.last or version <= self.last)


@cache
def options(group: str) -> Mapping[str, ScriptOption]:
    """Name, with its dashes -> option, of any version."""
    content = read_regular(resources.folder("data") / "gem5_options.json", MAX_NBYTES)
    found = from_json(dict[str, dict[str, tuple[str, str]]], parse(content))[group]
    return {
        word.removesuffix("+"): ScriptOption(first, last, not word.endswith("+"))
        for word, (first, last) in found.items()
    }


def names(group: str, version: str) -> list[str]:
    """The options of one version."""
    return [name for name, each in options(group).items() if each.is_in(version)]


def goes_before_the_script(word: str) -> bool:
    """Whether an option is gem5's own and not one of apu_se.py."""
    return word in options(OWN) and word not in options(SCRIPT)


def is_known(word: str) -> bool:
    """Whether any version of gem5 has this option."""
    return word in options(SCRIPT) or word in options(OWN)


def abbreviated(word: str, own: Iterable[str], script: Iterable[str]) -> str:
    """The option of gem5 itself that `word` is the beginning of, and of no option of the script:
    gem5 would not read it there, behind the script. Empty: it is none."""
    if len(word) < 3 or not word.startswith("--") or any(each.startswith(word) for each in script):
        return ""
    return next((each for each in own if each != word and each.startswith(word)), "")


def set_by(word: str, taken: Mapping[str, str], whole: Mapping[str, object]) -> str:
    """The option of `taken` that argparse reads `word` as; empty: none.

    Parameters:
        whole: options of the script, which stand for themselves.
    """
    if word in taken:
        return word
    if word.startswith("--"):
        if word in whole:
            return ""
        return next((each for each in taken if len(word) > 2 and each.startswith(word)), "")
    return word[:2] if word[:2] in taken else ""


def fault(text: str, taken: Mapping[str, str]) -> str:
    """Why `text`, OPTION or OPTION=VALUE, cannot be passed on ("fact; cure"); empty: it can.

    Parameters:
        taken: options that a bundle sets itself -> what to do in their place.
    """
    word, equals, value = text.partition("=")
    if goes_before_the_script(word):
        if word in UNUSABLE:
            return f"{printable(text)}: {UNUSABLE[word]}"
    elif set_ := set_by(word, taken, options(SCRIPT)):
        short = f", which {word} abbreviates" if set_ not in (word, word[:2]) else ""
        return f"{printable(text)}: simgen sets {set_}{short}; {taken[set_]}"
    if long := abbreviated(word, options(OWN), options(SCRIPT)):
        return f"{printable(text)}: abbreviates {long} of gem5 itself; write {long}{equals}{value}"
    known = options(OWN if goes_before_the_script(word) else SCRIPT).get(word)
    if known and known.takes_value and not equals:
        return f"{printable(text)}: it takes a value; write {word}=VALUE"
    if known and equals and not known.takes_value:
        return f"{printable(text)}: it takes no value; write {word}"
    return ""
