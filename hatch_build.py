"""What a wheel holds beside the packages: man pages, the bill of its contents, the machine's name.

It needs no more than build-system.requires in pyproject.toml has.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAG = "py3-none-manylinux2014_x86_64"  # where the compiler's wheel is and simgen runs
BILL = "simgen.cdx.json"


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling's; it calls `initialize` before it writes a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self.made = tempfile.TemporaryDirectory()
        folder, root = Path(self.made.name), Path(self.root)
        _declare(folder / "gpu_simgen-0.dist-info", self.metadata.core.entry_points)
        sys.path[:0] = [self.root, str(folder)]
        from simgen.cli import manuals
        from simgen.ground.version import version as of_simgen

        told = of_simgen(exactly=True)
        for name, text in manuals.pages(told).items():
            (folder / name).write_text(text)
            build_data["shared_data"][str(folder / name)] = f"share/man/man1/{name}"
        (folder / BILL).write_text(json.dumps(bill(root, told), indent=1) + "\n")
        build_data["sbom_files"].append(str(folder / BILL))
        build_data["pure_python"] = False
        build_data["tag"] = TAG


def _declare(folder: Path, groups: dict[str, dict[str, str]]) -> None:
    """Let simgen see its own commands of other packages, as after an installation."""
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: gpu-simgen\nVersion: 0\n")
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines))


def bill(root: Path, version: str) -> dict[str, Any]:
    """CycloneDX of what the wheel holds: code objects and others' files, each with its digest.

    Packages that an installer adds are in the wheel's metadata, as ranges.
    """
    parts = []
    for blob in sorted((root / "cachefiles").glob("*/*/blob")):
        key = _fields((blob.parent / "inputs.txt").read_text())
        parts.append(_file(root, blob, key.get("label", "?"), key))
    plotly = next((root / "templates").glob("plotly-*.js.gz"))
    parts.append(_file(root, plotly, "plotly.js basic", {}))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("application", "gpu-simgen", version)},
        "components": parts,
    }


def _component(kind: str, name: str, version: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"type": kind, "name": name, "licenses": [{"license": {"id": "MIT"}}]}
    return found | ({"version": version} if version else {})


def _file(root: Path, path: Path, name: str, key: dict[str, str]) -> dict[str, Any]:
    told = {"file": f"simgen/{path.relative_to(root)}", **key}
    return _component("file", name) | {
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "properties": [
            {"name": f"simgen:{what}", "value": told[what]}
            for what in ("file", "kind", "arch", "compiler")
            if what in told
        ],
    }


def _fields(text: str) -> dict[str, str]:
    """The first fields of what a kernel's key was made of (simgen/kernels/cache.py)."""
    found = re.findall(r"^\[(kind|label|compiler|arch) \d+\]\n(.*)$", text, re.M)
    return dict(reversed(found))
