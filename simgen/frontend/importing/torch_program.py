"""A program of torch.export (.pt2) as an ONNX model, read without PyTorch.

The archive is a zip file. models/model.json has the graph: calls of ATen operators, with sizes and
types of all tensors; data/weights has each parameter's bytes, and a list that says which. Nothing
in it is unpickled. What has no operator of ONNX here becomes one that no layer computes, so that
all such are refused at once.

Source: the schema of torch.export's serialisation (its graph and ScalarType) and the archives that
PyTorch 2.15 writes.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from math import prod
from typing import IO, TYPE_CHECKING, Any

from simgen.errors import ConfigError, one_line, printable, shortened
from simgen.frontend.importing.aten import TYPES, Call, tensors_of
from simgen.frontend.importing.effects import Effects

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

SUFFIX = ".pt2"
GRAPH = "models/model.json"
# Folders of parameters, and the list in each.
WEIGHTS = ("data/weights", "model_weights_config.json")
CONSTANTS = ("data/constants", "model_constants_config.json")
MAX_JSON = 2**27  # bytes
MAX_VALUES = 2**22  # in it
# Packed data may grow to this many times the file's bytes, plus the first MAX_PACKED bytes.
JSON_GROWTH = 64
GROWTH = 8
MAX_PACKED = 2**20
MAX_NBYTES = 2**31 - 2**20  # size limit of all parameters
SIZES = {6: 4, 7: 8, 10: 2, 1: 4, 11: 8, 9: 1, 16: 2}  # bytes of an element
OPSET = 17
PARAMETERS = "simgen.parameters"  # metadata of the model: names of tensors that are trained
MALFORMED = (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, StopIteration,
             TypeError, ValueError)  # fmt: skip
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


def model(file: IO[bytes], path: Path) -> onnx.ModelProto:
    """The program as an ONNX model.

    Raises:
        ConfigError: the file is none, or is damaged.
    """
    where = one_line(str(path))
    try:
        with zipfile.ZipFile(file) as archive:
            return _Program(archive, os.fstat(file.fileno()).st_size).model()
    except ConfigError as error:
        raise ConfigError(where, str(error).partition(": ")[2]) from None
    except UNREADABLE as error:
        fact = shortened(one_line(str(error)), 100)
        raise ConfigError(where, f"no program of torch.export, or a damaged one ({fact})") from None
    except MALFORMED as error:
        fact = shortened(one_line(f"{type(error).__name__}: {error}"), 100)
        raise ConfigError(where, f"a program of torch.export in another form ({fact})") from None


class _Program:
    def __init__(self, archive: zipfile.ZipFile, nbytes: int) -> None:
        self.archive = archive
        self.nbytes = nbytes
        names = [name for name in archive.namelist() if name.endswith(GRAPH)]
        if len(names) != 1:
            raise ConfigError("pt2", f"no {GRAPH} in it, so no program of torch.export")
        self.root = names[0].removesuffix(GRAPH)
        whole = self.json(GRAPH)
        self.graph, self.signature = (whole["graph_module"][k] for k in ("graph", "signature"))

    def json(self, name: str) -> Any:
        info = self.archive.getinfo(self.root + name)
        most = min(MAX_JSON, MAX_PACKED + JSON_GROWTH * self.nbytes)
        if info.file_size > most:
            raise ConfigError("pt2", f"{name} in it is larger than {most} bytes; cut the model")
        content = self.archive.read(info)
        if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
            raise ConfigError("pt2", f"{name} in it has more than {MAX_VALUES} values; cut it")
        return json.loads(content)

    def model(self) -> onnx.ModelProto:
        from onnx import helper

        inputs = [self._value(name) for name in self._user_inputs()]
        nodes: list[onnx.NodeProto] = []
        values = self.graph["tensor_values"]
        sizes = {name: _extents(value["sizes"]) for name, value in values.items()}
        call = Call(nodes, sizes, {n: TYPES.get(v["dtype"], 0) for n, v in values.items()})
        effects = Effects(
            call, {name: _extents(value["strides"]) for name, value in values.items()}
        )
        for node in self.graph["nodes"]:
            effects.meet(node)
        names = [each["as_tensor"]["name"] for each in self.graph["outputs"] if "as_tensor" in each]
        ends = dict.fromkeys(effects.now(name) for name in names)
        made = {name for node in nodes for name in node.output} & call.sizes.keys()
        outputs, told = ([self._info(name, call) for name in each] for each in (ends, made))
        tensors = [*self._parameters(), *call.tensors]
        graph = helper.make_graph(nodes, "program", inputs, outputs, tensors, value_info=told)
        whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        whole.metadata_props.add(key=PARAMETERS, value=" ".join(self._trained()))
        return whole

    def _trained(self) -> list[str]:
        """Names of parameters; of those that training leaves alone, where it does not all."""
        found = {
            each["parameter"]["arg"]["name"]: each["parameter"]["parameter_name"]
            for each in self._specs()
            if "parameter" in each
        }
        listing = "/".join(WEIGHTS)
        there = self.root + listing in self.archive.namelist()
        stored = self.json(listing)["config"] if there else {}
        changes = [
            name for name, own in found.items() if stored[own]["tensor_meta"]["requires_grad"]
        ]
        return changes or list(found)

    def _user_inputs(self) -> list[str]:
        specs = (each["user_input"]["arg"] for each in self._specs() if "user_input" in each)
        return [each["as_tensor"]["name"] for each in specs if "as_tensor" in each]

    def _specs(self) -> list[Any]:
        found: list[Any] = self.signature["input_specs"]
        return found

    @staticmethod
    def _info(name: str, call: Call) -> onnx.ValueInfoProto:
        """What the program says of a tensor."""
        from onnx import helper

        return helper.make_tensor_value_info(name, call.types.get(name, 0), call.sizes[name])

    def _value(self, name: str) -> onnx.ValueInfoProto:
        from onnx import helper

        value = self.graph["tensor_values"][name]
        element = TYPES.get(value["dtype"], 0)
        return helper.make_tensor_value_info(name, element, _extents(value["sizes"]))

    def _parameters(self) -> list[onnx.TensorProto]:
        """The tensors of the program that are no inputs of its user."""
        kinds = {"parameter": "parameter_name", "buffer": "buffer_name",
                 "tensor_constant": "tensor_constant_name"}  # fmt: skip
        called = {
            each[kind]["arg"]["name"]: each[kind][key]
            for each in self._specs()
            for kind, key in kinds.items()
            if kind in each
        }
        files: dict[str, tuple[str, Any]] = {}
        for folder, name in (WEIGHTS, CONSTANTS):
            listing = f"{folder}/{name}"
            if self.root + listing in self.archive.namelist():
                found = self.json(listing)["config"].items()
                files |= {name: (f"{folder}/{each['path_name']}", each) for name, each in found}
        used = {
            name for node in self.graph["nodes"] for each in node["inputs"]
            for name in tensors_of(each["arg"])
        }  # fmt: skip
        most = min(MAX_NBYTES, MAX_PACKED + GROWTH * self.nbytes)
        made: list[onnx.TensorProto] = []
        for name, own in called.items():
            if name in used:
                room = most - sum(len(each.raw_data) for each in made)
                made.append(self._tensor(name, *files[own], room))
        return made

    def _tensor(self, name: str, member: str, told: Any, room: int) -> onnx.TensorProto:
        from onnx import TensorProto

        meta = told["tensor_meta"]
        shape = [int(size["as_int"]) for size in meta["sizes"]]
        strides = [int(each["as_int"]) for each in meta["strides"]]
        dense = [prod(shape[at + 1 :]) for at in range(len(shape))]
        said = _extents(self.graph["tensor_values"][name]["sizes"])
        if said != shape:
            fact = f"parameter {printable(name)} has {'x'.join(map(str, shape)) or 'one number'}"
            told_as = "x".join(map(str, said)) or "one number"
            raise ConfigError("pt2", f"{fact}, which its graph declares as {told_as}")
        if told["use_pickle"] or (strides != dense and prod(shape) > 1):
            raise ConfigError("pt2", f"parameter {printable(name)} is not stored as dense numbers")
        element = TYPES[meta["dtype"]]
        start = int(meta["storage_offset"]["as_int"]) * SIZES[element]
        nbytes = prod(shape) * SIZES[element]
        info = self.archive.getinfo(self.root + member)
        if not 0 <= start <= start + nbytes <= info.file_size:
            raise ConfigError("pt2", f"parameter {printable(name)} is damaged")
        if start + nbytes > room:
            fact = f"with parameter {printable(name)}, parameters take more than the file can hold"
            raise ConfigError("pt2", f"{fact}; store it without compression, each tensor once")
        with self.archive.open(info) as file:
            content = file.read(start + nbytes)[start:]
        return TensorProto(dims=shape, data_type=element, name=name, raw_data=content)


def _extents(given: Any) -> list[int | str]:
    return [
        each["as_int"] if "as_int" in each else _symbol(each["as_expr"]["expr_str"])
        for each in given
    ]


def _symbol(text: str) -> str:
    """The name of an extent that is open: Symbol('s77', positive=True, ...)."""
    found = re.match(r"Symbol\('(\w+)'", text)
    return found[1] if found else text
