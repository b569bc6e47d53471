"""Instructions of an inner loop: registers read and written, and the memory that is accessed."""

from __future__ import annotations

from tfn.extend import frozen


@frozen
class Instruction:
    """One instruction of a loop.

    Attributes:
        text: as the assembly code has it.
        kind: its name in `Machine.kinds`.
        reads, writes: registers; a pair is two.
        accumulates: those of `reads` that it also writes, as the sum of a multiply-add.
        within: those of `reads` whose value is that of the same packet.
        access: "load", "store", "both" or "".
        address: registers of the address, and `place`, its text; empty without an access.
        packet: the number of its packet; without packets, of the instruction.
        extenders: further slots for the upper bits of an immediate.
    """

    text: str
    kind: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    accumulates: frozenset[str] = frozenset()
    within: frozenset[str] = frozenset()
    access: str = ""
    address: tuple[str, ...] = ()
    place: str = ""
    packet: int = 0
    extenders: int = 0


@frozen
class Loop:
    """An innermost loop.

    Attributes:
        label: of its first instruction.
        name: of its basic block in LLVM IR.
        body: its instructions in order.
        packets: the number of packets; without packets, of instructions.
        unknown: an instruction that no row describes, or "": then there is no schedule.
    """

    label: str
    name: str
    body: tuple[Instruction, ...]
    packets: int
    unknown: str = ""
