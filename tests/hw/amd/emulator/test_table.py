"""The table: its rows are whole, and each instruction has one meaning."""

from __future__ import annotations

import pytest

from tfn.hw.amd.emulator.encodings import REGISTERS
from tfn.hw.amd.emulator.instructions import SPECIAL
from tfn.hw.amd.emulator.table import DUAL, FORMATS, VOP3
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
