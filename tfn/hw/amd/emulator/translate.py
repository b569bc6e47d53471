"""Translator: the machine code of a kernel as one function of the host, in LLVM IR.

A wave is a call.  Scalar registers are values; vector registers are memory of the wave's state, 32
words each.  While a block is read the values of registers are UOps, so that equal values are
computed once, and values that nothing reads are not computed at all.  Then the block is written as
loops over the lanes, 8 at a time, between what needs all lanes: accesses to memory, values of other
lanes, and masks as words::

    global_load_b32 v1, v[4:5]     loop: 8 addresses      then one call of `memory.ll`
    v_add_f32 v2, v1, v1
    global_store_b32 v[6:7], v2    loop: 8 addresses, v1 + v1, v2 for later blocks; then one call

A mask of lanes in a scalar register stays a vector of bools for as long as nothing asks for its
bits.  A wave that meets a barrier stores the scalar registers that live on, and returns the number
of the place where it goes on; after a fault it returns at its next jump back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfn.hw.amd.emulator.blocks import Register
from tfn.hw.amd.emulator.encodings import Instruction
from tfn.hw.amd.emulator.instructions import read_block
from tfn.hw.amd.emulator.values import Values
from tfn.hw.amd.emulator.write import Wave, Writer


def translated(
    name: str,
    instructions: Sequence[Instruction],
    start: Mapping[Register, str],
    full: bool,
    private_bytes: int = 0,
) -> Wave:
    """A kernel as a function of the host.

    Args:
        name: of the function.
        instructions: of the kernel.
        start: the registers that a launch sets, by their names in the entry.
        full: whether all lanes of all waves run at first.
        private_bytes: of the memory of a thread.

    Raises:
        CompileError: for an instruction that has no meaning, or a wait that is missing.
    """
    values = Values(name, instructions, start, full, private_bytes)
    for begin, block in values.blocks.items():
        read_block(values, begin, block)
    return Writer(values).kernel()
