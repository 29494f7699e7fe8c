"""A bundle and two names of targets -> what is searched."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.ask.checks import BisectChoices
from simgen.ask.choice import spelled
from simgen.bundle import finding
from simgen.bundle.folder import Bundle, verify_values
from simgen.errors import MissingError, RefusedError, UsageError, did_you_mean
from simgen.kernels import cache, render
from simgen.kernels.build import Builder
from simgen.targets.mgpusim import legalised
from simgen.targets.mgpusim.needs import NAME as MGPUSIM
from simgen.tensors import data_file
from simgen_examine import builds
from simgen_examine.bisect import replay
from simgen_examine.bisect.replay import Side
from simgen_examine.bisect.searching import Search

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.targets.base import Target

MODES = ("emu", "timing")  # MGPUSim's modes


def search(
    bundle: Bundle, a: str, b: str, folder: Path, *, code: str = "", ulps: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Search:  # fmt: skip
    """The search for where targets `a` and `b` of a bundle first differ, both running the code
    objects that were made for target `code`; runs are made in `folder`.

    Raises:
        UsageError: the bundle has no such target, or they are for different processors.
        RefusedError: a target runs no code objects of AMD's.
        MissingError: one cannot run here.
        DamagedError: the bundle's data are not what they were.
    """
    targets = [_target(bundle, name) for name in (a, b)]
    if a == b:
        cure = "name two targets, or two modes or builds (TARGET@FOLDER) of one"
        raise UsageError(f"{a} and {b}: the same; {cure}")
    chosen = _code_of(targets, code)
    archs = {_arch(target) for target in targets}
    if len(archs) > 1:
        one, other = (_arch(target) for target in targets)
        raise UsageError(
            f"{a} is built for {one} and {b} for {other}, whose code differs; build both with "
            f"the same {spelled('arch')}"
        )
    workload = replay.by_symbol(bundle.workload)
    model = chosen.model
    assert model is not None
    made = legalised.build(
        bundle.workload, render.kernels(bundle.workload), Builder(cache.default()), chosen.name,
        model, str(chosen.settings().get("l1", "cached")),
    )  # fmt: skip
    objects = {bundle.workload.kernel(name).symbol: elf for name, elf in made.objects.items()}
    sides = [_side(*each) for each in zip((a, b), targets, strict=True)]
    (arch,) = archs
    return Search(
        workload, sides[0], sides[1], objects, objects, _inputs(bundle), arch, folder, ulps, tell
    )


def _parts(name: str) -> tuple[str, str, str]:
    """TARGET, MODE and FOLDER of TARGET[:MODE][@FOLDER]."""
    head, folder = builds.split(name)
    target, _, mode = head.partition(":")
    return target, mode, folder


def _target(bundle: Bundle, name: str) -> Target:
    plain, mode, _ = _parts(name)
    if plain not in bundle.targets:
        raise UsageError(
            f"{bundle.path}: {plain!r} is not a target of it; {did_you_mean(plain, bundle.targets)}"
        )
    if mode and (plain != MGPUSIM or mode not in MODES):
        cure = did_you_mean(mode, MODES) if plain == MGPUSIM else f"{plain} has none; leave it out"
        raise UsageError(f"{name}: mode {mode!r}: {cure}")
    target = finding.target_of(bundle, plain)
    if target.model is None:
        raise RefusedError(
            f"{plain}: it runs no code object of AMD's, whose instructions could be followed; "
            f"simgen diff {shlex.quote(str(bundle.path))} {plain} compares its tensors"
        )
    return target


def _side(name: str, target: Target) -> Side:
    """A side, on the build that it names.

    Raises:
        UsageError: no such simulator lies in its folder.
        MissingError: it cannot run here.
    """
    plain, mode, folder = _parts(name)
    mode = mode or (MODES[0] if plain == MGPUSIM else "")
    target = _as_it_is(target)
    if folder:
        build, target = builds.of(name, target, folder)
        return Side(name, target, mode, build)
    if lacks := target.needs.missing():
        raise MissingError(f"{name}: " + "; ".join(map(str, lacks)))
    return Side(name, target, mode)


def _arch(target: Target) -> str:
    assert target.model is not None
    return target.model.arch


def _code_of(targets: list[Target], code: str) -> Target:
    """Target whose code both run: MGPUSim, which implements the fewest instructions, or
    the first."""
    names = [target.name for target in targets]
    if code and code not in names:
        raise UsageError(f"{BisectChoices.code} {code}: {did_you_mean(code, names)}")
    chosen = code or (MGPUSIM if MGPUSIM in names else names[0])
    return targets[names.index(chosen)]


def _as_it_is(target: Target) -> Target:
    """The target, which hands code on unchanged, in the plainest way that it has."""
    plain: dict[str, Any] = {"legalise": False, "gpus": 1, "m5ops": False, "launcher": "kfd"}
    there = target.settings()
    return replace(target, **{name: value for name, value in plain.items() if name in there})


def _inputs(bundle: Bundle) -> dict[str, NDArray[np.uint32]]:
    verify_values(bundle)
    loaded = data_file.load(bundle.path / "data.h5", bundle.workload)
    return {name: _words(values) for name, values in loaded.items()}


def _words(values: NDArray[Any]) -> NDArray[np.uint32]:
    """A tensor as it lies in memory, in whole words."""
    held = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return np.concatenate([held, np.zeros(-len(held) % 4, np.uint8)]).view(np.uint32)
