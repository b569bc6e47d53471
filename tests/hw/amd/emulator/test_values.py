"""Values of a kernel as it is read: masks, words and pairs."""

from __future__ import annotations

import pytest

from tests.hw.amd.devices import needs_llvm
from tests.hw.amd.emulator.assembled import instructions
from tfn.dtypes import BOOL, FLOAT64
from tfn.extend import UOp, const
from tfn.hw.amd.emulator.encodings import VCC, Operand
from tfn.hw.amd.emulator.instructions import read_block
from tfn.hw.amd.emulator.meaning import LANES, U32
from tfn.hw.amd.emulator.values import SCC, Values

pytestmark = needs_llvm


def after(lines: str, full: bool = True) -> Values:
    """The values after lines of one block."""
    values = Values("k", instructions(f"{lines}\ns_endpgm"), {}, full, 0)
    read_block(values, 0, values.blocks[0])
    return values


def test_a_mask_stays_a_vector_of_bools_until_its_bits_are_asked_for() -> None:
    v = after("v_cmp_lt_i32 vcc_lo, v1, v2\ns_and_b32 s0, vcc_lo, s1\ns_mov_b32 s2, vcc_lo")
    mask = v.register(("s", VCC))
    assert mask.dtype == BOOL and mask.shape == (LANES,)
    assert v.register(("s", 0)).shape == (LANES,) and v.register(("s", 2)) is mask
    word = v.bits_of(mask)
    assert word.dtype == U32 and word.shape == () and v.lanes_of(word) is mask
    assert v.register(SCC).shape == ()


def test_the_words_of_a_pair_are_that_pair_again() -> None:
    v = after("v_add_f64 v[2:3], v[4:5], v[6:7]")
    total = v.read(Operand("v", 2, "f64"), (LANES,))
    assert total.dtype == FLOAT64 and total.op.value == "add"


@pytest.mark.parametrize(("word", "value"), [(0xFFFFFFFF, True), (0, False)])
def test_a_constant_mask_is_one(word: int, value: bool) -> None:
    v = after("s_nop 0")
    found: UOp = v.lanes_of(const(word, U32))
    assert found is const(value, BOOL, (LANES,))
