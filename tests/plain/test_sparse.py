"""Sparse products: random patterns, and what is no compressed matrix."""

import numpy as np
import pytest
from command_line import fails

from simgen.frontend import operation
from simgen.ground.ir import Distribution, DType, Fill, TensorSpec
from simgen.tensors.random_values import generate


def pattern(rows, columns, count, seed=1):
    specs = {Distribution.ROWS: rows + 1, Distribution.COLUMNS: count}
    return [
        generate(
            str(each),
            TensorSpec((size,), DType.I32),
            Fill(each, rows, columns, like="a.rows", nonzeros=count),
            seed,
        )
        for each, size in specs.items()
    ]


@pytest.mark.parametrize("count", [1, 9, 60, 61, 119, 120])
def test_a_pattern_has_so_many_different_places(count):
    rows, columns = pattern(10, 12, count)
    of_rows = np.repeat(np.arange(10), np.diff(rows))
    places = of_rows * 12 + columns
    assert (rows[0], rows[-1], len(columns)) == (0, count, count)
    assert (np.diff(places) > 0).all()
    assert 0 <= columns.min() <= columns.max() < 12
    assert count == 120 or not np.array_equal(columns, pattern(10, 12, count, seed=2)[1])


def test_lengths_of_rows_and_columns_vary_as_if_each_element_were_drawn():
    rows, columns = pattern(2000, 500, 50_000)
    # Of a hypergeometric distribution: 25 of 500 places on average, or 100 of 2000.
    for lengths, mean in ((np.diff(rows), 25), (np.bincount(columns, minlength=500), 100)):
        assert lengths.mean() == mean
        assert lengths.var() == pytest.approx(mean * 0.95, rel=0.2)


def test_a_part_of_a_pattern_is_that_of_the_whole():
    _, columns = pattern(30, 40, 500)
    fill = Fill(Distribution.COLUMNS, 30, 40, like="a.rows", nonzeros=500)
    part = generate("columns", TensorSpec((500,), DType.I32), fill, 1, 123, 45)
    assert np.array_equal(part, columns[123:168])


def test_a_problem_of_the_list_has_its_share_of_elements(simgen):
    shown = simgen("show deepbench/sparse/10 --json").json()
    elements = round(10752 * 3584 * 0.05)
    assert shown["total"]["flops"] == 2 * elements * 1500
    assert shown["total"]["read_bytes"] == 4 * (2 * elements + 10753 + 3584 * 1500)


SIZES = "--set m=3 --set k=4 --set n=2 --set nonzeros=5"
NO_CSR = {
    "rows[2] is 2, less than rows[1]; in compressed rows": ([0, 3, 2, 5], [0, 3, 1, 2, 3]),
    "rows begins with 1 and ends with 5; it goes from 0": ([1, 2, 2, 5], [0, 3, 1, 2, 3]),
    "rows begins with 0 and ends with 4; it goes from 0": ([0, 2, 2, 4], [0, 3, 1, 2, 3]),
    "columns[1] is 4; write 0 to 3": ([0, 2, 2, 5], [0, 4, 1, 2, 3]),
    "columns[4] is -1; write 0 to 3": ([0, 2, 2, 5], [0, 1, 1, 2, -1]),
    "columns[3] is 1, behind 2 in the same row; sort": ([0, 2, 2, 5], [0, 3, 2, 1, 3]),
    "columns[1] is 0, behind 0 in the same row; sort": ([0, 2, 2, 5], [0, 0, 1, 2, 3]),
    "has shape 4, the input 5; reshape it": ([0, 2, 2, 4], [0, 3, 1, 2]),
    "rows without columns, which only fit together": ([0, 2, 2, 5], None),
    "columns without rows, which only fit together": (None, [0, 3, 1, 2, 3]),
}


@pytest.mark.parametrize("fact", NO_CSR)
def test_what_is_no_compressed_matrix_is_one_line(simgen, tmp_path, fact):
    given = dict(zip(("rows", "columns"), NO_CSR[fact]))
    own = {f"sparse_gemm.{k}": np.array(v) for k, v in given.items() if v is not None}
    np.savez(tmp_path / "a.npz", **own)
    fails(simgen(f"build sparse_gemm_fwd {SIZES} --values a.npz --target host -o b"), 2, fact)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ("--set sparsity=1", "0 elements of a, which has 262144 places; make sparsity smaller"),
        ("--set nonzeros=262145", "which has 262144 places; set nonzeros lower"),
        ("--set m=100000 --set k=100000", "a matrix of 10000000000 elements is larger"),
    ],
)
def test_a_matrix_of_no_elements_or_too_many_is_one_line(simgen, settings, fact):
    fails(simgen(f"show sparse_gemm_fwd {settings}"), 2, fact)


NO_BLOCKS = {
    "a is 30 x 42, no whole blocks of 4 x 4; make m and k multiples": "m=30 k=42 side=4",
    "10 elements are no whole blocks of 2 x 2; set nonzeros to a multiple of 4": (
        "m=30 k=42 side=2 nonzeros=10"
    ),
    "side is 17; it must be at most 16": "side=17",
}


@pytest.mark.parametrize("fact", NO_BLOCKS)
def test_what_is_no_matrix_of_blocks_is_one_line(simgen, fact):
    settings = " ".join(f"--set {each}" for each in NO_BLOCKS[fact].split())
    fails(simgen(f"show sparse_gemm_fwd {settings}"), 2, fact)


def test_blocks_are_counted_whole(simgen):
    shown = simgen("show sparse:m=64,n=8,k=96,sparsity=0.75,side=8 --json").json()
    blocks = 8 * 12 // 4
    assert shown["total"]["flops"] == 2 * blocks * 64 * 8
    assert shown["total"]["read_bytes"] == 4 * (blocks * 65 + 9 + 96 * 8)


def test_pairs_are_all_those_of_different_places():
    fill = Fill(Distribution.PAIRS, 0.0, 4.0)
    words = generate("positions", TensorSpec((3000,), DType.I32), fill, 1).view(np.uint32)
    pairs = words[:, np.newaxis] >> np.arange(0, 32, 4, np.uint32) & 15
    found, counts = np.unique(pairs, return_counts=True)
    assert found.tolist() == [4, 8, 9, 12, 13, 14]
    assert counts.min() > 0.9 * counts.mean()


def test_positions_that_do_not_ascend_are_one_line(simgen, tmp_path):
    np.savez(tmp_path / "a.npz", **{"structured_gemm.positions": np.full((3, 1), 0x44494444)})
    sizes = "--set m=3 --set n=2 --set k=32"
    assert not simgen(f"show structured_gemm_fwd {sizes} --values a.npz").code
    np.savez(tmp_path / "a.npz", **{"structured_gemm.positions": np.full((3, 1), 0x44144444)})
    fact = "positions of row 0, group 5, are 1 and 0; write two that ascend"
    done = simgen(f"build structured_gemm_fwd {sizes} --values a.npz --target host -o c")
    fails(done, 2, fact)


def test_groups_are_whole(simgen):
    fails(simgen("show structured_gemm_fwd --set k=30"), 2, "k is 30, no whole groups of 4")


def test_strings_of_sparse_products_are_read_again():
    made = operation.parse_operation("sparse:m=7680,n=1,k=2560,sparsity=0.95")
    assert operation.parse_operation(str(made)) == made


def test_show_says_why_scalars_multiply_with_structured_sparsity(simgen):
    shown = "show structured_gemm_fwd --type f16 --plan-for"
    assert "V_SMFMAC is not used" in simgen(f"{shown} mi300a").out
    assert "mma.sp is for k of whole 32s" in simgen(f"{shown} h200 --set k=36").out
    assert "matrix cores" not in simgen(f"{shown} mi210").out
