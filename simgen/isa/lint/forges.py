"""Findings as services that show code take them: SARIF 2.1.0, and GitHub's workflow commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from simgen.ground.version import version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.isa.lint.linting import Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
KINDS = {"ends": "the simulation ends there", "wrong": "another result than a GPU's",
         "edges": "wrong for a few special values"}  # fmt: skip


def sarif(findings: Sequence[Finding], simulator: str) -> str:
    """A SARIF log: a rule for each kind of finding, a result for each finding."""
    rules = [{"id": kind, "shortDescription": {"text": text}} for kind, text in KINDS.items()]
    driver = {"name": "simgen lint", "version": version(), "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(each, simulator) for each in findings]}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _result(finding: Finding, simulator: str) -> dict[str, Any]:
    file, line = _place(finding)
    place: dict[str, Any] = {"artifactLocation": {"uri": file}}
    if line:
        place["region"] = {"startLine": line}
    else:
        place["region"] = {"byteOffset": finding.address}
    logical = {"name": finding.kernel or finding.inside or file, "kind": "function"}
    return {
        "ruleId": finding.verdict,
        "level": "error" if finding.refused else "note",
        "message": {"text": _text(finding, simulator)},
        "locations": [{"physicalLocation": place, "logicalLocations": [logical]}],
    }


def github(findings: Sequence[Finding], simulator: str) -> str:
    """A workflow command for each finding: `::error file=F,line=N::TEXT`."""
    lines = []
    for each in findings:
        file, line = _place(each)
        told = [f"file={_value(file)}", *([f"line={line}"] if line else [])]
        level = "error" if each.refused else "notice"
        text = _text(each, simulator).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        lines.append(f"::{level} {','.join(told)}::{text}")
    return "\n".join(lines)


def _place(finding: Finding) -> tuple[str, int]:
    """The source's file and line; the code object's file and 0 where it has no line table."""
    file, _, line = finding.line.rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else (finding.path.as_posix(), 0)


def _text(finding: Finding, simulator: str) -> str:
    where = f" in {finding.kernel}" if finding.kernel else ""
    cure = f"; {finding.cure}" if finding.cure else ""
    return f"{simulator}: {finding.instruction}{where}: {finding.reason}{cure}"


def _value(text: str) -> str:
    """A property of a workflow command."""
    for letter, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        text = text.replace(letter, code)
    return text
