"""The bound of 1 / sqrt(variance + epsilon) holds on both sides of the variance."""

from __future__ import annotations

import numpy as np
import pytest

from simgen.layers.norm.batch_norm_errors import inverse_root


@pytest.mark.parametrize("var", [0.0, 1e-12, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("share", [0.0, 1e-7, 1e-3, 2.0])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-5])
def test_what_a_kernel_may_have_is_within_the_bound(var: float, share: float, epsilon: float):
    """Rows of one number, whose computed variance can only be too large, are among them."""
    off = share * max(var, epsilon)
    r, bound = inverse_root(np.array(var), np.array(off), epsilon)
    for computed in np.linspace(max(var - off, 0.0), var + off, 11):
        assert abs(1 / np.sqrt(computed + epsilon) - r) <= bound
