"""NCCL between processes: collectives of two and four, and what happens if one cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import covering
from tfn.dtypes import BOOL, FLOAT32, INT32, INT64, int16
from tfn.hw.cuda import nccl_processes
from tfn.hw.cuda.nccl_processes import Config, UniqueId, combines
from tfn.trace.op import Op

ROOT = Path(__file__).parents[3]
LIMIT_S = 240
"""A job takes some seconds; more if the machine is busy."""


def run(size: int, folder: Path, what: str) -> list[str]:
    """What each process of a job says."""
    command = [sys.executable, "-m", "tests.hw.cuda.job_nccl"]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(size), str(folder), what],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        said = [process.communicate(timeout=LIMIT_S)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert not any(process.returncode for process in started), "\n".join(said)
    return said


@pytest.mark.parametrize("size", [2, 4] if covering.exhaustive else [4])
def test_collectives_go_from_gpu_to_gpu(tmp_path: Path, size: int) -> None:
    """All of them, in groups too; sums of large values by the library."""
    said = run(size, tmp_path, "collectives")
    assert len({*said}) == 1 and int(said[0].split()[0]) > 50


@pytest.mark.parametrize("what", ["absent", "shared"])
def test_if_one_process_has_no_nccl_or_a_gpu_of_others_the_host_carries_the_messages_of_all(
    tmp_path: Path, what: str
) -> None:
    for said in run(2, tmp_path, what):
        assert "runs after initialize()" in said  # what carries them on the host is not there


def test_a_message_that_does_not_come_is_an_error_after_the_deadline(tmp_path: Path) -> None:
    first, _ = run(2, tmp_path, "lost")
    assert "CollectiveTimeoutError" in first and "has not ended in 0.5 s" in first


def test_what_nccl_cannot_do_is_an_error_with_its_words(tmp_path: Path) -> None:
    for said in run(2, tmp_path, "fails"):
        assert "DistributedError: NCCL could not exchange values" in said
        assert "internal error (3), from ncclAllGather" in said


def test_reductions_that_nccl_defines_otherwise_stay_on_the_host() -> None:
    assert combines(Op.ADD, FLOAT32) and combines(Op.MAX, INT64) and combines(Op.MUL, INT32)
    assert not combines(Op.MAX, FLOAT32)  # of a NaN
    assert not combines(Op.ADD, int16.dtype) and not combines(Op.OR, BOOL)
    assert not combines(Op.ADD, np.dtype("complex64"))


def test_records_are_as_the_library_has_them() -> None:
    import ctypes

    assert ctypes.sizeof(UniqueId) == 128
    assert [getattr(Config, name).offset for name in ("magic", "version", "blocking")] == [
        8,
        12,
        16,
    ]
    assert nccl_processes.VERSION == 2 * 10000 + 14 * 100
