"""The commands of pages about MGPUSim, run as they stand, and what they print."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from loaded import program
from page_calls import CALLS, own_files
from transcripts import Command, File, parts, run, same

from simgen.targets.mgpusim.target import MGPUSim

pytestmark = pytest.mark.skipif(
    bool(MGPUSim().needs.missing()), reason="this machine cannot run MGPUSim"
)
ROOT = Path(__file__).resolve().parents[2]


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    found = list(parts((ROOT / "docs/first-simulation.md").read_text()))
    assert sum(isinstance(each, Command) for each in found) >= 12
    for each in found:
        if isinstance(each, File):
            (tmp_path / each.name).write_text(each.content)
            continue
        printed, code = run(each.line, tmp_path, program=program())
        assert same(printed, each.shown), f"$ {each.line}\n{printed}"
        assert code == 0, each.line


# Lines that are not run here, and why; test_page_commands.py parses and plans them all the same.
NOT_RUN = (
    (r"GEM5|DNNMARK|ACCELSIM|AstraSim|--on (gem5|gpgpusim|cuda|hip)|elsewhere|bisect .*gem5-se( |$)"
     r"|run (on-gpu|on-amd|with_|traced)|CONFIG|gem5.md: .*simgen (run|diff|report)"
     r"|gpgpusim.md: .*simgen (run|diff)", "a simulator or GPU that CI lacks"),
    (r"slurm|docker|DOCKER|simgen24|venv|_COMPLETE|model\.py|mod vendor|doctor|~/",
     "a cluster, Docker, an installation, or the reader's home"),
    (r"alexnet|vgg|resnet|deepbench/(?!gemm/17)|mix\b|caches|lenet[./]|simgen study|\brates\b"
     r"|--bytes|seq2seq|language_model|transformer|all_reduce|--gfx|digits|convfp16|inception"
     r"|conform.md: .*conform|m=7680|--budget", "it takes minutes, or what it reads does"),
    (r"\b[A-Z]{4,}\b(?!\.)|\.\.\.|\$problem|path/|run conv_fwd", "a name stands for others"),
    (r"contributing/", "toolchain/test_recipes.py does them in a copy of the sources"),
)  # fmt: skip
LONG = r"(other-programs|reports|types|workloads).md|conform -|--table|config\.json|decoder"  # all
CODES = {"conform": 6, "--table": 4}  # beside 0


@pytest.mark.parametrize(
    "page", sorted({each.where for each in CALLS if each.where[:5] == "docs/"})
)
def test_commands_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    """What they print is on no page, but where the test of transcripts compares it. What takes
    long runs with SIMGEN_TEST_PAGES=all; here, the other test of commands has to do."""
    left_out = [each for each, _ in NOT_RUN]
    left_out += [LONG] if os.environ.get("SIMGEN_TEST_PAGES") != "all" else []
    own_files(tmp_path)
    seen = {each.line for each in parts(Path(ROOT, page).read_text()) if isinstance(each, Command)}
    told = dict.fromkeys(each.line for each in CALLS if each.where == page and not each.inline)
    for line in told:
        kept = line in seen and page != "docs/verdicts.md"  # run by the test of transcripts
        if kept or any(re.search(each, f"{page}: {line}") for each in left_out):
            continue
        printed, code = run(line, tmp_path, program=program())
        right = next((code for word, code in CODES.items() if f" {word} " in line), 0)
        assert code == right, f"$ {line}\n{printed}"
