"""MIOpen's kernel database: written, read, damaged, and searched for what a run asks for."""

from __future__ import annotations

import bz2
import hashlib
import sqlite3
from contextlib import closing

import bundle_script
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

database = bundle_script.module("kernel_database")

KEY = ("MIOpenSoftmax.cl.o", " -DNUM_BATCH=1 -mcpu=gfx902")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def change(path, query, *values):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(query, values)
        connection.commit()


def rows(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM kern_db").fetchall()


# ------------------------------------------------------------------ the format


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.tuples(TEXT, TEXT), st.binary(max_size=300), max_size=5))
def test_what_is_written_is_read(tmp_path, entries):
    path = tmp_path / "gfx902_4.ukdb"
    database.write(path, entries)
    assert database.read(path) == entries
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_rows_are_as_miopen_stores_them(tmp_path):
    path = tmp_path / "gfx902_4.ukdb"
    large, small = b"code " * 100, b"\x01"
    database.write(path, {KEY: large, ("b", "c"): small})
    (_, *first), (_, *second) = rows(path)
    assert first == [*KEY, bz2.compress(large), hashlib.md5(large).hexdigest(), len(large)]
    # bzip2 makes it larger: as it is, and a size of 0 says so.
    assert second == ["b", "c", small, hashlib.md5(small).hexdigest(), 0]


def test_the_table_has_miopen_s_columns_and_index(tmp_path):
    path = tmp_path / "x.ukdb"
    database.write(path, {})
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1:4] for row in connection.execute("PRAGMA table_info(kern_db)")]
        index = connection.execute("PRAGMA index_info(idx_kern_db)").fetchall()
    assert columns == [
        ("id", "INTEGER", 0), ("kernel_name", "TEXT", 1), ("kernel_args", "TEXT", 1),
        ("kernel_blob", "BLOB", 1), ("kernel_hash", "TEXT", 1), ("uncompressed_size", "INT", 1),
    ]  # fmt: skip
    assert [name for _, _, name in index] == ["kernel_name", "kernel_args"]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("UPDATE kern_db SET kernel_hash = ?", "0" * 32),
        ("UPDATE kern_db SET kernel_blob = ?", b"not bzip2"),
        ("UPDATE kern_db SET kernel_blob = ?", bz2.compress(b"other code")),
        ("UPDATE kern_db SET kernel_blob = ?", "text"),
        ("UPDATE kern_db SET uncompressed_size = ?", 1),
        ("ALTER TABLE kern_db RENAME TO other -- ?", None),
    ],
)
def test_a_changed_row_is_damage(tmp_path, query, value):
    path = tmp_path / "gfx902_4.ukdb"
    database.write(path, {KEY: b"code " * 100})
    change(path, query, *([] if value is None else [value]))
    with pytest.raises(database.DamagedError, match=r"gfx902_4\.ukdb"):
        database.read(path)


def test_another_file_is_damage_and_no_file_is_empty(tmp_path):
    path = tmp_path / "gfx902_4.ukdb"
    assert database.read(path) == {}
    path.write_bytes(b"no SQLite file" * 100)
    with pytest.raises(database.DamagedError, match="not a database"):
        database.read(path)


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "gfx902_4.ukdb"
    database.write(path, {KEY: b"code"})
    with pytest.raises(TypeError):
        database.write(path, {("a", "b"): "text"})
    assert database.read(path) == {KEY: b"code"}
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


# ------------------------------------------------------------------ its name, its keys


@pytest.mark.parametrize(
    ("gpu", "units", "name"),
    [
        ("gfx902", 4, "gfx902_4.ukdb"),
        ("gfx900", 64, "gfx900_64.ukdb"),
        ("gfx900", 65, "gfx90041.ukdb"),
        ("gfx908", 120, "gfx90878.ukdb"),  # as MIOpen's own gfx90878.HIP.fdb.txt
    ],
)
def test_a_large_gpu_s_file_has_another_name(gpu, units, name):
    assert database.file_name(gpu, units) == name


def test_keys_have_one_space_in_front_and_the_gpu_behind(tmp_path):
    path = tmp_path / "kernels.csv"
    path.write_text("MIOpenA.cl, -DX=1 -mcpu=gfx803\nMIOpenB.cl,-DY=2\n")
    assert database.wanted(path, "gfx902") == [
        ("MIOpenA.cl.o", " -DX=1 -mcpu=gfx902"),
        ("MIOpenB.cl.o", " -DY=2 -mcpu=gfx902"),
    ]


# ------------------------------------------------------------------ the search


@pytest.fixture(name="csv")
def wanted_kernels(tmp_path):
    path = tmp_path / "kernels.csv"
    path.write_text("MIOpenSoftmax.cl, -DNUM_BATCH=1\nMIOpenNeuron.cl, -DLITE\n")
    return path


def test_what_is_missing_is_named(tmp_path, csv, capsys):
    database.write(tmp_path / "gfx902_4.ukdb", {KEY: b"code"})
    assert database.main(str(tmp_path), "gfx902", "4", str(csv)) == 3
    assert capsys.readouterr().out == "MIOpenNeuron.cl.o -DLITE -mcpu=gfx902\n"


def test_nothing_is_said_when_all_are_there(tmp_path, csv, capsys):
    both = dict.fromkeys(database.wanted(csv, "gfx902"), b"code")
    database.write(tmp_path / "gfx902_4.ukdb", both)
    assert database.main(str(tmp_path), "gfx902", "4", str(csv)) == 0
    assert database.main(str(tmp_path), "gfx902", "8", str(csv)) == 3
    assert database.main(str(tmp_path), "gfx900", "4", str(csv)) == 3
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_damage_is_an_error_of_its_own(tmp_path, csv, capsys):
    database.write(tmp_path / "gfx902_4.ukdb", {KEY: b"code"})
    change(tmp_path / "gfx902_4.ukdb", "UPDATE kern_db SET kernel_hash = 'x'")
    assert database.main(str(tmp_path), "gfx902", "4", str(csv)) == 2
    assert "MIOpenSoftmax.cl.o" in capsys.readouterr().out


def test_what_was_made_for_a_large_gpu_gets_the_name_that_miopen_looks_for(tmp_path, csv):
    both = dict.fromkeys(database.wanted(csv, "gfx900"), b"code")
    database.write(tmp_path / "gfx900_80.ukdb", both)  # as generate_cachefiles.py names it
    other = {("own", " args"): b"stays"}
    database.write(tmp_path / "gfx90050.ukdb", other)
    assert database.main(str(tmp_path), "gfx900", "80", str(csv)) == 0
    assert database.read(tmp_path / "gfx90050.ukdb") == both | other
