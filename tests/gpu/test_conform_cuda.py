"""The probe of PTX on a real GPU, which is what its description is checked against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simgen.errors import MissingError
from simgen_examine.conform.judging import Found
from simgen_examine.conform.ptx.machines import DriverMachine
from simgen_examine.conform.ptx.trial import PtxTrial

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

try:
    DriverMachine().device()
except MissingError as error:
    pytest.skip(str(error), allow_module_level=True)


def test_nothing_is_called_wrong(tmp_path: Path):
    found = PtxTrial("cuda").findings(tmp_path)
    assert len(found) > 3500
    told = [(each.form.text, each.found, each.reason, each.examples[:1]) for each in found
            if each.found is not Found.RIGHT]  # fmt: skip
    assert told == []
