"""A bundle of kernels that are given as code objects: a target's folder, as of any workload."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from simgen.errors import RefusedError
from simgen.ground.ir import (
    GUARD,
    PAGE,
    Buffer,
    DType,
    Fill,
    Kernel,
    Launch,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
    to_json,
)
from simgen.ground.storage.files import new_mode, write_atomic
from simgen.isa import child
from simgen.kernels import cache, stages
from simgen.kernels.build import Builder
from simgen.targets.base import File, Job, Package, Target
from simgen.tensors import data_file
from simgen_examine.conform import assembly, values
from simgen_examine.conform.forms import Form, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.kernels.stages import Products, Stage
    from simgen_examine.conform.assembly import Assembled

VALUES, RESULTS = "conform.values", "conform.results"
VECTOR = Shape((values.LANES, 1, 1), (values.TUPLES // values.LANES, 1, 1), "x")
SEED = 1


@dataclass(frozen=True)
class Batch:
    """A kernel of the probe."""

    name: str
    forms: tuple[Form, ...]
    inputs: int  # byte from the start of the values on
    results: int  # byte from the start of the results on
    made: Assembled

    @property
    def shape(self) -> Shape:
        """Shape of its launch."""
        return self.forms[0].shape or VECTOR

    @property
    def nbytes(self) -> int:
        """Bytes of its results."""
        return sum(map(assembly.words, self.forms)) * assembly.PLANE

    @property
    def places(self) -> list[int]:
        """Byte of the results at which each form's begin."""
        found, at = [], self.results
        for form in self.forms:
            found.append(at)
            at += assembly.words(form) * assembly.PLANE
        return found


@dataclass(frozen=True)
class Probed:
    """All batches, and what they are given."""

    arch: str
    batches: tuple[Batch, ...]
    given: NDArray[np.int32]
    results_nbytes: int
    apart: bool = False  # each batch runs alone, and all have one place for their results


def probe(forms: Sequence[Form], arch: str) -> Probed:
    """Batches of forms that are tried with the same values."""
    return batched(groups(forms), arch)


def groups(forms: Sequence[Form], most_nbytes: int = 0) -> list[tuple[Form, ...]]:
    """Forms that one kernel can try, in order; with results of at most so many bytes, if not 0."""
    together: dict[tuple[Any, ...], list[list[Form]]] = {}
    for form in forms:
        parts = together.setdefault(_kind(form), [[]])
        taken = sum(map(assembly.words, (*parts[-1], form))) * assembly.PLANE
        full = len(parts[-1]) == assembly.BLOCKS or (most_nbytes and taken > most_nbytes)
        if full and parts[-1]:
            parts.append([])
        parts[-1].append(form)
    return [tuple(part) for parts in together.values() for part in parts]


def _kind(form: Form) -> tuple[Any, ...]:
    """What the forms of a kernel have in common: values, mode and launch."""
    return form.scalar, form.mode, form.signature, form.shape


def accepted_groups(
    of: Sequence[tuple[Form, ...]], arch: str, change: Callable[[str, bytes], bytes]
) -> tuple[list[tuple[Form, ...]], list[tuple[Form, str]]]:
    """Groups whose code `change` takes, and the forms that it refuses, with its reason.

    Of a group that is refused, those forms are tried alone whose instruction the reason names, or
    else both halves.
    """
    refused: list[tuple[Form, str]] = []

    def refusal(group: tuple[Form, ...]) -> str:
        made = assembly.assembled(group, arch)
        try:
            change(assembly.name_of(group, arch), made.code)
        except RefusedError as error:
            return str(error)
        return ""

    def parts(group: tuple[Form, ...]) -> list[tuple[Form, ...]]:
        why = refusal(group)
        if not why:
            return [group]
        if len(group) == 1:
            refused.append((group[0], re.sub(r".*?kernel conform_\d+: ", "", why, count=1)))
            return []
        words = set(re.findall(r"\w+", why))
        named = [form for form in group if form.mnemonic in words]
        rest = tuple(form for form in group if form.mnemonic not in words)
        pieces: list[tuple[Form, ...]] = [(form,) for form in named]
        if not named or not rest:
            half = len(group) // 2
            pieces, rest = [group[:half]], group[half:]
        found = [part for piece in pieces for part in parts(piece)] + parts(rest)
        whole = tuple(form for part in found for form in part)
        return [whole] if len(found) > 1 and not refusal(whole) else found

    with child.pool(len(os.sched_getaffinity(0))) as pool:
        kept = [part for found in pool.map(parts, of) for part in found]
    return kept, refused


def batched(of: Sequence[tuple[Form, ...]], arch: str, *, apart: bool = False) -> Probed:
    """A batch of each of some groups; see `Probed.apart`."""
    names = [assembly.name_of(part, arch) for part in of]
    # The assembler is a process of its own.
    with child.pool(len(os.sched_getaffinity(0))) as pool:
        made = list(pool.map(lambda part: assembly.assembled(part, arch), of))
    inputs: dict[tuple[Any, ...], int] = {}
    planes: list[NDArray[np.uint32]] = []
    batches: list[Batch] = []
    results = start = most = 0
    for name, part, code in zip(names, of, made, strict=True):
        key = (part[0].scalar, part[0].signature)
        if key not in inputs:
            inputs[key] = start
            planes.append(signature_memory(key[1], key[0]))
            start += planes[-1].nbytes
        batches.append(Batch(name, part, inputs[key], 0 if apart else results, code))
        results += batches[-1].nbytes
        most = max(most, batches[-1].nbytes)
    whole = np.concatenate(planes).view(np.int32)
    return Probed(arch, tuple(batches), whole, most if apart else results, apart)


def signature_memory(signature: tuple[str, ...], scalar: bool) -> NDArray[np.uint32]:
    """What lies in memory for forms of a signature."""
    words = tried(signature, scalar)
    if not scalar:
        return words.reshape(-1)
    rows = np.zeros((values.TUPLES, 8), np.uint32)
    rows[:, 0:2], rows[:, 2:4], rows[:, 4] = words[0].T, words[1].T, words[2, 0]
    return rows.reshape(-1)


def tried(signature: tuple[str, ...], scalar: bool) -> NDArray[np.uint32]:
    """The words of the sources; of scalar forms, the third is what SCC is before."""
    words = values.tuples(signature)
    if scalar:
        words[2, 0] = np.arange(values.TUPLES) % 3 == 0
        words[2, 1] = 0
    return words


def workload(of: Probed) -> Workload:
    """The launches of all batches, in one step; of those that run alone, each in a step."""
    size = of.given.size
    start = -(-(size * 4 + GUARD) // PAGE) * PAGE
    digest = hashlib.sha256(of.given.view("u1").data).hexdigest()
    inputs = Buffer(
        VALUES, TensorSpec((size,), DType.I32), Role.INPUT, 0, Fill.usual(DType.I32), digest
    )
    spec = TensorSpec((of.results_nbytes // 4,), DType.I32)
    results = Buffer(RESULTS, spec, Role.OUTPUT, start)
    kernels = tuple(
        Kernel(each.name, "conform", prod(each.shape.group), group=each.shape.group)
        for each in of.batches
    )
    launches = tuple(
        Launch(each.name, each.shape.grid, (VALUES, RESULTS), (each.inputs, each.results))
        for each in of.batches
    )
    together = [(each,) for each in launches] if of.apart else [launches]
    steps = tuple(
        Step(part[0].kernel, Pass.FORWARD, (("values", VALUES),), (("results", RESULTS),), part)
        for part in together
    )
    end = start + -(-(of.results_nbytes + GUARD) // PAGE) * PAGE
    return Workload("conform", SEED, (), (inputs, results), kernels, steps, end, start)


class _Given(Builder):
    """Hands out code objects that are there; programs of the host are compiled."""

    linted: ClassVar[bool] = False  # what a simulator makes of it is what is asked

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        super().__init__(cache.default())
        self.objects = objects

    def products(self, _: Sequence[Stage], sources: Mapping[str, Any]) -> dict[str, Products]:
        return {
            name: {stages.CODE_OBJECT: self.objects[name], stages.LEGALISED: None}
            for name in sources
        }


def write(
    path: Path,
    of: Probed,
    target: Target,
    objects: Mapping[str, bytes],
    package: Package | None = None,
    *,
    moved: bool = False,
) -> None:
    """A bundle for one target, with these code objects; in place of the target's package, another.

    Beside what the target's package has, it holds probe.json: kernel -> [byte, bytes, begin, end]
    of each instruction that is tried and of its block; of none, where they have `moved`.
    """
    places = {each.name: () if moved else each.made.places for each in of.batches}
    tried_at = {name: [list(place) for place in each] for name, each in places.items()}
    told = {"probe.json": File((json.dumps(tried_at) + "\n").encode())}
    write_bundle(
        path, workload(of), target, _Given(objects), {VALUES: of.given}, told, package=package
    )


def write_bundle(
    path: Path,
    planned: Workload,
    target: Target,
    builder: Builder,
    given: Mapping[str, NDArray[np.int32]],
    more: Mapping[str, File] | None = None,
    sources: Mapping[str, str] | None = None,
    package: Package | None = None,
) -> None:
    """A bundle for one target of a workload whose inputs are `given` and whose kernels a builder
    has; `more` are files of the target's folder. `package`: in place of the target's."""
    text = (json.dumps(to_json(planned), indent=1) + "\n").encode()
    named = dict(sources) if sources else {each.name: "" for each in planned.kernels}
    job = Job(planned, named, data_file.data_id(planned), hashlib.sha256(text).hexdigest())
    files = {**(package or target.package).folder(job, builder), **(more or {})}
    whole = {"workload.json": File(text), **{f"{target.name}/{n}": f for n, f in files.items()}}
    for name, file in whole.items():
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
        if file.executable:
            place.chmod(new_mode(0o755))
    data_file.write_data(path / "data.h5", planned, values=given)
    manifest = {
        "data": {"id": job.data_id.hex()},
        "targets": {target.name: target.settings()},
        "files": {name: hashlib.sha256(file.content).hexdigest() for name, file in whole.items()},
    }
    write_atomic(path / "manifest.json", (json.dumps(manifest, indent=1) + "\n").encode())
