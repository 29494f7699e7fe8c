"""Programs of torch.export that write into memory that other tensors share.

The judge is PyTorch: tests/data/written_programs.py has the programs, and wrote what it computed.
"""

from __future__ import annotations

import json
import lzma
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from census import census
from imported_models import by_references

from simgen.errors import ConfigError

DATA = Path(__file__).parents[1] / "data" / "written_programs.json.xz"
BUFFERS = {
    "cache": (np.arange(24, dtype=np.float32) / 7).reshape(4, 6),
    "weight": np.sin(np.arange(36, dtype=np.float32)).reshape(6, 6),
}
WRITTEN = r" \w+, which is written by it; export it with \.run_decompositions\(\)"
PUT_BACK, MAYBE = "gives a part of" + WRITTEN, "may share memory with" + WRITTEN
WRITES = r"no layer computes it, and it writes \w+; export it with \.run_decompositions\(\)"
NOTHING = "no layer computes it"
REFUSED = {
    "as_strided_write": r"as_strided\.default \(as_strided\) " + MAYBE,
    "as_strided_write_decomposed": r"as_strided_scatter\.default .*" + NOTHING,
    "bool_put": r"Greater \(gt\) " + NOTHING,
    "bool_put_decomposed": r"Greater \(gt\) " + NOTHING,
    "diag_fill": r"diagonal\.default \(diagonal\) " + MAYBE,
    "diag_fill_decomposed": r"diagonal_scatter\.default .*" + NOTHING,
    "hidden_rows_as_numbers_decomposed": r"Softmax \(_softmax\) is NaN where a mask",
    "foreach": r"_foreach_mul_\.Scalar .*" + WRITES,
    "foreach_decomposed": r"_foreach_mul\.Scalar .*" + NOTHING,
    "summed": r"cumsum_.*" + WRITES,
    "summed_decomposed": r"cumsum\.default .*" + NOTHING,
    "masked_fill_view": r"Greater \(gt\) " + NOTHING,
    "masked_fill_view_decomposed": r"Greater \(gt\) " + NOTHING,
    "reshape_copy": r"reshape\.default \(reshape\) " + MAYBE,
    "strided": r"slice\.Tensor .*" + PUT_BACK,
    "strided_decomposed": r"slice_scatter\.default .* writes elements that are not in a row",
    "trained": r"normalises by the batch, in training mode; export the model behind \.eval\(\)",
    "trained_decomposed": NOTHING,
    "turned_in_place": WRITES,
}  # fmt: skip


@cache
def told() -> Any:
    return json.loads(lzma.decompress(DATA.read_bytes()))


def meta(shape: tuple[int, ...]) -> dict[str, Any]:
    whole = [{"as_int": each} for each in shape]
    strides = [{"as_int": each} for each in (shape[1], 1)]
    return {"dtype": 7, "sizes": whole, "strides": strides, "storage_offset": {"as_int": 0}}


def write(program: Any, path: Path) -> None:
    """An archive of torch.export."""
    config = {
        name: {"path_name": name, "use_pickle": False, "tensor_meta": meta(values.shape)}
        for name, values in BUFFERS.items()
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/models/model.json", json.dumps(program))
        archive.writestr("m/data/weights/model_weights_config.json", json.dumps({"config": config}))
        for name, values in BUFFERS.items():
            archive.writestr(f"m/data/weights/{name}", values.tobytes())


@census("name", sorted(told()["programs"]))
def test_a_program_computes_what_pytorch_does(name: str, tmp_path: Path) -> None:
    path, each = tmp_path / "m.pt2", told()["programs"][name]
    write(each["program"], path)
    x = np.array(told()["x"], np.float32)
    if name in REFUSED:
        with pytest.raises(ConfigError, match=REFUSED[name]):
            by_references(path, {"x": x})
        return
    found = [values.reshape(-1) for values in by_references(path, {"x": x}).values()]
    expected = np.array(each["y"])
    assert any(
        made.shape == expected.shape and np.allclose(made, expected, rtol=1e-4, atol=1e-5)
        for made in found
    )


@pytest.mark.parametrize(("dim", "index"), [(0, 0), (0, 2), (0, -1), (1, 1), (1, 5), (-1, -2)])
def test_select_scatter_replaces_one_row_or_column(dim: int, index: int, tmp_path: Path) -> None:
    """x.select(dim, index) becomes x.select(dim, 0), by NumPy."""
    program = told()["programs"]["narrow_write_decomposed"]["program"]
    module = json.loads(json.dumps(program))
    graph = module["graph_module"]["graph"]
    x = np.array(told()["x"], np.float32)

    def node(target: str, made: str, **inputs: Any) -> dict[str, Any]:
        given = [
            {"name": name, "arg": {"as_int" if isinstance(value, int) else "as_tensor": value}}
            for name, value in inputs.items()
        ]
        outputs = [{"as_tensor": {"name": made}}]
        return {"target": f"torch.ops.aten.{target}", "inputs": given, "outputs": outputs}

    source, (last,) = {"name": "x"}, graph["outputs"]
    made = last["as_tensor"]["name"]
    row = graph["tensor_values"][made] | {
        "sizes": [{"as_int": x.shape[1 - dim % 2]}], "strides": [{"as_int": 1}]
    }  # fmt: skip
    graph["tensor_values"] = {
        "x": graph["tensor_values"]["x"], "row": row, made: graph["tensor_values"][made]
    }  # fmt: skip
    graph["nodes"] = [
        node("select.int", "row", self=source, dim=dim, index=0),
        node("select_scatter.default", made, self=source, src={"name": "row"}, dim=dim,
             index=index),
    ]  # fmt: skip
    write(module, tmp_path / "m.pt2")
    (found,) = by_references(tmp_path / "m.pt2", {"x": x}).values()
    right = x.copy()
    np.moveaxis(right, dim, 0)[index] = np.moveaxis(x, dim, 0)[0]
    np.testing.assert_array_equal(found.reshape(x.shape), right)
