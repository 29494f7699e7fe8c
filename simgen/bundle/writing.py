"""A bundle: one folder that holds one workload for any number of targets.

    manifest.json   what is in here, with digests; every path relative
    workload.json   layers, buffers, kernels, launches
    data.h5         inputs; shared by all targets
    mmap.bin        values for programs that map them, where a target has one (tensors/mmap_file.py)
    src/            rendered kernels and the prelude they include
    TARGET/         a folder for each target, with its run.sh
    results/TARGET/ what runs leave

A bundle is written beside its place and renamed into it whole. Built again for the same workload
and the same kernels, it keeps its other targets, and the results of every target that comes out
the same. Where targets are only added, they come into the folder as it is, whatever runs there. A
build that would make results invalid is refused, unless it is told to replace them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from simgen.ask.build import Making
from simgen.bundle import built_here, manifest, outputs, result_folders, result_names
from simgen.bundle.folder import (
    DATA,
    MANIFEST,
    RESULTS,
    WORKLOAD,
    Bundle,
    check_links,
    digest_of,
    load,
    verify,
    verify_values,
)
from simgen.errors import LossError, MissingError, RefusedError, UsageError, is_full
from simgen.ground.ir import Workload, to_json
from simgen.ground.storage import locks, schema, seal
from simgen.ground.storage.files import (
    OvertakenError,
    atomic_folder,
    new_mode,
    read_regular,
    write_atomic,
)
from simgen.isa import toolchain
from simgen.kernels import render
from simgen.targets import fit, matrix, own_sources
from simgen.targets.base import File, Job, Target
from simgen.tensors import data_file, mmap_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.bundle.result_folders import ResultEntry
    from simgen.kernels.build import Builder

    Progress = Callable[[int, int], None]
Made = TypeVar("Made")

__all__ = [
    "COMPLETE",
    "DATA",
    "MANIFEST",
    "RESULTS",
    "STOPPED",
    "WORKLOAD",
    "Bundle",
    "extend",
    "load",
    "opened",
    "verify",
    "verify_values",
    "workload_text",
    "write",
]

STOPPED = result_folders.STOPPED
COMPLETE = seal.FILE
UNWRITABLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EBUSY,
    errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip
ATTEMPTS = 8  # attempts of a build, while others change the bundle


class Cures(NamedTuple):
    """What helps where a bundle cannot be built, in the words of the command that builds it."""

    elsewhere: str = "choose another folder"
    replace: object = Making.replace  # the choice that removes results that would be lost


OF_BUILD = Cures()


def workload_text(workload: Workload) -> bytes:
    """What workload.json holds."""
    return (json.dumps(to_json(workload), indent=1) + "\n").encode()


def write(
    path: Path,
    workload: Workload,
    targets: Sequence[Target],
    builder: Builder,
    provenance: Mapping[str, Any],
    progress: Progress | None = None,
    values: Mapping[str, NDArray[Any]] | None = None,
    *,
    replace_results: bool = False,
    cures: Cures = OF_BUILD,
    seen: bytes | None = None,
) -> Bundle:
    """Make or renew the bundle at `path`, with a folder for each of `targets`.

    `values` are the user's own, of inputs by name (`own_values`). Of several builds at once, each
    adds its targets to what the others have made. `seen` is the manifest there (`standing`) that
    the workload was planned beside.

    Raises:
        UsageError: `path` is something else than a bundle, or cannot be written.
        RefusedError: results of the bundle that is there would be lost, and `replace_results` does
            not allow that; or somebody uses it.
        MissingError: a compiler or disk space.
        OvertakenError: another build has changed what was `seen`; plan again.
    """

    def once() -> Bundle:
        planned = _Build(path, workload, replace_results, values or {}, progress, cures)
        if seen is not None and planned.old.raw != seen:
            raise OvertakenError
        return planned.made(targets, builder, provenance)

    return once() if seen is not None else not_overtaken(path, once)


def not_overtaken(path: Path, build: Callable[[], Made]) -> Made:
    """What `build` makes at `path`, begun again where another build overtakes it.

    Raises:
        RefusedError: others overtake it each time.
    """
    for _ in range(ATTEMPTS):
        with contextlib.suppress(OvertakenError):
            return build()
    raise RefusedError(f"{path}: other builds keep changing it; build it again")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Bundle]:
    """The bundle at `path`, which nobody replaces meanwhile.

    Raises:
        UsageError, DamagedError: as `load`.
    """
    check_links(path)
    with locks.reading(path):
        result_folders.recover(path)
        yield load(path)


def extend(bundle: Bundle, folder: str, files: Mapping[str, File]) -> Bundle:
    """Add a folder to a target's, `TARGET/NAME`; all else stays as it is, results too.

    The folder gets its name when it is whole, and counts from when the manifest tells of it.

    Raises:
        UsageError: the bundle cannot be written.
        MissingError: no disk space.
    """
    path, target = bundle.path, folder.partition("/")[0]
    known = built_here.is_known(bundle, target)
    with _writing(path, "make the bundle's folder writable"), locks.adding(path):
        now = load(path).manifest  # another run may have added another folder
        kept = {n: d for n, d in now["files"].items() if not n.startswith(f"{folder}/")}
        added = {f"{folder}/{name}": manifest.sha256(f.content) for name, f in files.items()}
        new = manifest.sealed({**now, "files": dict(sorted((kept | added).items()))})
        with atomic_folder(path / folder) as stage:
            for name, file in files.items():
                _write(stage / name, file.content, file.executable)
        write_atomic(path / MANIFEST, manifest.text(new))
    made = replace(bundle, manifest=new)
    built_here.remember(made, [target] if known else [])
    return made


@dataclass(frozen=True)
class _Former:
    """The bundle that a build finds in its place."""

    raw: bytes  # manifest.json; empty where there is no bundle
    manifest: Mapping[str, Any]  # empty where it is damaged

    @property
    def files(self) -> Mapping[str, str]:
        return self.manifest.get("files", {})  # type: ignore[no-any-return]

    @property
    def targets(self) -> Mapping[str, Any]:
        return self.manifest.get("targets", {})  # type: ignore[no-any-return]


class _Build:
    """A build into a place as it is now.

    Its methods raise OvertakenError where the place has changed since.
    """

    def __init__(
        self,
        path: Path,
        workload: Workload,
        replace_results: bool,
        values: Mapping[str, NDArray[Any]],
        progress: Progress | None,
        cures: Cures,
    ) -> None:
        self.path, self.workload, self.values, self.progress = path, workload, values, progress
        self.replace_results, self.cures = replace_results, cures
        if os.path.lexists(path / MANIFEST):
            check_links(path)
        with _writing(path, cures.elsewhere):
            self.old = _existing(path, cures.elsewhere)
        text = workload_text(workload)
        identity = data_file.data_id(workload)
        self.job = Job(workload, render.kernels(workload), identity, manifest.sha256(text))
        self.files = {WORKLOAD: File(text), **_sources(self.job)}
        self.same = _digests(self.files).items() <= self.old.files.items()
        self.changed: list[str] = []  # targets of the old bundle that the new one has not as such

    def made(
        self, targets: Sequence[Target], builder: Builder, provenance: Mapping[str, Any]
    ) -> Bundle:
        """Build it."""
        old = self.old
        self._refuse_loss()
        settings: dict[str, Any] = {}
        kept: dict[str, str] = {}
        if self.same:
            settings, kept = _kept(self.path, old, {target.name for target in targets})
        for target in targets:
            matrix.check(target, self.workload)
            own_sources.check(target, self.workload)
            fit.check_asked(target, self.workload)
            made = target.package.folder(self.job, builder)
            self.files |= {f"{target.name}/{name}": file for name, file in made.items()}
            settings[target.name] = target.settings()
        digests = _digests(self.files) | kept
        # Valid are results of a target all of whose files the old bundle had: it may have had more.
        valid = [
            n
            for n in settings
            if _digests_of(n, digests).items() <= _digests_of(n, old.files).items()
        ]
        self.changed = [name for name in old.targets if name not in valid]
        self._refuse_loss()
        most = max((target.package.mapped_nbytes(self.workload) for target in targets), default=0)
        new = {
            "format": manifest.FORMAT,
            "name": self.workload.name,
            "compiler": toolchain.identity(),
            **provenance,
            "data": {"file": DATA, "id": self.job.data_id.hex(), **self._whole_data()},
            **mmap_file.recipe(most, self.workload.seed, old.manifest if kept else {}),
            "targets": settings,
            "files": dict(sorted(digests.items())),
        }
        if manifest.DIGEST in new["data"] and _are_whole(self.path, old.files):
            if old.manifest == manifest.sealed(new) and mmap_file.is_whole(self.path, new):
                return Bundle(self.path, old.manifest, self.workload)
            if old.files.items() <= digests.items():
                return self._add(new)
        return self._replace(new, kept)

    def _lost(self) -> list[ResultEntry]:
        """What lies in results/ and is of no use to the new bundle."""
        found = list(result_folders.entries(self.path)) if self.old.raw else []
        return [e for e in found if not self.same or result_names.target_of(e.name) in self.changed]

    def _refuse_loss(self) -> None:
        lost = self._lost()
        if not lost or self.replace_results:
            return
        why = "the target changes" if self.same else "the workload changes"
        if not self.old.manifest:
            why = f"its {MANIFEST} is damaged"
        raise LossError(
            f"{self.path}: {result_folders.listing(lost)} would be lost, because {why}; "
            f"{self.cures.elsewhere}, or remove them with {self.cures.replace}"
        )

    def _whole_data(self) -> dict[str, str]:
        """The digest of the data file that is there; empty where a new one is to be made."""
        told = self.old.manifest.get("data", {})
        digest = str(told.get(manifest.DIGEST, ""))
        same = told.get("id") == self.job.data_id.hex()
        place = self.path / DATA
        whole = same and data_file.is_whole(place, self.workload, digest, progress=self.progress)
        return {manifest.DIGEST: digest} if whole else {}

    def _check_unchanged(self) -> None:
        if standing(self.path) != self.old.raw:
            raise OvertakenError

    def _add(self, new: dict[str, Any]) -> Bundle:
        """More targets beside all that is there; they count once the manifest tells of them."""
        path = self.path
        with _writing(path, self.cures.elsewhere), locks.adding(path):
            self._check_unchanged()
            for name in (n for n in new["targets"] if n not in self.old.targets):
                with atomic_folder(path / name) as stage:
                    for inside in _digests_of(name, new["files"]):
                        file = self.files[inside]
                        _write(stage / inside.partition("/")[2], file.content, file.executable)
            if not mmap_file.is_whole(path, new):
                new |= mmap_file.write(path, new)
            sealed = manifest.sealed(new)
            write_atomic(path / MANIFEST, manifest.text(sealed))
        return Bundle(path, sealed, self.workload)

    def _replace(self, new: dict[str, Any], kept: Mapping[str, str]) -> Bundle:
        """A new folder in the place of what is there, with what stays of it linked over."""
        path, is_new = self.path, not self.old.raw
        with (
            _writing(path, self.cures.elsewhere),
            contextlib.ExitStack() as held,
            atomic_folder(path, new=is_new) as stage,
        ):
            for name, file in self.files.items():
                _write(stage / name, file.content, file.executable)
            for name in kept:
                _link(path / name, stage / name)
            self._write_values(stage, new)
            sealed = manifest.sealed(new)
            _write(stage / MANIFEST, manifest.text(sealed), False)
            if not is_new:
                held.enter_context(locks.replacing(path))  # until the folders are exchanged
                self._check_unchanged()
                self._refuse_loss()  # results of runs that have ended meanwhile
            lost = self._lost()
            for entry in result_folders.entries(path):
                if entry not in lost:
                    _carry_over(path, entry.path, stage)
        gone = [f"target {name}" for name in self.old.targets if name not in new["targets"]]
        return Bundle(path, sealed, self.workload, (*gone, *(entry.words for entry in lost)))

    def _write_values(self, stage: Path, new: dict[str, Any]) -> None:
        """data.h5 and mmap.bin, linked where they are whole; their digests come into `new`."""
        if manifest.DIGEST in new["data"]:
            _link(self.path / DATA, stage / DATA)
        else:
            written = data_file.write_data(
                stage / DATA,
                self.workload,
                values=self.values,
                progress=self.progress,
                shown=self.path / DATA,
            )
            new["data"] = {**new["data"], manifest.DIGEST: written.digest}
        if new.get(mmap_file.KEY) and mmap_file.is_whole(self.path, new):
            _link(self.path / mmap_file.FILE, stage / mmap_file.FILE)
        else:
            new |= mmap_file.write(stage, new)


def _existing(path: Path, cure: str) -> _Former:
    """The bundle at `path`.

    Raises:
        UsageError: there is something else.
    """
    outputs.outside(path, itself=True)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return _Former(b"", {})
    if not manifest.has_our_format(path / MANIFEST):
        fact = manifest.other_format(path / MANIFEST) or "exists and is not a bundle"
        raise UsageError(f"{path}: {fact}; {cure}")
    result_folders.recover(path)
    raw = standing(path)
    try:
        return _Former(raw, manifest.read_manifest(path / MANIFEST))
    except (OSError, ValueError):
        return _Former(raw, {})


def standing(path: Path) -> bytes:
    """The bytes of a bundle's manifest; none where there is none."""
    try:
        return read_regular(path / MANIFEST, schema.MAX_NBYTES)
    except OSError:
        return b""


def _sources(job: Job) -> dict[str, File]:
    """The folder of the rendered kernels."""
    files = {f"src/{name}.hip": File(source.encode()) for name, source in job.sources.items()}
    return {f"src/{render.PRELUDE}": File(render.prelude().encode()), **files}


def _digests(files: Mapping[str, File]) -> dict[str, str]:
    return {name: manifest.sha256(file.content) for name, file in files.items()}


def _kept(path: Path, old: _Former, rebuilt: set[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings and digests of targets that are not built now and of which no file is damaged."""
    settings: dict[str, Any] = {}
    kept: dict[str, str] = {}
    for name in old.targets:
        files = _digests_of(name, old.files)
        if name not in rebuilt and files and _are_whole(path, files):
            settings[name] = old.targets[name]
            kept |= files
    return settings, kept


def _are_whole(bundle: Path, files: Mapping[str, str]) -> bool:
    return all(digest_of(bundle / name) == digest for name, digest in files.items())


def _write(path: Path, content: bytes, executable: bool) -> None:
    # No fsync of each file: the folder has no name yet, and the manifest tells what is damaged.
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if executable:
        path.chmod(new_mode(0o777))


def _digests_of(target: str, digests: Mapping[str, str]) -> dict[str, str]:
    """The digests of a target's files."""
    return {n: d for n, d in digests.items() if n.startswith(f"{target}/")}


def _carry_over(bundle: Path, source: Path, stage: Path) -> None:
    """Link a file or a folder into the new bundle; nothing is copied, the old one stays whole."""
    for path in (source, *sorted(source.rglob("*"))):
        if path.is_file():
            _link(path, stage / path.relative_to(bundle))


def _link(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, to)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, to)


@contextlib.contextmanager
def _writing(path: Path, cure: str) -> Iterator[None]:
    """What the system says of writing a bundle becomes an error that names the bundle."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise MissingError(f"{path}: no space left on the disk; free some, or {cure}") from None
        if error.errno in UNWRITABLE:
            raise UsageError(f"{path}: cannot be written ({error.strerror}); {cure}") from None
        raise
