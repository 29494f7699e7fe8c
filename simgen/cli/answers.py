"""What `--json` prints: one object, of a schema that its key `schema` names, such as simgen.diff/1.

A number is a number, its unit is in its key (`_bytes`, `_hz`, `seconds`), and a verdict is `same`,
`different` or `proved nothing`. SHAPES is the only place that says which keys an answer has:
programs and the page get JSON Schema made from it, and tests compare it with what is printed.
"""

from __future__ import annotations

import json
import math
import sys
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.bundle.results import Result

OPTION = "--json"
VERSION = 1
_PRINTED: list[str] = []  # schemas of what this command has printed

json_option = click.option(OPTION, "as_json", is_flag=True, help="Print JSON.")

# A type, [of each], {of each value: ...} with the key str, or {key: ...}; a key with ? may lack.
_ANY = object
_RESULT = {
    "result": str, "target": str, "folder": str, "seconds": float | None, "launches": int,
    "settings": {str: str | int | float | bool},
}  # fmt: skip
_TENSOR = {
    "layer": str, "pass": str, "tensor": str, "type": str, "verdict": str, "reasons": [str],
    "elements": int, "outside_tolerance": int, "without_tolerance": int,
    "max_error": float | str, "max_reference": float, "max_error_over_tolerance": float | str,
    "statistic": float | str | None, "peak": float | str | None, "max_ulps": int | None,
    "ulps": {str: int}, "nan_or_inf_on_one_side": int, "overflowed": int,
    "nan_on_both_sides": int, "distrusted": [str], "wrong_by_reference": [str], "worst": [_ANY],
}  # fmt: skip
_WORK = {"memory_bytes": {str: int}, "total": _ANY, "work": [_ANY], "workload": _ANY}
_STATE = {
    "bundle": str, "result": str, "state": str, "steps": int | None, "of": int | None,
    "when": str, "verdict": str, "verdicts": {str: int}, "fact": str,
}  # fmt: skip
SHAPES: dict[str, tuple[str, Any]] = {
    "error": ("any command that fails before its answer", {
        "error": str, "kind": str, "exit_code": int,
    }),
    "build": ("build", {
        "bundle": str, "workload": str, "simgen": str, "layers": int, "launches": int,
        "tensor_bytes": int, "targets": [str], "planned_for": str, "removed": [str],
        "compiled": {str: int}, "notes": [str], "reproduce": str, "results": [_RESULT],
    }),
    "run": ("run", {"bundle": str, "results": [_RESULT], "failed": [str]}),
    "points": ("run --sweep --dry-run, sweep --dry-run", {
        "points": [{"point": str, "done": bool}],
    }),
    "diff": ("diff, quick", {
        "bundle": str, "planned_for": str, "verdict": str, "summary": str,
        "pairs": [{"a": str, "b": str, "verdict": str, "notes": [str],
                   "first_diverging_layer": str | None, "tensors": [_TENSOR]}],
        "losses?": [
            {
                "step": int,
                "tensor": str,
                "reference": float,
                "results": {str: float},
                "accuracies": {str: float},
                "seconds": {str: float},
            }
        ],
    }),
    "report": ("report", {
        "page": str, "rows": [{str: str | int | float | bool | None}], "doubts": [str],
        "not_run": [str],
    }),
    "score": ("report --score", {"scores": [{
        "bundle": str, "result": str, "operations": int, "seconds": float,
        "operations_per_second": float | None, "doubt": str,
    }]}),
    "export": ("export", {"format": str, "output": str, "notes": [str]}),
    "sweep": ("sweep", {
        "folder": str, "page": str | None, "points": [{"point": str, "done": bool}],
    }),
    "status": ("status", {"results": [_STATE]}),
    "bundle": ("show BUNDLE", {
        "bundle": str, "name": str, "simgen": str, "compiler": str, "config": _ANY,
        "targets": _ANY, "results": [_STATE], "planned_for": _ANY, **_WORK,
    }),
    "workload": ("show WORKLOAD", {
        "name": str, "notes": [str], "layers": [_ANY], "workload": _ANY, "commands": _ANY,
        "unsupported": str | None, "constants?": _ANY, "work?": [_ANY], "total?": _ANY,
        "memory_bytes?": {str: int}, "planned_for?": _ANY, "plan?": [_ANY],
    }),
    "lines": ("show --as", {"lines": [str], "without": {str: str}}),
    "posted": ("show LINE", {"becomes": {str: str}, "commands": [str]}),
    "cost": ("show --cost", {"targets": {str: {
        "factor": float, "memory_bytes": int, "total": _ANY, "steps": [_ANY],
        "representatives_host_seconds": {str: float}, "budget?": _ANY,
    }}}),
    "list": ("list", {"list": str, "rows": [{str: _ANY}]}),
    "doctor": ("doctor", {
        "checks": [{"what": str, "ok": bool, "fact": str, "cure": str}],
    }),
    "steps": ("doctor --for", {"steps": [{"what": str, "command": str, "found": str}]}),
    "cache": ("cache list", {
        "folders": {str: str},
        "entries": [{"where": str, "entry": str, "what": str, "bytes": int, "state": str}],
    }),
    "cache_verify": ("cache verify", {"entries": int, "simulators": int, "damaged": [str]}),
    "cache_clear": ("cache clear", {
        "folder": str, "entries": int, "simulators": int, "notes": int,
    }),
    "cache_fetch": ("cache fetch", {"ready": [str], "missing": {str: str}}),
    "config": ("config", {
        "file": str, "settings": {str: {"value": str, "from": str}},
    }),
    "miopen": ("cache miopen", {str: _ANY}),
    "lint": ("lint", {
        "simulator": str, "version": str, "source": str, "code_objects": [_ANY], "unread": [_ANY],
    }),
    "rates": ("rates", {"target": str, "machine": str, "rates": [_ANY]}),
    "bisect": ("bisect", {str: _ANY}),
    "conform": ("conform", {
        "simulator": str, "architecture": str, "manual": str, "seconds": float,
        "counts": {str: int}, "forms": [_ANY],
    }),
}  # fmt: skip


def answer(name: str, told: Mapping[str, Any]) -> None:
    """Print what a command has to say, for programs."""
    assert name in SHAPES
    _PRINTED.append(name)
    print(json.dumps({"schema": schema_name(name), **told}, indent=1))


def begin() -> None:
    """A command begins."""
    _PRINTED.clear()


def fail(message: str, kind: str, code: int) -> None:
    """Print an error for programs too, if they have asked and have no answer yet."""
    words = sys.argv[1:]
    given = words[: words.index("--")] if "--" in words else words
    if OPTION in given and not _PRINTED:
        answer("error", {"error": message, "kind": kind, "exit_code": code})


def result(found: Result, folder: object) -> dict[str, Any]:
    """A result, in answers."""
    return {
        "result": found.name, "target": found.target, "folder": str(folder),
        "seconds": None if math.isnan(found.seconds) else found.seconds,
        "launches": sum(bool(each) for each in found.launches), "settings": found.settings,
    }  # fmt: skip


def schema_name(name: str) -> str:
    return f"simgen.{name}/{VERSION}"


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of an answer."""
    command, shape = SHAPES[name]
    made = _schema(shape)
    said = {"schema": {"const": schema_name(name)}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_name(name),
        "description": f"What --json of simgen prints: {command}.",
        **made,
        "properties": said | made.get("properties", {}),
        "required": ["schema", *made.get("required", [])],
    }


_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def _schema(shape: Any) -> dict[str, Any]:
    if shape is _ANY:
        return {}
    if isinstance(shape, UnionType):
        return {"type": [_NAMES[each] for each in get_args(shape)]}
    if isinstance(shape, list):
        return {"type": "array", "items": _schema(shape[0])}
    if isinstance(shape, dict):
        if str in shape:
            return {"type": "object", "additionalProperties": _schema(shape[str])}
        return {
            "type": "object",
            "properties": {key.rstrip("?"): _schema(each) for key, each in shape.items()},
            "required": [key for key in shape if not key.endswith("?")],
        }
    return {"type": _NAMES[shape]}
