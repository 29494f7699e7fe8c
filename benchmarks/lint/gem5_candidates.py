"""Lists what of gem5's log may be a row of data/history/gem5.json: commits that repair something.

    python benchmarks/lint/gem5_candidates.py CHECKOUT FROM TO > candidates.txt

FROM and TO are tags, such as v25.0 and v25.1. Of each commit: the first tag that has it, its id,
its title, and the instructions whose execution it changes. What is a row is decided by reading the
commit; gem5_tables.py, run for the tags beside it, must then say the same, which
tests/toolchain/test_gem5_history.py checks. What has a row is left out, and what was read and has
none (gem5_no_rows.txt).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOMS = (
    "src/arch/gcn3", "src/arch/vega", "src/arch/amdgpu", "src/gpu-compute", "src/dev/hsa",
    "src/mem/ruby/protocol/GPU_VIPER*", "src/mem/ruby/protocol/MOESI_AMD_Base-dir.sm",
    "src/mem/ruby/system/*GPU*", "src/mem/ruby/system/VIPER*", "configs/ruby/GPU_VIPER.py",
)  # fmt: skip
REPAIRS = re.compile(
    r"\b([Ff]ix\w*|[Bb]ug\w*|[Cc]orrect\w*|[Ii]ncorrect|[Ww]rong|deadlock|hang|stale|starvation|leak"
    r"|[Hh]andle|[Vv]alidate|[Rr]evert|[Pp]reserve|[Rr]emove .*asserts|[Mm]ake .* signed"
    r"|[Ii]nvalidate|[Ii]nvalidation|[Mm]ark|[Ff]ree|[Ss]elect proper|[Rr]ead)\b"
)
CHANGED = re.compile(r"^@@.*?(Inst_\w+)::(?:execute|completeAcc|initiateAcc)", re.M)
DATA = Path(__file__).parents[2] / "data"


def git(checkout: str, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=checkout, capture_output=True, check=True)
    return done.stdout.decode(errors="replace")


def known() -> set[str]:
    """The commits that have rows, or were read and are none."""
    rows = json.loads((DATA / "history" / "gem5.json").read_text())
    found = {row["commit"] for kind in ("instructions", "launches") for row in rows[kind]}
    none = (Path(__file__).parent / "gem5_no_rows.txt").read_text().splitlines()
    return found | {line.split()[0] for line in none if line and not line.startswith("#")}


def main() -> None:
    checkout, first, last = sys.argv[1:]
    shape = ("--no-merges", "--abbrev=10", "--format=%h %s")
    listed = git(checkout, "log", *shape, f"{first}..{last}", "--", *ROOMS)
    left_out = known() - {""}
    for line in listed.splitlines():
        commit, _, title = line.partition(" ")
        if commit in left_out or not REPAIRS.search(title):
            continue
        tags = git(checkout, "tag", "--contains", commit, "--sort=creatordate").split()
        shown = git(checkout, "show", "--format=", "-U20", commit)
        changed = sorted({found[1].partition("__")[2].lower() for found in CHANGED.finditer(shown)})
        print(tags[0] if tags else "-", commit, title, *changed[:12])


if __name__ == "__main__":
    main()
