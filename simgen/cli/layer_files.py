"""What `simgen new layer` writes into a checkout: a layer that works, registered and with its test.

The files are templates/layer/; two files that are there get a line each.
"""

from __future__ import annotations

import contextlib
import keyword
import os
import re
from collections.abc import Mapping
from pathlib import Path

from simgen.bundle import outputs
from simgen.errors import DamagedError, MissingError, UsageError, printable
from simgen.frontend import problem
from simgen.frontend.settings import GENERAL
from simgen.ground import resources
from simgen.ground.storage.files import write_atomic
from simgen.kernels import render
from simgen.layers import KIND_OF, LAYERS

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LONGEST = 24  # characters of a name
NEW = {  # file -> its template
    "simgen/layers/{}.py": "layer/layer.py.j2",
    "templates/kernels/{}_fwd.hip": "layer/fwd.hip.j2",
    "templates/kernels/{}_bwd.hip": "layer/bwd.hip.j2",
    "templates/kernels/constants/{}.h": "layer/constants.h.j2",
}
TABLE, TESTS = Path("simgen/layers/__init__.py"), Path("tests/plain/test_layers.py")
FILE = re.compile(r'^    "(\w+)": \("\w+", "[\w.]+"\),\n', re.M)
ROWS = re.compile(r"^INDEPENDENT = \{\n(?:    .*\n)*", re.M)
ROW = """    "{}": lambda variant, x: np.polyval(
        [np.float32(float(dict(variant.parameters)["factor"])), 0, 0], x
    ),
"""


def write(name: str) -> list[Path]:
    """Write all files of a new layer, or none; returns them, those that got a line last.

    Raises:
        UsageError: the name is none, or is taken; a file is there already.
        MissingError: this simgen is no checkout.
        DamagedError: a file lacks the place for its line.
    """
    root = _checkout()
    made = {root / path.format(name): template for path, template in NEW.items()}
    section = _section(name)
    for path in made:
        outputs.new_file(path, "")
    texts = {path: render.text(file, name=name, section=section) for path, file in made.items()}
    old = {path: path.read_text() for path in (root / TESTS, root / TABLE)}
    texts[root / TESTS] = _with_row(name, old[root / TESTS])
    texts[root / TABLE] = _with_file(name, section, old[root / TABLE])
    _write(texts, old)
    return list(texts)


def _write(texts: Mapping[Path, str], old: Mapping[Path, str]) -> None:
    done: list[Path] = []
    try:
        for path, text in texts.items():
            done.append(path)
            write_atomic(path, text.encode())
    except BaseException:
        for path in done:
            with contextlib.suppress(OSError):
                if path in old:
                    write_atomic(path, old[path].encode())
                else:
                    path.unlink(missing_ok=True)
        raise


def _checkout() -> Path:
    """The folder that simgen's sources, templates and tests lie in."""
    root = resources.folder("templates").parent
    if not all((root / path).is_file() for path in (TABLE, TESTS)):
        raise MissingError(
            f"new layer: {root} has no tests, so it is no checkout of simgen; clone the "
            "repository, run `pip install -e . --group dev` in it, and try again"
        )
    return root


def _section(name: str) -> str:
    """The section of the layer, which is its class as well."""
    place = f"new layer {printable(name)}"
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        raise UsageError(
            f"{place}: not a name of a layer; write at most {LONGEST} small letters, digits and "
            "single _ between them, as in leaky_relu"
        )
    if {"fwd", "bwd"} & set(name.split("_")):
        raise UsageError(f"{place}: fwd and bwd are passes, in names of workloads; leave them out")
    section = "".join(word.capitalize() for word in name.split("_"))
    taken = {GENERAL.lower(), *(section.lower() for section in KIND_OF)}
    taken |= {*LAYERS, *problem.networks()}
    if taken & {name, section.lower()} or os.path.lexists(_checkout() / TABLE.parent / name):
        raise UsageError(f"{place}: simgen has one of this name; choose another")
    used = render.text(NEW["simgen/layers/{}.py"], name="", section="")
    if keyword.iskeyword(name) or re.search(rf"\b{section}\b", used):
        raise UsageError(f"{place}: the layer's file uses this word itself; choose another")
    return section


def _with_file(name: str, section: str, text: str) -> str:
    lines = list(FILE.finditer(text))
    if not lines:
        raise DamagedError(f"{TABLE}: no line has the file of a layer; restore the file")
    after = [line.end() for line in lines if line[1] < name]
    at = after[-1] if after else lines[0].start()
    return f'{text[:at]}    "{name}": ("{section}", "{name}"),\n{text[at:]}'


def _with_row(name: str, text: str) -> str:
    found = ROWS.search(text)
    if not found:
        raise DamagedError(f"{TESTS}: there is no INDEPENDENT; restore the file")
    return text[: found.end()] + ROW.format(name) + text[found.end() :]
