"""Products and sums of users' kernels: one instruction where the vendor's compiler makes one of
them, two where the source or its description wants two, and exact where the source says fmaf.

The truth is Python's fractions, rounded by NumPy, and NumPy's float32, one operation at a time.
"""

from __future__ import annotations

import base64
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import simgen
from simgen.cli.main import cli
from simgen.frontend import own_kernel
from simgen.kernels import own, triton
from simgen.kernels.cache import Cache
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
TIMEOUT = 300.0
PRAGMA = "#pragma clang fp contract(off)"
STANDARD = "#pragma STDC FP_CONTRACT OFF"
ONE, TWO = {"fused": 1}, {"mul": 1, "add": 1}
MNEMONIC = re.compile(
    r"^\s+v_(?:pk_)?(mul|add|sub|fma|fmac|mac|mad)_f(?:16|32|64)(?:_e\d+)?\b", re.M
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def described(suffix: str, body: str, said: str = "", head: str = "", name: str = "k") -> Path:
    """A kernel of x, y and z, float32 each, and its description."""
    if suffix == "cl":
        kernel = (
            "__kernel void k(__global const float *x, __global const float *y, "
            "__global const float *z, __global float *r)\n{\nint i = get_local_id(0);\n"
        )
    else:
        kernel = (
            "__global__ void k(const float* x, const float* y, const float* z, float* r)\n"
            "{\nint i = threadIdx.x;\n"
        )
    Path(f"{name}.{suffix}").write_text(f"{head}\n{kernel}{body}\n}}\n")
    path = Path(f"{name}.toml")
    path.write_text(
        f'source = "{name}.{suffix}"\ninputs = {{ x = "f32[64]", y = "f32[64]", z = "f32[64]" }}\n'
        'outputs = { r = "f32[64]" }\nargs = ["x", "y", "z", "r"]\ngrid = 1\nblock = 64\n'
        f'reference = "x * y + z"\n{said}\n'
    )
    return path


def counted(path: Path, arch: str, **options: bool) -> dict[str, int]:
    """How many multiply-adds, products and sums the compiler writes."""
    (kernel,) = own_kernel.read_kernel_file(path, ()).definition.kernels
    text = own.assembly(kernel, arch, Cache(Path("cache")), **options)
    found: dict[str, int] = {}
    for name in MNEMONIC.findall(text[text.index(f"{kernel.name}:") :]):
        name = {"sub": "add"}.get(name, "fused" if name.startswith(("f", "mac", "mad")) else name)
        found[name] = found.get(name, 0) + 1
    return found


SAXPY = "r[i] = x[i] * y[i] + z[i];"
APART = "float p = x[i] * y[i]; p += z[i]; r[i] = p;"


@pytest.mark.parametrize(
    ("suffix", "body", "said", "wanted"),
    [
        ("hip", SAXPY, "", ONE),
        ("cu", SAXPY, "", ONE),
        ("cl", SAXPY, "", ONE),
        ("hip", APART, "", ONE),
        ("cu", APART, "", ONE),
        ("cl", APART, "", TWO),  # of OpenCL C, within an expression
        ("cl", APART, 'contract = "fast"', ONE),
        ("hip", APART, 'contract = "on"', TWO),
        ("hip", SAXPY, 'contract = "on"', ONE),
        ("hip", SAXPY, 'contract = "off"', TWO),
        ("cl", SAXPY, 'contract = "off"', TWO),
        ("hip", f"{{\n{PRAGMA}\n{SAXPY} }}", "", TWO),
        ("hip", f"{{\n{STANDARD}\n{SAXPY} }}", "", TWO),
        ("cl", f"{{\n#pragma OPENCL FP_CONTRACT OFF\n{SAXPY} }}", "", TWO),
        ("hip", "r[i] = fmaf(x[i], y[i], z[i]);", 'contract = "off"', ONE),
        ("hip", "r[i] = __builtin_fmaf(x[i], y[i], z[i]);", 'contract = "off"', ONE),
        ("cl", "r[i] = fma(x[i], y[i], z[i]);", 'contract = "off"', ONE),
        ("cl", "r[i] = mad(x[i], y[i], z[i]);", "", ONE),
        ("cu", "r[i] = __fadd_rn(__fmul_rn(x[i], y[i]), z[i]);", "", TWO),
        ("cu", "r[i] = __fmul_rn(x[i], y[i]) + z[i];", "", TWO),
        # Operators and functions of vendors' headers, as those of the source.
        ("hip", "float2 a(x[i], y[i]); a = a * a + a; r[i] = a.x - a.y;", "",
         {"fused": 2, "add": 1}),
        ("hip", "half a = x[i], b = y[i]; r[i] = __hadd(__hmul(a, b), a);", "", ONE),
        ("hip", "half a = x[i], b = y[i]; r[i] = __hadd_rn(__hmul_rn(a, b), a);", "", TWO),
        ("hip", "float2 a(x[i], y[i]); r[i] = hipCrealf(hipCmulf(a, a));", "",
         {"mul": 1, "fused": 1}),
        ("hip", "float2 a(x[i], y[i]); r[i] = hipCrealf(hipCmulf(a, a));", 'contract = "off"',
         {"mul": 2, "add": 1}),
    ],
)  # fmt: skip
def test_what_is_fused(suffix: str, body: str, said: str, wanted: dict[str, int]) -> None:
    path = described(suffix, body, said)
    assert counted(path, "gfx902") == wanted


@pytest.mark.parametrize("options", [{}, {"gem5": True}, {"rounded": True}])
@pytest.mark.parametrize("arch", ["gfx803", "gfx90a", "gfx942"])
def test_a_multiply_add_is_one_instruction_everywhere(arch: str, options: dict[str, bool]) -> None:
    assert counted(described("hip", SAXPY), arch, **options) == ONE


def test_a_difference_of_products_is_no_step_of_a_root() -> None:
    """A factor in common, as in complex quotients: MGPUSim's own instruction stays, unrefused."""
    path = described("hip", "float a = x[i] * y[i]; r[i] = (x[i] * z[i] - a) * a;")
    simgen.plan(str(path)).build("made", MGPUSim(arch="gfx942"))


def test_a_pragma_of_the_file_is_for_what_is_behind_it() -> None:
    head = f"__device__ float f(float a, float b, float c) {{ return a * b + c; }}\n{PRAGMA}"
    body = "r[i] = f(x[i], y[i], z[i]) + z[i] * z[i];"
    assert counted(described("hip", body, head=head), "gfx942") == {"fused": 1, "mul": 1, "add": 1}


def test_what_mgpusim_has_not_stays_two_instructions() -> None:
    """It has no fused multiply-adds of 64 and 16 bits."""
    for kind in ("double", "_Float16"):
        body = f"{kind} a = x[i], b = y[i]; r[i] = a * b + a;"
        assert counted(described("hip", body), "gfx942") == ONE
        for said in ("", 'contract = "on"'):
            assert counted(described("hip", body, said), "gfx942", rounded=True) == TWO


def exact(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a b + c rounded once, to the type of a."""
    made = []
    for each in zip(a, b, c, strict=True):
        p, q, r = (Fraction(float(v)) for v in each)
        total = p * q + r
        near = a.dtype.type(float(total))  # rounded twice where the type is narrower
        ends = (
            np.nextafter(near, a.dtype.type(-np.inf)),
            near,
            np.nextafter(near, a.dtype.type(np.inf)),
        )
        off = [abs(total - Fraction(float(v))) for v in ends]
        nearest = [v for v, far in zip(ends, off, strict=True) if far == min(off)]
        even = [v for v in nearest if not int(v.view(f"i{v.nbytes}")) & 1]
        made.append(nearest[0] if len(nearest) == 1 else even[0])
    return np.array(made, a.dtype)


def cancelling(kind: type, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors, and summands of which some are the product rounded, or its neighbour."""
    rng = np.random.default_rng(3)
    bits = np.finfo(kind).nmant
    a, b = (rng.integers(2**bits, 2 ** (bits + 1), n) * 2.0**-bits for _ in range(2))
    a, b = (v.astype(kind) for v in (a * rng.choice([-1, 1], n), b * 2.0 ** rng.integers(-9, 9, n)))
    c = -(a * b)
    c[n // 4 :] = np.nextafter(c, kind(0))[n // 4 :]
    c[n // 2 :] *= kind(2) ** rng.integers(-2 * bits - 4, 2 * bits + 4, n - n // 2).astype(kind)
    # The sum lies between two float32 that are next to each other but for the last bits of c.
    a[:2], b[:2], c[:2] = 1 + 2.0 ** -(bits // 2), 1 + 2.0 ** -(bits - bits // 2), 2.0**-99
    return a, b, c


def found_by(
    path: Path, target: object, name: str = "k", **given: np.ndarray
) -> dict[str, np.ndarray]:
    np.savez(f"{name}.npz", **{f"{name}.{key}": values for key, values in given.items()})
    bundle = simgen.plan(str(path), values=[f"{name}.npz"]).build("made", target, replace=True)
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff()
    with h5py.File(next(Path("made/results").glob("*/results.h5"))) as kept:
        return {key.partition(".")[2]: kept[f"tensors/{key}"][...] for key in kept["tensors"]}


def test_this_cpu_fuses_as_gpus_do_and_bounds_allow_both() -> None:
    x, y, z = cancelling(np.float32, 64)
    once, twice = exact(x, y, z), x * y + z
    assert not np.array_equal(once, twice)
    for said, body, wanted in (
        ("", SAXPY, once), ("", APART, once), ('contract = "off"', SAXPY, twice),
        ('contract = "on"', APART, twice), ("", f"{{\n{PRAGMA}\n{SAXPY} }}", twice),
        ('contract = "off"', "r[i] = fmaf(x[i], y[i], z[i]);", once),
    ):  # fmt: skip
        path = described("hip", body, said)
        assert np.array_equal(found_by(path, "host", x=x, y=y, z=z)["r"], wanted), (said, body)


def test_builds_and_reports_say_what_is_fused() -> None:
    for said, words in (("", "fused"), ('contract = "off"', "not fused")):
        path = described("hip", SAXPY, said)
        told = CliRunner().invoke(cli, ["build", str(path), "--target", "host", "--replace"])
        assert f"HIP: wavefronts of 64, multiply-adds {words}\n" in told.output
        x, y, z = cancelling(np.float32, 64)
        found_by(path, "host", x=x, y=y, z=z)
        page = simgen.report(["made"], f"page {words}").page
        assert f"<dt>multiply-adds</dt><dd>{words}</dd>" in page.read_text()


def test_a_root_of_what_cancels_may_be_none() -> None:
    """x^2 - y^2 with y = x is 0 where the products are rounded, and a little more or less where
    one of them is not: then some GPUs give NaN."""
    x = np.linspace(0.1, 3, 64, dtype=np.float32)
    y = np.where(np.arange(64) % 8, x / 2, x).astype(np.float32)
    for said, nans in (("", True), ('contract = "off"', False)):
        path = described("hip", "r[i] = sqrtf(x[i] * x[i] - y[i] * y[i]) + z[i];", said)
        path.write_text(path.read_text().replace('"x * y + z"', '"np.sqrt(x * x - y * y) + z"'))
        r = found_by(path, "host", x=x, y=y, z=x)["r"]
        assert np.isnan(r).any() == nans
        wrong = path.read_text().replace("+ z", "+ 1.001 * z")
        Path("k.toml").write_text(wrong)
        with pytest.raises(AssertionError):
            found_by(path, "host", x=x, y=y, z=x)


EXACT = {
    "hip": """
__global__ void k(const float* x, const float* y, const float* z, float* r, float* s,
                  const double* a, const double* b, const double* c, double* d)
{
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    r[i] = __builtin_fmaf(x[i], y[i], z[i]);
    s[i] = x[i] * y[i] + z[i];
    d[i] = fma(a[i], b[i], c[i]);
}
""",
    "cl": """
__kernel void k(__global const float *x, __global const float *y, __global const float *z,
                __global float *r, __global float *s, __global const double *a,
                __global const double *b, __global const double *c, __global double *d)
{
    const int i = get_global_id(0);
    r[i] = fma((float2)(x[i], 0), (float2)(y[i], 0), (float2)(z[i], 0)).x;
    s[i] = x[i] * y[i] + z[i];
    d[i] = fma(a[i], b[i], c[i]);
}
""",
}


@pytest.mark.skipif(bool(MGPUSim().needs.missing()), reason="MGPUSim is not here")
@pytest.mark.parametrize(
    ("suffix", "arch"), [("hip", "gfx803"), ("hip", "gfx942"), ("cl", "gfx942")]
)
def test_what_a_source_demands_is_exact_where_the_simulator_rounds_products(
    suffix: str, arch: str
) -> None:
    n = 512
    Path(f"k.{suffix}").write_text(EXACT[suffix])
    Path("k.toml").write_text(
        f'source = "k.{suffix}"\nparameters = {{ n = {n} }}\n'
        'inputs = { x = "f32[n]", y = "f32[n]", z = "f32[n]", a = "f64[n]", b = "f64[n]", '
        'c = "f64[n]" }\noutputs = { r = "f32[n]", s = "f32[n]", d = "f64[n]" }\n'
        'args = ["x", "y", "z", "r", "s", "a", "b", "c", "d"]\nitems = "n"\nblock = 64\n'
        '[reference]\nr = "x * y + z"\ns = "x * y + z"\nd = "a * b + c"\n'
    )
    x, y, z = cancelling(np.float32, n)
    a, b, c = cancelling(np.float64, n)
    made = found_by(Path("k.toml"), MGPUSim(arch=arch), x=x, y=y, z=z, a=a, b=b, c=c)
    assert np.array_equal(made["r"], exact(x, y, z))
    assert np.array_equal(made["s"], x * y + z), "the simulator's own instruction"
    assert np.array_equal(made["d"], exact(a, b, c))


OF_TRITON = """
define amdgpu_kernel void @k(ptr addrspace(1) %p, float %a, float %b) {
  %x = load float, ptr addrspace(1) %p
  %m = fmul float %x, %a
  %s = fadd float %m, %b
  store float %s, ptr addrspace(1) %p
  ret void
}
"""


@pytest.mark.parametrize(("said", "fused"), [("", True), ("fast", True), ("off", False)])
def test_triton_fuses_unless_it_is_told(
    tmp_path: Path, said: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton's own option, enable_fp_fusion, is true; the package is not here."""
    (tmp_path / "k.py").write_text(
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(p, a, b):\n"
        "    tl.store(p, tl.load(p) * a + b)\n"
    )
    (tmp_path / "k.toml").write_text(
        f'{f"contract = {said!r}" if said else ""}\nsource = "k.py"\n'
        'outputs = { y = "f32[1] zeros" }\nargs = ["y", "f32 2", "f32 3"]\ngrid = 1\n'
        'reference = "2 * y + 3"\n'
    )
    made = simgen.plan(str(tmp_path / "k.toml")).workload.kernels
    (kernel,) = [each for each in made if each.source]  # beside a copy
    asked: list[dict[str, Any]] = []

    def reply(program: str, request: dict[str, Any], *_: str) -> bytes:
        asked.append(request)
        content = base64.b64encode(OF_TRITON.encode()).decode()
        return json.dumps(
            {"content": content, "lds_nbytes": 0, "warps": 4, "scratch_nbytes": [0, 0]}
        ).encode()

    monkeypatch.setattr(triton, "_run", reply)
    monkeypatch.setattr(triton, "version", lambda: "3.4.0")
    assert kernel.source
    text, told = triton.assembly(kernel.source, "gfx942", "k", Cache(tmp_path / "cache"))
    assert asked[0]["fusion"] is told is fused
    assert bool(re.search(r"v_(fma|fmac|pk_fma)_f32", text)) is fused
    assert ("v_add_f32" in text) is not fused
