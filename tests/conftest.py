"""For all tests: shared modules can be imported, and no test fails because a machine is slow."""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("layer_bundles", "layer_variants")
settings.register_profile("simgen", deadline=None)
settings.load_profile("simgen")
