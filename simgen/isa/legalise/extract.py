"""Reads out of MGPUSim's sources which opcodes it implements.

    python -m simgen.isa.legalise.extract CHECKOUT VERSION > data/isa/mgpusim-VERSION.json

Which instructions are right as they are (`native`), the sources do not tell: that is taken from the
newest version in the table, and `tests/simulator/test_legalise_runs.py` shows whether it holds.
An opcode counts when the decoder knows it and the emulator of the architecture has a case for it.
Nothing of the sources but names and numbers is kept.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from simgen.errors import DamagedError, SimgenError, UsageError
from simgen.ground import machine
from simgen.isa.legalise.simulators import versions

SIMULATOR = "mgpusim"
# Where the emulator of each architecture lies.
EMULATORS = {
    each.machine.arch: each.mgpusim.emulator
    for each in machine.descriptions().values()
    if each.mgpusim
}
DECODER = "amd/insts/decodetable.go"
# Format -> the function of the emulator that has a case for each opcode.
RUNNERS = {
    "SOP1": "runSOP1", "SOP2": "runSOP2", "SOPC": "runSOPC", "SOPK": "runSOPK",
    "SOPP": "runSOPP", "SMEM": "runSMEM", "VOP1": "runVOP1", "VOP2": "runVOP2",
    "VOPC": "runVOPC", "VOP3a": "runVOP3A", "VOP3b": "runVOP3B", "DS": "runDS", "FLAT": "runFlat",
}  # fmt: skip
COMPUTE_UNIT = {"SOPP": (1, 10)}  # s_endpgm and s_barrier are handled before the emulator
VOP1_IN_VOP3 = 320  # the long form of VOP1 opcode N is VOP3 opcode 320 + N

_TYPE = re.compile(r'InstType\{"([^"]+)",\s*([^,]+),\s*FormatTable\[(\w+)\]')
_CASES = re.compile(r"^\s*case ([^:]+):", re.MULTILINE)

Table = dict[str, dict[int, str]]


def extract(checkout: Path, version: str) -> dict[str, object]:
    """What data/isa holds.

    Raises:
        DamagedError: the sources do not look as those of MGPUSim 4.
    """
    known = _decodable(_read_text(checkout / DECODER))
    return {
        "simulator": SIMULATOR,
        "version": version,
        "architectures": {
            arch: {
                "rewritings": ["instruction_rules"],
                "native": _native(arch),
                "opcodes": _implemented(checkout / folder, known),
            }
            for arch, folder in EMULATORS.items()
        },
    }


def _native(arch: str) -> list[str]:
    """Native instructions of the newest known version."""
    *_, newest = versions(SIMULATOR).values()
    return list(newest.architectures[arch].native)


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedError(
            f"{path}: cannot be read ({error}); name a checkout of MGPUSim"
        ) from None


def _decodable(source: str) -> Table:
    known: Table = {}
    for name, code, format_ in _TYPE.findall(source):
        known.setdefault(format_, {})[_number(code)] = name.strip()
    for opcode, name in known.get("VOP1", {}).items():
        known.setdefault("VOP3a", {}).setdefault(VOP1_IN_VOP3 + opcode, name)
    if len(known) < len(RUNNERS):
        raise DamagedError(
            f"{DECODER}: {len(known)} formats, so the sources are laid out anew; adapt {__name__}"
        )
    return known


def _number(expression: str) -> int:
    """0x41, 17, 25 + 256."""
    return sum(int(term.strip(), 0) for term in expression.split("+"))


def _implemented(folder: Path, known: Table) -> Table:
    source = "\n".join(
        _read_text(path)
        for path in sorted(folder.glob("*.go"))
        if not path.name.endswith("_test.go")
    )
    found: Table = {}
    for format_, function in RUNNERS.items():
        body = re.search(rf"^func \(\w+ \*\w+\) {function}\(.*?^}}", source, re.M | re.S)
        if not body:
            raise DamagedError(
                f"{folder}: has no {function}, so the sources are laid out anew; adapt {__name__}"
            )
        cases = [_number(c) for group in _CASES.findall(body[0]) for c in group.split(",")]
        codes = {*cases, *COMPUTE_UNIT.get(format_, ())}
        found[format_] = {c: known[format_][c] for c in sorted(codes) if c in known[format_]}
    return found


def main(arguments: list[str]) -> int:
    try:
        if len(arguments) != 2:
            raise UsageError("extract: two words are wanted; write CHECKOUT VERSION")
        sys.stdout.write(json.dumps(extract(Path(arguments[0]), arguments[1]), indent=1) + "\n")
    except SimgenError as error:
        sys.stderr.write(f"simgen: error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
