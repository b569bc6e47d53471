"""A first call goes through few files, and seldom from room to room."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.size import ROOT

MOST_FILES, MOST_CHANGES = 195, 375
"""A little more than measured: processors differ in their vectors.  Both may fall."""


def test_the_way_of_a_first_call_is_bounded() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.cold_path"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    files, changes = map(int, re.findall(r"^(\d+) files, (\d+) changes", run.stdout)[0])
    assert 50 < files <= MOST_FILES and 50 < changes <= MOST_CHANGES
    assert "from lower/loops to lower/index" in run.stdout
