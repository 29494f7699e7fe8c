"""The commands that pages and help texts show, and files that stand for what readers have."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import onnx
from onnx import helper, numpy_helper
from transcripts import Command, File, lines, parts

from simgen.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docker/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
OF_READERS = "blank|square_fwd|new layer"  # a target and a layer that readers of two pages write


def calls(line: str) -> Iterator[list[str]]:
    """What simgen is told by a line for a shell; of a loop, in its first turn."""
    for name, values in re.findall(r"\bfor (\w+) in ([^;]*)", line):
        line = line.replace(f"${name}", values.split()[0])
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&()<>\n")
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.whitespace = " \t"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set(";|&()<>\n"):
            while words and (words[0] == "do" or re.match(r"[A-Z]\w*=", words[0])):
                words.pop(0)
            if words and Path(words[0]).name == "simgen":
                yield words[1:]
            words = []
        else:
            words.append(word)


@dataclass(frozen=True)
class Shown:
    """A call of simgen: its page or help text, the line that it is in, its words."""

    where: str
    line: str
    words: tuple[str, ...]
    inline: bool = False  # in a sentence, and may be the begin of a command

    @property
    def of_readers(self) -> bool:
        return bool(re.search(OF_READERS, self.line))


def shown() -> Iterator[Shown]:
    """Of all pages and help texts; not what a page shows as an error."""
    for page in PAGES:
        text, where = page.read_text(), page.relative_to(ROOT).as_posix()
        failing = {each.line for each in parts(text) if isinstance(each, Command) and each.fails}
        sentences = re.sub(r"^```.*?^```$|^ {4}[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)
        inline = re.findall(r"`((?:[A-Z]\w*=\S+ )?simgen [^`]*)`", sentences)
        for line in lines(text):
            if line not in failing:
                yield from (Shown(where, line, tuple(each)) for each in calls(line))
        for line in (" ".join(each.split()) for each in inline):
            yield from (Shown(where, line, tuple(each), True) for each in calls(line))
    for name, command in walked(main.cli, "simgen"):
        for line in re.findall(r"^\s*((?:[A-Z]\w*=\S+ )?simgen .*)$", command.help or "", re.M):
            yield from (Shown(f"{name} --help", line, tuple(each)) for each in calls(line))


def walked(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found
            yield from walked(found, f"{name} {each}")
    else:
        yield name, command


CALLS = list(shown())

# What commands are told of that is somebody's own: files of ours in their place.
FILES = {
    "alexnet.dnnmark": "tests/data/alexnet.dnnmark",
    "path/to/model.dnnmark": "data/lenet5.dnnmark",
    "decoder.pt2": "tests/data/gpt.pt2",
    "digits-images-idx3-ubyte.gz": "data/samples/digits-images-idx3-ubyte.gz",
    "digits-labels-idx1-ubyte.gz": "data/samples/digits-labels-idx1-ubyte.gz",
}
BRANCHES = """
[Convolution]\nname=a\nn=8\nc=4\nh=6\nw=6\nnum_output=6\nkernel_size=1
[Convolution]\nname=b\nprevious_layer=a\nnum_output=6\nkernel_size=1
[Convolution]\nname=c\nprevious_layer=a\nnum_output=6\nkernel_size=1
[Concat]\nname=d\nprevious_layer=b,c
"""


def own_files(folder: Path) -> None:
    """What pages show as files, and files of ours under the names that commands have."""
    for page in PAGES:
        for each in parts(page.read_text()):
            if isinstance(each, File):
                (folder / each.name).write_text(each.content)
    for name, source in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, folder / name)
    for name in ("data/rates", "examples/kernels"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "inception.dnnmark").write_text(BRANCHES)
    (folder / "block.dnntemplate").write_text(
        BRANCHES.replace("=8\n", "=$N\n").replace("=6\n", "=$K\n")
    )
    (folder / "layer.dnnmark").write_text("[FullyConnected]\nname=up\nn=1\nc=8\nnum_output=4\n")
    (folder / "model.log").write_text(
        "./bin/MIOpenDriver conv -n 1 -c 3 -H 9 -W 9 -k 4 -y 3 -x 3\n"
    )
    sizes = '"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4'
    more = '"intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 4096'
    (folder / "config.json").write_text(f'{{"model_type": "llama", {sizes}, {more}}}')
    np.savez(folder / "weights.npz", **{"conv1.b": np.zeros(20, np.float32)})
    rows = np.minimum(np.arange(31) * 8, 96)  # where each begins; 8 elements in each of 12
    columns, values = np.arange(96) % 8, np.ones(96, np.float32)
    sparse = {"rows": rows, "columns": columns, "values": values}
    np.savez(folder / "own.npz", **{f"sparse_gemm.{name}": each for name, each in sparse.items()})
    x, w, y = (("x", ["batch", 8]), ("w", [8, 4]), ("y", ["batch", 4]))
    infos = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (x, y)]
    known = numpy_helper.from_array(np.ones(w[1], np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", infos[:1],
                              infos[1:], [known])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              folder / "model.onnx")  # fmt: skip
