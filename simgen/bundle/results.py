"""What a run left, in one schema for all targets.

`results.h5` in a target's results folder:

    /tensors/LAYER.PORT   an output, with the attributes untouched (elements that still hold the
                          canary) and guard_intact (nothing was written behind it)
    /launches/COLUMN      one value per launch: step, layer, pass, kernel, order, and the metrics
                          of the target, by the names of simgen.ground.metrics and with the
                          attribute unit; a metric that a launch does not have is NaN
    /provenance           JSON: versions of simgen that built (`simgen`) and ran it (`ran_by`),
                          compiler, config, target and settings, `asked` (the value of
                          simgen.ask.run), its options, machine, number of GPUs; `part` and
                          `resumed` of such runs, `pieces` and `inferred` of a run by pieces
                          (launches whose metrics are those of another one), `kernels` where a
                          library's ran in place of the workload's: then it has no tensors
    /given/STEP:NAME      of a run by pieces, what a step (from 0) read of other steps' tensors
    /digests              see simgen.bundle.result_digest
    attribute "schema"    this schema

JSON is in bytes of UTF-8. `simgen run` makes it of what a program leaves, and removes that; what
run.sh leaves that was started by hand is read as it is.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.ask.run import RunCommand
from simgen.bundle import (
    launches,
    manifest,
    pieces,
    result_digest,
    result_names,
    run_record,
    sampled,
    saved_result,
)
from simgen.bundle.launches import MeasuredLaunch, MeasuredStep
from simgen.errors import DamagedError, MissingError, RefusedError, UsageError
from simgen.ground import metrics, tidy
from simgen.ground.ir import GUARD, PAGE, Workload
from simgen.ground.machine import ProductRounding
from simgen.ground.storage import hdf5, locks, seal
from simgen.ground.storage.files import NotRegularError, atomic_path, open_regular
from simgen.ground.storage.schema import SchemaError, from_json, to_json
from simgen.targets import Target, machine_file, matrix
from simgen.tensors import element_types, pouring
from simgen.workload.samples import Sample

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import h5py
    from numpy.typing import NDArray

    from simgen.bundle.run_record import Run
    from simgen.bundle.writing import Bundle

SCHEMA = saved_result.SCHEMA
OUTPUTS = "outputs.bin"
FILE = "results.h5"
# Large tensors begin on a page, so that they are written without a copy.
ALIGNED = {"alignment_threshold": 16 * PAGE, "alignment_interval": PAGE}
SIMULATOR = ("simulator", "gpu", "image", "gem5_compiled")  # facts of a machine and its versions
REPLACED = OUTPUTS, pieces.FOLDER  # what a program leaves that is in results.h5
UNCOUNTED = -1  # untouched elements, until somebody looks
ASKED = "asked"  # in the provenance: RunCommand.to_json
KERNELS = "kernels"  # in the provenance: (step, kernel) of each launch, if not the workload's


@dataclass(frozen=True)
class Output:
    """A tensor as a run left it.

    Attributes:
        values: the elements, in the tensor's shape.
        untouched: how many elements still hold the canary, because no kernel wrote them.
        guard_intact: False where something was written behind the tensor's end.
    """

    values: NDArray[Any]
    untouched: int
    guard_intact: bool


@dataclass(frozen=True)
class Result(tidy.Tidy):
    """What one run left.

    Attributes:
        name: the target, the point of a sweep, or the file that it was read from.
        outputs: the tensors that it wrote, by their names.
        launches: each launch with its metrics, in their order; a launch that did not run has none.
        provenance: versions, config, target and its settings, and the machine that ran it.
        seal: the digest of `complete`; empty for a file, and where there is none yet.
        given: of a run by pieces, what (a step, a tensor) of it read where another step wrote.
    """

    name: str
    outputs: Mapping[str, Output]
    launches: tuple[MeasuredLaunch, ...]
    provenance: Mapping[str, Any]
    seal: str = ""
    given: Mapping[tuple[int, str], NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(isinstance(each, MeasuredLaunch) for each in self.launches):
            named = tuple(MeasuredLaunch(each, at) for at, each in enumerate(self.launches))
            object.__setattr__(self, "launches", named)

    def __repr__(self) -> str:
        time = f", {metrics.seconds(self.seconds)}" if self.seconds > 0 else ""
        counts = f"{len(self.launches)} launches, {len(self.outputs)} outputs"
        return f"<Result {self.name}: {counts}{time}>"

    @property
    def target(self) -> str:
        """The target that it ran on."""
        return result_names.target_of(self.name)

    @property
    def seconds(self) -> float:
        """The time of all launches, simulated where a simulator ran them; NaN where the target
        counts none."""
        return launches.seconds(self.launches)

    def by_layer(self) -> tuple[MeasuredStep, ...]:
        """The layers and passes that ran, in their order, each with its time and metrics."""
        return launches.by_layer(self.launches)

    @property
    def settings(self) -> dict[str, tidy.Value]:
        """Settings of the build and of the target, and options of the run: numbers as numbers."""
        config = self.provenance.get("config", {})
        swept = (str(each).partition("=") for each in config.get("settings", ()))
        target = self.provenance.get("settings", {})
        return {
            **{name: tidy.typed(value) for name, _, value in swept},
            **{name: value for name, value in target.items() if isinstance(value, tidy.SCALARS)},
            **{name: tidy.typed(value) for name, value in self.options.items()},
        }

    def columns(self) -> dict[str, list[Any]]:
        """A line for each launch that ran: result, launch, layer, pass, kernel, metrics."""
        lines = [
            {"result": self.name, "launch": each.index, "layer": each.layer, "pass": each.pass_,
             "kernel": each.kernel, **each}
            for each in self.launches
            if each
        ]  # fmt: skip
        return tidy.columns(dict.fromkeys(name for line in lines for name in line), lines)

    def named(self, workload: Workload) -> Result:
        """The same, with launches that know what they are."""
        steps = [(workload.steps[at], kernel) for at, kernel in self.kernels(workload)]
        made = (
            MeasuredLaunch(each, at, step.layer, str(step.direction), kernel)
            for at, (each, (step, kernel)) in enumerate(zip(self.launches, steps, strict=True))
        )
        return replace(self, launches=tuple(made))

    @property
    def asked(self) -> RunCommand:
        """What the user asked for; of a run by hand, what the result's name says of it."""
        return RunCommand.from_json(self.provenance.get(ASKED, {}))

    @property
    def options(self) -> dict[str, str]:
        """What it was asked for that is not as usual, and that its figures depend on."""
        told = {name: str(value) for name, value in self.provenance.get("options", {}).items()}
        return told | result_names.cut_options(self.asked)

    @property
    def rounds_products(self) -> tuple[ProductRounding, ...]:
        """How the simulator that made it rounds products, as `Machine.rounds_products` has it."""
        told = self.provenance.get("rounds_products", ())
        return tuple(from_json(ProductRounding, each) for each in told)

    @property
    def inferred(self) -> dict[int, int]:
        """Launch -> the one that stands for it, of launches that did not run and have metrics."""
        return {int(at): int(like) for at, like in self.provenance.get("inferred", ())}

    @property
    def samples(self) -> dict[int, Sample]:
        """Launch -> the sample of its work-groups that ran in its place, or in that of the one
        that stands for it."""
        told = list(self.provenance.get(sampled.KEY, ()))
        return {each.launch: each for each in from_json(tuple[Sample, ...], told)}

    @property
    def is_statistics_only(self) -> bool:
        """Whether a library's kernels ran in place of the workload's, and left no outputs."""
        return self.provenance.get(KERNELS) is not None

    def steps(self, workload: Workload) -> set[int]:
        """The steps that ran, by their indices in the workload."""
        part = self.provenance.get("part")
        return set(part["steps"] if part else range(len(workload.steps)))

    def kernels(self, workload: Workload) -> list[tuple[int, str]]:
        """(step, kernel) of each launch of the result, in order; steps by their indices."""
        own = self.provenance.get(KERNELS)
        if own is not None:
            return [(int(step), str(kernel)) for step, kernel in own]
        steps = enumerate(workload.steps)
        return [(at, each.kernel) for at, step in steps for each in step.launches]

    def errors(self, places: Collection[int]) -> dict[str, float]:
        """For the figures of some launches together: half of the interval that holds each in 95 of
        100 cases; none of what is not sampled.

        What was sampled apart errs independently, and what is inferred from one sample, together;
        so does all that ran on a part of the machine, of which nobody knows that errors cancel.
        """
        taken, like = self.samples, self.inferred
        summed: dict[tuple[str, int], float] = {}
        for at in places:
            for name, half in taken[at].errors.items() if at in taken else ():
                key = name, like.get(at, at) if taken[at].part == 1 else -1
                summed[key] = summed.get(key, 0.0) + half
        found: dict[str, float] = {}
        for (name, _), half in summed.items():
            found[name] = math.hypot(found.get(name, 0.0), half)
        return found


def collect(
    bundle: Bundle,
    target: Target,
    folder: Path,
    name: str | None = None,
    *,
    check: bool = True,
) -> Result:
    """The result of a finished run of `target` in `folder`; a sweep's point has a `name`.

    It is in results.h5, or, where run.sh was started by hand, in the files that its program left.
    They are compared with their digests, unless `check` is False because the run has just made
    them.

    Raises:
        DamagedError: a file is missing, changed or of another run.
    """
    closed = seal.read_seal(folder)
    if check:
        seal.check(folder, closed)
    if not closed.contents:
        return _raw(bundle, target, folder, name, closed)
    _record(bundle, target, folder)
    found = _kept(folder / FILE, closed, bundle.workload)
    return replace(found, name=name or target.name, seal=closed.digest)


def keep(bundle: Bundle, target: Target, folder: Path, name: str) -> Result:
    """Put the result that a run has just left in `folder` into results.h5, and remove what is
    there twice then: until the seal tells of results.h5, the files that were left are the result.

    Raises:
        DamagedError: a file is missing or of another run.
        OSError: the folder cannot be written.
    """
    closed = seal.read_seal(folder)
    left = _raw(bundle, target, folder, name, closed, counted=False)
    found, contents = save(left, bundle.workload, folder / FILE)
    closed = seal.write(folder, closed.workload, contents, REPLACED)
    _tidy(folder)
    return replace(found, seal=closed.digest)


def check_whole(bundle: Bundle, folder: Path) -> None:
    """See that a finished result still is what the run left.

    Raises:
        DamagedError: it is not.
    """
    closed = seal.read_seal(folder)
    seal.check(folder, closed)
    if closed.contents:
        _kept(folder / FILE, closed, bundle.workload)


def _kept(path: Path, closed: seal.Seal, workload: Workload) -> Result:
    """What results.h5 of a closed folder has."""
    fact = "changed since the run" if path.exists() else "missing"
    try:
        found = _load(path, workload, closed.contents)
    except (DamagedError, UsageError):
        raise DamagedError(f"{path}: {fact}; run it again") from None
    return found


def _tidy(folder: Path) -> None:
    """Remove what results.h5 has."""
    for name in REPLACED:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).unlink() if name == OUTPUTS else shutil.rmtree(folder / name)


def _record(bundle: Bundle, target: Target, folder: Path) -> Run | None:
    """What a run was about; None where run.sh was started by hand.

    Raises:
        DamagedError: it is of another build.
    """
    run = run_record.read_run(folder, bundle.workload)
    built = (bundle.digest, bundle.targets.get(target.name))
    if run and (run.workload, run.settings) != built:
        raise DamagedError(f"{folder}: a result of another build; run it again, or move it away")
    return run


def _raw(
    bundle: Bundle,
    target: Target,
    folder: Path,
    name: str | None,
    closed: seal.Seal,
    *,
    counted: bool = True,
) -> Result:
    """The result in the files that its program left; raises as `collect` does."""
    run = _record(bundle, target, folder)
    if run and run.pieces:
        return _of_pieces(bundle, target, folder, run, name or target.name, closed)
    measured = _launches(bundle.workload, target, folder, run)
    found = run.samples if run else ()
    samples = target.reader.sampled(folder, bundle.workload, found, measured) if found else ()
    own = target.reader.ran(bundle.workload, len(measured))
    outputs = _outputs(bundle.workload, folder / OUTPUTS, counted) if own is None else {}
    if own is None and len(measured) != len(bundle.workload.launches):
        raise DamagedError(
            f"{folder}: metrics of {len(measured)} launches, but the workload has "
            f"{len(bundle.workload.launches)}; run it again"
        )
    machine = {**target.reader.machine(folder), **machine_file.programs(folder)}
    said = machine.get(f"{machine.get('simulator', '')}_version", "")
    rounded = matrix.rounds_products(target, bundle.workload, said)
    asked = run.choices if run else result_names.asked(name or target.name, target.run_options)
    provenance = {
        "simgen": bundle.manifest["simgen"],
        "compiler": bundle.manifest["compiler"],
        "config": bundle.manifest["config"],
        "workload": bundle.digest,
        "planned_for": bundle.workload.machine.label,
        "data": bundle.manifest["data"]["id"],
        "target": target.name,
        "settings": target.settings(),
        "options": _options(target, asked, run),
        ASKED: asked.to_json(),
        "machine": {**(run.machine if run else {}), **machine},
        "gpus": target.reader.gpus(folder),
        result_digest.INPUTS: bundle.manifest["data"].get(manifest.DIGEST, ""),
        **({"rounds_products": to_json(rounded)} if rounded else {}),
        **_history(run),
        **({sampled.KEY: to_json(samples)} if samples else {}),
        **({} if own is None else {KERNELS: [list(each) for each in own]}),
    }
    try:
        saved_result.check_provenance(provenance, bundle.workload)
    except SchemaError as error:  # a target's log says what cannot be
        raise DamagedError(f"{folder}: damaged ({error}); run it again") from None
    digest = closed.digest if closed.files else ""
    left = Result(
        name or target.name, outputs, tuple(map(MeasuredLaunch, measured)), provenance, digest
    )
    return left.named(bundle.workload)


def _of_pieces(
    bundle: Bundle, target: Target, folder: Path, run: Run, name: str, closed: seal.Seal
) -> Result:
    """The result of a run by pieces; raises as `collect` does."""
    workload = bundle.workload
    parts = [load(pieces.path(folder, piece), workload) for piece in run.pieces]
    if any(part.provenance.get("workload") != bundle.digest for part in parts):
        raise DamagedError(f"{folder}: a piece is of another build; run it again")
    if len({_simulator(part) for part in parts}) > 1:
        raise DamagedError(
            f"{folder}: pieces ran on different versions or settings of the simulator; remove it "
            "and run it again"
        )
    try:
        found = pieces.together(workload, run, parts)
    except KeyError as error:
        raise DamagedError(f"{folder}: no piece has {error}; run it again") from None
    told = {**parts[0].provenance, "options": _options(target, run.choices, run), **_history(run)}
    told[ASKED] = run.choices.to_json()
    told.pop(sampled.KEY, None)
    taken = pieces.samples(workload, run, [part.samples for part in parts])
    outputs = dict(found.outputs)
    if taken:
        told[sampled.KEY] = to_json(taken)
        outputs = _without_gaps(workload, run, {each.launch: each for each in taken}, outputs)
    digest = closed.digest if closed.files else ""
    made = Result(
        name, outputs, tuple(map(MeasuredLaunch, found.launches)), told, digest, found.given
    )
    return made.named(workload)


def _options(target: Target, asked: RunCommand, run: Run | None) -> dict[str, str]:
    """The options that are not as usual, and variables that say others."""
    swept = (each.partition("=") for each in asked.grid)
    variables = run.variables if run else {}
    said = {variable.lower(): variables.get(variable, "") for variable in target.said_in}
    return {
        **{key: str(value) for key, value in asked.options.items()},
        **{key: value for key, _, value in swept},
        **{key: value for key, value in said.items() if value},
    }


def _without_gaps(
    workload: Workload, run: Run, taken: Mapping[int, Sample], outputs: Mapping[str, Output]
) -> dict[str, Output]:
    """The outputs with what samples computed of them, and nothing else."""
    found = dict(outputs)
    for step in run.steps:
        for name, mask in sampled.computed(workload, step, taken).items():
            if name in found and not mask.all():
                flat = found[name].values.reshape(-1)
                zero = np.where(mask, flat, np.zeros((), flat.dtype))
                untouched = pouring.untouched(zero, workload.canary)
                values = sampled.blank(found[name].values, mask)
                found[name] = Output(values, untouched, found[name].guard_intact)
    return found


def _simulator(part: Result) -> str:
    """What ran a piece, whichever computer it was on."""
    told = part.provenance
    machine = told.get("machine", {})
    named = {
        k: v for k, v in machine.items() if k in SIMULATOR or k.endswith(("_version", "_sha256"))
    }
    return json.dumps([named, told.get("settings")], sort_keys=True)


def settle(bundle: Bundle, folder: Path, result: Result) -> Result:
    """Close a result that came without digests, because there was no sha256sum where it ran; of one
    that is in results.h5, remove what a run that was killed has left of its files."""
    left = any((folder / name).exists() for name in REPLACED) and seal.read_seal(folder).contents
    if result.seal and not left:
        return result
    # Not while it is made again; and a bundle may be one that can only be read.
    with (
        contextlib.suppress(OSError, RefusedError, MissingError),
        locks.running(bundle.path, folder.parent, folder.name),
    ):
        closed = seal.read_seal(folder)
        if closed.contents:
            _tidy(folder)
        if not closed.files:
            return replace(result, seal=seal.write(folder, closed.workload).digest)
    return result


def _history(run: Run | None) -> dict[str, Any]:
    """`ran_by`, the version of simgen that ran it; `part`, where only some layers ran; `resumed`,
    the launches that were finished each time that the run was continued."""
    found: dict[str, Any] = {"ran_by": run.simgen} if run and run.simgen else {}
    if run and run.layers:
        found["part"] = {"layers": run.layers, "inputs": run.inputs, "steps": list(run.steps)}
    if run and run.pieces:
        found["pieces"] = [asdict(piece) for piece in run.pieces]
        found["inferred"] = [list(pair) for pair in run.inferred]
    if run and run.resumed:
        found["resumed"] = list(run.resumed)
    return found


def _launches(
    workload: Workload, target: Target, folder: Path, run: Run | None
) -> list[dict[str, float]]:
    """The metrics of all launches; of one that did not run, none."""
    if run is None or (not run.layers and not run.finished):
        return target.reader.metrics(folder, workload)
    left = run_record.todo(workload, run)
    measured = target.reader.metrics(folder, run_record.part(workload, left))
    firsts = workload.first_launches
    places = [firsts[at] + i for at in left for i in range(len(workload.steps[at].launches))]
    found = dict(zip(places, measured, strict=True))
    found |= {int(place): dict(metrics) for place, metrics in (run.finished or {}).items()}
    return [found.get(at, {}) for at in range(len(workload.launches))]


def save(result: Result, workload: Workload, path: Path) -> tuple[Result, str]:
    """Write `result` as HDF5, atomically: what is there now, and the digest of its digests, as the
    seal has it.

    Tensors are read, counted, digested and written once, block by block with all cores.
    """
    import h5py

    arrays = [*(output.values for output in result.outputs.values()), *result.given.values()]
    with atomic_path(path) as part:
        with h5py.File(part, "w", locking=False, **ALIGNED) as h5:
            tensors = h5.create_group("tensors")
            made = [element_types.place(tensors, n, o.values) for n, o in result.outputs.items()]
            if result.given:
                read = h5.create_group(saved_result.GIVEN)
                for (step, name), values in result.given.items():
                    made.append(element_types.place(read, f"{step}:{name}", values))
            places = [each.id.get_offset() for each in made]
        poured = pouring.pour(part, arrays, places, workload.canary)
        there = pouring.mapped(part, arrays, places)
        outputs = {
            name: Output(values, new if each.untouched == UNCOUNTED else each.untouched,
                         each.guard_intact)
            for (name, each), values, (_, new) in zip(result.outputs.items(), there, poured)
        }  # fmt: skip
        given = dict(zip(result.given, there[len(outputs) :], strict=True))
        found = replace(result, outputs=outputs, given=given)
        content = outputs, found.launches, found.provenance, given
        digests = result_digest.text(*content, [each.tree for each in poured])
        with h5py.File(part, "r+", locking=False) as h5:
            _write_rest(h5, found, workload, digests)
    return found, result_digest.of_text(digests)


def _write_rest(h5: h5py.File, result: Result, workload: Workload, digests: str) -> None:
    """All of a results file but the values of its tensors."""
    hdf5.write_text(h5, "schema", SCHEMA)
    told = json.dumps(result.provenance, sort_keys=True)
    hdf5.write_document(h5, saved_result.PROVENANCE, told)
    hdf5.write_document(h5, result_digest.DATASET, digests)
    for name, output in result.outputs.items():
        dataset = h5["tensors"][name]
        dataset.attrs["untouched"] = output.untouched
        dataset.attrs["guard_intact"] = output.guard_intact
    table = h5.create_group("launches", track_order=True)
    for column, values in _columns(result, workload).items():
        table[column] = values
        if unit := metrics.unit(column):
            hdf5.write_text(table[column], "unit", unit)


def load(path: Path, workload: Workload | None = None) -> Result:
    """A result that `save` wrote; of the workload, where one is given.

    Raises:
        UsageError: no such file, or a result of another workload.
        DamagedError: it is not a whole results file.
    """
    return _load(path, workload)


def _load(path: Path, workload: Workload | None, contents: str = "") -> Result:
    """As `load`; `contents` is what the seal has of the file."""
    if not path.exists():
        raise UsageError(f"{path}: no such file; name a target that has run, or a results.h5")
    try:
        found = saved_result.read_saved(path, workload)
    except NotRegularError as error:
        raise UsageError(
            f"{path}: {error.strerror}; name a target that has run, or a results.h5"
        ) from None
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from None
    if workload is not None:
        _check_is_of(path, found, workload)
    outputs = {
        name: Output(each.values, each.untouched, each.guard_intact)
        for name, each in found.tensors.items()
    }
    content = outputs, found.launches, found.provenance, found.given
    wrong = contents and result_digest.of_text(found.digests) != contents
    if wrong or found.digests != result_digest.of_file(found.digests, *content):
        raise _damaged(path, "not what was written")
    ran = tuple(MeasuredLaunch(each, at) for at, each in enumerate(found.launches))
    made = Result(str(path), outputs, ran, found.provenance, given=found.given)
    return made if workload is None else made.named(workload)


def _check_is_of(path: Path, found: saved_result.Saved, workload: Workload) -> None:
    """Raise an error unless a file's tensors and launches are some of the workload's."""
    specs = {buffer.name: buffer.spec for buffer in workload.outputs}
    values = [(name, tensor.values) for name, tensor in found.tensors.items()]
    values += [(name, read) for (_, name), read in found.given.items()]
    for name, each in values:
        spec = specs.get(name)
        same = spec and (spec.shape, spec.dtype.array) == (each.shape, each.dtype)
        if not same:
            raise UsageError(
                f"{path}: a result of another workload; run this bundle again on that target"
            )
    own = found.provenance.get(KERNELS)
    count = len(workload.launches if own is None else own)
    if len(found.launches) != count:
        fact = f"metrics of {len(found.launches)} launches for {count}"
        raise DamagedError(f"{path}: damaged ({fact}); run the target again")


def _damaged(path: Path, error: Exception | str) -> DamagedError:
    fact = getattr(error, "strerror", None) or error
    return DamagedError(f"{path}: damaged ({fact}); run the target again")


def _outputs(workload: Workload, path: Path, counted: bool) -> dict[str, Output]:
    """The output tensors in `path`, which holds the arena from `outputs_offset` to its end; without
    a look at them where what is untouched in them is not `counted`."""
    want = workload.arena_nbytes - workload.outputs_offset
    try:
        with open_regular(path) as file:
            got = os.fstat(file.fileno()).st_size
            if got != want:
                raise DamagedError(f"{path}: {got} bytes instead of {want}; run it again")
            arena = np.memmap(file, dtype=np.uint8, mode="r")
    except OSError as error:
        raise DamagedError(f"{path}: {error.strerror}; run it again") from None
    outputs = {}
    for buffer in workload.outputs:
        start = buffer.offset - workload.outputs_offset
        end = start + buffer.spec.held
        spec = buffer.spec
        values = arena[start:end].view(spec.dtype.array)[: spec.size].reshape(spec.shape)
        guard = arena[end : end + GUARD].copy().view("<u4")
        intact = bool((guard == workload.canary).all())
        untouched = pouring.untouched(values, workload.canary) if counted else UNCOUNTED
        outputs[buffer.name] = Output(values, untouched, intact)
    return outputs


def _columns(result: Result, workload: Workload) -> dict[str, Any]:
    pairs = [(workload.steps[at], kernel) for at, kernel in result.kernels(workload)]
    columns: dict[str, Any] = {
        "order": list(range(len(pairs))),
        "layer": [step.layer for step, _ in pairs],
        "pass": [str(step.direction) for step, _ in pairs],
        "kernel": [kernel for _, kernel in pairs],
    }
    for metric in dict.fromkeys(name for launch in result.launches for name in launch):
        values = [launch.get(metric, float("nan")) for launch in result.launches]
        columns[metric] = np.array(values, dtype=np.float64)
    return columns
