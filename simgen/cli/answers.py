"""What `--json` prints: one object, of a schema that its key `schema` names, such as simgen.diff/1.

A number is a number, its unit is in its key (`_bytes`, `_hz`, `seconds`), and a verdict is `same`,
`different` or `proved nothing`. SHAPES is the only place that says which keys an answer has:
programs and the page get JSON Schema made from it, and tests compare it with what is printed.
"""

from __future__ import annotations

import json
import math
import sys
from importlib import import_module
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


class _Maybe(str):
    """Such a dataclass, or null."""

    __slots__ = ()


# A type, [of each], {of each value: ...} with the key str, or {key: ...}; a key with ? may lack.
# "module:Name": the dataclass of that name, whose fields and types its own hints say.
_ANY = object
_SCALAR = str | int | float | bool | None
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
    "nan_on_both_sides": int, "distrusted": [str], "wrong_by_reference": [str], "worst": [{
        "index": [int], "a": float | str, "b": float | str, "error": float | str,
        "tolerance": float | str,
    }],
}  # fmt: skip
_COUNT = {"flops": int, "transcendentals": int, "read_bytes": int, "written_bytes": int}
_STEP = {
    "layer": str, "kind": str, "pass": str, "output": [int], **_COUNT,
    "operations_per_byte": float | None, "parameters": int, "tensor_bytes": int,
    "workspace_bytes": int,
}  # fmt: skip
_TENSORS = "simgen.ground.ir:TensorSpec"
_WORKLOAD = "simgen.ground.ir:Workload"
_COST = {"instructions": float, "seconds": float, "host_seconds": float}
_KIND = {"operations": float, "bytes": float, "operations_per_byte": float}
_FILES = {"files": [str], "next": str | None}
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
        "bundle": str, "name": str, "simgen": str, "compiler": str,
        "config": {str: _ANY},  # settings of the workload, each of its own type
        "targets": {str: {str: _SCALAR}}, "results": [_STATE], "planned_for": {"machine": str},
        "memory_bytes": {str: int}, "total": _COUNT, "work": [_STEP], "workload": _WORKLOAD,
    }),
    "workload": ("show WORKLOAD", {
        "name": str, "notes": [str],
        "layers": [{
            "name": str, "kind": str, "parameters": [[_SCALAR]], "inputs": [_TENSORS],
            "previous": [str], "reads": [str], "output": _TENSORS, "outputs": {str: _TENSORS},
        }],
        "workload": _Maybe(_WORKLOAD), "commands": {str: {str: str}}, "unsupported": str | None,
        "constants?": {str: str}, "work?": [_STEP], "total?": _COUNT, "memory_bytes?": {str: int},
        "planned_for?": {"machine": str, "why": str},
        "plan?": ["simgen.workload.costs:Planned"],
    }),
    "lines": ("show --as", {"lines": [str], "without": {str: str}}),
    "posted": ("show LINE", {"becomes": {str: str}, "commands": [str]}),
    "cost": ("show --cost", {"targets": {str: {
        "factor": float, "memory_bytes": int, "total": _COST,
        "steps": [{"layer": str, "pass": str, **_COST}],
        "representatives_host_seconds": {str: float},
        "budget?": {
            "given_up": [str], "not_taken": [str], "host_seconds": float, "build": str, "run": str,
        },
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
    "miopen": ("cache miopen", {
        "gfx": str, "units": int, "miopen": str,
        "kernels": [{"kernel": str, "arguments": str, "state": str}],
    }),
    "lint": ("lint", {
        "simulator": str, "version": str, "source": str,
        "code_objects": [{
            "file": str, "inside": str, "arch": str, "skipped": str, "kernels": int,
            "instructions": int,
            "findings": [{
                "kernel": str, "instruction": str, "address": int, "source": str, "finding": str,
                "refused": bool, "reason": str, "cure": str,
            }],
            "notes": [{"instructions": [str], "times": int, "reason": str}],
        }],
        "unread": [{"file": str, "reason": str}],
    }),
    "legalise": ("legalise", {
        "output": str, "instructions_before": int, "instructions": int, "replaced": {str: int},
        "right_in_emulation_only": {str: str},
    }),
    "files": ("new kernel, new layer, new data", _FILES),
    "network": ("new network", {
        **_FILES, "operations": int, "largest_distance": float,
        "kinds": {str: {"made": _KIND, "wanted": _KIND}},
    }),
    "study": ("study", {
        "page": str, "points": int,
        "figures": [{"number": str, "title": str, "targets": [str], "values": str}],
        "statements": {str: {str: int}}, "failed": {str: str}, "not_run": {str: str},
        "waiting": {str: str},
    }),
    "rates": ("rates", {"target": str, "machine": str, "rates": [{
        "name": str, "value": float | None, "unit": str, "configured": float | None,
        "note": str, "share": float | None,
    }]}),
    "bisect": ("bisect", {
        "a": str, "b": str, "arch": str, "runs": int, "seconds": float, "differ": bool,
        "launch?": int, "step?": str, "kernel?": str, "tensor?": str, "element?": int | None,
        "words?": int, "wavefront?": int | None, "block?": int | None, "instruction?": int | None,
        "text?": str | None, "said?": str, "register?": str, "lanes?": [int], "values?": [str],
        "reproducer?": [str],
    }),
    "conform": ("conform", {
        "simulator": str, "architecture": str, "manual": str, "seconds": float,
        "counts": {str: int}, "forms": [{
            "instruction": str, "text": str, "form": str, "finding": str, "reason": str,
            "lanes": int, "wrong": int, "consequence": str,
            "examples": [{
                "number": int, "sources": [str], "expected": str, "found": str, "first": [str],
            }],
        }],
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
    if isinstance(shape, str):
        from simgen.ground.storage.schema import json_schema

        module, _, name = shape.partition(":")
        made = json_schema(getattr(import_module(module), name))
        return {"anyOf": [made, {"type": "null"}]} if isinstance(shape, _Maybe) else made
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
