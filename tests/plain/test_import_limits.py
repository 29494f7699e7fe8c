"""Small files that would become large: refused with one line, before memory is taken.

The system is the judge: the process may have no more than 3 GiB of addresses.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from simgen.errors import ConfigError
from simgen.frontend.importing import algebra, model_file, wire

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

node = helper.make_node
READ = """
import sys, pathlib
from simgen.errors import SimgenError
from simgen.frontend.importing import onnx_model
for name in sys.argv[1:]:
    try:
        onnx_model.read_model(pathlib.Path(name), {})
    except SimgenError as error:
        print(error)
    else:
        print(name, "is read")
"""


def whole(name: str, *numbers: int) -> onnx.NodeProto:
    return node("Constant", [], [name], value=numpy_helper.from_array(np.array(numbers, np.int64)))


def saved(
    path: Path, nodes: Sequence[onnx.NodeProto], shape: Sequence[int] = (4,), **more: object
) -> Path:
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "graph", [given], [made])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1),
              helper.make_opsetid("com.microsoft", 1)]  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=opsets, **more), path)
    return path


def doubling(path: Path) -> Path:
    """26 functions, each of which calls the one before twice."""
    own = helper.make_opsetid("own", 1)
    opsets = [helper.make_opsetid("", 20), own]
    functions = [helper.make_function("own", "f0", ["a"], ["b"], [node("Relu", ["a"], ["b"])],
                                      opsets)]  # fmt: skip
    for at in range(1, 26):
        calls = [node(f"f{at - 1}", ["a"], ["c"], domain="own"),
                 node(f"f{at - 1}", ["c"], ["b"], domain="own")]  # fmt: skip
        functions.append(helper.make_function("own", f"f{at}", ["a"], ["b"], calls, opsets))
    return saved(path, [node("f25", ["x"], ["y"], domain="own")], functions=functions)


def of_itself(path: Path) -> Path:
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    calls = [node("f", ["a"], ["b"], domain="own")]
    functions = [helper.make_function("own", "f", ["a"], ["b"], calls, opsets)]
    return saved(path, [node("f", ["x"], ["y"], domain="own")], functions=functions)


def shape_of(name: str) -> list[onnx.NodeProto]:
    """Nodes that need the values of a tensor: a shape is its greatest element."""
    return [
        node("ReduceMax", [name], ["most"], keepdims=0),
        node("Cast", ["most"], ["number"], to=TensorProto.INT64),
        whole("one", 1),
        node("Reshape", ["number", "one"], ["extents"]),
        node("Reshape", ["x", "extents"], ["y"]),
    ]


def filled(path: Path) -> Path:
    fours = numpy_helper.from_array(np.array([4.0], np.float32))
    return saved(path, [whole("e", 2**30), node("ConstantOfShape", ["e"], ["big"], value=fours),
                        *shape_of("big")])  # fmt: skip


def held(path: Path) -> Path:
    """Each sum has two tensors that are made for it, one of which waits for the other."""
    fours = numpy_helper.from_array(np.array([4.0], np.float32))
    nodes = [whole("e", 2**24), node("ConstantOfShape", ["e"], ["s0"], value=fours)]
    for at in range(1, 60):
        nodes.append(node("ConstantOfShape", ["e"], [f"c{at}"], value=fours))
        nodes.append(node("Max", [f"c{at}", f"s{at - 1}"], [f"s{at}"]))
    return saved(path, [*nodes, *shape_of("s59")])


def branching(path: Path) -> Path:
    """Each tensor is computed from the one before, twice: 2^40 nodes."""
    fours = numpy_helper.from_array(np.array([4.0], np.float32))
    nodes = [whole("e", 5000), node("ConstantOfShape", ["e"], ["s0"], value=fours)]
    for at in range(40):
        nodes += [node("Identity", [f"s{at}"], [f"l{at}"]), node("Abs", [f"s{at}"], [f"r{at}"]),
                  node("Max", [f"l{at}", f"r{at}"], [f"s{at + 1}"])]  # fmt: skip
    return saved(path, [*nodes, *shape_of("s40")])


def attention(path: Path) -> Path:
    """A mask of all queries and keys."""
    attention = node("MultiHeadAttention", ["x", "x", "x"], ["y"], "mha", domain="com.microsoft",
                     num_heads=1, unidirectional=1)  # fmt: skip
    return saved(path, [attention], (1, 2**20, 2))


ONNX = {
    doubling: "its functions become 33,554,432 nodes",
    of_itself: "calls itself",
    filled: "larger than all that the model stores",
    held: "larger than all that the model stores",
    branching: "too many others",
    attention: "1048576x1048576",
}


def program(path: Path, nbytes: int, count: int, graph: str = "") -> Path:
    """A program of torch.export whose parameters are all of one packed file."""
    size, meta = nbytes // 4, {"dtype": 7, "strides": [{"as_int": 1}],
                               "storage_offset": {"as_int": 0}}  # fmt: skip
    names = [f"p{at}" for at in range(count)]
    specs = [{"parameter": {"arg": {"name": n}, "parameter_name": n}} for n in names]
    value = {**meta, "sizes": [{"as_int": size}]}
    whole = {"graph_module": {
        "graph": {"nodes": [{"target": "torch.ops.aten.cat.default", "metadata": {}, "inputs": [
            {"name": "tensors", "arg": {"as_tensors": [{"name": n} for n in names]}, "kind": 1}],
            "outputs": [{"as_tensor": {"name": "y"}}]}],
            "tensor_values": dict.fromkeys([*names, "y"], value),
            "outputs": [{"as_tensor": {"name": "y"}}], "inputs": []},
        "signature": {"input_specs": specs}}}  # fmt: skip
    told = {"use_pickle": False, "path_name": "w", "tensor_meta": {**value, "requires_grad": True}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", graph or json.dumps(whole))
        config = json.dumps({"config": dict.fromkeys(names, told)})
        archive.writestr("m/data/weights/model_weights_config.json", config)
        archive.writestr("m/data/weights/w", bytes(nbytes))
    return path


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


def test_small_files_do_not_become_large(tmp_path: Path) -> None:
    files = [(made(tmp_path / f"{made.__name__}.onnx"), fact) for made, fact in ONNX.items()]
    files += [
        (program(tmp_path / "bomb.pt2", 2**26, 60), "more than the file can hold"),
        (program(tmp_path / "lists.pt2", 4, 1, f"[{'[],' * 2**25}[]]"), "is larger than"),
    ]
    assert all(path.stat().st_size < 300_000 for path, _ in files)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", READ, *(str(path) for path, _ in files)], capture_output=True,
        text=True, timeout=600, preexec_fn=limited, env=environment,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == len(files), done.stderr[-2000:]
    for line, (path, fact) in zip(lines, files, strict=True):
        assert line.startswith(str(path)), line
        assert fact in line, line
        assert ";" in line, line


def outside(tmp_path: Path, **told: str) -> onnx.TensorProto:
    tensor = TensorProto(
        dims=[2**20], data_type=TensorProto.FLOAT, name="w", data_location="EXTERNAL"
    )
    for key, value in told.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def _held(number: int, content: bytes) -> bytes:
    """A field of a message of protocol buffers, by the format's description."""
    nbytes, size = bytearray(), len(content)
    while size > 127:
        nbytes.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *nbytes, size]) + content


EMPTY = {"nodes": 1, "tensors": 5, "inputs": 11, "kinds": 13}  # fields of GraphProto


@pytest.mark.parametrize("field", [*EMPTY.values(), "attributes", "names", "metadata", "numbers"])
def test_a_model_of_empty_messages_does_not_take_a_gigabyte(
    tmp_path: Path, field: int | str
) -> None:
    path, count = tmp_path / "model.onnx", 4_000_000
    graph = _held(1, _held(4, b"Relu") + _held(1, b"x") + _held(2, b"y"))
    more = b""
    if field == "attributes":
        graph += _held(1, _held(5, b"") * count)
    elif field == "names":
        graph += _held(1, _held(1, b"") * 3 * count)
    elif field == "numbers":
        graph += _held(5, _held(7, bytes(18 * count)))
    elif field == "metadata":
        more = _held(14, b"") * count
    else:
        graph += _held(int(field), b"") * count
    path.write_bytes(_held(8, b"\x10\x11") + _held(7, graph) + more)
    # Not getrusage: its maximum counts what the process that started this one had.
    program = READ + (
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(int(status.partition('VmHWM:')[2].split()[0]) // 1000, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=600
    )
    assert "take more than 512 MiB of memory" in done.stdout
    assert int(done.stderr) < 1000


def test_a_large_model_of_large_tensors_is_no_model_of_messages() -> None:
    weights = _held(9, bytes(1 << 28))
    graph = _held(5, weights) + _held(1, _held(4, b"Relu")) * 60_000
    content = _held(7, graph)
    assert not wire.is_too_large(content, onnx.ModelProto.DESCRIPTOR)
    assert not wire.is_too_large(content[: 1 << 20], onnx.ModelProto.DESCRIPTOR)


def test_tensors_outside_the_file_are_in_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "model"
    home.mkdir()
    values = np.arange(2**20, dtype=np.float32)
    (home / "w.bin").write_bytes(bytes(8) + values.tobytes() + bytes(99))
    found = model_file.array(outside(home, location="w.bin", offset="8"), home)
    np.testing.assert_array_equal(found, values)
    (tmp_path / "secret").write_bytes(values.tobytes())
    (home / "link").symlink_to("../secret")
    os.mkfifo(home / "pipe")
    for name in ("../secret", str(tmp_path / "secret"), "link", "pipe", "nothing"):
        with pytest.raises(ConfigError, match="tensor 'w' of the model cannot be read"):
            model_file.array(outside(home, location=name), home)
    with (home / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    found = model_file.array(outside(home, location="sparse", length=str(1 << 40)), home)
    assert found.size == 2**20


def test_products_of_polynomials_have_a_bound() -> None:
    def terms(count: int) -> algebra.Polynomial:
        return {frozenset({(("known", f"t{at}"), 1.0)}): 1.0 for at in range(count)}

    assert len(algebra.times(terms(8), terms(8))) == 36
    with pytest.raises(algebra.NoFormula):
        algebra.times(terms(13), terms(5))
