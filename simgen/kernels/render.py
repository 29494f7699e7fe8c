"""Templates -> text that reads as hand-written C++, C or shell."""

from __future__ import annotations

import shlex
from functools import cache
from typing import TYPE_CHECKING

from simgen.ground import plugins, resources
from simgen.kernels import kernel_source
from simgen.kernels.kernel_source import PRELUDE as PRELUDE
from simgen.kernels.kernel_source import c_float as c_float
from simgen.kernels.kernel_source import clang_cuda as clang_cuda
from simgen.kernels.kernel_source import prelude as prelude

if TYPE_CHECKING:
    import jinja2

    from simgen.ground.ir import Kernel, Workload


def text(template: str, **variables: object) -> str:
    """The template with `variables`: a path under templates/, or under the folder of that name in
    another package (PACKAGE:PATH). A missing variable is an error."""
    return _environment().get_template(template).render(**variables)


def page(template: str, **variables: object) -> str:
    """An HTML page: as `text`, but what is not marked safe is escaped."""
    return _environment().overlay(autoescape=True).get_template(template).render(**variables)


def kernel(item: Kernel) -> str:
    """Source of one kernel; it includes `PRELUDE`, and nothing else."""
    return kernel_source.text(item)


def kernels(workload: Workload) -> dict[str, str]:
    """Kernel name -> source, for every kernel of the workload."""
    return {
        item.name: item.source.text if item.source else kernel(item) for item in workload.kernels
    }


def self_contained(source: str) -> str:
    """A kernel's source with the prelude in place of its include."""
    include = f'#include "{PRELUDE}"\n'
    if source.count(include) != 1:
        raise ValueError(f"a kernel must have one line {include!r}")
    return source.replace(include, prelude())


@cache
def _environment() -> jinja2.Environment:
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

    def elsewhere(name: str) -> str | None:
        path = plugins.template(name)
        return path.read_text() if path and path.is_file() else None

    environment = Environment(
        loader=ChoiceLoader(
            [FileSystemLoader(resources.folder("templates")), FunctionLoader(elsewhere)]
        ),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  C and shell, not HTML: the filters below quote
    )
    environment.filters.update(
        c_string=c_string, c_bytes=c_bytes, c_float=c_float, sh_quote=shlex.quote
    )
    return environment


def c_string(value: str) -> str:
    """A C string literal. Octal escapes, because a hexadecimal one has no end."""
    plain = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in value.encode()
    )
    return f'"{plain}"'


def c_bytes(value: bytes) -> str:
    """The elements of a C array of bytes."""
    return ", ".join(f"0x{byte:02x}" for byte in value)
