"""Every lowered layer and pass on a real GPU, against the float64 reference."""

import importlib.util
import json
import subprocess
import sys

import pytest

from simgen.layers import LAYERS
from simgen.layers.activation import Mode as ActivationMode
from simgen.layers.softmax import Algo
from simgen.layers.softmax import Mode as SoftmaxMode
from simgen.targets.cuda import Cuda

pytestmark = pytest.mark.gpu

if importlib.util.find_spec("cupy") is None or Cuda().missing():
    pytest.skip("no CuPy or no NVIDIA GPU on this machine", allow_module_level=True)

SHAPES = [
    ("n=3", "c=7", "h=5", "w=2"),
    ("n=1", "c=1", "h=1", "w=1"),
    ("n=2", "c=5003", "h=1", "w=1"),
]
MODES = {
    "softmax": [
        (f"softmax_algo={algo}", f"softmax_mode={mode}") for algo in Algo for mode in SoftmaxMode
    ],
    "activation": [(f"activation_mode={mode}",) for mode in ActivationMode],
}
CASES = [
    (f"{kind}_{direction}", shape, mode)
    for kind, layer in LAYERS.items()
    for direction in layer.passes
    for shape in SHAPES
    for mode in MODES.get(kind, [()])
]


def simgen(*words):
    return subprocess.run(
        [sys.executable, "-m", "simgen", *map(str, words)], capture_output=True, text=True
    )


@pytest.mark.parametrize(("name", "shape", "mode"), CASES)
def test_native_agrees_with_the_reference(tmp_path, name, shape, mode):
    bundle = tmp_path / "b"
    settings = [word for setting in (*shape, *mode) for word in ("--set", setting)]
    for words in (("build", name, "--target", "cuda", "-o", bundle, *settings), ("run", bundle)):
        done = simgen(*words)
        assert done.returncode == 0, done.stderr

    report = json.loads(simgen("diff", bundle, "--json").stdout)

    assert report["pairs"][0]["passed"], report


def test_repeats_are_timed_and_recorded(tmp_path):
    bundle = tmp_path / "b"
    simgen("build", "softmax_fwd", "--target", "cuda", "-o", bundle)
    assert simgen("run", bundle, "--warmup", "2", "--repeats", "5").returncode == 0

    header, line = (bundle / "results/cuda/launches.csv").read_text().splitlines()
    row = dict(zip(header.split(","), line.split(",")))
    assert row["rounds"] == "5"
    assert 0 < float(row["seconds_min"]) <= float(row["seconds"]) <= float(row["seconds_max"])


def test_a_truncated_data_file_is_refused(tmp_path):
    bundle = tmp_path / "b"
    simgen("build", "softmax_fwd", "--target", "cuda", "-o", bundle)
    data = bundle / "data.h5"
    data.write_bytes(data.read_bytes()[:-4096])

    script = subprocess.run(["sh", bundle / "cuda/run.sh"], capture_output=True, text=True)

    assert script.returncode == 7, script.stderr
    assert len(script.stderr.splitlines()) == 1
