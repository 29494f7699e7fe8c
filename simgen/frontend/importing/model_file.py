"""An ONNX file, or a program of torch.export as one: read within limits, and its tensors as arrays.

Nothing but the file and, for tensors that it keeps outside, files beside it is read. What protocol
buffers limit (2 GiB, depth) is limited here too.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from simgen.errors import ConfigError, MissingError, one_line, printable, shortened
from simgen.frontend.importing import torch_program, wire
from simgen.ground.storage.files import NotRegularError, leads_out, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import onnx
    from numpy.typing import NDArray

SUFFIXES = (".onnx", torch_program.SUFFIX)
MAX_NBYTES = 2**31 - 1  # size limit of the file, that of protocol buffers
MAX_NODES = 2**16
PACKED = {4: (21, 22, 23), 2: (25, 26)}  # bits of an element -> TensorProto.DataType
MAX_DEPTH = 100  # nesting limit of functions that call functions
MAX_COPIED = 2**27  # bytes of functions, in all places that call them
INSTALL = "python -m pip install onnx"


def check_installed(where: str) -> None:
    """Raises:
    MissingError: the package `onnx` is not there.
    """
    try:
        import onnx
        import onnx.reference  # noqa: F401
    except ImportError:
        raise MissingError(
            f"{where}: the package onnx, which reads it, is not installed; {INSTALL}"
        ) from None


def load(path: Path) -> onnx.ModelProto:
    """The model in a file; tensors outside of it are not read.

    Raises:
        ConfigError: the file cannot be read, or is no ONNX model.
        MissingError: the package `onnx` is not there.
    """
    where = one_line(str(path))
    check_installed(where)
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        with open_regular(path) as file:
            if path.suffix == torch_program.SUFFIX:
                return torch_program.model(file, path)
            content = file.read(MAX_NBYTES + 1)
    except FileNotFoundError:
        raise ConfigError(where, "no such file; check the path") from None
    except (NotRegularError, OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or "not a file name"
        raise ConfigError(where, f"cannot be read ({fact}); check the path") from None
    if len(content) > MAX_NBYTES:
        raise ConfigError(where, f"larger than {MAX_NBYTES} bytes; keep its tensors outside")
    if wire.is_too_large(content, onnx.ModelProto.DESCRIPTOR):
        fact = f"its messages take more than {wire.PLENTY >> 20} MiB of memory, of {len(content)}"
        raise ConfigError(where, f"{fact} bytes; leave out those that are empty, or cut the model")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        if content.startswith(b"version https://git-lfs"):
            raise ConfigError(
                where, "a pointer of Git LFS in place of the model; fetch it with git lfs pull"
            ) from None
        raise ConfigError(where, "no ONNX model, or a damaged one; check the path") from None
    if not model.graph.node or not model.opset_import:
        raise ConfigError(where, "an ONNX model without nodes or operator sets; check the path")
    if not all(isinstance(text, str) for text in _names(model)):  # protocol buffers give bytes
        raise ConfigError(where, "a name in it is not UTF-8 text; the file is damaged")
    if len(model.graph.node) > MAX_NODES:
        fact = f"{len(model.graph.node)} nodes, more than {MAX_NODES}"
        raise ConfigError(where, f"{fact}; cut the model")
    return _inlined(model, where)


def _names(model: onnx.ModelProto) -> Iterator[object]:
    graph = model.graph
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (each.name for each in node.attribute)
    for values in (graph.input, graph.output, graph.initializer):
        yield from (each.name for each in values)
    for given in graph.input:
        yield from (dim.dim_param for dim in given.type.tensor_type.shape.dim)
    yield from (each.domain for each in model.opset_import)


def _inlined(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """The model without functions of its own."""
    if not model.functions:
        return model
    from onnx import inliner

    _check_functions(model, where)
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:
        fact = shortened(one_line(str(error)), 200)
        raise ConfigError(where, f"its functions cannot be put in ({fact}); check it") from None


def _check_functions(model: onnx.ModelProto, where: str) -> None:
    """Functions may call each other twice, and so become 2^n nodes.

    Raises:
        ConfigError: the model without functions has too many nodes or bytes, or one calls itself.
    """

    def key(domain: str, name: str, given: object) -> tuple[str, str, str]:
        return "" if domain == "ai.onnx" else domain, name, getattr(given, "overload", "")

    functions = {key(each.domain, each.name, each): each for each in model.functions}
    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}

    def size(
        nodes: Iterable[onnx.NodeProto], within: tuple[tuple[str, str, str], ...]
    ) -> tuple[int, int]:
        count = nbytes = 0
        for node in nodes:
            called = key(node.domain, node.op_type, node)
            if called in within or len(within) > MAX_DEPTH:
                fact = f"function {printable(node.op_type)} calls itself, or others too deeply"
                raise ConfigError(where, f"{fact}; correct the model")
            if called in functions and called not in sizes:
                sizes[called] = size(functions[called].node, (*within, called))
            more = sizes.get(called, (1, 0))
            inner = (g for each in node.attribute for g in (each.g, *each.graphs) if g.node)
            parts = [size(graph.node, within) for graph in inner]
            count += more[0] + sum(one for one, _ in parts)
            nbytes += node.ByteSize() + more[1] + sum(other for _, other in parts)
        return count, nbytes

    count, nbytes = size(model.graph.node, ())
    copied = nbytes - model.ByteSize()
    if count > MAX_NODES or copied > MAX_COPIED:
        fact = f"its functions become {count:,} nodes and {nbytes:,} bytes"
        raise ConfigError(
            where, f"{fact}, more than {MAX_NODES:,} or {MAX_COPIED:,}; cut the model"
        )


def outside(path: Path) -> list[Path]:
    """The files beside a model that have some of its tensors.

    Raises:
        ConfigError, MissingError: as `load`.
    """
    tensors = load(path).graph.initializer
    named = {e.value for t in tensors for e in t.external_data if e.key == "location"}
    files = [path.parent / name for name in sorted(named)]
    return [each for each in files if not leads_out(each, path.parent)]


def _outside(tensor: onnx.TensorProto, folder: Path) -> onnx.TensorProto:
    """A tensor that is kept outside of the file, with its bytes.

    Raises:
        ValueError: they are not in a regular file of the model's folder, or too few or many.
    """
    from onnx import TensorProto, helper

    told = {each.key: each.value for each in tensor.external_data}
    path = folder / told["location"]
    if leads_out(path, folder):
        raise ValueError(f"{told['location']} leads out of the model's folder; put it there")
    item = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    bits = next((bits for bits, types in PACKED.items() if tensor.data_type in types), 8 * item)
    most = -(-prod(tensor.dims) * bits // 8)
    with open_regular(path) as file:
        file.seek(int(told.get("offset", 0)))
        content = file.read(min(int(told.get("length", most)), most))
    return TensorProto(
        dims=tensor.dims, data_type=tensor.data_type, name=tensor.name, raw_data=content
    )


def array(tensor: onnx.TensorProto, folder: Path) -> NDArray[Any]:
    """The values of a tensor of the model.

    Raises:
        ConfigError: they are not there, or damaged.
    """
    from onnx import external_data_helper, numpy_helper

    where = one_line(str(folder))
    try:
        if external_data_helper.uses_external_data(tensor):
            tensor = _outside(tensor, folder)
        return numpy_helper.to_array(tensor)
    except Exception as error:
        fact = shortened(one_line(str(error)), 200)
        name = printable(tensor.name)
        raise ConfigError(where, f"tensor {name} of the model cannot be read ({fact})") from None
