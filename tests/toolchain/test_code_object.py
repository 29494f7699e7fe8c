"""What `simgen.isa.code_object` tells of code objects from the real compiler."""

from __future__ import annotations

import contextlib
import io

import pytest
from elftools.elf.elffile import ELFFile

from simgen.errors import DamagedError, SimgenError
from simgen.isa import code_object, toolchain
from simgen.kernels import render

COPY = """\
extern "C" __global__ void __launch_bounds__(64) copy(const float* x, float* y)
{
    y[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
}
"""
REVERSE = """\
extern "C" __global__ void __launch_bounds__(64) reverse(const float* x, const float* w, float* y)
{
    __shared__ float row[64];
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = row[63 - threadIdx.x] * w[threadIdx.x];
}
"""
SCRATCH = """\
extern "C" __global__ void __launch_bounds__(64) scratch(const int* x, int* y)
{
    volatile int held[32];
    for (int i = 0; i < 32; i++)
        held[i] = x[i];
    y[threadIdx.x] = held[x[threadIdx.x] & 31];
}
"""
GLOBAL = """\
__device__ int counter;
extern "C" __global__ void __launch_bounds__(64) count(int* y) { y[threadIdx.x] = counter++; }
"""


def compiled(source: str, arch: str = "gfx902") -> bytes:
    return toolchain.compile_device(
        render.self_contained(f'#include "{render.PRELUDE}"\n{source}'), arch
    )


@pytest.fixture(scope="module")
def reverse() -> bytes:
    return compiled(REVERSE)


@pytest.mark.parametrize("arch", ["gfx803", "gfx900", "gfx902", "gfx942"])
def test_a_kernel_is_found_with_its_resources(arch: str):
    elf = compiled(REVERSE, arch)
    info = code_object.kernels(elf)["reverse"]
    assert code_object.machine(elf) == arch
    assert (info.lds_nbytes, info.scratch_nbytes, info.kernarg_nbytes) == (64 * 4, 0, 3 * 8)
    assert 4 <= info.vgprs <= 32
    assert 8 <= info.sgprs <= 64


def test_the_image_holds_segments_at_their_virtual_addresses(reverse: bytes):
    image = code_object.memory_image(reverse)
    elf = ELFFile(io.BytesIO(reverse))
    for name in (".rodata", ".text"):
        section = elf.get_section_by_name(name)
        start = section["sh_addr"]
        assert image[start : start + section["sh_size"]] == section.data()


def test_the_descriptor_leads_to_the_first_instruction(reverse: bytes):
    at = code_object.kernels(reverse)["reverse"].descriptor_offset
    entry = int.from_bytes(
        code_object.memory_image(reverse)[at + 16 : at + 24], "little", signed=True
    )
    text = ELFFile(io.BytesIO(reverse)).get_section_by_name(".text")
    assert at % 64 == 0
    assert at + entry == text["sh_addr"]


def test_harmless_instructions_follow_the_code(reverse: bytes):
    text = ELFFile(io.BytesIO(reverse)).get_section_by_name(".text")
    tail = code_object.memory_image(reverse)[text["sh_addr"] + text["sh_size"] :]
    assert tail == code_object.S_NOP * (code_object.FETCH_AHEAD // 4)


def test_two_kernels_of_one_object_have_their_own_descriptors():
    found = code_object.kernels(compiled(COPY + REVERSE))
    assert sorted(found) == ["copy", "reverse"]
    assert found["copy"].lds_nbytes == 0
    assert abs(found["copy"].descriptor_offset - found["reverse"].descriptor_offset) == 64


def test_scratch_memory_is_refused_by_name():
    with pytest.raises(SimgenError, match=r"kernel scratch needs [1-9][0-9]* bytes of scratch"):
        code_object.kernels(compiled(SCRATCH))


def test_global_objects_are_refused_by_name():
    with pytest.raises(SimgenError, match=r"'counter' is a global object|relocations"):
        code_object.memory_image(compiled(GLOBAL))


def test_an_unknown_processor_is_named():
    with pytest.raises(DamagedError, match=r"unknown processor 0x41; known: .*gfx902"):
        code_object.kernels(compiled(COPY, "gfx1100"))


@pytest.mark.parametrize("length", [0, 4, 60, 400, 1000, 2000, 3000])
def test_a_truncated_file_is_damaged(reverse: bytes, length: int):
    with pytest.raises(DamagedError, match="code object"):
        code_object.kernels(reverse[:length])


def test_a_program_is_no_code_object():
    program = toolchain.compile_host({"a.c": b"void _start(void) { for (;;); }"}, "a.c", ())
    with pytest.raises(DamagedError, match="not a linked AMDGPU code object"):
        code_object.kernels(program)


def test_no_flipped_byte_of_the_tables_escapes_as_another_error(reverse: bytes):
    for at in range(16, 0x240, 3):
        damaged = bytearray(reverse)
        damaged[at] ^= 0xFF
        with contextlib.suppress(SimgenError):
            code_object.kernels(bytes(damaged))
