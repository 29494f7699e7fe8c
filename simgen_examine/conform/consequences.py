"""What wrong instructions do to kernels of deep learning, where that is known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen_examine.conform.float_mode import FLUSHING, USUAL

if TYPE_CHECKING:
    from simgen_examine.conform.forms import Form

# A pattern of a form's text, and what happens. The first that matches counts.
_KNOWN = (
    (
        r"\b(clamp|mul:2|mul:4|div:2)",
        "limits and scalings that compilers fold into an instruction are "
        "lost: hard sigmoid, clipped ReLU",
    ),
    (
        r"^v_cmpx?_\w+_f\d+_\S+ .*[-|]",
        "comparisons of |x| and -x: range checks in exp, log and tanh",
    ),
    (r"^v_cndmask.*[-|]", "absolute values and negations that are selected: x < 0 ? -x : y"),
    (r"^v_cmpx?_(n\w+|o|u|lg)_f", "tests for NaN, and the negated comparisons of masked softmax"),
    (r"^v_cmpx?_", "bounds checks, masks and the choice of a branch"),
    (r"^v_mfma", "products on matrix cores: GEMM, convolutions and attention in all types"),
    (r"^ids ", "indices of every kernel whose work-groups have more than one dimension"),
    (r"^v_(div_|rcp_|rsq_|sqrt_)", "divisions and norms: softmax, batch and layer normalisation"),
    (r"^v_(exp|log)_", "softmax, sigmoid, tanh and losses"),
    (r"^v_(sin|cos)_", "positional encodings, Box-Muller random numbers"),
    (
        r"^v_(pk_)?(fma|fmac|mad|mac|fmamk|fmaak|madmk|madak)",
        "every product of matrices: sums are rounded otherwise, and wrong under cancellation",
    ),
    (r"^v_(min|max|med)", "ReLU, max pooling, the maximum of softmax; NaNs are lost or spread"),
    (r"^v_cvt", "conversions between types: mixed precision, quantisation, labels"),
    (
        r"^v_(ffbh|ffbl|bcnt|mbcnt)",
        "clz and ctz in divisions by multiplication and in software floats",
    ),
    (
        r"^v_(mad_[ui]64|lshl_add_u64|addc|subb|add_co|sub_co)",
        "64-bit addresses and counters, Philox dropout",
    ),
    (
        r"_(sdwa|dpp) ",
        "16-bit code and reductions within a wavefront, where compilers use these forms",
    ),
    (r"^v_.*_[ui]?64", "64-bit arithmetic: addresses, random numbers"),
    (r"^v_.*16", "half precision and 16-bit indices"),
    (r"^buffer_", "accesses that end with their tensor without a branch: libraries of kernels"),
    (r"^s_", "loop counters, addresses and branches that all lanes share"),
)


# Loads and stores from each byte of a word on (movements.py, stores.py).
_UNALIGNED = (
    "loads and stores of packed structures; on gem5, a lane's that crosses a 64-byte line and is "
    "no whole number of elements in it loses bytes"
)


def consequence_of(form: Form) -> str:
    """In words; empty where nobody has told."""
    if form.what.startswith("address + "):
        return _UNALIGNED
    if form.mode not in (USUAL, FLUSHING) or form.mnemonic.startswith("s_setreg"):
        return (
            "code that sets how floats are rounded or flushed: division, directed conversions, "
            "and whole programs that are compiled to flush subnormals"
        )
    return next((told for pattern, told in _KNOWN if re.search(pattern, form.text)), "")
