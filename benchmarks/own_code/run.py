"""Instructions of kernels of users: as simgen compiles them, and as hipcc's flags have it.

    python benchmarks/own_code/run.py -o benchmarks/own_code/RESULTS.md

The compiler, the source and the headers (templates/own) are the same; what differs are flags, those
that hipcc gives to clang for AMD GPUs. Instructions are counted as they stand in the text, one for
each in a loop.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.errors import SimgenError
from simgen.ground.ir import Kernel, Language, OwnSource
from simgen.isa import legalise, toolchain
from simgen.kernels import own, stages
from simgen.kernels.cache import Cache

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = Path(__file__).with_name("kernels.hip")
ARCHS = ("gfx902", "gfx90a", "gfx942")
KERNELS = re.findall(r"__global__ void (\w+)", SOURCE.read_text())
# What hipcc adds for the GPU's side, and clang's own default for HIP, written out.
HIPCC = (
    "-x", "hip", "--target=x86_64-unknown-linux-gnu", "--offload-device-only", "-nogpulib",
    "-nogpuinc", "-nostdinc", "-std=c++20", "-O3", "-ffp-contract=fast-honor-pragmas",
    "-fhip-new-launch-api", "-mllvm", "-amdgpu-early-inline-all=true", "-mllvm",
    "-amdgpu-function-calls=false", "-w",
)  # fmt: skip
CLASSES = (
    ("SMEM", r"s_(load|store|buffer|dcache)"),
    ("branch", r"s_(c?branch|setpc|swappc|getpc|endpgm|call)"),
    ("wait", r"s_(waitcnt|barrier|nop|sleep)"),
    ("SALU", r"s_"),
    ("LDS", r"ds_"),
    ("VMEM", r"(global|flat|buffer|scratch)_"),
    ("VALU", r"v_"),
)
ORDER = ("VALU", "SALU", "VMEM", "SMEM", "LDS", "branch", "wait")
# What simgen leaves out, one by one, of hipcc's flags.
WITHOUT = {
    "SDWA": ("-mllvm", "-amdgpu-sdwa-peephole=0"),
    "DPP": ("-mllvm", "-amdgpu-dpp-combine=0"),
    "arguments in registers": ("-mllvm", "-amdgpu-kernarg-preload-count=0"),
    "mixed FMA": toolchain.HALF_FLAGS,
    "vectors of loops": ("-fno-vectorize",),
    "16-bit division": ("-mllvm", "-opt-disable=correlated-propagation"),
    "fused multiply-adds": ("-ffp-contract=off",),
}
# What clang leaves out by itself, and AMD's own compiler may not.
WITH = {"16 arguments in registers": ("-mllvm", "-amdgpu-kernarg-preload-count=16")}
# What is assembled in the end.
SIMULATORS = (
    ("gfx902", "gem5", "24.1"), ("gfx90a", "gem5", "24.1"), ("gfx942", "gem5", "24.1"),
    ("gfx942", "mgpusim", "4.2.0"), ("gfx803", "mgpusim", "4.2.0"),
)  # fmt: skip


TITLE = f"""# Instructions of kernels of users

    python benchmarks/own_code/run.py -o benchmarks/own_code/RESULTS.md

Kernels of `kernels.hip`, by {toolchain.identity()} (clang 22.1.8): as simgen has them
compiled, and where that differs, **bold**, behind it as the flags have them that hipcc gives to
clang. Both have simgen's headers, whose functions stand for those of ROCm's device library.
Instructions are counted as they stand in the text, one for each in a loop.
"""


def counted(text: str, names: Sequence[str] = KERNELS) -> dict[str, Counter[str]]:
    """Of each kernel in clang's text, its instructions by class."""
    found = {}
    for name in names:
        body = re.split(r"^\.Lfunc_end", text.split(f"\n{name}:", 1)[1], maxsplit=1, flags=re.M)[0]
        body = body.split("\t.section", 1)[0]
        mnemonics = re.findall(r"^\t([a-z]\w+)", body, re.M)
        found[name] = Counter(
            next(kind for kind, pattern in CLASSES if re.match(pattern, each)) for each in mnemonics
        )
    return found


def hipcc(arch: str, more: tuple[str, ...] = ()) -> dict[str, Counter[str]]:
    ahead = "#define SIMGEN_WARP 64\n#define SIMGEN_FLAT 0\n#define SIMGEN_CONTRACT fast\n"
    # The pragma that ends the headers stands for the flag.
    off = "-ffp-contract=off" in more
    how = f"#pragma clang fp contract({'off' if off else 'fast'})\n"
    text = f"{ahead}{own.header('hip.h')}{how}{SOURCE.read_text()}"
    flags = (*HIPCC, f"--offload-arch={arch}", *more)
    return counted(toolchain.own_assembly(text, flags, "source.hip", "kernels.hip"))


def simgen(arch: str) -> dict[str, Counter[str]]:
    text = own.device_text(OwnSource(Language.HIP, SOURCE.read_text(), "", contract="fast"))
    flags = toolchain.own_flags("hip", arch)
    return counted(
        toolchain.own_assembly(text, flags, "source.hip", "kernels.hip", (toolchain.VOLATILE,))
    )


def rows() -> list[str]:
    lines: list[str] = []
    for arch in ARCHS:
        ours, theirs = simgen(arch), hipcc(arch)
        lines += [f"## {arch}", "", f"| kernel | {' | '.join(ORDER)} | all |",
                  f"|---{'|---' * (len(ORDER) + 1)}|"]  # fmt: skip
        for name in KERNELS:
            pairs = [(ours[name][kind], theirs[name][kind]) for kind in ORDER]
            pairs.append((ours[name].total(), theirs[name].total()))
            lines.append(f"| {name} | {' | '.join(_cell(*pair) for pair in pairs)} |")
        lines += ["", "Instructions more than hipcc's flags give:", "", *_head("")]
        changed = [(f"without {title}", flags) for title, flags in WITHOUT.items()]
        for title, flags in (
            *changed,
            *((f"with {title}", flags) for title, flags in WITH.items()),
        ):
            made = hipcc(arch, flags)
            changes = [made[name].total() - theirs[name].total() for name in KERNELS]
            lines.append(f"| {title} | {' | '.join(f'{c:+d}' if c else '' for c in changes)} |")
        lines.append("")
    lines += ["## With what simulators get in place of instructions", "", *_head("")]
    for each in SIMULATORS:
        lines.append(f"| {' '.join(each)} | {' | '.join(map(assembled, KERNELS, repeat(each)))} |")
    return [*lines, ""]


def _head(first: str) -> list[str]:
    return [f"| {first} | {' | '.join(KERNELS)} |", f"|---{'|---' * len(KERNELS)}|"]


def assembled(name: str, simulator: tuple[str, str, str]) -> str:
    """How many instructions a simulator gets."""
    model = legalise.Model(*simulator[1:], simulator[0])
    source = OwnSource(Language.HIP, SOURCE.read_text(), name, contract="fast")
    kernel = Kernel(name, "", 256, source=source, group=(16, 16))
    products: object = kernel
    try:
        with tempfile.TemporaryDirectory() as folder:
            for stage in stages.amdgcn(model)[:2]:
                products = stage.make(products, Cache(Path(folder)))
    except SimgenError as error:
        return f"- ({str(error).rpartition(': ')[0].rpartition(': ')[2]})"
    return str(counted(products.text, (name,))[name].total())


def _cell(ours: int, theirs: int) -> str:
    return f"{ours}" if ours == theirs else f"**{ours}** {theirs}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    made = "\n".join([TITLE, *rows()])
    print(made)
    if given.output:
        given.output.write_text(made)


if __name__ == "__main__":
    main()
