"""What a run of conform has found of a version of gem5, against its table in data/lint.

    GEM5=... simgen conform --on gem5-se --gem5-version 24.1 -o found
    python benchmarks/lint/compare.py found 24.1 gfx902

Prints each instruction of which the two disagree: one of which conform found something that the
table does not tell, and one of which the table tells something and conform found nothing. What
other rewritings mend (`simgen/isa/legalise/gem5.py`), and loads across two lines, which lint
finds by their offsets, are left out. A row that is left is a finding of its own, or is wrong.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from simgen.isa.legalise import facts
from simgen.isa.legalise.gem5 import HALF

# Told otherwise than by their names: see above.
ELSEWHERE = re.compile(
    r"ds_(read|write)_b96\Z|s_load_dword(x\d+)?\Z|(flat|global)_load_(dword(x\d)?|ushort)\Z|v_\w+_dpp\Z"
)


def main() -> None:
    folder, version, arch = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    table = facts.table(facts.GEM5, version, arch)
    if table is None:
        raise SystemExit(f"gem5 {version} has no table for {arch}")
    (found,) = json.loads((folder / "lint.json").read_text())["tables"]
    told = {*table.wrong, *table.edges, *table.notes, *table.ends, *table.no_form, *table.no_scalar}
    for kind in ("wrong", "edges"):
        for word, reason in found[kind].items():
            if word not in told and not HALF.match(word) and not ELSEWHERE.match(word):
                print(f"{kind:6} {word}: {reason}")
    for word in found["ends"]:
        if word not in told:
            print(f"ends   {word}")
    seen: dict[str, set[str]] = {}
    for form in json.loads((folder / "findings.json").read_text())["forms"]:
        seen.setdefault(form["text"].split()[0], set()).add(form["finding"])
    for word, reason in sorted({**table.wrong, **table.edges}.items()):
        if seen.get(word) == {"right"}:
            print(f"right  {word}, of which the table tells: {reason}")
    for word in table.ends:
        if "right" in seen.get(word, ()):
            print(f"right  {word}, which ends by the table")
    for modifier, words in table.ignores.items():
        missed = [word for word in found["ignores"].get(modifier, ()) if word not in words]
        known = [word for word in missed if word not in told]
        if known:
            print(f"{modifier}: not told of {', '.join(known)}")


if __name__ == "__main__":
    main()
