"""Findings in the formats of services: SARIF 2.1.0 and GitHub's workflow commands."""

import json
from pathlib import Path

from simgen.isa.lint import forges
from simgen.isa.lint.linting import Finding

FOUND = [
    Finding(Path("k.co"), "", "gfx90a", "scale", 0x40, "v_x", "wrong", "100% off", "do y",
            "a,b.hip:12"),
    Finding(Path("k.co"), "", "gfx90a", "", 0x44, "v_z", "edges", "NaN", ""),
]  # fmt: skip


def test_sarif_has_what_its_schema_requires():
    told = json.loads(forges.sarif(FOUND, "gem5 24.0"))
    assert told["version"] == "2.1.0"
    (run,) = told["runs"]
    rules = {each["id"] for each in run["tool"]["driver"]["rules"]}
    assert {each["ruleId"] for each in run["results"]} <= rules
    first, last = run["results"]
    assert first["level"] == "error"
    assert last["level"] == "note"
    where = first["locations"][0]["physicalLocation"]
    assert where == {"artifactLocation": {"uri": "a,b.hip"}, "region": {"startLine": 12}}
    assert last["locations"][0]["physicalLocation"]["region"] == {"byteOffset": 0x44}
    assert first["message"]["text"] == "gem5 24.0: v_x in scale: 100% off; do y"


def test_annotations_escape_as_github_reads_them():
    # As the page "Workflow commands for GitHub Actions" and actions/toolkit's command.ts say.
    first, last = forges.github(FOUND, "gem5").splitlines()
    assert first == "::error file=a%2Cb.hip,line=12::gem5: v_x in scale: 100%25 off; do y"
    assert last == "::notice file=k.co::gem5: v_z: NaN"
