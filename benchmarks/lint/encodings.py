"""Makes data/encodings: what each opcode of an architecture is called, by the assembler's own word.

    python benchmarks/lint/encodings.py

The compiler's table of mnemonics is read out of its program; each mnemonic is assembled with
operands of one kind after another until one is accepted, and the machine code says which format and
opcode that is. Nothing is copied from a manual, and a new compiler gives a new table.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

from simgen.isa.legalise.machine_code import decoded
from simgen.isa.toolchain import AMD_TARGET, zig

ARCHS = ("gfx803", "gfx902", "gfx908", "gfx90a", "gfx942", "gfx950")
FOLDER = Path(__file__).parents[2] / "data" / "encodings"
STRIDE = 32  # bytes; no instruction is as long
BATCH = 40  # operand lists tried at once
_NAME = re.compile(
    rb"(?=([\x03-\x40])((?:v|s|ds|flat|global|scratch|buffer|tbuffer)_[a-z0-9_]{1,60}))"
)
_ERROR = re.compile(r"^k\.s:(\d+):\d+: error: (.*)$", re.M)
_UNKNOWN = re.compile(r"instruction not supported|invalid instruction|unrecognized")
SUFFIXES = ("", "_e32", "_e64", "_sdwa", "_dpp")


def v(n: int, at: int = 4) -> str:
    return f"v{at}" if n == 1 else f"v[{at}:{at + n - 1}]"


def s(n: int, at: int = 4) -> str:
    return f"s{at}" if n == 1 else f"s[{at}:{at + n - 1}]"


def a(n: int, at: int = 0) -> str:
    return f"a[{at}:{at + n - 1}]"


def _product(*choices: list[str]) -> list[str]:
    return [", ".join(each) for each in itertools.product(*choices)]


def _vector() -> list[str]:
    d = [v(1), v(2), s(2, 10), "vcc", s(1, 10), v(4), v(3)]
    x = [v(1, 40), v(2, 40), s(1, 6), v(4, 40)]
    y = [v(1, 50), v(2, 50), "vcc", s(2, 12), "0x12345678", s(1, 6), v(4, 50)]
    z = [v(1, 60), v(2, 60), "vcc", s(2, 12), "0x12345678", v(4, 60)]
    compared = _product(["vcc"], x[:2], [v(1, 50), v(2, 50)])
    made = ["", *compared, *_product(d), *_product(d, x), *_product(d, x, y)]
    made += _product(d, x, y, z)
    carry = ["vcc", s(2, 12)]
    made += _product(d[:2], carry, x[:2], y[:2])
    made += _product(d[:2], carry, x[:2], y[:2], ["vcc", s(2, 14), v(1, 60), v(2, 60)])
    made += ["v4, 0x12345678, v6", "v4, v5, 0x12345678, v6", "v4, v5, v6, 0x12345678"]
    for n in (2, 4, 8, 16, 32):
        made += [
            f"{v(n, 128)}, {x}, {y}, {c}"
            for x in (v(1), v(2), v(4), v(8)) for y in (v(1, 16), v(2, 16), v(4, 16), v(8, 16))
            for c in (v(n, 128), v(1, 90))
        ]  # fmt: skip
        # On gfx908, sums are in accumulation registers alone.
        made += [f"{a(n)}, {x}, {x}, {a(n)}" for x in (v(1), v(2))]
    made += _scaled()
    made += ["v4, a4", "a4, v4", "a4, a5", "v4, v5, v6, v7, v8", "v4, v5, attr0.x"]
    made += ["v4, p10, attr0.x"]
    return made


def _scaled() -> list[str]:
    """Of gfx950: products with a scale for each block of a factor, and conversions of 32 narrow
    floats at once."""
    made = [
        f"{v(n, 128)}, {x}, {y}, {v(n, 128)}, {v(1, 90)}, {v(1, 91)}"
        for n in (4, 16) for x in (v(8), v(6), v(4)) for y in (v(8, 16), v(6, 16), v(4, 16))
    ]  # fmt: skip
    wide = [v(n, 128) for n in (1, 2, 6, 16, 32)]
    sources = [v(n, 64) for n in (2, 6, 16, 32)]
    made += _product(wide, sources, [v(1)])
    made += _product(wide, sources, [v(1)], [v(1, 40)])
    made += _product(wide, [v(16, 64)], [v(16, 80)], [v(1)])
    return made


def _scalar() -> list[str]:
    d = [s(1), s(2), s(4), s(8), s(16)]
    x = [s(1, 40), s(2, 40), s(4, 40)]
    y = [s(1, 50), s(2, 50), "0x12", s(4, 60)]
    made = ["", "0", *_product(d), *_product(d, x), *_product(d, x, y), *_product(d, ["0x12"])]
    made += ["s4, hwreg(HW_REG_MODE)", "hwreg(HW_REG_MODE), s4", "hwreg(HW_REG_MODE), 0x12", "0x12"]
    return [*made, "0x12, s[40:41], 0x12", *_product(d, x, ["0x12"], ["0x12"]), "0x12, 0x12",
            *_product(["0x12"], x), "s40, 0x12, 0x12"]  # fmt: skip


def _memory() -> list[str]:
    a = [v(1), v(2)]
    data = [v(n, 40) for n in (1, 2, 3, 4)]
    made = ["", *_product(a), *_product(data), *_product(data, a), *_product(a, data)]
    made += _product(data, a, ["off", "s[8:9]"]) + _product(a, data, ["off", "s[8:9]"])
    made += _product(data, a, data) + _product(a, data, data) + _product(data, a, data, data)
    made += _product(data, a, data, ["off"])
    made += ["v4, s8", "off, v4, s8", "v4, off, s8", "v40, off, off", "off, v40, off"]
    made += ["v40, v4, off", "v4, v40, off", "off, s[8:11], s6", "gds"]
    made += [f"{d}, off, s[8:11], {x}" for x in ("s6", "format:22, 0", "0 lds") for d in data]
    made += ["off, s[8:11], s6 lds"]
    made += ["v4 gds", "v4 offset:4 gds", "v40, v4, v41 gds", "v4, v40 gds", "v4 offset:4"]
    made += ["v40, v4 gds", "v40, v[4:5], v[6:7] gds", *_product(data, ["s[8:9]"]), "m0"]
    made += ["s[8:9], s[10:11]", "v4, off", "off, s[8:9]", "v4, s[8:9]", "off"]
    return made


def assembled(lines: list[str], arch: str) -> tuple[dict[int, str], bytes]:
    """Errors by line (from 0 on), and the code if there are none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "k.s").write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            [zig(), "clang", f"--target={AMD_TARGET}", f"-mcpu={arch}", "-ferror-limit=0", "-c",
             "k.s", "-o", "k.o"], cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        errors = {int(m[1]) - 1: m[2] for m in _ERROR.finditer(done.stderr)}
        if done.returncode and not errors:
            raise SystemExit(done.stderr)
        if errors:
            return errors, b""
        return {}, ELFFile((folder / "k.o").open("rb")).get_section_by_name(".text").data()


def templates(name: str) -> list[str]:
    kind = name.split("_")[0]
    if name.endswith(("_e64", "_sdwa")):
        return LONG
    return {"v": VECTOR, "s": SCALAR}.get(kind, MEMORY)


VECTOR, SCALAR, MEMORY = _vector(), _scalar(), _memory()
LONG = [each for each in VECTOR if not each.startswith("vcc, ")]  # comparisons' results go anywhere


def accepted(names: list[str], arch: str) -> list[str]:
    """One line of assembly for each mnemonic that there is; tells of those that take none of the
    operands that are tried."""
    errors, _ = assembled([*names, "bad"], arch)
    known = [n for at, n in enumerate(names) if not _UNKNOWN.match(errors.get(at, ""))]
    open_ = [f"{n}{x}" for n in known for x in (SUFFIXES if n[0] == "v" else ("",))]
    found: list[str] = []
    lacking: list[str] = []
    for start in range(0, max(map(len, (VECTOR, SCALAR, MEMORY))), BATCH):
        lines = [(n, t) for n in open_ for t in templates(n)[start : start + BATCH]]
        errors, _ = assembled([f"{n} {t}" for n, t in lines] + ["bad"], arch)
        done: dict[str, str] = {}
        for at, (n, t) in enumerate(lines):
            if at not in errors:
                done.setdefault(n, f"{n} {t}".strip())
            elif _UNKNOWN.match(errors[at]):
                done.setdefault(n, "")
        found += filter(None, done.values())
        lacking += [n for n in open_ if n not in done and len(templates(n)) <= start + BATCH]
        open_ = [n for n in open_ if n not in done and len(templates(n)) > start + BATCH]
    tried = {line.split()[0] for line in found}
    lacking = [n for n in lacking if not {f"{n}{x}" for x in SUFFIXES} & tried and n in known]
    print(f"{arch}: no operands known for {', '.join(lacking) or 'none'}", file=sys.stderr)
    return found


def table(arch: str, names: list[str]) -> dict[str, dict[str, list[str]]]:
    """Format -> opcode -> a line of assembly for each instruction that it may be."""
    lines = accepted(names, arch)
    errors, code = assembled([f".p2align 5\n{line}" for line in lines], arch)
    if errors:
        raise SystemExit(f"{arch}: {errors}")
    made: dict[str, dict[str, list[str]]] = {}
    known = {line.split()[0] for line in lines}
    for at, line in enumerate(lines):
        (item,) = decoded(code[at * STRIDE :], 1)
        made.setdefault(item.format, {}).setdefault(str(item.opcode), []).append(line)
    return {
        name: {k: printed(v, known) for k, v in sorted(of.items(), key=lambda each: int(each[0]))}
        for name, of in sorted(made.items())
    }


def printed(lines: list[str], known: set[str]) -> list[str]:
    """Those whose mnemonic the compiler prints: _e32 where there is a form _e64, else the plain."""
    twice = ("_e32_e32", "_e64_e64")
    by_name = {line.split()[0]: line for line in sorted(lines)}
    by_name = {name: line for name, line in by_name.items() if not name.endswith(twice)}
    return [
        line
        for name, line in by_name.items()
        if name != "v_mul_lo_i32"  # which the compiler prints as v_mul_lo_u32
        and not (f"{name}_e32" in by_name and f"{name}_e64" in known)
        and not (name.endswith("_e32") and f"{name[:-4]}_e64" not in known)
        and not (name.endswith("_e64") and name[:-4] in by_name)
    ]


def main() -> None:
    program = zig().read_bytes()
    names = sorted(
        {m[2][: m[1][0]].decode() for m in _NAME.finditer(program) if len(m[2]) >= m[1][0]}
    )
    FOLDER.mkdir(exist_ok=True)
    for arch in sys.argv[1:] or ARCHS:
        made = table(arch, names)
        rows = ",\n".join(
            f' "{name}": {{\n'
            + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in of.items())
            + "\n }"
            for name, of in made.items()
        )
        (FOLDER / f"{arch}.json").write_text(f"{{\n{rows}\n}}\n")
        print(arch, sum(len(of) for of in made.values()), "opcodes")


if __name__ == "__main__":
    main()
