"""Files of other programs that a user may name in place of a config: what they are, and the way in.

What a file holds decides before what it is called; both only where it has no section of a config.
"""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from simgen.ask.build import BuildChoices
from simgen.frontend.config import MAX_NBYTES
from simgen.ground.storage.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_EXPORT = "export it to .onnx or .pt2, and name that (page models)"
_TORCH = "write torch.export.save(torch.export.export(model, inputs), 'model.pt2'), and name that"
_LAYERS = "write its layers as sections of a .dnnmark config, as simgen list layers names them"
_KERNEL = "write a .toml that describes its launches, and name that (page own-kernels)"
_MACHINE_CODE = "simgen lint looks at machine code; to launch it, name a .toml that describes it"


class _Kind(NamedTuple):
    what: str
    cure: str
    suffixes: tuple[str, ...] = ()
    begins: bytes | None = None  # first bytes of the file
    matches: str | None = None  # in its first kilobytes, as text


KINDS = (
    _Kind("weights of llama.cpp (GGUF), without the graph", _EXPORT, (".gguf",), b"GGUF"),
    _Kind(
        "machine code or a program (ELF)", _MACHINE_CODE, (".co", ".hsaco", ".o", ".so"), b"\x7fELF"
    ),
    _Kind("a model of TensorFlow Lite", _EXPORT, (".tflite",), None, r"(?s)\A.{4}TFL3"),
    _Kind(
        "an HDF5 file, as Keras's weights and simgen's data.h5 are",
        _EXPORT,
        (".h5", ".hdf5", ".keras"),
        b"\x89HDF\r\n\x1a\n",
    ),
    _Kind(
        "tensors of NumPy",
        f"they are values: name a workload, and them with {BuildChoices.values}",
        (".npy", ".npz"),
        b"\x93NUMPY",
    ),
    _Kind(
        "tensors in safetensors, without the graph",
        _EXPORT,
        (".safetensors",),
        None,
        r'(?s)\A.{8}\{"',
    ),
    _Kind(
        "what PyTorch has saved: TorchScript or weights, not a program of torch.export",
        _TORCH,
        (".pt", ".pth", ".ckpt"),
    ),
    _Kind("a pickle of Python, as older files of torch.save are", _TORCH, (".pkl",), b"\x80"),
    _Kind(
        "packed by gzip", "unpack it with gunzip, and name what was in it", (".gz",), b"\x1f\x8b"
    ),
    _Kind(
        "the configuration of a machine of SCALE-Sim",
        _LAYERS,
        (),
        None,
        r"\A\s*\[general\]|^\[architecture_presets\]",
    ),
    _Kind(
        "a configuration of Hugging Face's Transformers",
        _EXPORT,
        (),
        None,
        r'(?s)\A\s*\{.*"(?:architectures|model_type|hidden_size)"\s*:',
    ),
    _Kind(
        "a notebook",
        "run it and export its model: " + _EXPORT,
        (".ipynb",),
        None,
        r'(?s)\A\s*\{.*"(?:cells|nbformat)"\s*:',
    ),
    _Kind(
        "JSON, which is no config of simgen's", _LAYERS, (".json",), None, r"\A\s*[\[{]\s*[\"\]}{]"
    ),
    _Kind(
        "a network of Caffe (prototxt)",
        f"its keys are those of simgen's sections: {_LAYERS}",
        (".prototxt", ".caffemodel"),
        None,
        r"^\s*layers?\s*\{",
    ),
    _Kind(
        "a network of Darknet",
        _LAYERS,
        (".cfg", ".weights"),
        None,
        r"\A(?:\s*#[^\n]*\n|\s*\n)*\s*\[net(?:work)?\]",
    ),
    _Kind(
        "a problem of Timeloop",
        _LAYERS,
        (),
        None,
        r"^(?:problem|workload)\s*:(?:.*\n)+?\s+(?:shape|instance|dimensions)\s*:",
    ),
    _Kind(
        "a workload of ZigZag or Stream", _LAYERS, (), None, r"^-?\s*(?:equation|operator_type)\s*:"
    ),
    _Kind(
        "YAML, which is no config of simgen's",
        _LAYERS,
        (".yaml", ".yml"),
        None,
        r"\A(?:\s*#[^\n]*\n)*(?:---\s*\n|[\w-]+:\s*(?:\n|[\w\"'\[{.-]))",
    ),
    _Kind(
        "a topology of SCALE-Sim, which simgen writes (simgen export) and does not read",
        _LAYERS,
        (),
        None,
        r"\A\s*Layer(?: name)?\s*,\s*(?:IFMAP|M\s*,)",
    ),
    _Kind(
        "a table with commas",
        f"write the problems as words, such as gemm:m=35,n=700,k=2048, or {_LAYERS}",
        (".csv", ".tsv"),
    ),
    _Kind(
        "a model of MAESTRO", _LAYERS, (".m",), None, r"\A\s*(?://[^\n]*\n\s*)*Network\s+\S+\s*\{"
    ),
    _Kind(
        "a workload of ASTRA-sim (Chakra), which simgen writes (simgen export) and does not read",
        _LAYERS,
        (".et",),
    ),
    _Kind(
        "a program of MLIR or StableHLO",
        _EXPORT,
        (".mlir", ".stablehlo"),
        None,
        r"\A\s*(?:#\w+ = [^\n]*\n\s*)*module\b",
    ),
    _Kind(
        "a graph of TensorFlow", _EXPORT, (".pb", ".pbtxt", ".savedmodel"), None, r"\A\s*node\s*\{"
    ),
    _Kind("a model of OpenVINO, or other XML", _EXPORT, (".xml",), None, r"\A\s*<(?:\?xml|net)\b"),
    _Kind("a model of Core ML", _EXPORT, (".mlmodel", ".mlpackage")),
    _Kind(
        "an engine of TensorRT",
        "name the .onnx that it was built from",
        (".engine", ".plan", ".trt"),
    ),
    _Kind("a network of ncnn", _EXPORT, (".param",), b"7767517"),
    _Kind(
        "a program of Python", _EXPORT, (".py",), None, r"^(?:import|from) [\w.]+(?: import .*)?$"
    ),
    _Kind("kernels in PTX", _KERNEL, (".ptx",), None, r"^\s*\.version \d+\.\d+"),
    _Kind(
        "kernels in assembly or LLVM's language",
        _KERNEL,
        (".s", ".ll", ".bc", ".asm"),
        None,
        r"^\s*(?:\.amdgcn_target|target triple =)",
    ),
    _Kind(
        "the source of kernels",
        _KERNEL,
        (".hip", ".cu", ".cl", ".cpp", ".cc", ".c", ".h"),
        None,
        r"\b__(?:global__|kernel)\b|^#include [<\"]",
    ),
    _Kind(
        "a log of calls of MIOpen, rocBLAS or hipBLASLt",
        "take the problems from: simgen list LOG",
        (".log",),
        None,
        r"^(?:.*\s)?(?:\S*/)?(?:MIOpenDriver|rocblas-bench|hipblaslt-bench)\s",
    ),
)
LOOKED_AT = 2**13  # bytes


def foreign_format(path: Path, sections: Iterable[str]) -> str | None:
    """What a file is that has none of these sections, and what to do with it; None where nobody
    knows, or it cannot be read."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_NBYTES)
            if content[:2] == b"PK":
                return _of_zip(file)
    except (OSError, ValueError):
        return None
    names = "|".join(map(re.escape, sections))
    if re.search(rf"^\s*\[\s*(?:{names})\s*\]".encode(), content, re.M):
        return None
    head = content[:LOOKED_AT]
    text = head.decode("utf-8", "replace") if b"\0" not in head else head.decode("latin-1")
    for each in KINDS:
        begun = each.begins and head.startswith(each.begins)
        if begun or (each.matches and re.search(each.matches, text, re.M)):
            return f"{each.what}; {each.cure}"
    found = next((each for each in KINDS if path.suffix.lower() in each.suffixes), None)
    return f"by its name, {found.what}; {found.cure}" if found else None


def _of_zip(file: BinaryIO) -> str:
    """Kind of a zip archive: a PyTorch file or NumPy's .npz."""
    try:
        names = zipfile.ZipFile(file).namelist()
    except (zipfile.BadZipFile, OSError, ValueError, EOFError):
        names = []
    last = {name.rpartition("/")[2] for name in names}
    if "archive_format" in last and any("/models/" in name for name in names):
        return "a program of torch.export under another name; call it .pt2"
    if "constants.pkl" in last or any("/code/" in name for name in names):
        return f"a program of TorchScript; {_TORCH}"
    if "data.pkl" in last:
        return f"tensors or a module that torch.save has written, without the graph; {_TORCH}"
    if names and all(name.endswith(".npy") for name in names):
        return (
            "tensors of NumPy; they are values: name a workload, and "
            f"them with {BuildChoices.values}"
        )
    return "a ZIP archive; unpack it, and name what is in it"
