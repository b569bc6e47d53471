"""The table: its rows are whole, and their meanings are those of AMD's own pseudocode."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from tests.hw.amd.emulator import pseudocode
from tests.hw.amd.emulator.test_meaning import evaluated
from tfn.hw.amd.emulator.encodings import REGISTERS
from tfn.hw.amd.emulator.instructions import SPECIAL
from tfn.hw.amd.emulator.table import DUAL, FORMATS, SOP1, SOP2, SOPC, VOP1, VOP2, VOP3, VOPC, Row
from tfn.hw.amd.emulator.values import DTYPES

IMPLICIT = {"scc", "exec", "vcc", "to", "to_i32", "to_u32", "k", "simm", "uimm", "address", "mix"}


@pytest.mark.parametrize("form", FORMATS)
def test_operands_are_of_known_types(form: str) -> None:
    for row in FORMATS[form].values():
        for kind in (*row.to, *row.of):
            bare = kind.removeprefix("lo_").removeprefix("hi_")
            assert bare in DTYPES or bare in REGISTERS or bare in IMPLICIT, row.name


def test_a_row_that_computes_has_a_meaning() -> None:
    lacking = {
        row.name
        for form, rows in FORMATS.items()
        if form not in ("SMEM", "DS", "FLAT", "SCRATCH", "GLOBAL")
        for row in rows.values()
        if row.to and row.meaning is None
    }
    assert lacking <= set(SPECIAL)


def test_names_are_of_one_number_in_each_format() -> None:
    for form, rows in FORMATS.items():
        names = [row.name for row in rows.values()]
        assert len(names) == len(set(names)), form
    assert all(row in VOP3.values() or "k" in row.of for row in DUAL.values())


needs_pseudocode = pytest.mark.skipif(
    not find_spec("tinygrad"),
    reason="AMD's pseudocode is NOT there: pip install --no-deps tinygrad==0.14.0 brings it",
)

ELSEWHERE = (
    *("v_rcp", "v_rsq", "v_sqrt", "v_exp", "v_log", "v_sin", "v_cos"),
    *("v_ldexp", "v_div_"),
    "v_fract",  # which LLVM selects for a fraction below 1; the text lets it round to 1
)
"""Instructions whose last bits the manual leaves open, and those that `test_floats` divides by."""
MIN_ROWS = 230
SAMPLES = 60


def rows() -> dict[str, Row]:
    """The rows of single lanes, by name."""
    found = {}
    for table in (SOP1, SOP2, SOPC, VOP1, VOP2, VOP3, VOPC):
        for row in table.values():
            simple = all(t in DTYPES or t in ("to", "vcc", "scc") for t in (*row.of, *row.to))
            if row.meaning and simple and not row.name.startswith(ELSEWHERE):
                found[row.name] = row
    return found


def operand(kind: str, rng: np.random.Generator) -> Any:
    """Operands of a type: special ones, then random ones."""
    dtype = np.dtype(bool) if kind in ("scc", "vcc") else DTYPES[kind]
    if dtype.kind == "b":
        return rng.integers(0, 2, SAMPLES).astype(bool)
    bits = 8 * dtype.itemsize
    special = [0, 1, 2, 31, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
    if dtype.kind == "f":
        special = [
            raw
            for x in (0.0, 1.0, 1.5, np.inf, 0.5, 3e4)
            for raw in (pseudocode.raw_bits(dtype.type(x)), pseudocode.raw_bits(dtype.type(-x)))
        ]
    picked = [special[i] for i in rng.integers(0, len(special), SAMPLES // 2)]
    drawn = [int.from_bytes(rng.bytes(8), "little") for _ in range(SAMPLES - len(picked))]
    numbers = [x & ((1 << bits) - 1) for x in (*picked, *drawn)]
    return np.array(numbers, f"uint{bits}").view(dtype)


def compared(row: Row, text: str) -> int:
    """The samples on which a row and its pseudocode differ."""
    code = compile(pseudocode.source(text), row.name, "exec")
    rng = np.random.default_rng(len(row.name))
    kinds = [row.to[0] if kind == "to" else kind for kind in row.of]
    values = [operand(kind, rng) for kind in kinds]
    assert row.meaning is not None
    got = evaluated(row.meaning, *values)
    wrong = 0
    for n in range(SAMPLES):
        carries = [int(v[n]) for v in values if v.dtype == bool]
        raws = [pseudocode.raw_bits(v[n]) for v in values if v.dtype != bool]
        out = pseudocode.run(code, raws, carries[0] if carries else 0)
        for to, result in zip(row.to, got, strict=True):
            is_second = to == "scc" or (to == "mask" and len(row.to) > 1)
            expected, have = out["carry" if is_second or "D0" not in out else "D0"], result[n]
            both_nan = have.dtype.kind == "f" and np.isnan(have)
            bits = 8 * have.dtype.itemsize
            if both_nan:
                wrong += not np.isnan(pseudocode.reinterpreted(expected, to))
            elif have.dtype == bool:
                wrong += bool(expected) != bool(have)
            else:
                wrong += (expected - pseudocode.raw_bits(have)) % (1 << bits) != 0
    return wrong


@needs_pseudocode
def test_rows_have_the_values_of_the_pseudocode() -> None:
    texts, wrong, done = pseudocode.texts(), {}, 0
    for name, row in rows().items():
        if name not in texts:
            continue
        try:
            differ = compared(row, texts[name])
        except (SyntaxError, NameError, KeyError, TypeError, AttributeError):
            continue  # the reader does not know a word of it
        done += 1
        if differ:
            wrong[name] = differ
    assert not wrong, f"{len(wrong)} of {done} rows differ: {wrong}"
    assert done >= MIN_ROWS
