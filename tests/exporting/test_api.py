"""`tfn.export`, called and by its parts."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

import tfn


def test_it_is_a_function_with_parts(tmp_path: Path) -> None:
    x = np.ones(3, "float32")
    made = tfn.export(lambda x: x * 2, x, path=tmp_path / "twice.c")
    assert [file.name for file in made.files] == ["twice.c", "twice.h"]
    data = tfn.export.serialize(lambda x: x * 2, x)
    assert tfn.export.export(tfn.jit(lambda x: x * 2))(x).serialize() == data
    np.testing.assert_array_equal(tfn.export.deserialize(data).call(x), 2 * x)
    assert repr(tfn.export) == "<tfn.export>"
    assert list(inspect.signature(tfn.export).parameters)[:3] == ["function", "args", "path"]
