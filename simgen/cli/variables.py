"""Environment variables that simgen and the run.sh of bundles read, each once.

Those that stand for an option of `simgen run` are the targets' own: `RunOption.variable`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from simgen.cli.defaults import DEFAULTS

BUNDLE, ALL = "run.sh", "simgen, run.sh"


@dataclass(frozen=True)
class Variable:
    """One of them."""

    name: str
    reader: str  # simgen, or targets whose run.sh reads it
    text: str
    option: str = ""  # the option of `simgen run` that sets it


_OWN = (
    *(
        Variable(each.variable, "simgen", f"default {name}: {each.text}")
        for name, each in DEFAULTS.items()
    ),
    Variable("SIMGEN_CONFIG", "simgen", "file of defaults, in place of simgen/config.toml"),
    Variable("SIMGEN_CACHE_DIR", ALL, "folder of caches and of built simulators"),
    Variable("SIMGEN_CLANG", "simgen", "clang of LLVM 22 or newer, in place of ziglang"),
    Variable("SIMGEN_GO", ALL, "Go program that builds MGPUSim"),
    Variable("SIMGEN_PYTHON", BUNDLE, "Python of run.sh [default: simgen's, else python3]"),
    Variable("SIMGEN_TIMEOUT", "mgpusim", "seconds after which the run ends"),
    Variable("SIMGEN_PROCESSES", "host", "processes at a time [default: one for each CPU]"),
    Variable("SIMGEN_RESULT", BUNDLE, "name of the result, TARGET@NAME, in place of TARGET"),
    Variable("SIMGEN_REPLACE", BUNDLE, "any text: replace a finished result of other options"),
    Variable("SIMGEN_DOCKER", "gem5-se, gem5-hip, gem5-dnnmark", "1: gem5 in its image, 0: here"),
    Variable("SIMGEN_IMAGE", "gem5-se, gem5-hip, gem5-dnnmark", "another image than gem5's own"),
    Variable("SIMGEN_UNITS", "cuda", "multiprocessors to split work for [default: the GPU's]"),
    Variable("SIMGEN_NCU", "cuda", "program ncu, for --counters [default: on PATH]"),
    Variable("SIMGEN_ROCPROF", "hip", "program rocprofv3, for --counters [default: on PATH]"),
    Variable("GEM5", "gem5-*", "folder of a checkout of gem5 that is built"),
    Variable("GEM5_BINARY", "gem5-se, gem5-fs", "another gem5 than the one in that folder"),
    Variable("GEM5_OPTIONS", "gem5-se, gem5-fs", "more options of gem5 or of its script"),
    Variable("GEM5_DISK_IMAGE", "gem5-fs", "disk image of gem5-resources' x86-ubuntu-gpu-ml"),
    Variable("GEM5_KERNEL", "gem5-fs", "vmlinux of that image"),
    Variable("DNNMARK", "gem5-dnnmark", "folder of gem5-resources' DNNMark that is built"),
    Variable("GPGPUSIM_ROOT", "gpgpusim", "folder of a built GPGPU-Sim"),
    Variable("GPGPUSIM_CONFIG", "gpgpusim", "its build, if it has several"),
)  # fmt: skip
_OTHERS = (
    Variable("COLUMNS", "simgen", "width of tables that are not printed to a terminal"),
    Variable("HOME", ALL, "where the folders of caches and of defaults are"),
    Variable("TMPDIR", "simgen", "folder of temporary files [default: /tmp]"),
    Variable("_SIMGEN_COMPLETE", "simgen", "bash_source, zsh_source, fish_source: completion"),
    Variable("XDG_CACHE_HOME", ALL, "folder of caches [default: ~/.cache]"),
    Variable("XDG_CONFIG_HOME", "simgen", "folder of the file of defaults [default: ~/.config]"),
    Variable("OPENBLAS_NUM_THREADS", "simgen", "threads of NumPy's BLAS in a build [default: 1]"),
    Variable("PATH", ALL, "where programs are"),
    Variable("PYTHONPATH", "simgen", "passed on to Triton's compiler"),
    Variable("LD_LIBRARY_PATH", "gpgpusim, hip", "where libraries are"),
    Variable("CUPY_CACHE_DIR", "cuda", "folder of kernels [default: ~/.cupy/kernel_cache]"),
    Variable("GOCACHE", "mgpusim", "Go's cache of builds"),
    Variable("GOPATH", "mgpusim", "Go's cache of modules"),
    Variable("GOMEMLIMIT", "mgpusim", "memory limit of the simulator, in place of what is free"),
)  # fmt: skip
# What `simgen run` says to the run.sh that it starts, and programs to those that they start.
INTERNAL = ("SIMGEN_LOCKS", "SIMGEN_START", "SIMGEN_LAUNCHES", "SIMGEN_OLD", "SIMGEN_COUNTING")


def table() -> list[Variable]:
    """All that a user may set: simgen's, those of options of `simgen run`, and others'."""
    from simgen.ask.choice import option
    from simgen.targets import TARGETS

    found: dict[str, Variable] = {}
    for target in TARGETS.values():
        for name, each in target.run_options.items():
            now = Variable(each.variable, target.name, each.text, option(name))
            before = found.get(each.variable)
            readers = f"{before.reader}, {target.name}" if before else target.name
            found[each.variable] = replace(before or now, reader=readers)
    own = [each for each in _OWN if each.name not in found]
    return [*own, *found.values(), *_OTHERS]


def general() -> tuple[Variable, ...]:
    """All that stand for no option."""
    return (*_OWN, *_OTHERS)


def listed() -> list[dict[str, str | None]]:
    """The table, with what is set here."""
    return [
        {
            "variable": each.name,
            "read_by": each.reader,
            "option": each.option or None,
            "value": os.environ.get(each.name),
            "meaning": each.text,
        }
        for each in table()
    ]
