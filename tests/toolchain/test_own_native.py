"""Kernels of users through NVIDIA's compiler, with CUDA's own headers and without; and what of HIP
is for AMD's GPUs alone."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import nvrtc
import own_native
import pytest

import simgen
from simgen.errors import RefusedError
from simgen.frontend import wavefronts
from simgen.kernels import own

HEADERS = ("nvidia-cuda-runtime", "nvidia-cuda-cccl")


def headers() -> list[str] | None:
    """Options that name their folders; None where a wheel is not installed."""
    try:
        files = [each for wheel in HEADERS for each in metadata.files(wheel) or ()]
    except metadata.PackageNotFoundError:
        return None
    found = [each.locate() for each in files if each.name in ("cuda_fp16.h", "type_traits")]
    folders = {Path(str(each)).parents[2 if each.name == "type_traits" else 0] for each in found}
    return [f"-I{each}" for each in folders]


needs_nvrtc = pytest.mark.skipif(nvrtc.library() is None, reason=f"{nvrtc.WHEEL} is not installed")


@needs_nvrtc
@pytest.mark.parametrize("with_headers", [False, True])
@pytest.mark.parametrize(("name", "suffix"), own_native.CASES)
def test_nvidias_compiler_takes_them(
    tmp_path: Path, name: str, suffix: str, with_headers: bool
) -> None:
    options = headers() if with_headers else []
    if options is None:
        pytest.skip(f"{' and '.join(HEADERS)} are not installed")
    path = own_native.write(name, suffix, tmp_path)
    bundle = simgen.plan(str(path)).build(tmp_path / "b", "cuda")
    text = (bundle.path / "cuda/own/k.cu").read_text()
    assert nvrtc.refusal(text, "sm_90", (*nvrtc.OPTIONS, *options)) == ""
    assert nvrtc.refusal(text, "sm_80", (*nvrtc.OPTIONS, *options)) == ""


SHUFFLE = "__global__ void k(float* x) { float v = x[threadIdx.x]; %s x[threadIdx.x] = v; }"
FOR = "for (int o = %s; o > 0; o >>= 1) v += %s;"
HERE = own.header("nvidia.h")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (FOR % (32, "__shfl_down(v, o)"), "__shfl_down without a width is of the 64 lanes"),
        (FOR % (32, "__shfl_xor(v, o)"), "__shfl_xor without a width"),
        (FOR % (32, "__shfl_xor(v, o, 64)"), "__shfl_xor is of 64 lanes"),
        (FOR % (32, "__shfl_down_sync(~0ull, v, o, 64)"), "__shfl_down_sync is of 64 lanes"),
        ("v = __popcll(__ballot(v > 0));", "__ballot is of the 64 lanes"),
        ("if (__any(v > 0)) v = 1;", "__any is of the 64 lanes"),
        ("v = __builtin_amdgcn_readfirstlane(3);", "__builtin_amdgcn_readfirstlane is of the 64"),
        ("auto t = cooperative_groups::tiled_partition<64>(b);", "tiled_partition<64> is a whole"),
        ("v = __shfl_down(v, 1, warpSize); int l = threadIdx.x & 63;", "'& 63' counts wavefronts"),
        ("__builtin_amdgcn_mov_dpp(1, 0x142, 0xa, 0xf, false);", "goes beyond a row of 16 lanes"),
        ("__builtin_amdgcn_mfma_f32_4x4x1f32(v, v, c, 0, 0, 0);", "no counterpart on NVIDIA's"),
        ('asm volatile("v_mov_b32 %0, %1" : "=v"(v) : "v"(v));', "v_mov_b32 has no counterpart"),
        (FOR % (16, "__shfl_down(v, o, 32)"), ""),
        (FOR % (16, "__shfl_xor(v, o)"), ""),
        (FOR % ("warpSize / 2", "__shfl_down(v, o)"), ""),
        ("v += __shfl_xor(v, 1);", ""),
        ("v += __shfl_up(v, 1, WIDTH);", ""),
        ("/* __shfl(v, 40) */ v = threadIdx.x & 63;", ""),
        ("\n#ifdef __HIP_PLATFORM_AMD__\nv += __shfl(v, 1, 64);\n#endif\n", ""),
        ("\n#ifdef USE_ROCM\nv = __ballot(1);\n#else\nv = __shfl_xor(v, 1, 32);\n#endif\n", ""),
        ("int f = __builtin_amdgcn_ds_swizzle(1, 0x041F);", ""),
    ],
)
def test_what_depends_on_64_lanes_is_named(text: str, fact: str) -> None:
    source = f"#define WIDTH 8\n{SHUFFLE.replace('%s', text)}"
    found = wavefronts.fact_and_cure(source, (), 256, HERE)
    assert bool(found) is bool(fact), found
    assert found is None or fact in found[0]
    if "without a width" in fact or "__any" in fact:  # all lanes that there are lie in one warp
        assert wavefronts.fact_and_cure(source, (), 32, HERE) is None


def test_a_kernel_of_64_lanes_is_refused(tmp_path: Path) -> None:
    path = own_native.Own(
        f"    float v = x[i];\n    {FOR % (32, '__shfl_down(v, o)')}\n    y[i] = v;", "x"
    ).write(tmp_path, ".hip")
    with pytest.raises(RefusedError, match=r"cuda: kernel k: __shfl_down without a width is of"):
        simgen.plan(str(path)).build(tmp_path / "b", "cuda")
