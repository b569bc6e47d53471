"""Messages by MPI, in jobs of two and four processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.covering import in_turn
from tests.distributed.jobs import needs_mpi, run
from tfn.distributed import mpi
from tfn.errors import MissingPackageError


@needs_mpi
def test_every_collective_over_two_processes(tmp_path: Path) -> None:
    done = run(2, "job_collectives.py", "bfloat16", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split("right: ")[1]) > 300


DTYPES = ("int8", "uint64", "float16", "complex64", "bool")
"""Of each kind one, in one, two and eight bytes; `job_collectives.py` alone takes all."""


@needs_mpi
def test_every_collective_of_every_kind_over_four_processes(tmp_path: Path) -> None:
    done = run(4, "job_collectives.py", *in_turn(2, DTYPES), folder=tmp_path, TFN_DEVICE="python")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split("right: ")[1]) > 400


def test_without_mpi4py_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    with pytest.raises(MissingPackageError, match="pip install"):
        mpi.MpiTransport()
