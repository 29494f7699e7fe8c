"""Structural fuzzing of every file that simgen reads back, and of the texts that it is given.

A case is one change to one file of a bundle that has run (or of the user's), and one command that
reads it. Every command must end with a documented exit code and at most one line on stderr, in
bounded time and memory. A case is made from the seed and its number alone: `run_case(7, 42)` makes
the same one anywhere, so that what a campaign finds can be looked at.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import functools
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import traceback
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import onnx
import onnx.numpy_helper
from handmade import BOTH, build, lowered_text, run_by_hand, with_manifest

from simgen import errors
from simgen.bundle import built_here, result_digest, results, run_record, saved_result, verdict_file
from simgen.bundle import manifest as manifests
from simgen.bundle import writing as bundles
from simgen.cli import main
from simgen.ground import resources
from simgen.ground.storage import hdf5, seal
from simgen.ground.storage.schema import to_json
from simgen.reports.pages import drawing as report_drawing
from simgen.reports.pages import interactive, reporting, store, trace
from simgen.running.workflow import jobs as workflow_jobs
from simgen.running.workflow.jobs import JobBundle, JobPoint, Workflow
from simgen.targets import ncu
from simgen.targets.cuda import Cuda
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host
from simgen.tensors import data_file, state_file
from simgen.tensors.state_file import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NETWORK = "[Activation]\nname=a\nn=4\nc=7\n[Softmax]\nname=s\nprevious_layer=a\n"
CONFIG = "net.dnnmark"
SECONDS = 300  # after which a case counts as hanging, on a busy machine too
MEMORY = 4 * 2**30  # bytes of address space, beside what the process has
LONGEST = 1600  # characters of the line on stderr
SCRIPT = "echo 'simgen: error: host: there is no program'; exit 5\n"

Rng = random.Random


class Hanging(BaseException):
    """No exception that the command line could take for an error of its own."""


@dataclass
class Case:
    """What was changed, what was called, and how it ended."""

    kind: str
    number: int
    change: str = ""
    words: list[str] = field(default_factory=list)
    code: int | None = None
    err: str = ""
    wrong: str = ""  # empty: as it should be


# ------------------------------------------------------------------ changes of JSON


class Raw(str):
    """Text that stands in JSON as it is."""

    __slots__ = ()


def odd_values(rng: Rng) -> Any:
    """What may stand where something else should."""
    return rng.choice(
        [
            None, True, False, 0, 1, -1, 4, 17, 4096, 2**31, 2**53, 2**63, -(2**63), 2**64, 1e300,
            0.5, -0.0, "", "x", "0", "-1", "../..", "/etc/passwd", "a\0b", "\x1b[31m", "\u202e",
            "é" * 50, "x" * 100_000, [], {}, [[]], [0], [None], {"": 0}, {"x": {"y": 1}},
            [0] * 100_000, Raw("NaN"), Raw("-Infinity"), Raw("1e999"), Raw("9" * 5000),
            Raw('"\\ud800"'), Raw("[" * 100_000 + "]" * 100_000), Raw("9" * 400), Raw("01"),
        ]
    )  # fmt: skip


def nodes(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values in a JSON tree."""
    yield path
    if isinstance(tree, dict | list):
        for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from nodes(item, (*path, key))


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def dumped(tree: Any) -> str:
    """JSON in which Raw texts stand as they are."""
    if isinstance(tree, Raw):
        return str(tree)
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {dumped(v)}" for k, v in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(dumped, tree)) + "]"
    return json.dumps(tree)


def change_json(rng: Rng, tree: Any) -> tuple[str, str]:
    """(the changed JSON, what was done)."""
    tree = copy.deepcopy(tree)
    path = rng.choice([path for path in nodes(tree) if path])
    parent, key = at(tree, path[:-1]), path[-1]
    what = rng.choice(
        ("replace", "replace", "replace", "number", "remove", "twice", "more", "swap")
    )
    if what == "number" and type(parent[key]) in (int, float):
        parent[key] = rng.choice((-parent[key], parent[key] + 1, parent[key] * 2**20, 0, 0.5))
    elif what == "remove":
        del parent[key]
    elif what == "twice" and isinstance(parent, dict):
        value = dumped(parent[key])
        parent[key] = Raw(f"{value}, {json.dumps(key)}: {value}")
    elif what == "twice":
        parent.insert(key, parent[key])
    elif what == "more":
        if isinstance(parent, dict):
            parent[rng.choice(("x", "../x", "", "\x1b", "x" * 5000))] = odd_values(rng)
        else:
            parent.append(odd_values(rng))
    elif what == "swap":
        parent[key] = copy.deepcopy(at(tree, rng.choice(list(nodes(tree)))))
    else:
        parent[key] = odd_values(rng)
    return dumped(tree), f"{what} {'/'.join(map(str, path))}"[:100]


def change_bytes(rng: Rng, content: bytes) -> tuple[bytes, str]:
    """Damage that knows nothing of the format."""
    place = rng.randrange(len(content) + 1)
    what = rng.choice(("cut", "flip", "insert", "zeros", "empty", "twice", "text"))
    if what == "cut":
        return content[:place], f"cut at {place}"
    if what == "flip" and place < len(content):
        changed = bytes([content[place] ^ 1 << rng.randrange(8)])
        return content[:place] + changed + content[place + 1 :], f"flip at {place}"
    if what == "insert":
        more = rng.choice((b"\0", b"\xff\xfe", b"\n", b'"', b"\x1b[2J", b"9" * 10_000, b","))
        return content[:place] + more + content[place:], f"insert {more[:8]!r} at {place}"
    if what == "zeros":
        return content[:place] + bytes(len(content) - place), f"zeros from {place}"
    if what == "twice":
        return content + content, what
    return (b"", "empty") if what == "empty" else (b"something else\n" * 9, what)


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "nothing": lambda path: None,
}


def spoil(rng: Rng, path: Path, change: Callable[[Rng, Path], str]) -> str:
    """Change a file by its structure, now and then as bytes, or put something else in its place."""
    choice = rng.random()
    if choice < 0.75:
        return change(rng, path)
    if choice < 0.93:
        content, what = change_bytes(rng, path.read_bytes())
        path.write_bytes(content)
        return what
    what = rng.choice(list(ODD_FILES))
    path.unlink()
    ODD_FILES[what](path)
    return what


def spoil_json(rng: Rng, path: Path) -> str:
    text, what = change_json(rng, json.loads(path.read_text()))
    path.write_text(text)
    return what


# ------------------------------------------------------------------ changes of HDF5


def change_hdf5(rng: Rng, path: Path) -> str:
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        name = rng.choice(names)
        what = rng.choice(list(HDF5_CHANGES))
        HDF5_CHANGES[what](rng, file, name)
    return f"{what} {name}"


def _attribute(rng: Rng, file: h5py.File, name: str) -> None:
    item = rng.choice((file, file[name]))
    names = [*item.attrs, "untouched", "guard_intact", "provenance", "schema", "sha256"]
    item.attrs[rng.choice(names)] = rng.choice(
        [
            -1, 2**63, 0, 1.5, np.nan, True, "x", b"x", "", "x" * 60_000, [1, 2], np.zeros((3, 3)),
            h5py.Empty("f4"), np.complex64(1), "\x1b[31m", np.array([b"a", b"b"]), file.ref,
        ]
    )  # fmt: skip


def _provenance(rng: Rng, file: h5py.File, name: str) -> None:
    if "provenance" not in file:
        return _attribute(rng, file, name)
    text, _ = change_json(rng, json.loads(hdf5.document(file, "provenance")))
    del file["provenance"]
    hdf5.write_document(file, "provenance", text)
    return None


def _remade(rng: Rng, file: h5py.File, name: str, **how: Any) -> None:
    """Another dataset in the place of one."""
    old = file[name]
    shape = old.shape if isinstance(old, h5py.Dataset) else (3,)
    attributes = dict(old.attrs)
    del file[name]
    made = file.create_dataset(name, **{"shape": shape, "dtype": "<f4", **how})
    for key, value in attributes.items():
        made.attrs[key] = value


def _type(rng: Rng, file: h5py.File, name: str) -> None:
    kinds: list[Any] = [
        "<f8", "<f2", ">f4", "<i4", "<u8", "i1", "c8", "S3", "V5", h5py.string_dtype(), "?",
        h5py.vlen_dtype("f4"), h5py.ref_dtype, [("a", "f4")], h5py.enum_dtype({"a": 1}),
    ]  # fmt: skip
    _remade(rng, file, name, dtype=rng.choice(kinds))


def _shape(rng: Rng, file: h5py.File, name: str) -> None:
    shapes = [(), (0,), (1,), (2**40,), (2**20, 2**20, 2**10), (1,) * 20, (4, 7), (7, 4, 1, 1)]
    how: dict[str, Any] = {}
    shape = rng.choice(shapes)
    if shape and all(shape) and rng.random() < 0.5:
        how = {"chunks": tuple(min(64, n) for n in shape), "compression": "gzip"}
    _remade(rng, file, name, shape=shape, **how)


def _external(rng: Rng, file: h5py.File, name: str) -> None:
    shape = getattr(file[name], "shape", None) or (3,)
    nbytes = int(np.prod(shape)) * 4
    _remade(rng, file, name, external=[("../outside.bin", 0, nbytes)])


def _virtual(rng: Rng, file: h5py.File, name: str) -> None:
    shape = getattr(file[name], "shape", None) or (3,)
    layout = h5py.VirtualLayout(shape, "<f4")
    layout[...] = h5py.VirtualSource("../outside.h5", "x", shape)
    del file[name]
    file.create_virtual_dataset(name, layout)


def _link(rng: Rng, file: h5py.File, name: str) -> None:
    targets = ["/", ".", name, "/none", "/tensors/a.y", "/launches", "x/../y"]
    outside = h5py.ExternalLink("../outside.h5", rng.choice(("x", "/", "none")))
    link = rng.choice((h5py.SoftLink(rng.choice(targets)), outside))
    del file[name]
    file[name] = link


def _group(rng: Rng, file: h5py.File, name: str) -> None:
    del file[name]
    file.create_group(name)


def _cycle(rng: Rng, file: h5py.File, name: str) -> None:
    if isinstance(file[name], h5py.Group):
        file[name]["again"] = file["/"]
    else:
        file[f"{name}_group/again"] = file["/"]


def _more(rng: Rng, file: h5py.File, name: str) -> None:
    odd = rng.choice(("x", "é", "x" * 5000, "\x1b[31m", "a/b/c/d", "..", " "))
    value = rng.choice((1.0, "text", np.zeros(3), np.zeros(3, complex), h5py.Empty("f4")))
    parent = file[name] if isinstance(file[name], h5py.Group) else file
    with contextlib.suppress(ValueError, OSError, RuntimeError):
        parent[odd] = value


def _values(rng: Rng, file: h5py.File, name: str) -> None:
    found = file[name]
    if isinstance(found, h5py.Dataset) and found.dtype.kind == "f" and found.shape:
        found[...] = rng.choice((np.nan, np.inf, -1.0, 1e300, 0.0, -0.0, 5e-324))


HDF5_CHANGES: dict[str, Callable[[Rng, h5py.File, str], None]] = {
    "attribute": _attribute,
    "provenance": _provenance,
    "type": _type,
    "shape": _shape,
    "external": _external,
    "virtual": _virtual,
    "link": _link,
    "group": _group,
    "cycle": _cycle,
    "more": _more,
    "values": _values,
    "remove": lambda rng, file, name: file.pop(name),
}


# ------------------------------------------------------------------ changes of tables and texts


def change_csv(rng: Rng, path: Path) -> str:
    rows = list(csv.reader(io.StringIO(path.read_text())))
    what = rng.choice(("cell", "cell", "head", "less", "more", "row", "rows", "column", "quote"))
    row, column = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    odd = rng.choice(
        ["", "nan", "inf", "-1", "-0", "1e999", "1e308", "5e-324", "x", "x" * 200_000, "\0", "1_0",
         '"', "\n", "1,2", "٣", "\x1b[31m", "order", "../x", "seconds", "9" * 5000, "0x10", " 1 "]
    )  # fmt: skip
    if what == "cell":
        rows[row][column] = odd
    elif what == "head":
        rows[0][column] = odd
    elif what == "less":
        del rows[row][column]
    elif what == "more":
        rows[row].insert(column, odd)
    elif what == "row":
        del rows[row]
    elif what == "rows":
        rows += [rows[-1]] * rng.choice((1, 10_000))
    elif what == "column":
        rows = [[*each, odd if at_ else "extra"] for at_, each in enumerate(rows)]
    text = "\n".join(",".join(each) for each in rows) + "\n"
    if what == "quote":
        place = rng.randrange(len(text))
        text = text[:place] + '"' + text[place:]
    path.write_text(text)
    return f"{what} {row} {column} {odd[:10]!r}"


def change_stats(rng: Rng, path: Path) -> str:
    lines = path.read_text().splitlines()
    odd = rng.choice(
        ["nan", "inf", "-1", "0", "1e308", "1e999", "9" * 5000, "x", "", "\0", "5e-324"]
    )
    what = rng.choice(("number", "number", "freq", "name", "line", "blocks", "long", "less"))
    place = rng.randrange(len(lines))
    if what == "number":
        words = lines[place].split(None, 2)
        lines[place] = " ".join([words[0] if words else "x", odd, *words[2:]])
    elif what == "freq":
        lines = [f"simFreq {odd}" if "simFreq" in line else line for line in lines]
    elif what == "name":
        lines[place] = f"{'x' * rng.choice((1, 10**5))}.shaderActiveTicks {odd}"
    elif what == "line":
        del lines[place]
    elif what == "blocks":
        lines *= rng.choice((2, 50))
    elif what == "long":
        lines[place] = "9" * (2**21)
    else:
        lines = lines[:place]
    path.write_text("\n".join(lines) + rng.choice(("\n", "")))
    return f"{what} {place} {odd[:10]!r}"


def change_log(rng: Rng, path: Path) -> str:
    value = rng.choice(("", "0", "-1", "3", "4", "9" * 5000, "x" * 10**5, "²", "1.5", "\x1b[2J"))
    key = rng.choice(("image", "option", "gpu", "error"))
    path.write_text(f"simgen: {key}: {value}\n" * rng.choice((1, 100)))
    return f"{key} {value[:10]!r}"


WORDS = (
    "n", "c", "h", "w", "=", "0", "1", "-1", "2147483648", "1e9", "nan", "a", "s", "mode", "relu",
    "[", "]", "[Activation]", "[Convolution]", "[x]", "#", "$", "${", "$N", "}", "\t", " ", "\n",
    "\r", "\0", "\x1b[31m", "\u202e", "é", "x" * 10_000, "previous_layer", "name", "name=a", "..",
    ",", "kernel_size=3", "9" * 5000, "'", '"', "\\", "%", "true", "algo=fft", "num_output=5",
)  # fmt: skip


def change_config(rng: Rng, path: Path) -> str:
    text = path.read_text()
    for _ in range(rng.choice((1, 1, 1, 2, 5, 50))):
        place = rng.randrange(len(text) + 1)
        end = min(len(text), place + rng.choice((0, 0, 1, 5)))
        text = text[:place] + rng.choice(WORDS) + text[end:]
    path.write_text(text)
    return repr(text[:60])


# ------------------------------------------------------------------ changes of models of frameworks

PROGRAM = Path(__file__).parents[1] / "data/program.pt2"
CALLS = """\
MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 2 -c 3 -H 6 -W 6 -k 4 -y 3 \
-x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1
./rocblas-bench -f gemm -r f32_r --transposeA N --transposeB N -m 4 -n 5 -k 6 --alpha 1 --lda 4 \
--ldb 6 --beta 0 --ldc 4
"""


def onnx_model() -> onnx.ModelProto:
    """A small network of images with an extent that is open."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    tensors = {"w": np.ones((4, 3, 3, 3), "<f4"), "s": np.array([0, -1]),
               "g": np.ones((10, 144), "<f4")}  # fmt: skip
    graph = onnx.helper.make_graph(
        [
            node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
            node("LeakyRelu", ["a"], ["b"], alpha=0.1),
            node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1]),
            node("Reshape", ["c", "s"], ["d"]),
            node("Gemm", ["d", "g"], ["e"], transB=1),
            node("Softmax", ["e"], ["y"], axis=-1),
        ],
        "graph",
        [info("x", onnx.TensorProto.FLOAT, ["batch", 3, 6, 6])],
        [info("y", onnx.TensorProto.FLOAT, ["batch", 10])],
        [onnx.numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def fields(message: Any) -> Iterator[tuple[Any, Any]]:
    """All fields that are set in a message of protocol buffers, and whose they are."""
    for told, value in message.ListFields():
        yield message, told
        several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        if told.type == told.TYPE_MESSAGE:
            for each in value if several else [value]:
                yield from fields(each)


def change_onnx(rng: Rng, path: Path) -> str:
    model = onnx_model()
    message, told = rng.choice(list(fields(model)))
    old = getattr(message, told.name)
    several = isinstance(old, Sequence) and not isinstance(old, str | bytes)
    odd: Any = rng.choice(
        [
            0, 1, -1, 99, 2**31 - 1, 2**40, 2**62, -(2**63), 0.5, float("nan"), 1e38, "", "x", "a",
            "y", "\x1b[31m\n", "Conv", "Loop", b"", b"x" * 999,
        ]
    )  # fmt: skip
    try:
        if told.type == told.TYPE_MESSAGE and several and rng.random() < 0.5:
            old.append(rng.choice(list(old)))
        elif told.type == told.TYPE_MESSAGE or rng.random() < 0.2:
            message.ClearField(told.name)
        elif several:
            old[rng.randrange(len(old))] = odd
        else:
            setattr(message, told.name, odd)
    except (TypeError, ValueError):  # a value of another type: protocol buffers hold none there
        message.ClearField(told.name)
    path.write_bytes(model.SerializeToString())
    return f"{told.full_name} {odd!r}"[:100]


def change_program(rng: Rng, path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice([name for name in members if name.endswith(".json")])
    text, what = change_json(rng, json.loads(members[name]))
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, text if each == name else content)
    return f"{name} {what}"


# ------------------------------------------------------------------ a bundle that has run


def stats_text(count: int) -> str:
    """As gem5 writes it: a dump for each kernel, and a last one."""
    values = {
        "simFreq": 10**12, "simTicks": 5000, "simInsts": 58,
        "system.cpu1.shaderActiveTicks": 4000, "system.cpu1.clk_domain.clock": 1000,
        "system.cpu1.CUs0.numInstrExecuted": 12, "system.cpu1.CUs0.vALUInsts": 5,
        "system.cpu1.CUs0.ScoreboardCheckStage.stallCycles::IBEmpty": 3,
        "system.ruby.tcp_cntrl0.L1cache.m_demand_hits": 3,
        "system.mem_ctrls0.dram.dramBytesRead": 64,
    }  # fmt: skip
    lines = "".join(f"{name:60} {value} # what it is\n" for name, value in values.items())
    head, end = ("---------- Begin Simulation Statistics ----------\n\n",
                 "\n---------- End Simulation Statistics   ----------\n\n")  # fmt: skip
    last = f"{head}simFreq 1000000000000\nsystem.cpu1.shaderActiveTicks 0\n{end}"
    return (head + lines + end) * count + last


def template(folder: Path) -> Path:
    """A bundle of four steps that ran on three targets, and a run that was stopped on one."""
    made = build(folder / "net", lowered_text(NETWORK, BOTH))
    targets = {
        "cuda": Cuda().settings(), "host": Host().settings(), "gem5-se": Gem5Se().settings(),
    }  # fmt: skip
    files = {**made.manifest["files"], "host/run.sh": _digest(SCRIPT.encode())}
    with_manifest(made, targets=targets, files=files)
    (made.path / "host").mkdir()
    (made.path / "host/run.sh").write_text(SCRIPT)
    made = bundles.load(made.path)
    home = run_by_hand(made)
    for name in ("host", "gem5-se"):
        run_by_hand(made, target=name)
    (made.path / "results/gem5-se/stats.txt").write_text(stats_text(len(made.workload.launches)))
    all_steps = tuple(range(len(made.workload.steps)))
    for target in (Cuda(), Host()):
        run = run_record.Run(made.digest, target.settings(), {}, all_steps, "", "", {}, ())
        text = json.dumps({**asdict(run), "finished": {"0": {"seconds": 0.5}}, "resumed": [1]})
        (made.path / "results" / target.name / run_record.FILE).write_text(text)
    # Of steps that earlier times have finished there are no lines in launches.csv.
    for name in ("cuda", "host"):
        table = made.path / "results" / name / "launches.csv"
        lines = table.read_text().splitlines(keepends=True)
        table.write_text("".join([lines[0], *lines[2:]]))
    counted = [each.kernel for each in made.workload.launches[1:]]
    (made.path / "results/cuda" / ncu.FILE).write_text(ncu_text(counted))
    result = results.collect(made, Cuda(), home)
    results.save(result, made.workload, folder / "other.h5")
    _stopped(made)
    # Only one result has digests: those of others would hide what is changed in them.
    closed = seal.write(made.path / "results/gem5-se", made.digest)
    steps = {f"{step.layer} {step.direction}": "right" for step in made.workload.steps}
    verdict_file.save(made.path / "results/gem5-se", closed.digest, steps)
    _swept(made, folder)
    with h5py.File(folder / "outside.h5", "w") as file:
        file["x"] = np.zeros((4, 7, 1, 1), "<f4")
    (folder / "outside.bin").write_bytes(bytes(4096))
    (folder / CONFIG).write_text(NETWORK)
    return folder


def _stopped(made: bundles.Bundle) -> None:
    folder = made.path / "results/stopped-host"
    shutil.copytree(made.path / "results/host", folder)
    (folder / "complete").unlink()
    head, *rows = (folder / "launches.csv").read_text().splitlines(keepends=True)
    (folder / "launches.csv").write_text("".join([head, *rows[:2]]))
    marks = [Mark.FINISHED] * 3 + [Mark.TO_RUN] * (len(made.workload.steps) - 3)
    identity = data_file.data_id(made.workload)
    state_file.write(folder / state_file.FILE, made.workload, identity, marks, {})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ------------------------------------------------------------------ cases


def _swept(made: bundles.Bundle, folder: Path) -> None:
    """A sweep of the bundle, its store, and the file that it is of."""
    points = {
        name: JobPoint("net", name, f"--on {name}", 100, 10, (5, 6))
        for name in bundles.load(made.path).ran()
    }
    home = JobBundle("bundles/net", made.digest, CONFIG, 100)
    swept = Workflow("simgen", "0.1", "report", True, "", {"net": home}, points)
    (folder / "swept/bundles").mkdir(parents=True)
    (folder / "swept/bundles/net").symlink_to("../../net")
    (folder / "swept" / workflow_jobs.FILE).write_text(json.dumps(to_json(swept)))
    runs = [reporting.ran(made, name) for name in points]
    stored = [("net", name, made.digest) for name in points]
    trace.write(folder / store.FILE, [("net", made, runs)], stored)
    (folder / "sweep.toml").write_text(SWEEP)


SWEEP = """
workloads = ["softmax_fwd"]
targets = ["mgpusim", "host"]
pieces = "all"
[build]
n = [1, 2]
[run]
mode = "timing"
"""
STORED = ["report", store.FILE, "-o", "out"]
COLLECT = ["report", "swept", "-o", "out"]
SWEPT = ["sweep", "sweep.toml", "--workflow-only"]
READING = (["diff", "net"], ["diff", "net", "cuda"], ["diff", "net", "cuda", "host", "--json"])
REPORT = ["report", "net", "-o", "out"]
RESUME = ["run", "net", "--on", "host", "--resume"]
AGAIN = ["build", CONFIG, "--pass", "fwd,bwd", "-t", "cuda", "-o", "net", "-q", "--replace"]
INPUTS = ["run", "net", "--on", "host", "--layers", "s"]


def manifest(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    """Mostly with the digest of the changed file, so that all of it is read."""
    path = folder / "net/manifest.json"
    what = spoil(rng, path, spoil_json)
    if rng.random() < 0.8:
        _sealed_again(path)
    return what, rng.choice((*READING, REPORT, RESUME, AGAIN, INPUTS))


def workload(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    """The digests are those of the changed file, so that all of it is read."""
    path = folder / "net/workload.json"
    what = spoil(rng, path, spoil_json)
    if path.is_file() and not path.is_symlink():
        told = json.loads((folder / "net/manifest.json").read_text())
        digest = told["files"]["workload.json"] = _digest(path.read_bytes())
        (folder / "net/manifest.json").write_bytes(manifests.text(manifests.sealed(told)))
        for place in (folder / "net/results").glob("*/complete"):
            place.write_text(f"{digest}\n")
        for place in (folder / "net/results").glob("*/run.json"):
            place.write_text(json.dumps({**json.loads(place.read_text()), "workload": digest}))
    return what, rng.choice((*READING, REPORT, RESUME, AGAIN, INPUTS))


def _sealed_again(path: Path) -> None:
    """Put the right digest into a changed file, where it can be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if path.is_file() and not path.is_symlink():
            told = json.loads(path.read_text())
            if isinstance(told, dict):
                path.write_bytes(manifests.text(manifests.sealed(told)))


def complete(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    """The seal of a result, or a file under it."""
    name = rng.choice(("complete", "complete", "complete", "outputs.bin", "stats.txt", "log.txt"))
    path = folder / "net/results/gem5-se" / name
    path.touch()
    return f"{name}: {spoil(rng, path, _change_lines)}", rng.choice((*READING, REPORT, AGAIN))


def _change_lines(rng: Rng, path: Path) -> str:
    lines = path.read_bytes().splitlines(keepends=True) or [b""]
    place = rng.randrange(len(lines))
    what = rng.choice(("remove", "twice", "odd", "all"))
    odd = rng.choice((b"", b"x", b"\xff\xfe", b"0" * 64, b"0" * 64 + b"  ../x\n", b"9" * 10**5))
    changed = {"remove": [], "twice": [lines[place]] * 2, "odd": [odd], "all": [odd] * 1000}[what]
    path.write_bytes(b"".join([*lines[:place], *changed, *lines[place + 1 :]]))
    return f"{what} {place}"


def verdict_json(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    path = folder / "net/results/gem5-se/verdict.json"
    what = spoil(rng, path, spoil_json)
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError, TypeError):
        if path.is_file() and not path.is_symlink() and rng.random() < 0.8:
            told = json.loads(path.read_text())
            told.pop("sha256", None)
            digest = _digest(json.dumps(told, sort_keys=True).encode())
            path.write_text(json.dumps({**told, "sha256": digest}))
    return what, rng.choice((REPORT, REPORT, AGAIN))


def run_json(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    if rng.random() < 0.5:
        return spoil(rng, folder / "net/results/stopped-host/run.json", spoil_json), RESUME
    what = spoil(rng, folder / "net/results/cuda/run.json", spoil_json)
    return what, rng.choice((*READING, REPORT))


def state_bin(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    def change(rng: Rng, path: Path) -> str:
        content = bytearray(path.read_bytes())
        place = rng.choice((rng.randrange(40), 64 + rng.randrange(4)))
        content[place] = rng.randrange(256)
        path.write_bytes(content)
        return f"byte {place}"

    return spoil(rng, folder / "net/results/stopped-host/state.bin", change), RESUME


def results_h5(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    """Mostly with the digests of what is in the changed file."""
    path = folder / "other.h5"
    what = spoil(rng, path, change_hdf5)
    with contextlib.suppress(OSError, ValueError):
        if path.is_file() and not path.is_symlink() and rng.random() < 0.8:
            found = saved_result.read_saved(path, None)
            text = result_digest.text(found.tensors, found.launches, found.provenance, found.given)
            with h5py.File(path, "r+") as file:
                if result_digest.DATASET in file:
                    del file[result_digest.DATASET]
                hdf5.write_document(file, result_digest.DATASET, text)
    words = (["diff", "net", "other.h5", "reference"], ["diff", "net", "cuda", "other.h5"])
    return what, rng.choice((*words, [*INPUTS, "--inputs", "other.h5"]))


def launches_csv(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    if rng.random() < 0.3:
        return spoil(rng, folder / "net/results/stopped-host/launches.csv", change_csv), RESUME
    name = rng.choice(("cuda", "host"))
    what = spoil(rng, folder / f"net/results/{name}/launches.csv", change_csv)
    return what, rng.choice((*READING, REPORT))


def ncu_text(kernels: list[str]) -> str:
    """What Nsight Compute would have left of these launches."""
    lines = (Path(__file__).resolve().parents[1] / "data" / "ncu.csv").read_text().splitlines()
    head, units, first, *_ = [line for line in lines if not line.startswith("==")]
    row, names = (next(csv.reader([line])) for line in (first, head))
    name = row[names.index(ncu.KERNEL)]
    return "\n".join([lines[0], head, units, *(first.replace(name, k) for k in kernels)]) + "\n"


def ncu_csv(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    what = spoil(rng, folder / "net/results/cuda" / ncu.FILE, change_csv)
    return what, rng.choice((*READING, REPORT))


def stats_txt(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    home = folder / "net/results/gem5-se"
    if rng.random() < 0.9:  # as it is where there was no sha256sum: nothing else tells of changes
        (home / "complete").write_text(f"{seal.read_seal(home).workload}\n")
    what = spoil(rng, home / "stats.txt", change_stats)
    return what, rng.choice((["diff", "net"], ["diff", "net", "gem5-se"], REPORT))


def machine_json(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    what = spoil(rng, folder / "net/results/cuda/machine.json", spoil_json)
    return what, rng.choice((*READING, REPORT))


def data_h5(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    what = spoil(rng, folder / "net/data.h5", change_hdf5)
    return what, rng.choice((*READING, RESUME, AGAIN, INPUTS))


def other_files(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    name = rng.choice(
        ("results/cuda/complete", "results/cuda/outputs.bin", "results/gem5-se/log.txt",
         "src/prelude.h", "host/run.sh", "cuda/run.py")
    )  # fmt: skip
    path = folder / "net" / name
    path.touch()
    what = spoil(rng, path, change_log)
    return f"{name}: {what}", rng.choice((*READING, REPORT, RESUME, AGAIN))


BUILD = ["build", CONFIG, "--pass", "fwd,bwd", "-t", "cuda", "-o", "new", "-q", "--values"]


def values(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    array = np.linspace(-1, 1, 28).reshape(4, 7, 1, 1)
    kind = rng.choice(("npz", "npy", "h5", "h5"))
    name = "a.x.npy" if kind == "npy" else f"values.{kind}"
    path = folder / name
    if kind == "h5":
        with h5py.File(path, "w") as file:
            file["a.x"] = array
        return spoil(rng, path, change_hdf5), [*BUILD, name]
    if kind == "npy":
        np.save(path, array)
        return spoil(rng, path, _change_npy), [*BUILD, name]
    np.savez(path, **{"a.x": array})
    return spoil(rng, path, _change_npz), [*BUILD, name]


def _npy(rng: Rng) -> bytes:
    """A .npy file whose header says odd things."""
    descr = rng.choice(("'<f8'", "'|O'", "'<c8'", "'<M8'", "[('a', '<f4')]", "'x'", "1", "'<f4'"))
    shape = rng.choice(("(4, 7, 1, 1)", "()", "(2**70,)", "(-1,)", "(4611686018427387904, 4)",
                        "None", "'x'", "(True,)", "(4, 7, 1, 1.0)", "(" * 500))  # fmt: skip
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    version = rng.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", rb"\9\9"))
    length = len(header).to_bytes(2 if version == b"\1\0" else 4, "little")
    if rng.random() < 0.1:
        length = b"\xff" * len(length)
    return b"\x93NUMPY" + version + length + header + bytes(rng.choice((0, 224, 5000)))


def _change_npy(rng: Rng, path: Path) -> str:
    content = _npy(rng)
    path.write_bytes(content)
    return repr(content[:80])


def _change_npz(rng: Rng, path: Path) -> str:
    what = rng.choice(("header", "no suffix", "twice", "empty", "folder", "bomb", "name"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if what == "header":
            archive.writestr("a.x.npy", _npy(rng))
        elif what == "no suffix":
            archive.writestr("a.x", b"1 2 3")
        elif what == "twice":
            for name in ("a.x.npy", "./a.x.npy", "a.x.npy/"):
                archive.writestr(name, _npy(rng))
        elif what == "folder":
            archive.writestr("a.x.npy/", b"")
        elif what == "bomb":
            archive.writestr("a.x.npy", _npy(rng) + bytes(10**7))
        elif what == "name":
            archive.writestr(rng.choice(("x" * 60_000, "\x1b[2J", "../a.x")) + ".npy", _npy(rng))
    return what


def code_object(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    """Somebody's kernel: one of the precomputed, with other bytes, or without its end."""
    content = bytearray(rng.choice(_kernels()))
    parts = (range(64), range(len(content)), range(len(content) - 2048, len(content)))
    for _ in range(rng.choice((1, 1, 2, 4, 12))):
        content[rng.choice(rng.choice(parts))] = rng.choice(
            (0, 1, 10, 127, 128, 255, rng.randrange(256))
        )
    nbytes = len(content) if rng.random() < 0.8 else rng.randrange(len(content))
    (folder / "kernel.co").write_bytes(content[:nbytes])
    simulator = ["kernel.co", "--simulator", "gem5@24.0"]
    made = ["legalise", *simulator, "-o", "made.co"]
    return f"{nbytes} bytes", rng.choice((["lint", *simulator], made, made))


def lint_json(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    """A table that conform has written."""
    seen = {
        "architectures": ["gfx902"], "ends": ["v_bfi_b32"], "half_mirror": False,
        "ignores": {"clamp": ["v_add_f32_e64"]}, "wrong": {"v_sub_f32_e64": "900 of 1024"},
    }  # fmt: skip
    whole = {"simulator": "gem5", "version": "24.1", "source": "conform", "tables": [seen]}
    (folder / "lint.json").write_text(json.dumps(whole))
    (folder / "kernel.co").write_bytes(_kernels()[0])
    what = spoil(rng, folder / "lint.json", spoil_json)
    return what, ["lint", "kernel.co", "--table", "lint.json"]


@functools.cache
def _kernels() -> list[bytes]:
    """Some small code objects for gfx902."""
    found = []
    for path in sorted(resources.folder("cachefiles").glob("*/*/inputs.txt")):
        blob = path.with_name("blob")
        if "code object gfx902 " in path.read_text()[:300] and 2048 < blob.stat().st_size < 8192:
            found.append(blob.read_bytes())
        if len(found) == 4:
            break
    return found


ENDLESS = """
DROP TABLE {0};
CREATE VIEW {0} AS WITH RECURSIVE x(id, run) AS (SELECT 1, 1 UNION ALL SELECT id, run + 1 FROM x)
SELECT * FROM x
"""


def _change_store(rng: Rng, path: Path) -> str:
    """A cell, or the schema; what its constraints forbid is left."""
    with contextlib.closing(sqlite3.connect(path)) as database, contextlib.suppress(sqlite3.Error):
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        table = rng.choice(found)[0]
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        what = rng.choice(("cell",) * 6 + ("drop", "delete", "version", "endless", "view"))
        if what == "endless":
            database.executescript(ENDLESS.format(table))
        elif what == "version":
            database.execute(f"PRAGMA {rng.choice(('user_version', 'application_id'))} = 7")
        elif what == "drop":
            database.execute(f"DROP TABLE {table}")
        elif what == "delete":
            database.execute(f"DELETE FROM {table}")
        elif what == "view":
            database.execute("DROP VIEW layer")
        else:
            value = rng.choice((None, -1, 7, 2**62, 1e308, 9e999, -0.5, "x", "", b"\0", "\x1b[2J"))
            database.execute(f"UPDATE {table} SET {rng.choice(columns)} = ?", (value,))
        database.commit()
        return f"{what} {table}"
    return "forbidden"


def stored(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    return spoil(rng, folder / store.FILE, _change_store), STORED


def workflow_json(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    path = folder / "swept" / workflow_jobs.FILE
    return spoil(rng, path, spoil_json), rng.choice((COLLECT, [*SWEPT, "-o", "swept"]))


def sweep_toml(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    return spoil(rng, folder / "sweep.toml", change_config), SWEPT


def config(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    what = spoil(rng, folder / CONFIG, change_config)
    return what, ["show", CONFIG, *rng.choice(([], ["--pass", "fwd,bwd"], ["--json"]))]


def words(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    """Odd words after the options that take some."""
    option = rng.choice(("--set", "--set", "--set", "--layers", "--pass", "--algo", "--target",
                         "--rate", "--seed", "--values", "--x", ""))  # fmt: skip
    odd = "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 6))).replace("\0", "")
    known = rng.choice(("n", "c", "a.n", "s.algo", "mode", ""))
    odd = f"{known}={odd}" if option == "--set" and rng.random() < 0.7 else odd
    name = rng.choice((CONFIG, "softmax_fwd", odd))
    other = [["show", name, option, odd], ["diff", "net", odd], ["run", odd], ["report", odd],
             ["run", "net", "--on", "host", "--layers", odd], ["diff", odd]]  # fmt: skip
    return "words", rng.choice((other[0], other[0], rng.choice(other)))


def model_onnx(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    path = folder / "model.onnx"
    path.write_bytes(onnx_model().SerializeToString())
    return spoil(rng, path, change_onnx), ["show", path.name, "--set", "batch=2"]


def program_pt2(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    path = folder / PROGRAM.name
    shutil.copyfile(PROGRAM, path)
    return spoil(rng, path, change_program), ["show", path.name, "--set", "s77=2"]


def calls_log(rng: Rng, folder: Path) -> tuple[str, list[str]]:
    path = folder / "calls.log"
    path.write_text(CALLS)
    return spoil(rng, path, change_config), ["list", path.name]


KINDS: dict[str, Callable[[Rng, Path], tuple[str, list[str]]]] = {
    "manifest.json": manifest,
    "workload.json": workload,
    "run.json": run_json,
    "state.bin": state_bin,
    "results.h5": results_h5,
    "launches.csv": launches_csv,
    "ncu.csv": ncu_csv,
    "stats.txt": stats_txt,
    "machine.json": machine_json,
    "data.h5": data_h5,
    "complete": complete,
    "verdict.json": verdict_json,
    "store.sqlite3": stored,
    "workflow.json": workflow_json,
    "sweep.toml": sweep_toml,
    "other files": other_files,
    "--values": values,
    "code object": code_object,
    "lint.json": lint_json,
    "config": config,
    "words": words,
    "model.onnx": model_onnx,
    "program.pt2": program_pt2,
    "calls.log": calls_log,
}
# 3: what was read is right, and this machine lacks a GPU or a simulator to go on.
EXPECTED = {0, 2, 3, 4, 5, 6, 7}
OUTSIDE = ("external", "virtual")  # changes after which no values are in the file
USERS = {
    "config": {0, 2}, "--values": {0, 2}, "words": {0, 2, 3, 4, 5, 6, 7},
    "model.onnx": {0, 2}, "program.pt2": {0, 2}, "calls.log": {0, 2},
}  # fmt: skip


def run_case(
    seed: int,
    number: int,
    base: Path,
    folder: Path,
    kind: str | None = None,
    figures: float = 0.05,
) -> Case:
    """Make and run one case in `folder`, which must not exist; `base` is a `template`.

    This share of the reports has figures.
    """
    rng = random.Random(f"{seed} {number}")
    case = Case(kind or list(KINDS)[number % len(KINDS)], number)
    shutil.copytree(base, folder, symlinks=True)
    case.change, case.words = KINDS[case.kind](rng, folder)
    try:
        with drawing(rng.random() < figures):
            code, out, case.err = call(case.words, folder)
    except Hanging:
        case.wrong = "hangs"
        return case
    case.code = code
    case.wrong = _verdict(case, out)
    return case


@contextlib.contextmanager
def drawing(drawn: bool) -> Iterator[None]:
    """Whether a report has its figures, which take most of its time."""
    figures, library = report_drawing.sections, interactive.library
    if not drawn:
        report_drawing.sections, interactive.library = lambda found: [], lambda: ""
    try:
        yield
    finally:
        report_drawing.sections, interactive.library = figures, library


def _verdict(case: Case, out: str) -> str:
    lines = [line for line in case.err.splitlines() if built_here.FACT not in line]
    if case.code not in USERS.get(case.kind, EXPECTED):
        return f"exit code {case.code}"
    if case.kind == "--values" and case.code == 0 and case.change.startswith(OUTSIDE):
        return "values of another file"
    if len(lines) > 1:
        return f"{len(lines)} lines on stderr"
    if case.code and not (lines and lines[0].startswith("simgen: error: ")):
        return "no error message"
    left_out = case.kind == "calls.log" and case.err.startswith("calls that are left out: ")
    if not case.code and lines and not left_out:
        return "a message without an error"
    if lines and (len(lines[0]) > LONGEST or not lines[0].isprintable()):
        return f"a line of {len(lines[0])} characters"
    return "a traceback" if "Traceback" in out + case.err else ""


def call(arguments: list[str], folder: Path) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of simgen in this process, in `folder`.

    Raises:
        Hanging: it has not ended after SECONDS.
    """
    before = Path.cwd(), sys.argv, {each: signal.getsignal(each) for each in errors.ENDING}
    limits = resource.getrlimit(resource.RLIMIT_AS)
    out, err = io.StringIO(), io.StringIO()

    def stop(*_: object) -> None:
        raise Hanging

    alarm = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        os.chdir(folder)
        sys.argv = ["simgen", *arguments]
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, limits[1]))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main.main()
            except SystemExit as stopped:
                code = stopped.code if isinstance(stopped.code, int) else 0
            except Hanging:
                raise
            except BaseException:
                err.write(traceback.format_exc())
                code = 1
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, alarm)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        os.chdir(before[0])
        sys.argv = before[1]
        for each, handler in before[2].items():
            signal.signal(each, handler)
    return code, out.getvalue(), err.getvalue()


def _address_space() -> int:
    """Of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
