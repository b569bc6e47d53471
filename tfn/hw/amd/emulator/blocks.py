"""Basic blocks of a kernel, and what is known at their beginnings without running it.

Two facts are found over all paths.  Which masks have all lanes: where the mask of lanes that run
has, results need no selection.  And which registers await a load: a value is poison from the load
until a wait, so that an instruction that reads or writes such a register is an error, as is a
barrier before writes to the memory of the group have been waited for.

    global_load_b32 v1, v0, s[2:3]     v1 is awaited, by vmcnt, as the last load
    s_waitcnt vmcnt(0)                 it is there
    v_add_f32 v2, v1, v1               else: v1 may not have been loaded yet
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from tfn.errors import CompileError
from tfn.extend import frozen
from tfn.hw.amd.emulator.encodings import EXEC, Instruction, Operand, bits

T = TypeVar("T", bound=Hashable)
Register = tuple[str, int]
EXEC_REGISTER: Register = ("s", EXEC)
_OLDEST = 64  # counters have 6 bits


@frozen
class Block:
    """Instructions that run one after the other.

    Attributes:
        begin: the place of the first one.
        instructions: a branch, an end or a barrier is the last one, if there is one.
        after: the places of the blocks that may follow.
    """

    begin: int
    instructions: tuple[Instruction, ...]
    after: tuple[int, ...]


def divided(instructions: Sequence[Instruction]) -> dict[int, Block]:
    """The blocks that are reached, by their places, in order.

    Raises:
        CompileError: if a branch goes to no instruction.
    """
    by_place = {i.at: n for n, i in enumerate(instructions)}
    leaders = {0}
    for i in instructions:
        if _goes(i):
            leaders.add(i.offset)
        if _ends(i):
            leaders.add(i.at + i.size)
    blocks: dict[int, Block] = {}
    waiting = [0]
    while waiting:
        begin = waiting.pop()
        if begin in blocks:
            continue
        if begin not in by_place:
            raise CompileError(
                "a branch of a kernel goes to no instruction",
                got=f"byte {begin:#x}",
                hint="the code object is damaged, or its code ends too early",
            )
        first = last = by_place[begin]
        while (
            not _ends(instructions[last])
            and instructions[last].at + instructions[last].size not in leaders
        ):
            last += 1
            if last == len(instructions):
                break
        own = tuple(instructions[first : last + 1])
        after = _after(own[-1])
        blocks[begin] = Block(begin, own, after)
        waiting += after
    return dict(sorted(blocks.items()))


def _goes(i: Instruction) -> bool:
    return i.row.name.startswith(("s_branch", "s_cbranch"))


def _ends(i: Instruction) -> bool:
    return _goes(i) or i.row.name in ("s_endpgm", "s_barrier")


def _after(i: Instruction) -> tuple[int, ...]:
    following = i.at + i.size
    if i.row.name == "s_endpgm":
        return ()
    if i.row.name == "s_branch":
        return (i.offset,)
    return (i.offset, following) if _goes(i) else (following,)


def _flow(
    blocks: Mapping[int, Block],
    start: T,
    through: Callable[[Block, T], T],
    merge: Callable[[T, T], T],
) -> dict[int, T]:
    """Facts at the beginning of each block, merged over all paths."""
    known = {0: start}
    waiting = [0]
    while waiting:
        begin = waiting.pop()
        result = through(blocks[begin], known[begin])
        for after in blocks[begin].after:
            merged = merge(known[after], result) if after in known else result
            if after not in known or merged != known[after]:
                known[after] = merged
                waiting.append(after)
    return known


# Masks of all lanes.


def full_masks(blocks: Mapping[int, Block], full: bool) -> dict[int, frozenset[Register]]:
    """The scalar registers that are known to have all lanes, at the beginning of each block.

    Args:
        blocks: of a kernel.
        full: whether all lanes run at first.
    """

    def through(block: Block, known: frozenset[Register]) -> frozenset[Register]:
        for i in block.instructions:
            known = with_full_masks(i, known)
        return known

    start = frozenset({EXEC_REGISTER}) if full else frozenset[Register]()
    return _flow(blocks, start, through, lambda a, b: a & b)


def with_full_masks(i: Instruction, known: frozenset[Register]) -> frozenset[Register]:
    """The masks of all lanes after an instruction."""
    written = i.writes
    if not any(kind == "s" for kind, _ in written):
        return known
    name, full = i.row.name, frozenset[Register]()

    def has_all(o: Operand) -> bool:
        ones = o.kind == "k" and o.at == 0xFFFFFFFF
        return ones or (o.kind == "s" and (o.kind, o.at) in known)

    to = (i.to[0].kind, i.to[0].at) if i.to else EXEC_REGISTER
    if (name == "s_mov_b32" and has_all(i.of[0])) or (
        name == "s_or_b32" and (has_all(i.of[0]) or has_all(i.of[1]))
    ):
        full = frozenset({to})
    elif "saveexec" in name and EXEC_REGISTER in known:
        full = frozenset({to})
        if name.startswith("s_or_saveexec"):
            full |= {EXEC_REGISTER}
    return (known - written) | full


# Loads that are waited for.

VM, LGKM = "vmcnt", "lgkmcnt"
_UNORDERED = -1


@frozen
class _Awaited:
    """A register that a load will write.

    Attributes:
        register: that register.
        counter: by which it is waited for; both for an access that may go to either memory.
        age: the later loads of the counter; -1 where they may finish in any order.
        load: the place of the load.
    """

    register: Register
    counter: str
    age: int
    load: int


_LDS_WRITE: Register = ("lds", 0)
"""Stands for writes to the memory of the group, which a barrier needs to be waited for."""
State = frozenset[_Awaited]


def check_waits(blocks: Mapping[int, Block]) -> None:
    """Check that no register is used while a load of it may be in flight.

    Raises:
        CompileError: naming the instruction, the register and the load.
    """
    names = {i.at: i.name for block in blocks.values() for i in block.instructions}

    def through(block: Block, state: State) -> State:
        for i in block.instructions:
            state = _after_instruction(i, state, names)
        return state

    _flow(blocks, State(), through, _merged)


def _merged(a: State, b: State) -> State:
    """Awaited on any path, as the youngest."""
    youngest: dict[tuple[Register, str], _Awaited] = {}
    for one in sorted(a | b, key=lambda w: (-w.age, w.load)):
        youngest[one.register, one.counter] = one
    return State(youngest.values())


def counters(i: Instruction) -> tuple[str, ...]:
    """The counters of the loads that an instruction begins."""
    name = i.row.name
    if i.form == "SMEM" and i.to:
        return (LGKM,)
    if i.form == "DS":
        return (LGKM,)
    if i.form == "FLAT":
        return (VM, LGKM) if i.to else (LGKM,)
    return (VM,) if i.form in ("GLOBAL", "SCRATCH") and "_load_" in name else ()


def _after_instruction(i: Instruction, state: State, names: Mapping[int, str]) -> State:
    if i.row.name.startswith("s_waitcnt"):
        return _waited(i, state)
    reads, unordered, own_counters = i.reads, i.form in ("SMEM", "FLAT"), counters(i)
    if i.row.name == "s_barrier":
        reads = frozenset({_LDS_WRITE})
    for one in sorted(state, key=lambda w: w.load):
        # Loads of one counter finish in their order, and so write a register in that order.
        follows = one.counter in own_counters and not unordered and one.age != _UNORDERED
        if one.register in reads or (one.register in i.writes and not follows):
            raise _missing_wait(i, one, names)
    for counter in own_counters:
        aged = (
            one
            if one.counter != counter or one.age == _UNORDERED
            else _Awaited(one.register, counter, min(one.age + 1, _OLDEST), one.load)
            for one in state
        )
        loaded = i.writes or ({_LDS_WRITE} if i.form == "DS" else set())
        age = _UNORDERED if unordered else 0
        own = (_Awaited(register, counter, age, i.at) for register in loaded)
        state = _merged(State(aged), State(own))
    return state


def _waited(i: Instruction, state: State) -> State:
    """The loads that are awaited still after a wait."""
    limits = _limits(i)

    def stays(one: _Awaited) -> bool:
        limit = limits.get(one.counter, _OLDEST)
        if limit == 0:
            return False
        if one.age == _UNORDERED:
            return True
        # Loads that may finish in any order may be those that the counter has counted.
        mixed = any(w.counter == one.counter and w.age == _UNORDERED for w in state)
        return mixed or one.age < limit

    return State(one for one in state if stays(one))


def _limits(i: Instruction) -> dict[str, int]:
    """The most loads in flight after a wait, by counter."""
    name, value = i.row.name, i.offset
    if name == "s_waitcnt":
        return {VM: bits(value, 10, 6), LGKM: bits(value, 4, 6)}
    return {name.removeprefix("s_waitcnt_"): value & 63}


def _missing_wait(i: Instruction, one: _Awaited, names: Mapping[int, str]) -> CompileError:
    kind, number = one.register
    what = "the memory of the group" if kind == "lds" else f"{kind}{number}"
    done = "passes while writes to it" if kind == "lds" else "uses it while a load of it"
    return CompileError(
        f"a wait is missing: {i.name} at byte {i.at:#x} of a kernel {done} may be in flight",
        got=f"{what}, by {names[one.load]} at byte {one.load:#x}",
        hint=f"s_waitcnt {one.counter}(0) before it",
    )
