"""Innermost loops of a kernel's assembly code, and how often they run.

    .LBB0_4:      # %loop3                a loop: its block jumps to itself, or ends a hardware loop
        ...                               of LLVM IR's loop number 3, which runs 128 times
        jl .LBB0_4                        within loop 1, which runs for each of 16 tiles

LLVM names the block of LLVM IR in a comment of each label; bounds of loops are read from the IR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from tfn.extend import frozen
from tfn.lower.pack import hexagon, x86
from tfn.lower.pack.instructions import Instruction, Loop

_LABEL = re.compile(r"^(?:(\.LBB\w+):|(?://|#) %bb\.\d+:)")
_BLOCK = re.compile(r"^\s*(?://|#)?.*?(?://|#) %([\w.]+)")
_NUMBER = re.compile(r"^(?:loop|body|stay|exit)(\d+)$")
_PHI = re.compile(r"%i(\d+) = phi i64 \[ ([^,]+),")
_TEST = re.compile(r"icmp slt i64 %(\w+), (\S+)")
_PIPELINED = re.compile(r"^loop(\d+)\.(\w+)$")
_ROUNDS = re.compile(r"%loop(\d+)\.j = phi i64 \[ (\S+),")
_LAST_ROUND = re.compile(r"%loop(\d+)\.more = icmp slt i64 \S+, (\S+)")


class _Block:
    """Lines of a basic block: its label, and its name in LLVM IR."""

    def __init__(self, label: str) -> None:
        self.label, self.name = label, ""
        self.lines: list[str] = []


def _blocks(text: str) -> Iterator[_Block]:
    block = _Block("")
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label:
            yield block
            block = _Block(label[1] or "")
        name = _BLOCK.match(line)
        if name and not block.lines and not block.name:
            block.name = name[1]
        stripped = line.strip()
        if not label and stripped and not stripped.startswith(("#", "//", ".")):
            block.lines.append(line)
    yield block


@frozen
class Code:
    """A function's assembly code.

    Attributes:
        loops: its innermost loops.
        others: packets of the other basic blocks, or instructions of a machine without packets, by
            their names in LLVM IR.
    """

    loops: tuple[Loop, ...]
    others: dict[str, int]


def divided(text: str, architecture: str) -> Code:
    """The innermost loops of assembly code, each of one basic block or two, and the rest of it."""
    read = _hexagon if architecture == "hexagon" else _x86
    blocks = list(_blocks(text))
    loops: list[Loop] = []
    rest = dict(enumerate(blocks))
    for i, block in enumerate(blocks):
        # A loop that is tested at its top is two blocks: the test, and the body that jumps to it.
        for members in ([block], blocks[max(i - 1, 0) : i + 1]):
            loop = read(members[0], members) if members[0].label else None
            if loop is not None:
                loops.append(loop)
                for k in range(i + 1 - len(members), i + 1):
                    rest.pop(k, None)
                break
    others: dict[str, int] = {}
    for block in rest.values():
        packets = len(hexagon.packets(block.lines)[0])
        count = packets if architecture == "hexagon" else len(block.lines)
        others[block.name] = others.get(block.name, 0) + count
    return Code(tuple(loops), others)


def _hexagon(head: _Block, blocks: Sequence[_Block]) -> Loop | None:
    groups, ends = hexagon.packets([line for block in blocks for line in block.lines])
    jump = re.compile(rf"jump\S* {re.escape(head.label)}\b")
    back = any(jump.search(text) for text in (groups[-1] if groups else ()))
    if len(blocks) > 1 and (not back or _leaves_or_loops(blocks[0])):
        return None
    if not (back or ends):
        return None
    items = [item for i, packet in enumerate(groups) for item in hexagon.parsed(packet, i)]
    return _loop(blocks[-1], items, len(groups))


def _leaves_or_loops(head: _Block) -> bool:
    """Whether a block ends a hardware loop, so that the next is outside of it."""
    return hexagon.packets(head.lines)[1]


def _x86(head: _Block, blocks: Sequence[_Block]) -> Loop | None:
    lines = [line.split("#")[0].strip() for block in blocks for line in block.lines]
    if not lines or not re.fullmatch(rf"j\w+\s+{re.escape(head.label)}", lines[-1]):
        return None
    return _loop(blocks[-1], [x86.parsed(line, i) for i, line in enumerate(lines)], len(lines))


def _loop(block: _Block, items: Sequence[Instruction | str], packets: int) -> Loop:
    unknown = next((item for item in items if isinstance(item, str)), "")
    body = tuple(item for item in items if isinstance(item, Instruction))
    return Loop(block.label, block.name, body, packets, unknown)


def executions(llvm_ir: str, tiles: int) -> dict[str, float]:
    """Counts of how often each basic block of a kernel's LLVM IR runs in a launch, by its name.

    Bounds that depend on the index of an outer loop are taken in the middle of it.

    Args:
        llvm_ir: the text of the kernel.
        tiles: iterations of its parallel loop.
    """
    counts: dict[str, float] = {"entry": 1.0}
    values = {"begin": 0.0, "end": float(tiles)}
    tests: dict[str, tuple[str, str]] = {}
    definitions = dict(re.findall(r"%([\w.]+) = (.*)", llvm_ir))
    begins: dict[str, str] = {}
    rounds, last_round = dict(_ROUNDS.findall(llvm_ir)), dict(_LAST_ROUND.findall(llvm_ir))
    for line in llvm_ir.splitlines():
        phi, test = _PHI.search(line), _TEST.search(line)
        if phi:
            begins[phi[1]] = phi[2]
        if test:
            counter = test[1]
            step = re.match(r"add nsw i64 %i(\d+), 1", definitions.get(counter, ""))
            number = step[1] if step else counter[1:]
            if number in begins and (step or counter.startswith("i")):
                tests.setdefault(number, (begins[number], test[2]))
    open_loops: list[float] = []
    for label in re.findall(r"^([\w.]+):", llvm_ir, re.MULTILINE):
        number_of, part = _NUMBER.match(label), _PIPELINED.match(label)
        if part:
            begin, end = (_value(x[part[1]], definitions, values) for x in (rounds, last_round))
            times = max(end - begin, 0.0) if part[2] == "kernel" else 1.0
            counts[label] = times * prod(open_loops)
            values[f"i{part[1]}"] = (begin + end) / 2
            continue
        if number_of and label.startswith("loop"):
            number = number_of[1]
            begin, end = (_value(x, definitions, values) for x in tests.get(number, ("0", "1")))
            # Beside a pipelined loop the old one is for few iterations.
            trips = 0.0 if number in rounds else max(end - begin, 0.0)
            values[f"i{number}"] = (begin + end) / 2
            open_loops.append(trips)
        elif number_of and label.startswith("exit") and open_loops:
            open_loops.pop()
        counts[label] = prod(open_loops)
    return counts


def _value(
    name: str, definitions: Mapping[str, str], values: dict[str, float], depth: int = 0
) -> float:
    """The value of an operand of LLVM IR as far as bounds of loops need it."""
    if not name.startswith("%"):
        return float({"true": 1, "false": 0}.get(name, name))
    key = name[1:]
    if key in values:
        return values[key]
    text = definitions.get(key, "")
    operands = [o.rstrip(",)") for o in re.findall(r"(?:%[\w.]+|(?<=[ (])-?\d+)[,)]?", text)]
    if depth > 40 or not operands:
        return 1.0
    parts = [_value(o, definitions, values, depth + 1) for o in operands]
    rules: dict[str, Callable[..., float]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "sdiv": lambda a, b: a // (b or 1),
        "shl": lambda a, b: a * 2**b,
        "smin": min,
        "smax": max,
        "icmp slt": lambda a, b: float(a < b),
        "icmp sgt": lambda a, b: float(a > b),
        "icmp sle": lambda a, b: float(a <= b),
        "select": lambda c, a, b: a if c else b,
    }
    rule = next((rules[word] for word in rules if word in text), None)
    if rule is None:
        return parts[0]
    count = 3 if text.startswith("select") else 2
    result = float(rule(*parts[-count:])) if len(parts) >= count else parts[0]
    values[key] = result
    return result
