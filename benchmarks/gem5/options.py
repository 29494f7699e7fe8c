"""Which options apu_se.py and gem5 itself have, by version, from gem5's sources.

    python benchmarks/gem5/options.py CHECKOUT VERSION=TAG...

writes data/gem5_options.json: option -> the first version that has it and the last one ("" where
the last version still has it), "+" behind those that take no value. A git history is all that is
needed. Versions are given oldest first.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Where apu_se.py takes its options from; of common/Options.py, all but those of full systems.
FILES = (
    "configs/example/apu_se.py", "configs/common/Options.py", "configs/common/GPUTLBOptions.py",
    "configs/ruby/Ruby.py", "configs/ruby/GPU_VIPER.py", "configs/network/Network.py",
)  # fmt: skip
OWN = "src/python/m5/main.py"
OTHER = ("addFSOptions",)  # functions that apu_se.py does not call
ADDS = ("add_argument", "add_option")
WITHOUT = ("store_true", "store_false", "help", "count", "store_const")


def text(checkout: str, tag: str, path: str) -> str:
    done = subprocess.run(
        ["git", "-C", checkout, "show", f"{tag}:{path}"], capture_output=True, text=True
    )
    return done.stdout


def options(source: str, names: tuple[str, ...]) -> dict[str, bool]:
    """Option -> whether it takes a value."""
    found: dict[str, bool] = {}
    # Python 2 was gem5's language until 21.0; its print statements are no Python of today.
    tree = ast.parse(re.sub(r"^(\s*)print [^(].*$", r"\1pass", source, flags=re.MULTILINE))
    skipped = {
        id(node)
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and each.name in OTHER
        for node in ast.walk(each)
    }
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if called not in names or id(node) in skipped:
            continue
        words = [each.value for each in node.args if isinstance(each, ast.Constant)]
        actions = [each.value for each in node.keywords if each.arg == "action"]
        action = next((a.value for a in actions if isinstance(a, ast.Constant)), "store")
        for word in words:
            if isinstance(word, str) and word.startswith("-"):
                found[word] = action not in WITHOUT
    return found


def main(checkout: str, *versions: str) -> None:
    table: dict[str, dict[str, list[str]]] = {"apu_se": {}, "gem5": {}}
    names = [each.partition("=")[0] for each in versions]
    for at, (version, _, tag) in enumerate(each.partition("=") for each in versions):
        of_script: dict[str, bool] = {"-h": False, "--help": False}
        for path in FILES:
            of_script |= options(text(checkout, tag, path), ADDS)
        own = options(text(checkout, tag, OWN), ("option",))
        for group, found in (("apu_se", of_script), ("gem5", own)):
            for option, takes in found.items():
                word = option if takes else f"{option}+"
                first, last = table[group].get(word, [version, ""])
                if last not in ("", names[at - 1]):
                    first = version  # it was gone in between
                table[group][word] = [first, version]
    for group in table.values():
        for word, (first, last) in group.items():
            group[word] = [first, "" if last == names[-1] else last]
    rows = [
        f' "{group}": {{\n'
        + ",\n".join(f"  {json.dumps(w)}: {json.dumps(group_[w])}" for w in sorted(group_))
        + "\n }"
        for group, group_ in table.items()
    ]
    (ROOT / "data" / "gem5_options.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
