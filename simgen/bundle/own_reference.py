"""The user's own program as reference: what it expects goes into the data file, as inputs.

That is the only place where simgen executes what a user has written in Python, and only when a
bundle is built from a description that names the file.
"""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.errors import ConfigError, did_you_mean, one_line, printable
from simgen.frontend.network import make_layer
from simgen.ground.ir import Pass, Workload
from simgen.ground.storage.files import leads_out
from simgen.layers.own.definition import BEFORE, EXPECTED
from simgen.tensors import random_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.frontend.own_kernel import KernelFile
    from simgen.ground.dtypes import DType


def values(
    kernel: KernelFile, workload: Workload, given: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """What the user's function expects of each output, by input buffer; `given` are the values that
    are not random.

    Raises:
        ConfigError: there is no such function, it fails, or returns something else.
    """
    if kernel.python is None:
        return {}
    file, name = kernel.python
    home = Path(kernel.source).parent
    path = home / file
    if leads_out(path, home):  # it is executed, and the description may be somebody's
        fact = f"outside of the folder of {Path(kernel.source).name}; copy it there"
        raise ConfigError(one_line(file), fact)
    function = _function(path, name)
    tensors = {
        buffer.name.rpartition(".")[2].removesuffix(BEFORE): (
            given[buffer.name]
            if buffer.name in given
            else random_values.generate(buffer.name, buffer.spec, buffer.fill, workload.seed)
        )
        .reshape(buffer.spec.shape)
        .copy()  # the function may change it
        for buffer in workload.inputs
        if buffer.fill and not buffer.name.rpartition(".")[2].startswith(EXPECTED)
    }
    said = {**tensors, **dict(kernel.definition.parameters)}
    wanted = inspect.signature(function).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in wanted):
        names = [each.name for each in wanted]
        for each in (n for n in names if n not in said):
            raise ConfigError(
                f"{file}: {name}",
                f"no tensor or parameter {printable(each)}; {did_you_mean(each, said)}",
            )
        said = {each: said[each] for each in names}
    try:
        found = function(**said)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit, too: there is no bundle then
        fact = one_line(f"{type(error).__name__}: {error}")
        raise ConfigError(f"{path}: {name}", f"it fails ({fact}); correct it") from None
    return _expected(f"{path}: {name}", found, kernel, workload)


def check(kernel: KernelFile, workload: Workload) -> None:
    """Work expressions out once, so that what is wrong with them is said before anything runs.

    Raises:
        ConfigError: one cannot be worked out from tensors of these shapes, or has another shape.
    """
    if kernel.python:
        return
    (step,) = workload.steps
    layer = make_layer(workload.node(step.layer), workload.machine)
    # Values do not matter; small whole numbers are indices of most things.
    tensors = {port: np.zeros(workload.buffer(name).spec.shape) for port, name in step.reads}
    layer.tolerance(tensors, Pass.FORWARD)


def _function(path: Path, name: str) -> Any:
    try:
        module = runpy.run_path(str(path))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror}); check the path") from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        fact = one_line(f"{type(error).__name__}: {error}")
        raise ConfigError(str(path), f"it fails ({fact}); correct it") from None
    if not callable(module.get(name)):
        functions = [key for key, value in module.items() if callable(value)]
        raise ConfigError(str(path), f"no function {name}; {did_you_mean(name, functions)}")
    return module[name]


def _wide(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """In the type of a port; whole numbers of 64 bits wrap around as in C."""
    if dtype.is_long and array.dtype.kind == "f":
        array = np.rint(array)
    made: NDArray[Any] = array.astype(dtype.array)
    return made


def _expected(
    place: str, found: Any, kernel: KernelFile, workload: Workload
) -> dict[str, NDArray[Any]]:
    outputs = [each.name for each in kernel.definition.outputs]
    if not isinstance(found, dict):
        several = found if isinstance(found, tuple) and len(outputs) > 1 else (found,)
        found = dict(zip(outputs, several, strict=False))
    made = {}
    for buffer in workload.inputs:
        port = buffer.name.rpartition(".")[2]
        if not port.startswith(EXPECTED):
            continue
        name = port.removeprefix(EXPECTED)
        try:
            array = np.asarray(found[name])
            if array.dtype.kind in "cUSMm":  # complex numbers, texts, dates
                raise TypeError
            array = _wide(array, buffer.spec.dtype)
        except (KeyError, ValueError, TypeError):
            raise ConfigError(place, f"it returns no numbers for {name}; return an array for each "
                              "output, or a dict of them") from None  # fmt: skip
        if array.size != buffer.spec.size:
            fact = f"{name} has shape {array.shape}, and the output {buffer.spec.shape}"
            raise ConfigError(place, f"{fact}; correct one of them")
        made[buffer.name] = np.ascontiguousarray(array.reshape(buffer.spec.shape))
    return made
