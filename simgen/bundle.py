"""A bundle: one folder that holds one workload for any number of targets.

    manifest.json   what is in here, with digests; every path relative
    workload.json   layers, buffers, kernels, launches
    data.h5         inputs; shared by all targets
    src/            rendered kernels and the prelude they include
    TARGET/         a folder for each target, with its run.sh
    results/TARGET/ what runs leave

A bundle is written beside its place and renamed into it whole. Built again for the same workload
and the same kernels, it keeps its other targets, and the results of every target that comes out
the same; otherwise it starts anew.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen import data, render, toolchain
from simgen.errors import DamagedError, MissingError, UsageError
from simgen.files import PART, write_atomic
from simgen.ir import Workload, from_json, to_json
from simgen.targets.base import File, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from simgen.build import Builder
    from simgen.targets.base import Target

FORMAT = "simgen bundle 1"
MANIFEST = "manifest.json"
WORKLOAD = "workload.json"
DATA = "data.h5"
RESULTS = "results"
UNWRITABLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EBUSY,
)  # fmt: skip
COMPLETE = "complete"  # in results/TARGET: the digest of the workload that ran to its end


@dataclass(frozen=True)
class Bundle:
    path: Path
    manifest: Mapping[str, Any]
    workload: Workload

    @property
    def digest(self) -> str:
        """Of workload.json."""
        return str(self.manifest["files"][WORKLOAD])

    @property
    def targets(self) -> Mapping[str, Mapping[str, Any]]:
        """Target name -> its settings, in the order in which they were built."""
        return self.manifest["targets"]  # type: ignore[no-any-return]

    def results(self, target: str) -> Path | None:
        """The folder of a finished run of this workload."""
        folder = self.path / RESULTS / target
        try:
            done = (folder / COMPLETE).read_text().strip()
        except (OSError, UnicodeDecodeError):
            return None
        return folder if done == self.digest else None


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
) -> Bundle:
    """Make or renew the bundle at `path`, with a folder for each of `targets`.

    Raises:
        UsageError: `path` is something else than a bundle, or cannot be written.
        MissingError: a compiler or disk space.
    """
    old = _existing(path)
    text = workload_text(workload)
    digest = _sha256(text)
    sources = render.kernels(workload)
    job = Job(workload, sources, data.data_id(workload), digest)
    files = {WORKLOAD: File(text), f"src/{render.PRELUDE}": File(render.prelude().encode())}
    for name, source in sources.items():
        files[f"src/{name}.hip"] = File(source.encode())
    before = old.manifest["files"] if old else {}
    same = all(before.get(name) == _sha256(file.content) for name, file in files.items())
    kept = _kept(old, {target.name for target in targets}) if old and same else {}
    settings: dict[str, Any] = {}
    if old and same:
        settings = {name: old.targets[name] for name in old.targets if _of(name, kept)}
    for target in targets:
        for name, file in target.folder(job, builder).items():
            files[f"{target.name}/{name}"] = file
        settings[target.name] = target.settings()
    digests = {name: _sha256(file.content) for name, file in files.items()} | kept
    manifest = {
        "format": FORMAT,
        "name": workload.name,
        "compiler": toolchain.identity(),
        **provenance,
        "data": {"file": DATA, "id": job.data_id.hex()},
        "targets": settings,
        "files": dict(sorted(digests.items())),
    }
    made = Bundle(path, manifest, workload)
    if (
        old
        and old.manifest == manifest
        and _is_whole(old)
        and data.is_current(path / DATA, workload)
    ):
        return made
    with _staged(path) as stage:
        for name, file in files.items():
            _write(stage / name, file.content, file.executable)
        _write(stage / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode(), False)
        if old:
            changed = {
                t.name
                for t in targets
                if not _of(t.name, digests).items() <= _of(t.name, before).items()
            }
            ran = {f"{RESULTS}/{name}" for name in settings if name not in changed}
            _carry_over(old, stage, set(digests) - set(files), ran if same else set())
        if not data.is_current(stage / DATA, workload):
            data.write_data(stage / DATA, workload, progress=progress)
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
    with _staged(bundle.path / folder) as stage:
        for name, file in files.items():
            _write(stage / name, file.content, file.executable)
    write_atomic(bundle.path / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    return replace(bundle, manifest=manifest)


def load(path: Path) -> Bundle:
    """The bundle at `path`.

    Raises:
        UsageError: there is none.
        DamagedError: its manifest or workload is not what was written.
    """
    try:
        raw = (path / MANIFEST).read_bytes()
    except OSError as error:
        fact = "no such folder" if not path.exists() else f"no bundle ({error.strerror})"
        raise UsageError(f"{path}: {fact}; make one with: simgen build") from None
    # A build replaces what it knows to be a bundle, and nothing else.
    cure = "build it again" if _is_ours(path / MANIFEST) else "remove the folder and build it again"
    try:
        manifest = json.loads(raw)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise UsageError(
                f"{path / MANIFEST}: not the manifest of a simgen bundle; "
                "name another folder, or make one with: simgen build"
            )
        _check_manifest(manifest)
        text = (path / WORKLOAD).read_bytes()
        if _sha256(text) != manifest["files"][WORKLOAD]:
            raise DamagedError(f"{path / WORKLOAD}: differs from its digest; {cure}")
        workload = from_json(Workload, json.loads(text))
        return Bundle(path, manifest, workload)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DamagedError(
            f"{path}: {MANIFEST} or {WORKLOAD} is damaged ({error}); {cure}"
        ) from None


def _check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise ValueError or KeyError unless it has all that later stages ask it for."""
    for key in ("name", "simgen", "compiler", "config"):
        manifest[key]
    for key in ("targets", "files", "data"):
        if not isinstance(manifest[key], dict):
            raise ValueError(f"{key} is no object")
    for name in (*manifest["files"], *manifest["targets"]):
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"{name!r} lies outside of the bundle")
    if not isinstance(manifest["data"]["id"], str):
        raise ValueError("data.id is no text")


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
        found = json.loads(manifest.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


def _kept(old: Bundle, rebuilt: set[str]) -> dict[str, str]:
    """Digests of the files of targets that are not built now and of which none is damaged."""
    kept: dict[str, str] = {}
    for name in set(old.targets) - rebuilt:
        files = _of(name, old.manifest["files"])
        if all(_digest(old.path / n) == d for n, d in files.items()):
            kept |= files
    return kept


def _is_whole(old: Bundle) -> bool:
    return all(_digest(old.path / n) == d for n, d in old.manifest["files"].items())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest(path: Path) -> str | None:
    try:
        return _sha256(path.read_bytes())
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


def _carry_over(old: Bundle, stage: Path, names: set[str], ran: set[str]) -> None:
    """Link the files `names` and the folders `ran` into the new bundle, where they are there.

    Nothing is copied, and the old bundle stays whole.
    """
    for name in names:
        _link(old.path / name, stage / name)
    if (old.path / DATA).exists():
        _link(old.path / DATA, stage / DATA)
    for folder in sorted(ran):
        for source in sorted((old.path / folder).rglob("*")):
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
def _staged(path: Path) -> Iterator[Path]:
    """A new folder that takes the place of `path` when the block ends, and vanishes otherwise."""
    parent = path.absolute().parent
    stage: Path | None = None
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent, path.name)
        here = f"{PART}{path.name}-{platform.node()}-{os.getpid()}-"
        stage = Path(tempfile.mkdtemp(dir=parent, prefix=here))
        stage.chmod(0o777 & ~_umask())
        yield stage
        _replace(stage, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingError(
                f"{path}: no space left on the disk; free some, or choose another folder with -o"
            ) from None
        if error.errno in UNWRITABLE:
            raise UsageError(
                f"{path}: cannot be written ({error.strerror}); choose another folder with -o"
            ) from None
        raise
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)


def _sweep(parent: Path, name: str) -> None:
    """Remove what builds of this bundle left that were killed on this machine."""
    mine = re.compile(re.escape(f"{PART}{name}-{platform.node()}-") + r"(\d+)-\w+")
    for stage in parent.glob(f"{PART}*"):
        match = mine.fullmatch(stage.name)
        if match and not Path(f"/proc/{match[1]}").exists():
            shutil.rmtree(stage, ignore_errors=True)


def _replace(stage: Path, path: Path) -> None:
    """Give `stage` the name `path`; what had it goes. Linux swaps two names in one step."""
    if not path.exists():
        os.rename(stage, path)
        return
    exchange = 2  # RENAME_EXCHANGE
    here = -100  # AT_FDCWD
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if (
        swap
        and swap(here, os.fsencode(stage.absolute()), here, os.fsencode(path.absolute()), exchange)
        == 0
    ):
        return  # the old one is now `stage`, which the caller removes
    aside = stage.with_name(f"{stage.name}.old")
    os.rename(path, aside)
    os.rename(stage, path)
    shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
