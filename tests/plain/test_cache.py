"""The cache: never a wrong byte, whatever happened to an entry and whoever writes beside us."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgen.errors import RefusedError
from simgen.ground.storage.files import PART
from simgen.kernels import cache as caches
from simgen.kernels.cache import Cache, CacheOutcome, Key, State, entry

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
BLOB = bytes(range(256)) * 33


def key(source: str = "int main;") -> Key:
    made = Key("test")
    made.add("label", "test program")
    made.add("source", source)
    return made


def never() -> bytes:
    raise AssertionError("built although it is in the cache")


@pytest.fixture(name="root")
def filled(tmp_path):
    """A cache with one good entry."""
    assert Cache(tmp_path / "c").get_or_build(key(), lambda: BLOB) == BLOB
    return tmp_path / "c"


# ------------------------------------------------------------------ keys


def test_the_digest_of_a_key_is_known():
    """A change of the key scheme must change FORMAT, or old entries are read as new ones."""
    made = Key("code object")
    made.add("arch", "gfx902")
    made.add("source", "é\n")
    made.add("image", b"\x00\xff")
    assert made.text == (
        "[format 1]\n1\n[kind 11]\ncode object\n[arch 6]\ngfx902\n[source 3]\né\n\n[image 82]\n"
        f"sha256 {hashlib.sha256(bytes([0, 255])).hexdigest()} of 2 bytes\n"
    )
    assert made.digest == "6ef6fdcb0395e1c1fb57d85757ca7b7e7717e959e6b8127c4681d5e7dfabbd33"


FIELDS = st.lists(st.tuples(st.text(max_size=6), st.text(max_size=12)), max_size=4)


@given(FIELDS, FIELDS)
def test_different_fields_have_different_keys(one, other):
    one_key, other_key = Key("k"), Key("k")
    for label, value in one:
        one_key.add(label, value)
    for label, value in other:
        other_key.add(label, value)
    if [v for _, v in one] != [v for _, v in other]:
        assert one_key.text != other_key.text
    assert (one_key.digest == other_key.digest) == (one_key.text == other_key.text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("a", "b"), ("c", "d")], [("a", "b\n[c 1]\nd")]),
        ([("s", "ab"), ("t", "c")], [("s", "a"), ("t", "bc")]),
        ([("s", ""), ("t", "x")], [("s", "x"), ("t", "")]),
        ([("s", "x")], [("t", "x")]),
        ([("s", "x"), ("s", "x")], [("s", "x")]),
    ],
)
def test_fields_stay_apart(one, other):
    keys = []
    for fields in (one, other):
        made = Key("k")
        for label, value in fields:
            made.add(label, value)
        keys.append(made.digest)
    assert keys[0] != keys[1]


def test_the_kind_is_part_of_the_key():
    assert Key("a").digest != Key("b").digest


# ------------------------------------------------------------------ hit, miss, damage


def test_the_second_lookup_hits(root):
    again = Cache(root)
    assert again.get_or_build(key(), never) == BLOB
    assert again.outcomes == [CacheOutcome.HIT]
    assert again.asked == [key().digest]


def test_another_key_misses(root):
    again = Cache(root)
    assert again.get_or_build(key("other"), lambda: b"other") == b"other"
    assert again.outcomes == [CacheOutcome.BUILT]


def test_an_empty_output_is_an_output(tmp_path):
    assert Cache(tmp_path).get_or_build(key(), lambda: b"") == b""
    assert Cache(tmp_path).get_or_build(key(), never) == b""


def test_a_failed_build_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        Cache(tmp_path).get_or_build(key(), lambda: bytes([1 // 0]))
    assert list(caches.entries(tmp_path)) == []


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe" * 32)


DAMAGE = [flip, truncate, Path.unlink, empty, extend, binary]


@pytest.mark.parametrize("name", ["blob", "sha256"])
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda f: f.__name__)
def test_a_damaged_entry_is_a_miss_and_is_repaired(root, name, damage):
    damage(entry(root, key().digest).path / name)
    assert entry(root, key().digest).read() == (State.DAMAGED, b"")
    again = Cache(root)
    assert again.get_or_build(key(), lambda: BLOB) == BLOB
    assert again.outcomes == [CacheOutcome.REPAIRED]
    assert entry(root, key().digest).read() == (State.GOOD, BLOB)
    assert Cache(root).get_or_build(key(), never) == BLOB


@pytest.mark.parametrize("name", ["blob", "sha256", "inputs.txt"])
def test_a_folder_in_place_of_a_file_is_only_slower(root, name):
    to_folder(entry(root, key().digest).path / name)
    assert Cache(root).get_or_build(key(), lambda: BLOB) == BLOB


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda f: f.__name__)
def test_the_inputs_are_for_people_and_their_loss_harms_nobody(root, damage):
    damage(entry(root, key().digest).path / "inputs.txt")
    assert Cache(root).get_or_build(key(), never) == BLOB
    assert isinstance(entry(root, key().digest).label, str)


def test_an_entry_tells_what_it_was_made_from(root):
    found = entry(root, key().digest)
    assert found.label == "test program"
    text = (found.path / "inputs.txt").read_text()
    assert text == key().text
    assert hashlib.sha256(text.encode()).hexdigest() == found.digest


def test_all_entries_are_listed_and_cleared(root):
    Cache(root).get_or_build(key("other"), lambda: b"other")
    assert {e.digest for e in caches.entries(root)} == {key().digest, key("other").digest}
    assert caches.clear(root) == 2
    assert list(caches.entries(root)) == []
    assert list(root.iterdir()) == []
    assert caches.clear(root) == 0
    assert caches.clear(root / "never made") == 0


def test_notes_lie_in_the_cache_and_are_cleared(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    for kind in caches.NOTES:
        caches.notes(kind).mkdir(parents=True)
        (caches.notes(kind) / "a").touch()
    assert os.listdir(tmp_path) == ["cache"]
    assert caches.clear_notes() == 3
    assert os.listdir(tmp_path / "cache") == []


# ------------------------------------------------------------------ killed and parallel writers

KILLED = """
import os, signal, sys
from pathlib import Path
from simgen.ground.storage import files
from simgen.kernels.cache import entry
files._replace = lambda stage, home: os.kill(os.getpid(), signal.SIGKILL)
entry(Path(sys.argv[1]), sys.argv[2]).write("inputs", b"half")
"""


def test_a_writer_killed_before_it_gives_the_name_leaves_nothing_under_it(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path), key().digest]
    killed = subprocess.run(command, env=ENVIRONMENT)
    assert killed.returncode == -signal.SIGKILL
    home = entry(tmp_path, key().digest).path
    assert [path.name.startswith(PART) for path in home.parent.iterdir()] == [True]
    assert entry(tmp_path, key().digest).read() == (State.ABSENT, b"")
    assert Cache(tmp_path).get_or_build(key(), lambda: BLOB) == BLOB
    assert Cache(tmp_path).get_or_build(key(), never) == BLOB
    assert list(home.parent.iterdir()) == [home]


PARALLEL = """
import sys
from pathlib import Path
from simgen.kernels.cache import Cache, Key
sys.stdin.read()  # all start when the last one is there
blob = bytes(range(256)) * 4000
for n in range(40):
    key = Key("test")
    key.add("n", str(n))
    assert Cache(Path(sys.argv[1])).get_or_build(key, lambda: blob) == blob
"""


def test_many_builders_of_the_same_keys_all_get_the_right_bytes(tmp_path):
    command = [sys.executable, "-c", PARALLEL, str(tmp_path)]
    team = [
        subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    for process in team:
        process.stdin.close()
    errors = [process.stderr.read().decode() for process in team]
    assert [process.wait() for process in team] == [0] * 6, errors
    for process in team:
        process.stderr.close()
    found = list(caches.entries(tmp_path))
    assert len(found) == 40
    assert {item.read()[0] for item in found} == {State.GOOD}
    assert [p for p in tmp_path.rglob("*") if p.name.startswith(PART)] == []


# ------------------------------------------------------------------ where entries are looked up


def test_the_precomputed_set_serves_and_is_never_written(root, tmp_path):
    before = {p: p.stat().st_mtime_ns for p in root.rglob("*")}
    made = Cache(tmp_path / "own", (root,))
    assert made.get_or_build(key(), never) == BLOB
    assert made.get_or_build(key("other"), lambda: b"other") == b"other"
    assert made.outcomes == [CacheOutcome.PRECOMPUTED, CacheOutcome.BUILT]
    assert {p: p.stat().st_mtime_ns for p in root.rglob("*")} == before
    assert [e.digest for e in caches.entries(tmp_path / "own")] == [key("other").digest]


def test_the_user_s_cache_comes_before_the_precomputed_set(root, tmp_path):
    own = tmp_path / "own"
    Cache(own).get_or_build(key(), lambda: BLOB)
    made = Cache(own, (root,))
    made.get_or_build(key(), never)
    assert made.outcomes == [CacheOutcome.HIT]


def test_a_damaged_own_entry_falls_back_to_the_precomputed_one(root, tmp_path):
    own = tmp_path / "own"
    Cache(own).get_or_build(key(), lambda: BLOB)
    flip(entry(own, key().digest).path / "blob")
    made = Cache(own, (root,))
    assert made.get_or_build(key(), never) == BLOB
    assert made.outcomes == [CacheOutcome.PRECOMPUTED]


def test_a_damaged_precomputed_entry_is_built_into_the_user_s_cache(root, tmp_path):
    flip(entry(root, key().digest).path / "blob")
    made = Cache(tmp_path / "own", (root,))
    assert made.get_or_build(key(), lambda: BLOB) == BLOB
    assert made.outcomes == [CacheOutcome.REPAIRED]
    assert Cache(tmp_path / "own").get_or_build(key(), never) == BLOB


@pytest.mark.parametrize("place", ["file/cache", "/proc/cache", "/sys/cache"])
def test_a_cache_that_cannot_be_written_is_only_slower(tmp_path, place):
    (tmp_path / "file").write_text("in the way")
    made = Cache(tmp_path / place)
    assert made.get_or_build(key(), lambda: BLOB) == BLOB
    assert made.get_or_build(key(), lambda: BLOB) == BLOB
    assert set(made.outcomes) <= {CacheOutcome.BUILT, CacheOutcome.REPAIRED}


def test_the_user_s_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "mine"))
    assert caches.user_root() == tmp_path / "mine"
    assert caches.default().own == tmp_path / "mine"
    assert caches.default().shared == (caches.precomputed_root(),)
    monkeypatch.delenv("SIMGEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert caches.user_root().is_relative_to(tmp_path / "xdg")


# ------------------------------------------------------------------ caches of others

CHOWN = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")


def of_another(path):
    os.chown(path, 54321, 54321)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(of_another, marks=CHOWN),
        lambda path: path.chmod(0o777),
        lambda path: path.chmod(0o1777),  # as /tmp: others add entries
        pytest.param(lambda path: (os.chown(path, -1, 54321), path.chmod(0o775)), marks=CHOWN),
    ],
)
def test_a_cache_that_others_may_fill_is_refused(root, change):
    change(root)
    with pytest.raises(RefusedError, match="other users own or may write; run chmod go-w on it"):
        Cache(root).get_or_build(key(), never)


def test_a_cache_of_the_user_s_own_group_is_used(root):
    root.chmod(0o775)
    cached = Cache(root)
    if caches._own_group() == root.stat().st_gid:
        assert cached.get_or_build(key(), never) == BLOB
    else:
        with pytest.raises(RefusedError):
            cached.get_or_build(key(), never)


def waits_for_ever(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", ["blob", "sha256", "inputs.txt"])
@pytest.mark.parametrize("change", [pytest.param(of_another, marks=CHOWN), waits_for_ever])
def test_an_entry_of_another_user_or_kind_is_built_again(root, name, change):
    change(entry(root, key().digest).path / name)
    cached = Cache(root)
    rebuilt = name != "inputs.txt"  # which nobody executes
    assert cached.get_or_build(key(), (lambda: BLOB) if rebuilt else never) == BLOB
    assert entry(root, key().digest).label in ("test program", "?")
    if rebuilt:
        assert Cache(root).get_or_build(key(), never) == BLOB


@pytest.mark.parametrize("damage", [None, b"", b"other"])
def test_simulators_in_the_cache_are_verified_and_cleared(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path))
    program = tmp_path / "mgpusim/a/b/runner"
    program.parent.mkdir(parents=True)
    program.write_bytes(BLOB)
    program.with_name("runner.sha256").write_text(f"{hashlib.sha256(BLOB).hexdigest()}\n")
    if damage is not None:
        program.write_bytes(damage)
    state = State.GOOD if damage is None else State.DAMAGED
    assert list(caches.simulators()) == [(program, state)]
    assert caches.clear_simulators() == 1
    assert list(caches.simulators()) == []
    assert os.listdir(tmp_path) == []


def test_what_go_fetched_is_cleared_although_it_is_read_only(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path))
    module = tmp_path / "go" / "path" / "pkg" / "mod"
    module.mkdir(parents=True)
    (module / "a.go").write_text("package a")
    module.chmod(0o500)
    caches.clear_simulators()
    assert not (tmp_path / "go").exists()
