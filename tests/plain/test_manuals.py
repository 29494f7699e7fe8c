"""Man pages: groff and lexgrog, of man-db, read them without a complaint."""

from __future__ import annotations

import re
import shutil
import subprocess

import click
import pytest

from simgen.cli import manuals
from simgen.cli.main import cli

PAGES = manuals.pages("1.0")


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here")
def test_groff_has_no_warning_and_loses_no_option() -> None:
    for name, text in PAGES.items():
        words = ["groff", "-ww", "-man", "-Tascii", "-P-cbou"]
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), name
        command = cli
        for word in name.removesuffix(".1").split("-")[1:]:
            command = command.get_command(None, word)
        read = re.sub(r"\s+", "", done.stdout)
        for each in command.get_params(click.Context(command)):
            assert all(option in read for option in each.opts if option[0] == "-"), (name, each)


@pytest.mark.skipif(shutil.which("lexgrog") is None, reason="there is no man-db here")
def test_man_finds_each_with_what_it_is_for(tmp_path) -> None:
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(["lexgrog", *sorted(PAGES)], cwd=tmp_path, capture_output=True, text=True)
    found = re.findall(r'^(\S+): "(\S+) - (.+)"$', done.stdout, re.M)
    assert [(page, f"{name}.1") for page, name, _ in found] == [(p, p) for p in sorted(PAGES)]
