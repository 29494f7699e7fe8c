"""A bundle that is there: opened, and checked before it is used."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.bundle import manifest, result_folders, result_names, stored_workload
from simgen.errors import DamagedError, UsageError
from simgen.ground.storage import locks, schema, seal
from simgen.ground.storage.files import NotRegularError, leads_out, read_regular
from simgen.tensors import data_file, mmap_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.ground.ir import Workload

    Progress = Callable[[int, int], None]

MANIFEST = manifest.FILE
WORKLOAD = locks.USED
DATA = "data.h5"
RESULTS = result_folders.RESULTS


@dataclass(frozen=True)
class Bundle:
    path: Path
    manifest: Mapping[str, Any]
    workload: Workload
    # set by `write`: targets and results of the replaced bundle that are gone
    gone: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of workload.json."""
        return str(self.manifest["files"][WORKLOAD])

    @property
    def targets(self) -> Mapping[str, Mapping[str, Any]]:
        """Target name -> its settings, in the order in which they were built."""
        return self.manifest["targets"]  # type: ignore[no-any-return]

    @property
    def settings(self) -> dict[str, str]:
        """What --set gave; without any, values that all sections of the config agree on."""
        config = self.manifest.get("config")
        given = config.get("settings") if isinstance(config, dict) else None
        if given:
            return {key: value for key, _, value in (str(each).partition("=") for each in given)}
        text, values = str(self.manifest.get("config_text", "")), dict[str, set[str]]()
        for key, value in re.findall(r"^\s*(\w+)\s*=\s*([^\s$]+)\s*$", text, re.MULTILINE):
            values.setdefault(key, set()).add(value)
        return {key: min(found) for key, found in values.items() if len(found) == 1}

    def results(self, name: str) -> Path | None:
        """The folder of a finished run: a target's, or of a point of a sweep.

        Raises:
            DamagedError: the folder is there, and not that of a finished run of this workload.
        """
        folder = self.path / RESULTS / name
        if not folder.is_dir():
            return None
        if seal.read_seal(folder).workload != self.digest:
            raise DamagedError(
                f"{folder}: a result of another workload; run it again, or move it away"
            )
        return folder

    def has(self, name: str) -> bool:
        """Whether there is such a result; one that is damaged is none."""
        try:
            return self.results(name) is not None
        except DamagedError:
            return False

    def ran_as(self, name: str) -> bool:
        """Whether `ran` has this name."""
        is_one = "/" not in name and result_names.target_of(name) in self.targets
        return is_one and (self.path / RESULTS / name).is_dir()

    def ran(self) -> list[str]:
        """Names of all results, damaged or not: each target's own, then those of its sweeps."""
        names = [
            name for target in self.targets for name in result_folders.names(self.path, target)
        ]
        return [name for name in names if (self.path / RESULTS / name).is_dir()]


def check_links(path: Path) -> None:
    """Refuse a bundle that somebody made to be read or written elsewhere.

    Raises:
        DamagedError: a link leads out of it.
    """
    for folder in (path, path / RESULTS):
        try:
            with os.scandir(folder) as entries:
                links = [Path(entry.path) for entry in entries if entry.is_symlink()]
        except OSError:  # none is there; who needs it says so
            continue
        for link in links:
            if leads_out(link, path):
                fact = "a link that leads out of the bundle; put there what it stands for"
                raise DamagedError(f"{link}: {fact}")


def load(path: Path) -> Bundle:
    """The bundle at `path`.

    Raises:
        UsageError: there is none.
        DamagedError: its manifest or workload is not what was written.
    """
    if not (path / MANIFEST).exists():
        fact = "not a bundle" if path.exists() else "no such folder"
        raise UsageError(f"{path}: {fact}; make one with: simgen build")
    check_links(path)
    try:
        found = manifest.read_manifest(path / MANIFEST)
        text = read_regular(path / WORKLOAD, schema.MAX_NBYTES)
        if manifest.sha256(text) != found["files"][WORKLOAD]:
            raise DamagedError(f"{path / WORKLOAD}: differs from its digest; {_cure(path)}")
        return Bundle(path, found, stored_workload.workload(schema.parse(text)))
    except NotRegularError as error:
        if not (path / MANIFEST).is_file():
            raise UsageError(f"{path}: not a bundle; make one with: simgen build") from None
        raise DamagedError(f"{path / WORKLOAD}: {error.strerror}; {_cure(path)}") from None
    except (ValueError, KeyError, OSError) as error:
        raise DamagedError(
            f"{path}: {MANIFEST} or {WORKLOAD} is damaged ({error}); {_cure(path)}"
        ) from None


def _cure(path: Path) -> str:
    """A build replaces what it knows to be a bundle, and nothing else."""
    if manifest.has_our_format(path / MANIFEST):
        return "build it again"
    if any(result_folders.entries(path)):
        return "build it into another folder with -o, and move results/ there"
    return "remove the folder and build it again"


def verify(bundle: Bundle, target: str) -> None:
    """Check the files that a run of `target` uses; of data.h5 and mmap.bin only their sizes.

    Raises:
        DamagedError: a file is missing or changed.
    """
    for name, digest in bundle.manifest["files"].items():
        if name.startswith((f"{target}/", "src/")) and digest_of(bundle.path / name) != digest:
            raise DamagedError(
                f"{bundle.path / name}: missing or changed since it was built; build it again"
            )
    header = data_file.read_header(bundle.path / DATA)
    if header.id.hex() != bundle.manifest["data"]["id"]:
        raise DamagedError(
            f"{bundle.path / DATA}: holds the data of another workload; build the bundle again"
        )
    if not mmap_file.is_there(bundle.path, bundle.manifest):
        raise DamagedError(f"{bundle.path / mmap_file.FILE}: missing or cut short; build it again")


def verify_values(bundle: Bundle, progress: Progress | None = None) -> str:
    """Read data.h5 and mmap.bin, and compare them with their digests; the digest of data.h5.

    `progress` is called with (bytes done, bytes in all).

    Raises:
        DamagedError: one is missing or changed.
    """
    told = bundle.manifest["data"].get(manifest.DIGEST, "")
    digest = data_file.verify(bundle.path / DATA, bundle.workload, told, progress=progress)
    if not mmap_file.is_whole(bundle.path, bundle.manifest):
        place = bundle.path / mmap_file.FILE
        raise DamagedError(f"{place}: missing or changed since it was built; build it again")
    return digest


def digest_of(path: Path) -> str | None:
    """The SHA-256 of a small file; None where it cannot be read."""
    try:
        return manifest.sha256(read_regular(path))
    except OSError:
        return None
