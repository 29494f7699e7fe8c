"""The gem5-se target as far as it goes without gem5: its folder, its program run natively as far
as a machine without an AMD GPU lets it, its script up to the simulator, and reading statistics."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import narrow
import pytest
from elftools.elf.elffile import ELFFile
from machine_code import together
from swaps import job, workload, write

from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, RefusedError, UsageError
from simgen.isa import code_object, legalise, toolchain
from simgen.isa.legalise import Model
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.targets import machine_file
from simgen.targets.gem5 import apu_se, kfd
from simgen.targets.gem5 import stats as gem5_stats
from simgen.targets.gem5.kfd import memory_nbytes
from simgen.targets.gem5.launcher import memory_text
from simgen.targets.gem5.se import Gem5Se

if TYPE_CHECKING:
    from collections.abc import Iterator

M5_WORK_BEGIN = bytes.fromhex("0f045a00")
M5_WORK_END = bytes.fromhex("0f045b00")
M5_DUMP_RESET_STATS = bytes.fromhex("0f044200")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, builder: Builder) -> Path:
    """A bundle's gem5-se folder beside a data.h5."""
    return write(tmp_path_factory.mktemp("bundle dir"), Gem5Se(), builder)


def launched(folder: Path, *arguments: object) -> tuple[int, str]:
    done = subprocess.run(
        ["./binary", *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


class TestProgram:
    def test_is_static_and_free_of_any_library(self, made: Path):
        elf = ELFFile(io.BytesIO((made / "binary").read_bytes()))
        assert elf["e_type"] == "ET_EXEC"
        assert elf["e_machine"] == "EM_X86_64"
        assert not {s["p_type"] for s in elf.iter_segments()} & {"PT_INTERP", "PT_DYNAMIC"}

    def test_is_smaller_than_64_kib(self, made: Path):
        assert (made / "binary").stat().st_size < 64 * 1024

    def test_no_segment_can_be_written_and_executed(self, made: Path):
        elf = ELFFile(io.BytesIO((made / "binary").read_bytes()))
        assert all(s["p_flags"] & 3 != 3 for s in elf.iter_segments("PT_LOAD"))

    def test_its_size_does_not_depend_on_the_tensors(self, builder: Builder):
        small, large = (
            Gem5Se().package.folder(job(workload(elements=n)), builder)["binary"]
            for n in (64, 1 << 20)
        )
        assert len(small.content) == len(large.content)

    def test_the_file_holds_the_code_where_the_discrete_gpu_reads_it(self, builder: Builder):
        # The launcher takes the offset in the file to be the distance in memory from the file's
        # header, which holds in the segment that starts with the header.
        target = Gem5Se(arch="gfx900")
        made = job(workload())
        linked = target.simulated.linked(made, builder)
        code = kfd.sources(target.simulated, made, linked)["code.img"]
        content = target.package.folder(made, builder)["binary"].content
        elf = ELFFile(io.BytesIO(content))
        first = next(elf.iter_segments("PT_LOAD"))
        assert first["p_offset"] == 0
        assert content.index(code) + len(code) <= first["p_filesz"]

    @pytest.mark.parametrize("arch", apu_se.VERSIONS["24.0"].gpus)
    @pytest.mark.parametrize("m5ops", [False, True])
    def test_pseudo_instructions_are_there_on_request_only(
        self, builder: Builder, arch: str, m5ops: bool
    ):
        content = (
            Gem5Se(arch=arch, m5ops=m5ops)
            .package.folder(job(workload()), builder)["binary"]
            .content
        )
        assert (M5_WORK_BEGIN in content) is m5ops
        assert (M5_WORK_END in content) is m5ops

    @pytest.mark.parametrize("version", apu_se.VERSIONS)
    def test_it_dumps_statistics_where_apu_se_does_not(self, builder: Builder, version: str):
        target = Gem5Se(arch=apu_se.VERSIONS[version].gpus[0], gem5_version=version)
        content = target.package.folder(job(workload()), builder)["binary"].content
        assert (M5_DUMP_RESET_STATS in content) is (version < "24")

    @pytest.mark.parametrize(
        ("version", "arch", "doubled"),
        [
            ("21.1", "gfx803", False),
            ("21.2", "gfx801", True),
            ("23.1", "gfx803", True),
            ("22.1", "gfx902", False),
        ],
    )
    def test_a_queue_of_gfx8_is_told_to_be_twice_as_long(
        self, builder: Builder, version: str, arch: str, doubled: bool
    ):
        # HSAQueueDescriptor::ptr of gem5 at these tags: the index modulo half of the size.
        target = Gem5Se(arch=arch, gem5_version=version)
        files = target.package.folder(job(workload()), builder)
        said = b"#define RING_HALVES 2 " in files["src/plan.h"].content
        assert said is doubled

    @pytest.mark.parametrize("arch", apu_se.GPUS)
    def test_register_counts_behind_a_descriptor_are_0(self, builder: Builder, arch: str):
        # gem5 before 23.1 reads 256 bytes, and takes counts that are 0 from the descriptor.
        version = "24.0" if arch in apu_se.VERSIONS["24.0"].gpus else "23.0"
        target = Gem5Se(arch=arch, gem5_version=version)
        made = job(workload())
        for elf, info in target.simulated.linked(made, builder):
            image = code_object.memory_image(elf)
            behind = image[info.descriptor_offset + 64 : info.descriptor_offset + 256]
            assert behind == bytes(192)

    def test_registers_are_counted_as_the_gpu_does_that_gem5_is_told(self, builder: Builder):
        target = Gem5Se(arch="gfx90a")
        made = job(workload())
        ((elf, info), *_) = target.simulated.linked(made, builder)
        code = kfd.sources(target.simulated, made, [(elf, info)])["code.img"]
        before = code_object.memory_image(elf)
        at = info.descriptor_offset + code_object.RSRC1
        assert (code[at] & 63) + 1 == info.vgprs // 4 == 2 * ((before[at] & 63) + 1)
        assert [x for x in range(len(before)) if before[x] != code[x]] == [at]
        with pytest.raises(RefusedError, match=r"takes 264 vector registers, .* has 256"):
            code_object.for_granule(before, replace(info, vgprs=264), 4)

    def test_a_matrix_instruction_that_the_version_lacks_is_refused(self, builder: Builder):
        kernel = (
            '#include "prelude.h"\n#define KERNEL k\n'
            "using f4 = float __attribute__((ext_vector_type(4)));\n"
            "using s4 = short __attribute__((ext_vector_type(4)));\n"
            'extern "C" __global__ void k(s4* x, f4* y)\n'
            "{ y[0] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x[0], x[1], y[0], 0, 0, 0); }\n"
        )
        with pytest.raises(RefusedError, match=r"gem5 24.0: it does not implement v_mfma"):
            builder.products(Gem5Se(arch="gfx90a").simulated.stages(), {"k": kernel})

    def test_is_built_to_the_same_bytes_again(self, tmp_path: Path, builder: Builder):
        again = Builder(Cache(tmp_path))
        assert Gem5Se().package.folder(job(workload()), again) == Gem5Se().package.folder(
            job(workload()), builder
        )


class TestExitCodes:
    """Natively. Each failure has its own code and one line that names the culprit."""

    def fails(self, folder: Path, code: int, line: str, *arguments: object) -> None:
        got, stderr = launched(folder, *arguments)
        assert stderr.startswith(f"simgen: error: {line}")
        assert stderr.count("\n") == 1
        assert got == code

    @pytest.mark.parametrize("arguments", [(), ("a",), ("a", "b", "c", "d")])
    def test_arguments(self, made: Path, arguments: tuple[str, ...]):
        self.fails(
            made, 20, "arguments: not as many as it takes; write BINARY DATA OUTPUTS", *arguments
        )

    def test_no_data_file(self, made: Path, tmp_path: Path):
        self.fails(made, 31, "no/data.h5: cannot be opened", "no/data.h5", tmp_path / "o")

    @pytest.mark.parametrize("length", [0, 50, 100, 4096, -1])
    def test_truncated_data_file(self, made: Path, tmp_path: Path, length: int):
        cut = tmp_path / "data.h5"
        cut.write_bytes((made.parent / bundles.DATA).read_bytes()[:length])
        self.fails(made, 70, str(cut), cut, tmp_path / "o")

    def test_extended_data_file(self, made: Path, tmp_path: Path):
        longer = tmp_path / "data.h5"
        longer.write_bytes((made.parent / bundles.DATA).read_bytes() + b"\0")
        self.fails(made, 70, f"{longer}: is truncated or too long", longer, tmp_path / "o")

    def test_no_data_file_at_all(self, made: Path, tmp_path: Path):
        self.fails(made, 70, "run.sh: is not a data file of simgen", "run.sh", tmp_path / "o")

    @pytest.mark.parametrize("byte", [8, 20, 39])
    def test_data_of_another_workload(self, made: Path, tmp_path: Path, byte: int):
        other = bytearray((made.parent / bundles.DATA).read_bytes())
        other[byte] ^= 1
        path = tmp_path / "data.h5"
        path.write_bytes(other)
        self.fails(made, 71, f"{path}: holds other tensors or another seed", path, tmp_path / "o")

    def test_output_folder_that_is_not_there(self, made: Path, tmp_path: Path):
        name = tmp_path / "no" / "o"
        self.fails(made, 32, f"{name}.part: cannot be made", "../data.h5", name)

    def test_output_path_that_is_too_long(self, made: Path):
        self.fails(made, 20, "OUTPUTS: the path is too long", "../data.h5", "x" * 5000)

    @pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has an AMD GPU driver")
    def test_no_driver(self, made: Path, tmp_path: Path):
        self.fails(made, 30, "/dev/kfd: there is none", "../data.h5", tmp_path / "o")
        assert not (tmp_path / "o").exists()


class TestScript:
    def script(self, folder: Path, **environment: str) -> tuple[int, str]:
        kept = {"PATH": os.environ["PATH"]}
        done = subprocess.run(
            ["sh", folder / "run.sh"],
            env=kept | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    @pytest.fixture
    def bundle(self, made: Path) -> Iterator[Path]:
        """A copy of the bundle in a place that gem5 does not redirect."""
        with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
            if Gem5Se().needs.refusal(Path(root)):
                pytest.skip("/var/tmp is a link to a place that gem5 redirects")
            yield Path(shutil.copytree(made.parent, Path(root, "a 'bundle'")))

    def fake_gem5(self, bundle: Path, body: str, said: str = "24.0.0.1") -> str:
        """A checkout whose gem5 is a script that gets gem5's arguments; it says its version."""
        root = bundle / "gem5 checkout"
        program = root / "build/VEGA_X86/gem5.opt"
        program.parent.mkdir(parents=True)
        told = f'echo "gem5 version {said}"; echo; exit 2'
        head = f'[ "$3" != which-version ] || {{ {told}; }}\nprintf "%s|" "$@"\necho'
        program.write_text(f"#!/bin/sh\n{head}\n{body}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        script = root / "configs/example/apu_se.py"
        script.parent.mkdir(parents=True)
        script.touch()
        return str(root)

    def outputs(self) -> str:
        work = workload()
        return f"head -c {work.arena_nbytes - work.outputs_offset} /dev/zero >outputs.bin"

    def stats(self, active: int) -> str:
        line = "echo system.cpu1.shaderActiveTicks 5"
        return f"for i in {'1 ' * active}; do {line}; done >stats.txt"

    def test_is_valid_for_any_shell(self, made: Path):
        subprocess.run(["sh", "-n", made / "run.sh"], check=True)

    def test_a_redirected_place_is_refused(self, made: Path, tmp_path: Path):
        if not str(tmp_path.resolve()).startswith("/tmp"):
            pytest.skip("pytest's folder is not under /tmp")
        code, stderr = self.script(made, GEM5="/nowhere")
        assert code == 4
        assert "apu_se.py redirects /tmp" in stderr

    def test_gem5_not_named(self, bundle: Path):
        assert self.script(bundle / "gem5-se") == (
            3,
            "simgen: error: gem5-se: GEM5 is not set; get gem5, run scons build/VEGA_X86/gem5.opt "
            "in it and set GEM5 to its folder (simgen doctor --for gem5-se, page gem5)\n",
        )

    def test_gem5_not_built(self, bundle: Path):
        code, stderr = self.script(bundle / "gem5-se", GEM5=str(bundle))
        assert code == 3
        assert "apu_se.py is missing" in stderr

    @pytest.mark.parametrize("family", ["GCN3_X86", "ARM", "X86"])
    def test_a_build_of_another_instruction_set(self, bundle: Path, family: str):
        gem5 = Path(self.fake_gem5(bundle, "exit 1"))
        other = gem5 / "build" / family / "gem5.opt"
        other.parent.mkdir(parents=True)
        shutil.copy2(gem5 / "build/VEGA_X86/gem5.opt", other)
        code, stderr = self.script(bundle / "gem5-se", GEM5=str(gem5), GEM5_BINARY=str(other))
        assert (code, stderr) == (
            2,
            f"simgen: error: gem5-se: GEM5_BINARY is {other}; code for gfx902 runs on "
            "build/VEGA_X86/gem5.opt: set it to that, or build with another --arch\n",
        )

    def test_relative_gem5(self, bundle: Path):
        assert self.script(bundle / "gem5-se", GEM5="../gem5")[0] == 2

    def test_a_good_run_leaves_its_results(self, bundle: Path):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        assert self.script(bundle / "gem5-se", GEM5=gem5) == (0, "")
        results = bundle / "results/gem5-se"
        assert {p.name for p in results.iterdir()} == {
            "outputs.bin", "stats.txt", "log.txt", "complete", "programs.sha256"
        }  # fmt: skip
        found = hashlib.sha256(Path(gem5, "build/VEGA_X86/gem5.opt").read_bytes()).hexdigest()
        assert machine_file.programs(results)["gem5_sha256"] == found
        assert (results / "complete").read_text().splitlines()[0] == "0" * 64
        arguments = (results / "log.txt").read_text().splitlines()[-1].split("|")
        assert arguments[:3] == ["-d", ".", f"{gem5}/configs/example/apu_se.py"]
        assert arguments[3:6] == ["-n1", "--mem-size=512MiB", "--gfx-version=gfx902"]

    def test_the_program_sees_the_same_arguments_everywhere(self, bundle: Path):
        # They lie on its stack, and their length moves the simulated timing.
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        self.script(bundle / "gem5-se", GEM5=gem5)
        log = (bundle / "results/gem5-se/log.txt").read_text()
        assert log.splitlines()[-1].endswith(
            "|--env=/dev/null|-c|../../gem5-se/binary|--options=../../data.h5 outputs.bin|"
        )

    @pytest.mark.parametrize(
        ("keep", "files"), [("yes", "outputs.bin state.bin|"), ("no", "outputs.bin|")]
    )
    def test_what_layers_leave_is_kept_on_demand(self, bundle: Path, keep: str, files: str):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        self.script(bundle / "gem5-se", GEM5=gem5, SIMGEN_KEEP=keep)
        assert (bundle / "results/gem5-se/log.txt").read_text().splitlines()[-1].endswith(files)

    def test_a_demand_that_is_none_is_refused(self, bundle: Path):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        code, told = self.script(bundle / "gem5-se", GEM5=gem5, SIMGEN_KEEP="maybe")
        assert code == 2
        assert "SIMGEN_KEEP is maybe; write yes or no" in told

    def test_hardware_options_are_one_argument_each_and_told_in_the_log(self, bundle: Path):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        given = {"SIMGEN_NUM_COMPUTE_UNITS": "8", "SIMGEN_TCP_SIZE": "32KiB --x;$(id)*"}
        self.script(bundle / "gem5-se", GEM5=gem5, GEM5_OPTIONS="--num-dirs 2", **given)
        log = (bundle / "results/gem5-se/log.txt").read_text()
        assert "|--num-compute-units=8|--tcp-size=32KiB --x;$(id)*|--num-dirs|2|-c|" in log
        assert Gem5Se().reader.machine(bundle / "results/gem5-se")["gem5_options"] == (
            "--num-compute-units=8 --tcp-size=32KiB --x;$(id)* --num-dirs 2"
        )

    def test_without_options_none_are_told(self, bundle: Path):
        self.script(
            bundle / "gem5-se", GEM5=self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        )
        assert "gem5_options" not in Gem5Se().reader.machine(bundle / "results/gem5-se")

    @pytest.mark.parametrize("value", ["255", "x", "-1"])
    def test_too_little_hardware_is_refused_because_gem5_would_wait_for_ever(
        self, bundle: Path, value: str
    ):
        code, stderr = self.script(bundle / "gem5-se", GEM5=str(bundle), SIMGEN_LDS_SIZE=value)
        assert code == 4
        assert stderr == (
            f"simgen: error: gem5-se: --lds-size {value}: a work-group needs 256 here; "
            "give it that or more\n"
        )

    @pytest.mark.parametrize(
        ("said", "lack"),
        [
            ("24.0.0.0", ""),
            ("[DEVELOP-FOR-24.0]", ""),
            ("my own", ""),
            ("26.0.0.0", ""),  # later than all that are known
            ("22.1.0.0", "22.1"),
            ("25.1.0.1", "25.1"),
            ("DEVELOP-FOR-V24.1", "24.1"),
            ("19.0.0.0", "older"),
        ],
    )
    def test_a_gem5_of_another_version_is_refused_before_the_run(
        self, bundle: Path, said: str, lack: str, monkeypatch: pytest.MonkeyPatch
    ):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}", said)
        code, stderr = self.script(bundle / "gem5-se", GEM5=gem5)
        monkeypatch.setenv("GEM5", gem5)
        monkeypatch.delenv("GEM5_BINARY", raising=False)
        (found,) = [str(each) for each in Gem5Se().needs.missing()] or [""]
        if not lack:
            assert (code, stderr, found) == (0, "", "")
            return
        program, cure = f"{gem5}/build/VEGA_X86/gem5.opt", "set GEM5 to the folder of a gem5 24.0"
        assert code == 3
        if lack == "older":
            assert (
                f"is version {said}, which is older than any that simgen knows; {cure}\n" in stderr
            )
            assert found == f"{program} is version {said}, older than any that simgen knows; {cure}"
            return
        assert stderr == (
            f"simgen: error: gem5-se: {program} is version {said}, and the bundle is for 24.0; "
            f"{cure}, or build the bundle with --gem5-version {lack}\n"
        )
        assert found == (
            f"{program} is version {said}, not 24.0; {cure}, or build with --gem5-version {lack}"
        )
        monkeypatch.setenv("GEM5_BINARY", program)
        own = "set GEM5_BINARY to a gem5 24.0, or build"
        assert own in self.script(bundle / "gem5-se", GEM5=gem5, GEM5_BINARY=program)[1]
        assert own in str(Gem5Se().needs.missing()[0])
        assert not (bundle / "results").exists()

    def test_a_gem5_that_starts_in_its_image_alone_is_known_by_its_sources(
        self, bundle: Path, monkeypatch: pytest.MonkeyPatch
    ):
        gem5 = Path(self.fake_gem5(bundle, "exit 127"))
        program = gem5 / "build/VEGA_X86/gem5.opt"
        program.write_text("#!/bin/sh\nexit 127\n")
        sources = gem5 / "src/base/version.cc"
        sources.parent.mkdir(parents=True)
        sources.write_text('namespace gem5\n{\nconst char *gem5Version = "23.1.0.0";\n}\n')
        code, stderr = self.script(bundle / "gem5-se", GEM5=str(gem5), SIMGEN_DOCKER="1")
        assert code == 3
        assert "is version 23.1.0.0, and the bundle is for 24.0; set GEM5 to the folder" in stderr
        monkeypatch.setenv("GEM5", str(gem5))
        monkeypatch.delenv("GEM5_BINARY", raising=False)
        assert "is version 23.1.0.0, not 24.0" in str(Gem5Se().needs.missing()[0])

    def test_a_gem5_that_tells_its_version_in_its_image_alone_leaves_no_result(self, bundle: Path):
        docker = bundle / "bin/docker"
        docker.parent.mkdir()
        run = f"echo 'gem5 version 23.0.1.0'; {self.outputs()}; {self.stats(2)}"
        docker.write_text(f"#!/bin/sh\ncase $1 in run) {run};; esac\n")
        docker.chmod(0o755)
        gem5 = self.fake_gem5(bundle, "", said="")
        path = f"{docker.parent}:{os.environ['PATH']}"
        code, stderr = self.script(bundle / "gem5-se", GEM5=gem5, SIMGEN_DOCKER="1", PATH=path)
        assert code == 5
        assert "gem5 is version 23.0.1.0, and the bundle is for 24.0; set GEM5 to" in stderr
        assert not (bundle / "results/gem5-se").exists()

    def test_more_options_of_apu_se(self, bundle: Path):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        self.script(bundle / "gem5-se", GEM5=gem5, GEM5_OPTIONS="--num-cp 2 --mem-size=1GiB")
        log = (bundle / "results/gem5-se/log.txt").read_text()
        assert "|--num-cp|2|--mem-size=1GiB|-c|" in log

    def test_an_argument_of_apu_se_may_have_spaces_and_all_else(self, bundle: Path):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        words = ["--TCC_latency=8", "--mem-type=a b;$(id)*'"]
        given = Gem5Se.run_options["gem5_arg"].read("\n".join(words))
        self.script(bundle / "gem5-se", GEM5=gem5, SIMGEN_GEM5_ARGS=str(given))
        log = (bundle / "results/gem5-se/log.txt").read_text()
        assert f"|{words[0]}|{words[1]}|-c|" in log

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (
                "--num-compute=8",
                "--num-compute=8: the bundle sets --num-compute-units; set SIMGEN_",
            ),
            (
                "--num-compute 8",
                "the bundle sets --num-compute-units; set SIMGEN_NUM_COMPUTE_UNITS",
            ),
            ("--mem-size=1GiB -u8", "-u8: the bundle sets -u; set SIMGEN_NUM_COMPUTE_UNITS"),
            ("--gfx=gfx902", "--gfx=gfx902: the bundle sets --gfx-version; build with another"),
            ("--tcp=1MiB", "--tcp=1MiB: the bundle sets --tcp-size; set SIMGEN_TCP_SIZE"),
            ("--opt=x", "--opt=x: the bundle sets --options; leave it out"),
            ("--debug-fl=GPUExec", "--debug-fl=GPUExec: abbreviates --debug-flags of gem5 itself"),
            ("--outdir=x", "--outdir=x: gem5 would not run the bundle, or write elsewhere"),
            ("--debug-flags GPUExec", "--debug-flags: has no value; write --debug-flags=VALUE"),
            ("--stats-file=../x", "--stats-file=../x: no name for a copy of stats.txt"),
            ("--stats-file=..", "--stats-file=..: no name for a copy of stats.txt"),
            ("--stats-file=log.txt", "--stats-file=log.txt: the run has a file of that name"),
            ("--debug-file=outputs.bin", "outputs.bin: the run has a file of that name; write"),
            ("--debug-file=stats.txt", "stats.txt: the run has a file of that name; write"),
        ],
    )
    @pytest.mark.parametrize("variable", ["GEM5_OPTIONS", "SIMGEN_GEM5_ARGS"])
    def test_what_argparse_would_take_for_an_option_of_the_bundle_is_refused(
        self, bundle: Path, given: str, said: str, variable: str
    ):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        words = given if variable == "GEM5_OPTIONS" else given.replace(" ", "\n")
        code, told = self.script(bundle / "gem5-se", GEM5=gem5, **{variable: words})
        assert code == 2
        assert told.startswith("simgen: error: gem5-se: ")
        assert said in told
        assert told.count("\n") == 1

    def test_options_of_gem5_itself_stand_before_the_script(self, bundle: Path):
        gem5 = self.fake_gem5(bundle, f"{self.outputs()}\n{self.stats(2)}")
        self.script(
            bundle / "gem5-se", GEM5=gem5,
            GEM5_OPTIONS="--debug-flags=GPUExec,GPUMem --mem-size=1GiB --quiet",
            SIMGEN_GEM5_ARGS="--debug-file=a b;$(id)*\n--stats-file=own.txt",
        )  # fmt: skip
        results = bundle / "results/gem5-se"
        log = (results / "log.txt").read_text()
        assert "\n-d|.|--debug-flags=GPUExec,GPUMem|--quiet|--debug-file=a b;$(id)*|" in log
        assert "apu_se.py|" in log
        assert "|--mem-size=1GiB|-c|" in log
        assert "--stats-file" not in log
        assert (results / "own.txt").read_bytes() == (results / "stats.txt").read_bytes()

    @pytest.mark.parametrize(
        ("body", "code", "line"),
        [
            ("echo 'simgen: error: launch 1 (swap): not finished'; exit 51", 5, "launch 1 (swap)"),
            ("echo 'simgen: error: data.h5: truncated'; exit 70", 7, "data.h5: truncated"),
            ("exit 134", 5, "exit code 134"),
            ("exit 0", 5, "the program left 0 of"),
            ("OUTPUTS; STATS1", 5, "1 kernels ran, of 2"),
            ("OUTPUTS; STATS0", 5, "0 kernels ran, of 2"),
            ("OUTPUTS", 5, "0 kernels ran, of 2"),
        ],
    )
    def test_a_bad_run_fails_and_keeps_its_log(self, bundle: Path, body: str, code: int, line: str):
        body = body.replace("OUTPUTS", self.outputs())
        body = body.replace("STATS1", self.stats(1)).replace("STATS0", self.stats(0))
        got, stderr = self.script(bundle / "gem5-se", GEM5=self.fake_gem5(bundle, body))
        assert got == code
        assert line in stderr
        assert stderr.count("\n") == 1
        assert (bundle / "results/failed-gem5-se/log.txt").is_file()
        assert [p.name for p in (bundle / "results").iterdir()] == ["failed-gem5-se"]

    def test_docker_gets_both_folders_and_the_user(self, bundle: Path):
        docker = bundle / "bin/docker"
        docker.parent.mkdir()
        docker.write_text('#!/bin/sh\nprintf "%s|" "$@"\necho\nexit 1\n')
        docker.chmod(0o755)
        gem5 = self.fake_gem5(bundle, "")
        path = f"{docker.parent}:{os.environ['PATH']}"
        code, _ = self.script(bundle / "gem5-se", GEM5=gem5, SIMGEN_DOCKER="1", PATH=path)
        lines = (bundle / "results/failed-gem5-se/log.txt").read_text().splitlines()
        (log,) = (each for each in lines if each.startswith("run|"))
        here = bundle.resolve()
        assert code == 5
        assert log.startswith(
            f"run|--rm|-u|{os.getuid()}:{os.getgid()}|-v|{gem5}:{gem5}|-v|{here}:{here}|"
            f"-w|{here}/results/.part-gem5-se."
        )
        image = apu_se.VERSIONS["24.0"].image
        assert f"|{image}|{gem5}/build/VEGA_X86/gem5.opt|-d|.|{gem5}/" in log

    @pytest.mark.parametrize("known", [True, False], ids=["pulled", "local"])
    def test_a_run_in_docker_tells_which_image_it_was(self, bundle: Path, known: bool):
        docker = bundle / "bin/docker"
        docker.parent.mkdir()
        told = "echo image@sha256:abc" if known else "exit 1"
        run = f'printf "%s|" "$@"; echo; {self.outputs()}; {self.stats(2)}'
        docker.write_text(f"#!/bin/sh\ncase $1 in image) {told};; run) {run};; esac\n")
        docker.chmod(0o755)
        environment = {
            "GEM5": self.fake_gem5(bundle, ""),
            "PATH": f"{docker.parent}:{os.environ['PATH']}",
            "SIMGEN_DOCKER": "1",
            "SIMGEN_IMAGE": "mine:1",
        }
        assert self.script(bundle / "gem5-se", **environment) == (0, "")
        results = bundle / "results/gem5-se"
        assert "|mine:1|" in (results / "log.txt").read_text()
        image = "image@sha256:abc" if known else "mine:1"
        assert Gem5Se().reader.machine(results)["image"] == image


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"arch": "gfx920"}, r"--arch 'gfx920': unknown; did you mean 'gfx9[04][02a]'\?"),
            ({"arch": "gfx1100"}, "--arch 'gfx1100': unknown"),
            ({"gem5_version": "24"}, r"--gem5-version '24': unknown; did you mean '24\.[01]'\?"),
        ],
    )
    def test_unknown_values_are_refused(self, settings: dict[str, str], message: str):
        with pytest.raises(UsageError, match=message):
            Gem5Se(**settings)  # type: ignore[arg-type]

    @pytest.mark.parametrize("path", ["/tmp/x", "/tmpfs/x", "/proc/1", "/sys/x"])
    def test_redirected_places_are_refused(self, path: str):
        assert "redirects" in (Gem5Se().needs.refusal(Path(path)) or "")

    def test_a_link_into_a_redirected_place_is_refused(self, tmp_path: Path):
        link = tmp_path / "link"
        link.symlink_to("/proc")
        assert Gem5Se().needs.refusal(link) is not None

    def test_another_place_is_not(self):
        assert Gem5Se().needs.refusal(Path("/home/someone/tmp/bundle")) is None

    def test_all_that_is_missing_is_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.delenv("GEM5", raising=False)
        assert [lack.fact for lack in Gem5Se().needs.missing()] == ["GEM5 is not set"]
        monkeypatch.setenv("GEM5", str(tmp_path))
        monkeypatch.setenv("SIMGEN_DOCKER", "1")
        monkeypatch.setenv("PATH", "")
        facts = [lack.fact for lack in Gem5Se().needs.missing()]
        assert len(facts) == 3
        assert "apu_se.py is missing" in facts[0]
        assert "gem5.opt is missing" in facts[1]
        assert "no docker" in facts[2]

    def test_the_simulated_memory_holds_the_tensors(self):
        assert memory_text(memory_nbytes(workload())) == "512MiB"
        large = workload(launches=2, elements=1 << 28)
        assert memory_text(memory_nbytes(large)) == "4GiB"
        assert memory_nbytes(large) > large.arena_nbytes

    def test_commands_are_complete_lines(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("GEM5", "/home/me/my gem5")
        lines = Gem5Se(arch="gfx900").package.commands(tmp_path / "it's", workload())
        assert set(lines) == {"direct", "docker"}
        for line in lines.values():
            subprocess.run(["sh", "-nc", line], check=True)
            assert "'/home/me/my gem5'/configs/example/apu_se.py" in line
            assert "--gfx-version=gfx900 --dgpu" in line
        assert " && docker run --rm -u " in lines["docker"]


BLOCK = """
---------- Begin Simulation Statistics ----------
simSeconds                                   0.000{n}                       # Seconds (Second)
simTicks                                 {n}00000000                       # Ticks (Tick)
simInsts                                           {n}                       # Instructions (Count)
system.cpu3.shaderActiveTicks                 {ticks}                       # Total ticks
system.cpu3.CUs0.numInstrExecuted                  {n}                       # instructions (Count)
system.cpu3.CUs1.numInstrExecuted                  10                       # instructions (Count)
system.cpu3.CUs1.wavefronts0.numInstrExecuted      10                       # the same ones
system.cpu3.CUs1.vALUInsts                         nan                       # instructions (Count)
system.cpu0.numInstrExecuted                      1000                       # not of the GPU
system.ruby.tcp_cntrl0.L1cache.m_demand_hits         3                       # hits
system.ruby.tcp_cntrl1.L1cache.m_demand_hits         4                       # hits
system.ruby.tcc_cntrl0.L2cache.m_demand_misses       5                       # misses
system.cpu3.CUs0.execRateDist::samples  1  50.00%  # distribution
---------- End Simulation Statistics   ----------
"""


class TestStatistics:
    @pytest.fixture
    def results(self, tmp_path: Path) -> Path:
        text = "".join(
            BLOCK.format(n=n, ticks=ticks) for n, ticks in ((1, 500), (2, 0), (3, 700), (4, 0))
        )
        (tmp_path / "stats.txt").write_text(text)
        return tmp_path

    def test_one_record_for_each_dump_in_which_the_gpu_worked(self, results: Path):
        first, second = Gem5Se().reader.metrics(results, workload(2))
        assert (first["shader_active_ticks"], second["shader_active_ticks"]) == (500, 700)
        assert (first["seconds"], second["seconds"]) == (500e-12, 700e-12)
        assert (first["simulated_seconds"], second["simulated_seconds"]) == (0.0001, 0.0003)

    def test_counts_are_summed_over_components_of_the_gpu(self, results: Path):
        first, second = Gem5Se().reader.metrics(results, workload(2))
        assert (first["instructions"], second["instructions"]) == (11, 13)
        assert (first["l1_hits"], first["l1_misses"]) == (7, 0)
        assert (first["l2_hits"], first["l2_misses"]) == (0, 5)

    @pytest.mark.parametrize("launches", [1, 3])
    def test_another_number_of_kernels_is_damage(self, results: Path, launches: int):
        with pytest.raises(DamagedError, match=f"2 kernels for {launches} launches"):
            Gem5Se().reader.metrics(results, workload(launches))

    def test_instructions_of_the_cpu_before_each_dump(self, results: Path):
        assert gem5_stats.cpu_instructions(results / "stats.txt") == [1, 2, 3, 4]

    @pytest.mark.parametrize(("version", "own"), [("24.0", (419, 63)), ("24.1", (419, 480))])
    def test_instructions_that_a_dump_does_not_reset(
        self, tmp_path: Path, version: str, own: tuple[int, int]
    ):
        """Figures of a run on 24.0.0.1, to which simInsts counts on (gem5's #1615)."""
        begin = "---------- Begin Simulation Statistics ----------\n"
        line = "simInsts {}\nsystem.cpu0.commitStats0.numInsts {}\n"
        text = "".join(begin + line.format(*each) for each in zip((404, 464), own, strict=True))
        (tmp_path / "stats.txt").write_text(text)
        expected = [404, 60 if version == "24.0" else 464]
        assert gem5_stats.cpu_instructions(tmp_path / "stats.txt") == expected

    @pytest.mark.parametrize("text", ["", "gem5 died\n"])
    def test_no_statistics_are_damage(self, tmp_path: Path, text: str):
        (tmp_path / "stats.txt").write_text(text)
        with pytest.raises(DamagedError, match="holds no statistics"):
            Gem5Se().reader.metrics(tmp_path, workload(1))

    def test_no_file_is_damage(self, tmp_path: Path):
        with pytest.raises(DamagedError, match="run it again"):
            Gem5Se().reader.metrics(tmp_path, workload(1))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "vega.cc:1: fatal: Encountered unimplemented VEGA instruction: v_foo_f16\n",
            "does not implement the instruction v_foo_f16",
        ),
        ("tlb.cc:496: Assertion `new_entry' failed.\n", "address that is not mapped"),
        (  # of gfx801 on 22.1
            "gpu_dyn_inst.cc:775: fatal: flat access at addr 0x83fff7ffd000 has a memory "
            "violation\n",
            "address that is not mapped",
        ),
        ("fatal: Out of memory, please increase size of physical memory.\n", "--mem-size"),
        ("fatal: kfd: bad ioctl 7\n", "gem5 21.0 or later"),
        (
            "apu_se.py: error: unrecognized arguments: --gfx-version=gfx902\n",
            "--gfx-version=gfx902",
        ),
        ("noise\nsimgen: error: x: y; z\nfatal: bad ioctl\n", "x: y; z"),
        (
            "fatal: kfd: bad ioctl 7\nsimgen: error: gem5-se: the run ended with exit code 1\n",
            "driver lacks a request",
        ),
        (
            "simgen: error: gem5-se: the run ended with exit code 9\n",
            "the run ended with exit code 9",
        ),
    ],
)
def test_a_failed_run_is_explained(log: str, words: str):
    assert words in (Gem5Se().watcher.diagnosis(log) or "")


def test_the_target_is_not_named_twice():
    assert (
        Gem5Se().watcher.diagnosis("simgen: error: gem5-se: GEM5 is not set\n") == "GEM5 is not set"
    )


def test_an_unknown_failure_is_not_explained():
    assert Gem5Se().watcher.diagnosis("Segmentation fault\n") is None


def test_a_network_of_halves_needs_no_instruction_that_gem5_lacks():
    """Compilers compare widened halves as halves, at which gem5 ends, unless a kernel hides it."""
    model = Model("gem5", "24.0", "gfx902")
    kernels = narrow.planned("f16").kernels
    text = toolchain.assembly(together(kernels), model.arch)
    made = legalise.rewrite(text, model, legalise.names(model))  # which refuses what it lacks
    elf = toolchain.assemble(made.text, model.arch)
    assert code_object.kernels(elf).keys() == {kernel.name for kernel in kernels}


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("simgen: option: --chiplet-topo=ring\napu_se.py: error: unrecognized arguments: "
         "--chiplet-topo=ring", "this gem5 has no option --chiplet-topo=ring, which the run"),
        ("simgen: option: --mem-size=1GiB\napu_se.py: error: unrecognized arguments: --tcp-size=1",
         "apu_se.py does not take the options (--tcp-size=1); build for your gem5"),
        ("apu_se.py: error: the following arguments are required: --chiplet-topo",
         "this gem5's apu_se.py needs more options (--chiplet-topo); pass each on with --gem5-arg"),
        ("apu_se.py: error: argument --num-dirs: invalid int value: 'x'",
         "apu_se.py refuses a value (argument --num-dirs: invalid int value: 'x')"),
    ],
)  # fmt: skip
def test_what_a_gem5_with_other_options_says(log: str, told: str):
    assert (Gem5Se().watcher.diagnosis(log) or "").startswith(told)
