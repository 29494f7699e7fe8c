"""Files of other programs in place of a config: what simgen says that they are.

Their first lines are those that the programs' own documents show.
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from census import census

from simgen.errors import ConfigError
from simgen.frontend import foreign, network, problem

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = {
    "config.json": ('{"architectures": ["LlamaForCausalLM"], "hidden_size": 64}', "Hugging Face"),
    "noname": ('{\n "model_type": "gpt2"\n}', "Hugging Face"),
    "other.json": ('[{"a": 1}]', "JSON"),
    "deploy.prototxt": ('name: "small"\nlayer { name: "conv1" }', "Caffe"),
    "old.txt": ('name: "small"\nlayers {\n  name: "conv1"\n}', "Caffe"),
    "prob.yaml": ("problem:\n  version: 0.4\n  shape:\n    name: CNN\n", "Timeloop"),
    "layer.yml": ("# one\nname: conv\n", "YAML"),
    "topo.csv": ("Layer name, IFMAP Height, IFMAP Width,\nConv1, 34, 34,\n", "SCALE-Sim"),
    "gemm.dnnmark": ("Layer, M, N, K,\nA, 3, 4, 5,\n", "SCALE-Sim"),
    "plain.csv": ("a,b\n1,2\n", "by its name, a table"),
    "yolo.cfg": ("# v3\n[net]\nbatch=64\n\n[convolutional]\nfilters=32\n", "Darknet"),
    "scale.cfg": ("[general]\nrun_name = a\n[architecture_presets]\nArrayHeight: 32", "SCALE-Sim"),
    "m.gguf": ("x", "by its name, weights of llama.cpp"),
    "m.pt": ("x", "torch.export.save(torch.export.export(model, inputs)"),
    "kernel.cu": ("#include <cuda.h>\n__global__ void f() {}\n", "write a .toml"),
    "kernel.ptx": ("//\n.version 7.8\n.target sm_70\n", "PTX"),
    "train.py": ("import torch\n", "Python"),
    "graph.mlir": ("module @jit_f {\n}\n", "MLIR"),
    "graph.pbtxt": ('node {\n  name: "x"\n}\n', "TensorFlow"),
    "calls": (
        "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1\n",
        "list LOG",
    ),
}
BYTES = {
    "a": (b"GGUF\3\0\0\0", "llama.cpp"),
    "b": (b"\x7fELF\2\1\1\0", "simgen lint"),
    "c": (b"\x1c\0\0\0TFL3\0\0", "TensorFlow Lite"),
    "d": (b"\x89HDF\r\n\x1a\n\0\0", "HDF5"),
    "e": ((20).to_bytes(8, "little") + b'{"w":{"dtype":"F32"}}', "safetensors"),
    "f": (b"\x80\x02}q\0.", "pickle"),
    "g": (b"\x1f\x8b\x08\0", "gunzip"),
    "h": (b"\x93NUMPY\1\0", "--values"),
}
ARCHIVES = {
    ("m/data.pkl", "m/code/__torch__.py", "m/constants.pkl"): "TorchScript",
    ("w/data.pkl", "w/data/0"): "torch.save",
    ("e/archive_format", "e/models/model.json"): "call it .pt2",
    ("x.npy", "y.npy"): "--values",
    ("readme.txt",): "a ZIP archive",
}


def said(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        problem.find(str(path), (), None)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    return message


@census("name", [*TEXTS, *BYTES])
def test_a_file_of_another_program_is_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name in TEXTS:
        text, fact = TEXTS[name]
        path.write_text(text)
    else:
        content, fact = BYTES[name]
        path.write_bytes(content)
    assert fact in said(path)


@pytest.mark.parametrize("names", ARCHIVES)
def test_an_archive_is_told_by_what_is_in_it(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 5000)
    assert ARCHIVES[names] in said(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "a ZIP archive" in said(path)


def test_a_config_is_never_another_program_s(tmp_path: Path) -> None:
    """Whatever it is called, and whatever else is in it."""
    for name in ("net.json", "net.py", "net.cfg", "net.dnnmark"):
        path = tmp_path / name
        path.write_text("# layer {\n#include <x>\n[Softmax] # .version 7.8\nn=\n")
        assert foreign.foreign_format(path, ("Softmax",)) is None
        with pytest.raises(ConfigError, match=r":4: n is ''; write a whole number"):
            network.resolve(problem.find(str(path), (), None).config)


def test_what_nobody_knows_keeps_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    with pytest.raises(ConfigError, match=r"a.txt:1: 'hello' is neither a section nor an entry"):
        problem.find(str(tmp_path / "a.txt"), (), None)
