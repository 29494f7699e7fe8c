"""Python programs of bundles as modules, to test their functions."""

from __future__ import annotations

from types import ModuleType

from simgen.ground import resources


def module(name: str) -> ModuleType:
    """The launcher NAME.py. An import would leave its byte code among the templates."""
    path = resources.folder("templates") / "launchers" / f"{name}.py"
    made = ModuleType(name)
    made.__file__ = str(path)
    exec(compile(path.read_text(), path, "exec"), made.__dict__)
    return made
