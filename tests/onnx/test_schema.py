"""The schema: every message that a field names is there, and numbers are not repeated."""

from __future__ import annotations

import numpy as np

from tfn.onnx.schema import BITS, DTYPES, SCHEMAS

SCALARS = {"int", "float", "double", "str", "bytes"}


def test_each_kind_is_a_scalar_or_a_message() -> None:
    for schema in SCHEMAS.values():
        assert {field.kind for field in schema.values()} <= SCALARS | SCHEMAS.keys()
        assert len({field.name for field in schema.values()}) == len(schema)


def test_dtypes_are_all_that_files_have_but_texts() -> None:
    assert set(DTYPES) == set(range(1, 27)) - {8}
    assert len(set(DTYPES.values())) == len(DTYPES)
    assert all(DTYPES[number].itemsize == 1 for number in BITS)
    assert DTYPES[1] == np.float32
