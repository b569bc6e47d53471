"""Programs to be written: languages of exported functions."""

from __future__ import annotations

import pytest

from tests.lower.graphs import jaxpr
from tests.lower.loops.test_tensorize import AMX, product
from tfn.exporting import programs
from tfn.lower.languages import Language
from tfn.lower.pipeline import lower


@pytest.mark.parametrize("language", [programs.ALONE, programs.C], ids=["llvm", "c"])
def test_no_process_needs_leave_for_registers(language: Language) -> None:
    """Matrices in registers are for processes that have asked the system for them."""
    made = jaxpr([product(64, 64, 64)])
    assert "tdpbf16ps" in "".join(k.text for k in lower(made, AMX).kernels)
    texts = "".join(k.text for k in lower(made, AMX, language).kernels)
    assert texts and "tdpbf16ps" not in texts
