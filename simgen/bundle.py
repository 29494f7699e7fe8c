"""A bundle: one folder that holds one workload for any number of targets.

    manifest.json   what is in here, with digests; every path relative
    workload.json   layers, buffers, kernels, launches
    data.h5         inputs; shared by all targets
    mmap.bin        values for programs that map them, where a target has one (simgen.mapped)
    src/            rendered kernels and the prelude they include
    TARGET/         a folder for each target, with its run.sh
    results/TARGET/ what runs leave

A bundle is written beside its place and renamed into it whole. Built again for the same workload
and the same kernels, it keeps its other targets, and the results of every target that comes out
the same; otherwise it starts anew.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simgen import data, mapped, render, schema, stored, sweep, toolchain
from simgen.errors import DamagedError, MissingError, UsageError
from simgen.files import PART, atomic_folder, read_regular, write_atomic
from simgen.ir import Workload, to_json
from simgen.targets.base import File, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.build import Builder
    from simgen.targets.base import Target

FORMAT = "simgen bundle 1"
MANIFEST = "manifest.json"
WORKLOAD = "workload.json"
DATA = "data.h5"
RESULTS = "results"
STOPPED = "stopped-"  # begins the name of what a run leaves in results/ that can be continued
UNWRITABLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EBUSY,
    errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip
ELSEWHERE = "choose another folder with -o"
COMPLETE = "complete"  # in results/TARGET: the digest of the workload that ran to its end


@dataclass(frozen=True)
class Bundle:
    path: Path
    manifest: Mapping[str, Any]
    workload: Workload
    gone: tuple[str, ...] = ()  # of `write`: targets and results of the bundle that was there

    @property
    def digest(self) -> str:
        """Of workload.json."""
        return str(self.manifest["files"][WORKLOAD])

    @property
    def targets(self) -> Mapping[str, Mapping[str, Any]]:
        """Target name -> its settings, in the order in which they were built."""
        return self.manifest["targets"]  # type: ignore[no-any-return]

    def results(self, name: str) -> Path | None:
        """The folder of a finished run of this workload: a target's, or of a point of a sweep."""
        folder = self.path / RESULTS / name
        try:
            done = read_regular(folder / COMPLETE, 1000).strip()
        except OSError:
            return None
        return folder if done == self.digest.encode() else None

    def ran(self) -> list[str]:
        """Names of all finished runs: each target's own, then those of its sweeps."""
        names = [name for target in self.targets for name in _results_of(self.path, target)]
        return [name for name in names if self.results(name)]


def workload_text(workload: Workload) -> bytes:
    """What workload.json holds."""
    return (json.dumps(to_json(workload), indent=1) + "\n").encode()


def write(
    path: Path,
    workload: Workload,
    targets: Sequence[Target],
    builder: Builder,
    provenance: Mapping[str, Any],
    progress: Callable[[int, int], None] | None = None,
    values: Mapping[str, NDArray[Any]] | None = None,
) -> Bundle:
    """Make or renew the bundle at `path`, with a folder for each of `targets`.

    `values` are the user's own, of inputs by name (`own_values`).

    Raises:
        UsageError: `path` is something else than a bundle, or cannot be written.
        MissingError: a compiler or disk space.
    """
    with _writing(path, ELSEWHERE):
        old = _existing(path)
    text = workload_text(workload)
    job = Job(workload, render.kernels(workload), data.data_id(workload), _sha256(text))
    files = {WORKLOAD: File(text), **_sources(job)}
    before = old.manifest["files"] if old else {}
    same = all(before.get(name) == _sha256(file.content) for name, file in files.items())
    settings: dict[str, Any] = {}
    kept: dict[str, str] = {}
    if old and same:
        settings, kept = _kept(old, {target.name for target in targets})
    for target in targets:
        made_files = target.folder(job, builder)
        files |= {f"{target.name}/{name}": file for name, file in made_files.items()}
        settings[target.name] = target.settings()
    digests = {name: _sha256(file.content) for name, file in files.items()} | kept
    most = max((target.mapped_nbytes(workload) for target in targets), default=0)
    manifest = {
        "format": FORMAT,
        "name": workload.name,
        "compiler": toolchain.identity(),
        **provenance,
        "data": {"file": DATA, "id": job.data_id.hex()},
        **mapped.recipe(most, workload.seed, old.manifest if old and kept else {}),
        "targets": settings,
        "files": dict(sorted(digests.items())),
    }
    still = [n for n in settings if _of(n, digests).items() <= _of(n, before).items()]
    ran = [result for n in still for result in _results_of(path, n)] if same else []
    made = Bundle(path, manifest, workload, _gone(old, settings, ran) if old else ())
    if old and old.manifest == manifest and _is_whole(old):
        return made
    with _writing(path, ELSEWHERE), atomic_folder(path) as stage:
        for name, file in files.items():
            _write(stage / name, file.content, file.executable)
        _write(stage / MANIFEST, _json(manifest), False)
        if old:
            stopped = [f"{STOPPED}{result}" for result in ran]
            _carry_over(old, stage, set(digests) - set(files), [*ran, *stopped])
            if mapped.is_kept(path, old.manifest, manifest):
                _link(path / mapped.FILE, stage / mapped.FILE)
        if not data.is_current(stage / DATA, workload):
            data.write_data(
                stage / DATA, workload, values=values, progress=progress, shown=path / DATA
            )
        if not mapped.is_current(stage, manifest):
            mapped.write(stage, manifest)
    return made


def extend(bundle: Bundle, folder: str, files: Mapping[str, File]) -> Bundle:
    """Add a folder to a target's, `TARGET/NAME`; all else stays as it is, results too.

    The folder gets its name when it is whole, and counts from when the manifest tells of it.

    Raises:
        UsageError: the bundle cannot be written.
        MissingError: no disk space.
    """
    kept = {n: d for n, d in bundle.manifest["files"].items() if not n.startswith(f"{folder}/")}
    added = {f"{folder}/{name}": _sha256(file.content) for name, file in files.items()}
    manifest = {**bundle.manifest, "files": dict(sorted((kept | added).items()))}
    with _writing(bundle.path, "make the bundle's folder writable"):
        with atomic_folder(bundle.path / folder) as stage:
            for name, file in files.items():
                _write(stage / name, file.content, file.executable)
        write_atomic(bundle.path / MANIFEST, _json(manifest))
    return replace(bundle, manifest=manifest)


def load(path: Path) -> Bundle:
    """The bundle at `path`.

    Raises:
        UsageError: there is none.
        DamagedError: its manifest or workload is not what was written.
    """
    try:
        raw = read_regular(path / MANIFEST, schema.MAX_NBYTES)
    except OSError as error:
        fact = "no such folder" if not path.exists() else f"no bundle ({error.strerror})"
        raise UsageError(f"{path}: {fact}; make one with: simgen build") from None
    # A build replaces what it knows to be a bundle, and nothing else.
    cure = "build it again" if _is_ours(path / MANIFEST) else "remove the folder and build it again"
    try:
        manifest = schema.parse(raw)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise UsageError(
                f"{path / MANIFEST}: not the manifest of a simgen bundle; "
                "name another folder, or make one with: simgen build"
            )
        stored.check_manifest(manifest)
        text = read_regular(path / WORKLOAD, schema.MAX_NBYTES)
        if _sha256(text) != manifest["files"][WORKLOAD]:
            raise DamagedError(f"{path / WORKLOAD}: differs from its digest; {cure}")
        workload = stored.workload(schema.parse(text))
        return Bundle(path, manifest, workload)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DamagedError(
            f"{path}: {MANIFEST} or {WORKLOAD} is damaged ({error}); {cure}"
        ) from None


def verify(bundle: Bundle, target: str) -> None:
    """Check the files that a run of `target` uses, except for the values in the data file.

    Raises:
        DamagedError: a file is missing or changed.
    """
    for name, digest in bundle.manifest["files"].items():
        if name.startswith((f"{target}/", "src/")) and _digest(bundle.path / name) != digest:
            raise DamagedError(
                f"{bundle.path / name}: missing or changed since it was built; build it again"
            )
    header = data.read_header(bundle.path / DATA)
    if header.id.hex() != bundle.manifest["data"]["id"]:
        raise DamagedError(
            f"{bundle.path / DATA}: holds the data of another workload; build the bundle again"
        )
    if not mapped.is_current(bundle.path, bundle.manifest):
        raise DamagedError(f"{bundle.path / mapped.FILE}: missing or cut short; build it again")


def _existing(path: Path) -> Bundle | None:
    """The bundle at `path`, None where there is nothing or a damaged bundle."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    if not _is_ours(path / MANIFEST):
        raise UsageError(f"{path}: exists and is no bundle; choose another folder with -o")
    try:
        return load(path)
    except DamagedError:
        return None


def _is_ours(manifest: Path) -> bool:
    """Whether a folder may be replaced. One whose manifest is damaged may be anybody's."""
    try:
        found = schema.parse(read_regular(manifest, schema.MAX_NBYTES))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


def _sources(job: Job) -> dict[str, File]:
    """The folder of the rendered kernels."""
    files = {f"src/{name}.hip": File(source.encode()) for name, source in job.sources.items()}
    return {f"src/{render.PRELUDE}": File(render.prelude().encode()), **files}


def _json(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1) + "\n").encode()


def _kept(old: Bundle, rebuilt: set[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings and digests of targets that are not built now and of which no file is damaged."""
    settings: dict[str, Any] = {}
    kept: dict[str, str] = {}
    for name in old.targets:
        files = _of(name, old.manifest["files"])
        if name not in rebuilt and files and _are_whole(old.path, files):
            settings[name] = old.targets[name]
            kept |= files
    return settings, kept


def _is_whole(old: Bundle) -> bool:
    data_file = data.is_current(old.path / DATA, old.workload)
    values = mapped.is_current(old.path, old.manifest)
    return data_file and values and _are_whole(old.path, old.manifest["files"])


def _are_whole(bundle: Path, files: Mapping[str, str]) -> bool:
    return all(_digest(bundle / name) == digest for name, digest in files.items())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest(path: Path) -> str | None:
    try:
        return _sha256(read_regular(path))
    except OSError:
        return None


def _write(path: Path, content: bytes, executable: bool) -> None:
    # No fsync of each file: the folder has no name yet, and the manifest tells what is damaged.
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if executable:
        path.chmod(path.stat().st_mode | 0o111)


def _of(target: str, digests: Mapping[str, str]) -> dict[str, str]:
    """The digests of a target's files."""
    return {n: d for n, d in digests.items() if n.startswith(f"{target}/")}


def _results_of(bundle: Path, target: str) -> list[str]:
    """Names of the folders that runs of a target may have left, its own first."""
    patterns = (f"{kind}{target}{sweep.MARK}*" for kind in ("", STOPPED))
    swept = {path.name for pattern in patterns for path in (bundle / RESULTS).glob(pattern)}
    return [target, *sorted({name.removeprefix(STOPPED) for name in swept}, key=sweep.rank)]


def _gone(old: Bundle, targets: Mapping[str, Any], ran: Sequence[str]) -> tuple[str, ...]:
    """Targets and results of the old bundle that the new one does not have, in words."""
    left = [f"target {name}" for name in old.targets if name not in targets]
    return (*left, *(f"results of {name}" for name in old.ran() if name not in ran))


def _carry_over(old: Bundle, stage: Path, names: Iterable[str], ran: Iterable[str]) -> None:
    """Link the files `names` and the results `ran` into the new bundle, where they are there.

    Nothing is copied, and the old bundle stays whole.
    """
    for name in names:
        _link(old.path / name, stage / name)
    if (old.path / DATA).exists():
        _link(old.path / DATA, stage / DATA)
    for result in ran:
        for source in sorted((old.path / RESULTS / result).rglob("*")):
            relative = source.relative_to(old.path)
            if source.is_file() and not any(part.startswith(PART) for part in relative.parts):
                _link(source, stage / relative)


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
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingError(f"{path}: no space left on the disk; free some, or {cure}") from None
        if error.errno in UNWRITABLE:
            raise UsageError(f"{path}: cannot be written ({error.strerror}); {cure}") from None
        raise
