"""What a simulator makes of machine code: containers, precision on our own kernels, messages."""

from __future__ import annotations

import contextlib
import json
import os
import random
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from census import census
from command_line import fails

from simgen.cli import main
from simgen.errors import DamagedError, MissingError, RefusedError, SimgenError, UsageError
from simgen.ground import resources
from simgen.isa import code_object
from simgen.isa.legalise import facts, machine_code
from simgen.isa.lint import assembling, containers, functions, linting, metadata, rewriting
from simgen.isa.lint.containers import Held

ENTRY = "hipv4-amdgcn-amd-amdhsa--gfx902"


def code_objects(arch: str, most: int) -> list[bytes]:
    """Of the precomputed kernels: code objects as gem5 and MGPUSim get them."""
    found = []
    for path in sorted(resources.folder("cachefiles").glob("*/*/inputs.txt"))[::2]:
        if f"code object {arch} " in path.read_text()[:300]:
            found.append(path.with_name("blob").read_bytes())
        if len(found) == most:
            break
    return found


@pytest.fixture(name="code", scope="module")
def _code() -> bytes:
    return code_objects("gfx902", 1)[0]


def fat(*codes: bytes) -> bytes:
    """A fat binary with an entry for this CPU, and one for each code object."""
    names = ["host-x86_64-unknown-linux--"] + [ENTRY] * len(codes)
    header = 32 + sum(24 + len(name) for name in names)
    at, table, body = header, b"", b""
    for name, content in zip(names, (b"", *codes), strict=True):
        table += struct.pack("<QQQ", at, len(content), len(name)) + name.encode()
        at += len(content)
        body += content
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + table + body


def compressed(whole: bytes) -> bytes:
    packed = zlib.compress(whole)
    return b"CCOB" + struct.pack("<HHIIQ", 2, 0, 24 + len(packed), len(whole), 0) + packed


def archive(content: bytes) -> bytes:
    name = f"{'kernel.o/':<16}{'0':<12}{'0':<6}{'0':<6}{'644':<8}{len(content):<10}`\n"
    return b"!<arch>\n" + name.encode() + content + b"\n" * (len(content) % 2)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda code: code,
        fat,
        lambda code: fat(code) + bytes(4096) + fat(code),
        lambda code: compressed(fat(code)),
        archive,
        lambda code: archive(compressed(fat(code))),
    ],
    ids=["code object", "fat binary", "two fat binaries", "compressed", "archive", "all"],
)
def test_code_is_found_in_its_containers(tmp_path, code, wrapped):
    (tmp_path / "file").write_bytes(wrapped(code))
    held = list(containers.code_objects(tmp_path / "file"))
    assert held
    assert all(each.code == code for each in held)
    (tmp_path / "notes.txt").write_text("nothing of a GPU")
    assert len(list(containers.code_objects(tmp_path))) == len(held)


def program(constants: bytes) -> bytes:
    """A program for a CPU, of which nothing but its constants is in memory."""
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    nbytes = len(constants)
    return header + struct.pack("<IIQQQQQQ", 1, 4, 120, 120, 120, nbytes, nbytes, 8) + constants


def test_code_among_a_programs_constants(tmp_path, code):
    """Whole, as a memory image, and with bytes around that only begin like code."""
    image = code_object.memory_image(code)
    like = b"\x7fELF\2\1\1 of a text" + bytes(40)
    whole = code_objects("gfx902", 2)[1]
    constants = like + b"x" + whole + like + image + bytes(5) + image + whole + like[:20]
    path = tmp_path / "program"
    path.write_bytes(program(constants))
    held = list(containers.code_objects(path))
    starts = [path.read_bytes().index(each) for each in (whole, image)]
    assert [each.inside for each in held[:2]] == [f"at {start:#x}" for start in starts]
    assert [each.code == whole for each in held] == [True, False, False, True]
    (kernel,) = (each for each in functions.functions_of(code, "")[1] if each.is_kernel)
    for each in held[1:3]:
        arch, (found,), _ = functions.functions_of(each.code, each.place)
        assert (arch, found.name, found.address) == ("gfx902", kernel.name, kernel.address)
        assert found.code.startswith(kernel.code)
        with pytest.raises(UsageError, match="memory image"):
            rewriting.rewritten(each.code, each.place, "gem5", "24.0")
    path.write_bytes(program(like))
    with pytest.raises(UsageError, match="no code for an AMD GPU"):
        list(containers.code_objects(path))
    path.write_bytes(program(image[:2000]))
    with pytest.raises(DamagedError, match=r"the code object at 0x78 is not whole"):
        list(containers.code_objects(path))


def test_a_damaged_file_is_named_and_the_others_are_looked_at(tmp_path, code, simgen):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "whole.co").write_bytes(code)
    damaged = {
        "cut.co": code[: len(code) // 2],
        "sections.co": code[:40] + struct.pack("<Q", 1 << 40) + code[48:],
        "bundle.co": fat(code)[:200],
        "library.a": archive(code)[:8] + b"x" * 60,
        "member.a": archive(b"text" * 40)[:-9],
        "long.a": archive(b"text").replace(b"4         `", b"9999999999`"),
        "header.a": archive(b"text") + archive(code)[8:50],
    }
    for name, content in damaged.items():
        (folder / name).write_bytes(content)
    found = simgen(f"lint {folder} --simulator gem5@24.0 --json")
    assert found.code == 7
    told = found.json()
    assert [Path(each["file"]).name for each in told["code_objects"]] == ["whole.co"]
    assert {Path(each["file"]).name for each in told["unread"]} == damaged.keys()
    said = simgen(f"lint {folder} --simulator gem5@24.0").err.splitlines()
    assert len(said) == len(damaged)
    assert all(any(f"{folder / name}: " in line for line in said) for name in damaged)
    # One file is told by itself, and a file of several as one of a folder.
    alone = simgen(f"lint {folder / 'cut.co'} --simulator gem5@24.0")
    assert (alone.code, alone.err.count("\n")) == (7, 1)
    both = simgen(f"lint {folder / 'cut.co'} {folder / 'whole.co'} --simulator gem5@24.0")
    assert both.code == 7
    assert "looked at 1 code objects" in both.out
    none = simgen(f"lint {folder / 'cut.co'} {folder / 'library.a'} --simulator gem5@24.0")
    assert (none.code, none.out, none.err.count("\n")) == (7, "", 2)
    # What is refused counts for more; a file that is no code object is as wrong as it is alone.
    (tmp_path / "notes.txt").write_text("nothing of a GPU")
    texts = simgen(f"lint {tmp_path / 'notes.txt'} {folder / 'whole.co'} --simulator gem5@24.0")
    assert texts.code == 2
    assert "no code for an AMD GPU" in texts.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(tmp_path, code, simgen):
    for name in ("whole.co", "secret.co", "locked/other.co"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(code)
    (tmp_path / "secret.co").chmod(0)
    (tmp_path / "locked").chmod(0)
    try:
        found = simgen(f"lint {tmp_path} --simulator gem5@24.0 --json")
    finally:
        (tmp_path / "locked").chmod(0o700)
    told = found.json()
    assert [Path(each["file"]).name for each in told["code_objects"]] == ["whole.co"]
    assert {Path(each["file"]).name for each in told["unread"]} == {"secret.co", "locked"}
    assert all("Permission denied; check" in each["reason"] for each in told["unread"])
    assert found.code == 2


def test_damaged_code_is_one_line(tmp_path, code):
    """Whatever bytes are there: findings, or an error of simgen's."""
    draw = random.Random(5)
    path = tmp_path / "file"
    image = code_object.memory_image(code)
    forms = [code, fat(code), compressed(fat(code)), archive(code), program(code), program(image)]
    for _ in range(90):
        content = bytearray(draw.choice(forms))
        for _ in range(draw.randint(1, 12)):
            content[draw.randrange(min(len(content), 4096))] = draw.randrange(256)
        path.write_bytes(content[: draw.choice([len(content), draw.randrange(len(content))])])
        with contextlib.suppress(UsageError, DamagedError, MissingError):
            for looked in linting.code_objects(containers.code_objects(path), "gem5", "24.0"):
                assert looked.arch


@pytest.mark.parametrize(
    "content",
    [
        b"!<arch>\n" + f"{'/²':<15}{'0':<32}{'4':<10}`\n".encode() + b"abcd",
        compressed(b"nothing"),
        b"CCOB" + struct.pack("<HHIIQ", 2, 1, 28, 99, 0) + b"abcd",
    ],
    ids=["name of a member", "no fat binary", "Zstandard"],
)
def test_damaged_containers_name_the_file(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(SimgenError, match=str(path)):
        list(containers.code_objects(path))


def test_a_folder_without_code_is_one_line(simgen, tmp_path):
    (tmp_path / "empty").mkdir()
    fails(simgen("lint empty -s gem5"), 2, "empty: no code for an AMD GPU")


def test_kernels_that_assembly_cannot_name_are_refused(code):
    (kernel,) = (each for each in functions.functions_of(code, "x")[1] if each.is_kernel)
    odd = replace(kernel, name="a\n.incbin")
    with pytest.raises(RefusedError, match="rename it"):
        rewriting._kernel(odd, "gfx902", "x")


def test_metadata_with_odd_keys_is_damage():
    for odd in ({"a\n.incbin": 1}, {1: 2}, {"amdhsa.kernels": 3}, {"amdhsa.kernels": [4]}):
        with pytest.raises((ValueError, TypeError)):
            metadata.text(odd)


def test_metadata_are_maps_of_each_length():
    """MessagePack: 0x80 + count, 0xDE and 16 bits, 0xDF and 32 bits."""
    pairs = b"".join(b"\xa1%c%c" % (97 + at, at) for at in range(16))
    wanted = {chr(97 + at): at for at in range(16)}
    for head in (b"\xde\x00\x10", b"\xdf\x00\x00\x00\x10"):
        assert metadata.unpacked(head + pairs) == wanted
    assert metadata.unpacked(b"\x82" + pairs[:6]) == {"a": 0, "b": 1}


def test_none_of_our_kernels_is_refused(tmp_path):
    found = code_objects("gfx902", 20)
    assert len(found) == 20
    for code in found:
        (looked,) = linting.code_objects([Held(tmp_path, "", code)], "gem5", "24.0")
        size = sum(len(each.code) for each in functions.functions_of(code, "")[1])
        assert 0 < size // 8 <= looked.instructions <= size // 4  # of gfx9: 4 or 8 bytes each
        assert not [each for each in looked.findings if each.refused]


def test_names_of_simulators():
    assert facts.named("gem5@v24.0.0.1") == ("gem5", "24.0")
    assert facts.named("mgpusim") == ("mgpusim", "4.2.0")
    assert facts.named("gem5")[1] == facts.versions("gem5")[-1] == "25.1"
    for wrong in ("gem", "gem5@19.0", "gem5@develop", "gem5@25.2", "mgpusim@3.0.0"):
        with pytest.raises(UsageError, match="--simulator"):
            facts.named(wrong)


# First word of an instruction, its format, opcode and bytes: of each format in the Vega ISA manual,
# the largest opcode that its field has or, in VOP2 and VOP3, that is none of another format.
FORMATS = """
E8078000 MTBUF 15 8, D4020000 VINTRP 2 4, BF7F0000 SOPC 127 4, BFFF0000 SOPP 127 4,
BE80FF00 SOP1 255 4, D9FE0000 DS 255 8, C3FC0000 SMEM 255 8, DDFC0000 FLAT 127 8,
E1FC0000 MUBUF 127 8, F1FC0000 MIMG 127 8, D3FF0000 VOP3P 127 8, D37F0000 VOP3 895 8,
7E01FE00 VOP1 255 4, 7DFE0000 VOPC 255 4, 7A000000 VOP2 61 4, B7800000 SOPK 15 4,
9F000000 SOP2 62 4
"""


@census("told", FORMATS.replace("\n", " ").split(","))
def test_formats_of_machine_code(told: str) -> None:
    word, name, opcode, nbytes = told.split()
    (first, *_) = machine_code.decoded(struct.pack("<II", int(word, 16), 0))
    assert (first.format, first.opcode, first.nbytes) == (name, int(opcode), int(nbytes))


@pytest.mark.parametrize(
    ("said", "arch", "fact"),
    [("", "", "does not say its processor; give it"), ("", "gfx9", "processor gfx9: not known"),
     ('.amdgcn_target "amdgcn-amd-amdhsa--gfx999"', "gfx902", "processor gfx999: not known")],
)  # fmt: skip
def test_assembly_is_for_a_processor_that_is_known(said: str, arch: str, fact: str) -> None:
    with pytest.raises(UsageError, match=f"^k.s: (it )?{fact}"):
        assembling.processor(f"{said}\ns_nop 0\n", "k.s", arch)


def test_the_command(tmp_path, code, capsys, monkeypatch):
    """On a version that lacks what the kernel has: exit code 4, and where each thing stands."""
    path = tmp_path / "kernel.co"
    path.write_bytes(code)
    arch, found, _ = functions.functions_of(code, "")
    assert arch == "gfx902"
    assert any(each.is_kernel for each in found)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["simgen", "lint", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code, *capsys.readouterr()

    assert run(str(path), "--simulator", "gem5@24.0")[0] == 0
    status, out, err = run(str(path), "--simulator", "gem5@20.1")
    assert (status, out, err.count("\n")) == (4, "", 1)
    assert "gem5 20.1 does not simulate gfx902" in err
    other = bytearray(code)
    other[48] = 0x41  # gfx1100
    path.write_bytes(fat(code, bytes(other)))
    status, out, _ = run(str(path), "--simulator", "gem5@24.0", "--json")
    told = json.loads(out)["code_objects"]
    assert (status, [each["arch"] for each in told]) == (0, ["gfx902", "number 0x41"])
    assert [bool(each["skipped"]) for each in told] == [False, True]
    assert told[0]["instructions"] > 20
    (tmp_path / "text").write_text("no code")
    status, out, err = run(str(tmp_path / "text"), "--simulator", "gem5")
    assert (status, out) == (2, "")
    assert "no code for an AMD GPU" in err
