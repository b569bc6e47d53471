"""Compilers of microcontrollers: frames of the stack, and targets that have none."""

from __future__ import annotations

import tfn
from tests.exporting.boards import needs_boards
from tfn.exporting.compilers import LIBRARY_BYTES, built, stack_bytes


def test_the_deepest_stack_is_that_of_the_deepest_call() -> None:
    frames = [("made", 32), ("made.c:k1", 40), ("made.c:k2.constprop.0", 56), ("made.c:dot", 8)]
    lines = [
        f'node: {{ title: "{name}" label: "{name}\\nmade.c:1:5\\n{size} bytes (static)" }}'
        for name, size in frames
    ]
    calls = [("made", "made.c:k1"), ("made", "made.c:k2.constprop.0"), ("made.c:k1", "made.c:dot")]
    lines += [f'edge: {{ sourcename: "{a}" targetname: "{b}" label: "1:5" }}' for a, b in calls]
    assert stack_bytes("\n".join(lines)) == 32 + 56
    lines += ['node: { title: "__aeabi_fmul" label: "__aeabi_fmul\\n<built-in>" shape : ellipse }']
    lines += ['edge: { sourcename: "made.c:dot" targetname: "__aeabi_fmul" label: "2:7" }']
    assert stack_bytes("\n".join(lines)) == 32 + 40 + 8 + LIBRARY_BYTES


def test_code_that_does_not_compile_and_other_targets_have_no_figures() -> None:
    from tfn.exporting.microcontrollers import MICROCONTROLLERS

    assert built("this is not C", MICROCONTROLLERS["cortex-m4"]) is None
    assert built("", tfn.extend.host()) is None


@needs_boards
def test_weak_functions_in_place_of_a_library_count_as_code() -> None:
    from tfn.exporting.microcontrollers import MICROCONTROLLERS

    text = "__attribute__((weak)) int both(int a) { return a * 3; }"
    made = built(text, MICROCONTROLLERS["cortex-m0+"])
    assert made is not None and made.code_bytes == made.functions["both"] > 0
