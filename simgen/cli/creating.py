"""new: files that something of a user's own begins with; `data` and `network` lie elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import click

from simgen.cli.answers import answer, json_option
from simgen.cli.options import Commands


@click.group(cls=Commands)
def new() -> None:
    """Write a template for your own code, data, or a small network."""


assert isinstance(new, Commands)
new.below = {"data": "inventory", "network": "synthesising"}


@new.command()
@click.argument("name")
@json_option
def kernel(name: str, as_json: bool) -> None:
    """Write NAME.hip and NAME.toml, a kernel of your own.

    Both build and run unchanged. Edit them into your kernel (docs/own-kernels.md).

    \b
    simgen new kernel scale
    simgen build scale.toml --target host --run
    """
    from simgen.errors import UsageError, printable
    from simgen.frontend.own_tensors import NAME

    if not NAME.fullmatch(name):
        raise UsageError(f"{printable(name)}: not a name; write letters, digits and _")
    from simgen.bundle import outputs
    from simgen.ground.storage.files import write_atomic
    from simgen.kernels import render

    paths = {suffix: Path(f"{name}{suffix}") for suffix in (".hip", ".toml")}
    for path in paths.values():
        outputs.new_file(path, "")
    for suffix, path in paths.items():
        write_atomic(path, render.text(f"own/kernel{suffix}.j2", name=name).encode())
    following = f"simgen build {paths['.toml']} --target host --run"
    if as_json:
        answer("files", {"files": [str(path) for path in paths.values()], "next": following})
        return
    print(f"written: {paths['.hip']}, {paths['.toml']}")
    print(f"next: {following}")


@new.command()
@click.argument("name")
@json_option
def layer(name: str, as_json: bool) -> None:
    """Write a layer into a checkout of simgen: a kernel for each pass, its registration, its test.

    It builds, runs and passes its tests: change it into what is yours
    (docs/contributing/adding-a-layer.md).

    \b
    simgen new layer square
    simgen build square_fwd --target host --run
    .ci/layer square
    """
    from simgen.cli import layer_files

    paths = [os.path.relpath(path) for path in layer_files.write(name)]
    if as_json:
        answer("files", {"files": paths, "next": f".ci/layer {name}"})
        return
    print("written:", *paths, sep="\n  ")
    print(f"next: .ci/layer {name}")
