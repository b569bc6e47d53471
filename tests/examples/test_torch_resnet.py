"""A network of PyTorch is trained by both, and written as C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch_resnet

from tests.torch.beside import MARKS

pytestmark = [*MARKS, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_both_have_the_same_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert torch_resnet.main(["--smoke", "--folder", str(tmp_path)]) == 0
    apart = re.search(r"apart by ([\d.e-]+);", capsys.readouterr().out)
    assert apart and float(apart[1]) < 1e-4
    assert {"resnet.c", "resnet.h"} <= {file.name for file in tmp_path.iterdir()}
