"""simgen cache miopen: the keys of a config, and caches of both forms."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from command_line import fails

from simgen.errors import DamagedError, MissingError, RunError
from simgen_rocm import miopen_cache
from simgen_rocm.miopen_cache import KernelDatabase, KernelFiles

if TYPE_CHECKING:
    from pathlib import Path

CODE, OTHER = b"\x7fELF one", b"\x7fELF two"
ROW = ("MIOpenSoftmax.cl", "-DNUM_BATCH=1 -DMIOPEN_USE_FP16=0 -DMIOPEN_USE_FP32=1")
KEY = miopen_cache.key(*ROW, "gfx801")
SOFTMAX = "cache miopen softmax_fwd --set n=4 --gfx gfx902"


def test_a_key_is_what_miopen_asks_for():
    assert ("MIOpenSoftmax.cl.o", f" {ROW[1]} -mcpu=gfx801") == KEY
    with_gpu = miopen_cache.key(ROW[0], f"  {ROW[1]} -mcpu=gfx803", "gfx801")
    assert with_gpu == KEY  # as rows of cachefiles.csv have it


def test_files_of_the_first_generation_have_the_folder_that_gem5_resources_names(tmp_path):
    cache = KernelFiles(tmp_path, "gfx801", 4)
    assert cache.place(KEY).parent.name.startswith("5c3130f7")  # of its generate_cachefiles.sh
    cache.add({KEY: CODE})
    assert cache.read([KEY, ("x.o", " y")]) == {KEY: CODE}


@pytest.mark.parametrize(
    ("units", "name"), [(4, "gfx801_4.ukdb"), (64, "gfx801_64.ukdb"), (128, "gfx80180.ukdb")]
)
def test_databases_have_the_name_that_miopen_looks_for(tmp_path, units, name):
    cache = KernelDatabase(tmp_path / "new", "gfx801", units)
    assert cache.read([KEY]) == {}
    cache.add({KEY: CODE})
    cache.add({("x.o", " y"): OTHER})
    assert cache.place(KEY).name == name
    assert cache.read([KEY, ("x.o", " y")]) == {KEY: CODE, ("x.o", " y"): OTHER}


@pytest.mark.parametrize("kind", [KernelFiles, KernelDatabase])
def test_what_is_no_code_object_is_damage(tmp_path, kind):
    cache = kind(tmp_path, "gfx801", 4)
    cache.add({KEY: b"text"})
    with pytest.raises(DamagedError, match="is no code object"):
        cache.read([KEY])


def test_another_digest_is_damage(tmp_path):
    cache = KernelDatabase(tmp_path, "gfx801", 4)
    cache.add({KEY: CODE})
    with closing(sqlite3.connect(cache.place(KEY))) as connection:
        connection.execute("UPDATE kern_db SET kernel_hash = 'x'")
        connection.commit()
    with pytest.raises(DamagedError, match="differs from its digest"):
        cache.read([KEY])


def compiler(tmp_path: Path, script: str) -> str:
    program = tmp_path / "clang-ocl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_kernels_are_compiled_from_miopen_s_sources(tmp_path):
    (tmp_path / ROW[0]).write_text("kernel")
    last = 'for word; do out=$word; done; echo "$@" >"$0.log"; printf "\\177ELF one" >"$out"'
    program = compiler(tmp_path, last)
    assert miopen_cache.build([ROW], "gfx801", tmp_path, program) == {KEY: CODE}
    words = (tmp_path / "clang-ocl.log").read_text()
    assert f"{ROW[1]} -mcpu=gfx801" in words
    refusing = compiler(tmp_path, "echo 'x.cl:1: error: no' >&2; exit 1")
    with pytest.raises(RunError, match="refuses it"):
        miopen_cache.build([ROW], "gfx801", tmp_path, refusing)
    with pytest.raises(MissingError, match="has no"):
        miopen_cache.build([("Other.cl", "")], "gfx801", tmp_path, program)
    with pytest.raises(MissingError, match="clang-ocl"):
        miopen_cache.build([ROW], "gfx801", tmp_path, "/nowhere/clang-ocl")


# ------------------------------------------------------------------ the command


def test_the_command_lists_checks_and_takes_over(simgen, tmp_path):
    listed = simgen(f"{SOFTMAX} -o rows.csv")
    assert listed.code == 0
    assert listed.out.startswith("MIOpenSoftmax.cl.o -DNUM_BATCH=1")
    (row,) = miopen_cache.read_rows(tmp_path / "rows.csv")
    wanted = miopen_cache.key(*row, "gfx902")
    fails(simgen("cache miopen softmax_fwd --gfx gfx903"), 2, "did you mean 'gfx")
    fails(simgen(f"{SOFTMAX} --in new -q"), 3, "1 of 1 kernels are missing", "MIOpenSoftmax.cl.o")
    KernelDatabase(tmp_path / "old", "gfx902", 4).add({wanted: CODE})
    taken = simgen("cache miopen --rows rows.csv --in new --from old --json").json()
    assert [each["state"] for each in taken["kernels"]] == ["taken over"]
    assert KernelDatabase(tmp_path / "new", "gfx902", 4).read([wanted]) == {wanted: CODE}
    KernelDatabase(tmp_path / "old", "gfx902", 4).add({wanted: OTHER})
    assert simgen(f"{SOFTMAX} --in new --from old").out.startswith("there, another one: MIOpenS")
    assert simgen(f"{SOFTMAX} --in new").out.startswith("there: MIOpenSoftmax.cl.o")


def test_the_first_generation_is_listed_checked_and_taken_over(simgen, tmp_path):
    first = "cache miopen softmax_fwd --set c=1000 --gfx gfx801 --miopen 1.7.0"
    listed = simgen(f"{first} -o rows.csv")
    assert listed.out.splitlines()[0] == f"{KEY[0]}{KEY[1]}"  # that of generate_cachefiles.sh
    fails(simgen(f"{first} --in new -q"), 3, "1 of 1 kernels are missing")
    KernelFiles(tmp_path / "old", "gfx801", 4).add({KEY: CODE})
    assert simgen(f"{first} --in new --from old").out.startswith("taken over: ")
    assert KernelFiles(tmp_path / "new", "gfx801", 4).read([KEY]) == {KEY: CODE}


def test_arguments_do_not_reach_the_terminal_as_they_are(simgen, tmp_path):
    (tmp_path / "rows.csv").write_text("a.cl,-DX=\x1b[2J\n")
    found = simgen("cache miopen --rows rows.csv")
    assert found.code == 0
    assert "-DX=\\x1b[2J" in found.out


def test_all_layers_of_a_config_are_listed(simgen):
    told = json.loads(simgen("cache miopen pool_bwd lrn_fwd --set n=2 --json").out)
    assert {each["kernel"].split(".")[0] for each in told["kernels"]} == {
        "MIOpenPoolingBwd", "MIOpenLRNFwd",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "fact"),
    [
        ("cache miopen", 2, "no config is given"),
        ("cache miopen softmax_fwd --miopen 2.8.0", 2, "2.9.0"),
        ("cache miopen conv_fwd --miopen 1.7.0", 2, "MIOpenGEMM"),
        ("cache miopen softmax_fwd --from old", 2, "--in"),
        ("cache miopen softmax_fwd --in x --compiler y", 2, "--sources"),
        ("cache miopen --rows rows.csv", 2, "rows.csv"),
        ("cache miopen odd.csv --rows odd.csv", 2, "odd.csv"),
        ("cache miopen --rows odd.csv", 7, "odd.csv:2: 'x' is not PROGRAM,ARGUMENTS"),
        ("cache miopen --rows path.csv", 7, "path.csv:1: '../x.cl' is no name of a program"),
        ("cache miopen --rows escape.csv", 7, "escape.csv:1: '\\x1bx.cl' is no name"),
        ("cache miopen --rows long.csv", 7, "long.csv: is no table"),
        ("cache miopen --rows big.csv", 7, "big.csv: has more than"),
        ("cache miopen dropout_fwd", 2, "dropout"),
    ],
)
def test_wrong_words_are_one_line(simgen, tmp_path, words, code, fact):
    (tmp_path / "odd.csv").write_text("a.cl,-DX\nx\n")
    (tmp_path / "path.csv").write_text("../x.cl,-DX\n")
    (tmp_path / "escape.csv").write_text("\x1bx.cl,-DX\n")
    (tmp_path / "long.csv").write_text(f"x.cl,{'x' * 140_000}\n")
    with (tmp_path / "big.csv").open("wb") as file:
        file.truncate(miopen_cache.MAX_NBYTES + 1)
    fails(simgen(words), code, fact)
