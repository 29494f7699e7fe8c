"""simgen: deep-learning workloads for GPU simulators, and a check of what comes back.

    plan = simgen.plan("softmax_fwd", set={"n": 4})
    bundle = plan.build("softmax", targets=["host"])
    result = bundle.run("host")
    verdict = bundle.diff()

These names are those of `simgen.api`, which is imported when one of them is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Bisection",
    "BuiltBundle",
    "Conformance",
    "ExportedFiles",
    "Judgement",
    "Linted",
    "MeasuredLaunch",
    "MeasuredStep",
    "Output",
    "PlannedBuild",
    "RatesOf",
    "Report",
    "Result",
    "Rewritten",
    "Row",
    "Rows",
    "SweepOf",
    "__version__",
    "conform",
    "errors",
    "export",
    "legalise",
    "lint",
    "load",
    "plan",
    "rates",
    "report",
    "rows",
    "sweep",
]

if TYPE_CHECKING:
    __version__: str

    from simgen import errors
    from simgen.api import (
        Bisection,
        BuiltBundle,
        Conformance,
        ExportedFiles,
        Judgement,
        Linted,
        MeasuredLaunch,
        MeasuredStep,
        Output,
        PlannedBuild,
        RatesOf,
        Report,
        Result,
        Rewritten,
        Row,
        Rows,
        SweepOf,
        conform,
        export,
        legalise,
        lint,
        load,
        plan,
        rates,
        report,
        rows,
        sweep,
    )

if not TYPE_CHECKING:  # so that a type checker knows names that are none

    def __getattr__(name: str) -> object:
        """The names of the API, on first use: commands and a script's other imports start fast."""
        if name not in __all__:
            raise AttributeError(f"module 'simgen' has no attribute {name!r}")
        from importlib import import_module

        if name == "__version__":
            globals()[name] = import_module("simgen.ground.version").version(exactly=True)
            return globals()[name]
        if name == "errors":
            return import_module("simgen.errors")
        found = getattr(import_module("simgen.api"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
