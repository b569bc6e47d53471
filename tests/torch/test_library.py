"""PyTorch as an optional package."""

from __future__ import annotations

import sys

import pytest

from tfn.errors import NotAvailableError
from tfn.torch.library import pytorch


def test_an_error_says_how_to_install_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NotAvailableError, match=r"pip install 'tfn\[torch\]'"):
        pytorch.__wrapped__()
