"""Compilers of microcontrollers: frames of the stack, and targets that have none."""

from __future__ import annotations

import tfn
from tests.exporting.boards import needs_boards
from tfn.exporting.compilers import built, stack_bytes


def test_the_deepest_stack_has_one_kernel_and_all_else() -> None:
    rows = [("k" + "0" * 20, 40), ("k" + "1" * 20 + ".constprop.0", 56), ("p1", 16), ("made", 32)]
    usage = "".join(f"made.c:1:5:{name}\t{size}\tstatic\n" for name, size in rows)
    assert stack_bytes(usage) == 56 + 16 + 32


def test_code_that_does_not_compile_and_other_targets_have_no_figures() -> None:
    from tfn.exporting.microcontrollers import MICROCONTROLLERS

    assert built("made", "this is not C", "", MICROCONTROLLERS["cortex-m4"]) is None
    assert built("made", "", "", tfn.extend.host()) is None


@needs_boards
def test_weak_functions_in_place_of_a_library_count_as_code() -> None:
    from tfn.exporting.microcontrollers import MICROCONTROLLERS

    text = "__attribute__((weak)) int both(int a) { return a * 3; }"
    made = built("made", text, "", MICROCONTROLLERS["cortex-m0+"])
    assert made is not None and made.code_bytes == made.functions["both"] > 0
