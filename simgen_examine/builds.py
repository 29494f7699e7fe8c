"""Builds of a simulator that are not the one of this machine: TARGET@FOLDER, a checkout of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simgen.errors import MissingError, UsageError
from simgen.targets.base import Target, log_text
from simgen.targets.gem5.needs import Gem5Checkout
from simgen.targets.mgpusim import needs as mgpusim

GO_MOD = "go.mod"
BUILT = ("*.go", "*.hsaco")  # files of MGPUSim that are compiled


@dataclass(frozen=True)
class Build:
    """A build in a folder: variables for run.sh, and files in place of the target's own."""

    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    def put(self, bundle: Path, target: str) -> None:
        """Put the files into a bundle."""
        path = bundle / "manifest.json"
        told = json.loads(path.read_text())
        for name, content in self.files.items():
            (bundle / target / name).write_bytes(content)
            told["files"][f"{target}/{name}"] = hashlib.sha256(content).hexdigest()
        path.write_text(json.dumps(told, indent=1))

    def said(self, last: str, bundle: Path, target: str) -> str:
        """The last words of a run; of Go, where MGPUSim could not be built."""
        if not self.files or "cannot be built" not in last:
            return last
        lines = log_text(bundle / "results" / f"failed-{target}").strip().splitlines()
        return f"{last.partition(';')[0]} ({lines[-1].strip() if lines else 'no log'})"


def split(name: str) -> tuple[str, str]:
    """TARGET and FOLDER; a folder that is not named is empty."""
    target, at, folder = name.partition("@")
    return target, folder or "." * bool(at)


def of(name: str, target: Target, folder: str) -> tuple[Build, Target]:
    """The build in a folder, and the target with the version that it is.

    Raises:
        UsageError: no such simulator lies there, or the target has no other builds.
        MissingError: it cannot run here.
    """
    root = Path(folder).expanduser().resolve()
    needs = target.needs
    if target.name == mgpusim.NAME:
        made = Build(files={f"{mgpusim.RUNNER}/{GO_MOD}": _with_checkout(name, root)})
    elif isinstance(needs, Gem5Checkout):
        built: dict[str, Any] = needs.as_built(root)
        target = replace(target, **built)
        assert isinstance(target.needs, Gem5Checkout)
        needs = replace(target.needs, root=str(root))
        made = Build({"GEM5": str(root), "GEM5_BINARY": ""})
    else:
        raise UsageError(f"{name}: {target.name} has no other builds; leave @{folder} out")
    if lacks := needs.missing():
        raise MissingError(f"{name}: " + "; ".join(map(str, lacks)))
    return made, target


def _with_checkout(name: str, root: Path) -> bytes:
    """go.mod of the runner, that takes MGPUSim from a folder; with its digest, by which run.sh
    tells builds apart.

    Raises:
        UsageError: no MGPUSim lies there.
    """
    own = root / GO_MOD
    module = re.search(r"^module (\S+)", own.read_text(), re.MULTILINE) if own.is_file() else None
    text = (mgpusim.templates() / GO_MOD).read_text()
    if module is None or not re.search(rf"\s{re.escape(module[1])} v", text):
        wanted = re.search(r"\S+/mgpusim/v\d+", text)
        assert wanted
        raise UsageError(f"{name}: {root} has no go.mod of {wanted[0]}; name a checkout of MGPUSim")
    digest = hashlib.sha256()
    for path in sorted([own, *(path for kind in BUILT for path in root.rglob(kind))]):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return f"{text}\nreplace {module[1]} => {root} // {digest.hexdigest()}\n".encode()
