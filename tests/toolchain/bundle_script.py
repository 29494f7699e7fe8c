"""Python programs of bundles as modules, to test their functions."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import simgen_rocm
from simgen.ground import resources

ROCM = Path(simgen_rocm.__file__).parent / "templates"


def module(name: str) -> ModuleType:
    """The launcher NAME.py. An import would leave its byte code among the templates."""
    folders = (resources.folder("templates") / "launchers", ROCM)
    path = next(each for each in (folder / f"{name}.py" for folder in folders) if each.exists())
    made = ModuleType(name)
    made.__file__ = str(path)
    exec(compile(path.read_text(), path, "exec"), made.__dict__)
    return made
