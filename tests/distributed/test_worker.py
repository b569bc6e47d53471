"""What a worker takes from a controller, and what it refuses."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tfn import make_jaxpr
from tfn import numpy as tnp
from tfn.distributed import wire
from tfn.distributed.worker import Worker
from tfn.exporting.portable import Portable

DATA = Portable.of(make_jaxpr(lambda x: tnp.sin(x) + 1)(np.ones(3, "float32"))).serialize()
DIGEST = hashlib.sha256(DATA).hexdigest()
X = np.arange(3, dtype="float32")


def answer(worker: Worker, *commands: object) -> tuple[object, ...]:
    found: tuple[object, ...] = wire.unpack(worker.answer(wire.pack(commands)))
    return found


def test_commands_in_their_order() -> None:
    worker = Worker()
    status, values = answer(
        worker,
        ("program", DIGEST, DATA),
        ("new", 1, (3,), np.dtype("float32"), None, None, X.tobytes()),
        ("call", DIGEST, (1,), (), None, (2,), None, "f", None, True),
        ("get", 2, None),
        ("free", (1, 7)),
    )
    assert status == "done"
    kinds, data = values  # type: ignore[misc]
    assert kinds == (((3,), np.dtype("float32"), None),)
    np.testing.assert_allclose(np.frombuffer(data, "float32"), np.sin(X) + 1, rtol=1e-6)
    assert set(worker.arrays) == {2}


def test_commands_for_other_workers_are_left_alone() -> None:
    worker = Worker()
    commands = (
        ("new", 1, (3,), np.dtype("float32"), None, (5,), b""),
        ("call", "none", (1,), (), None, (2,), (5,), "f", None, True),
        ("put", 1, (0,), 3, (5,)),
        ("get", 2, (5,)),
    )
    assert answer(worker, *commands) == ("done", (None, None)) and not worker.arrays


@pytest.mark.parametrize(
    ("digest", "data", "kind"),
    [
        ("0" * 64, DATA, "SecurityError"),
        (hashlib.sha256(b"code").hexdigest(), b"code", "ExportError"),
        (hashlib.sha256(DATA[:-1]).hexdigest(), DATA[:-1], "ExportError"),
    ],
)
def test_foreign_programs_are_refused(digest: str, data: bytes, kind: str) -> None:
    worker = Worker()
    assert answer(worker, ("program", digest, data))[:2] == ("error", kind)
    assert not worker.programs


def test_an_unknown_command_is_an_error() -> None:
    assert answer(Worker(), ("run", "rm"))[0] == "error"
