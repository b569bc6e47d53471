"""Innermost loops of LLVM IR as instructions of a machine, before LLVM has selected any.

    loop3:                                                     phis: values that a round hands on
      %i3 = phi i64 [ 0, %loop2 ], [ %v9, %loop3 ]
      %v1 = phi <32 x i32> [ %v0, %loop2 ], [ %v8, %loop3 ]
      %v5 = getelementptr i32, ptr %v4, i64 %i3                address: made of the index alone
      %v6 = load <32 x i32>, ptr %v5, align 4                  vector-load, writes v:v6
      %v8 = add <32 x i32> %v1, %v6                            vector, reads v:v8 (of before), v:v6
      %v9 = add nsw i64 %i3, 1
      br i1 %v10, label %loop3, label %exit3

What machine code an operation becomes is an estimate by its name and type, good enough to decide
which of them belong to the next iteration; what LLVM then makes of it is measured.

Source: LLVM Language Reference Manual.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfn.extend import frozen
from tfn.lower.pack.instructions import Instruction, Loop

NAME = re.compile(r"%[\w.]+")
_LABEL = re.compile(r"^([\w.]+):$")
_PHI = re.compile(r"^  (%\w+) = phi (.+?) \[ (.+), %(\w+) \], \[ (.+), %(\w+) \]$")
_STEP = re.compile(r"^  (%\w+) = add nsw i64 (%i\d+), 1$")
_BRANCH = re.compile(r"^  br i1 (%\w+), label %(\w+), label %(\w+)$")
_TEST = re.compile(r"^  (%\w+) = icmp slt i64 (%\w+), (\S+)$")
_OPERATION = re.compile(r"^  (?:(%\w+) = )?(\w+) (.*)$")
_CALL = re.compile(r"^(?:tail )?(.+?) @llvm\.([a-z_.]+?)(?:\.[vpif]\d\w*)?\(")
_TYPE = r"(<\d+ x \w+>|[a-z]\w*)"
_CONVERSION = re.compile(rf"^(?:n\w+ )*{_TYPE} .* to {_TYPE}$")
_MASK = re.compile(r"<(\d+) x i32> (?:<[^>]*>|zeroinitializer|poison)$")

MAX_OPERATIONS = 256
"""Operations of the longest loop that is read: more are unrolled so far that little is gained, and
a schedule of them takes seconds."""

PURE = frozenset(
    {
        *("add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "icmp", "select"),
        *("sext", "zext", "trunc", "bitcast", "getelementptr", "shufflevector", "insertelement"),
        *("extractelement", "fadd", "fsub", "fmul", "fneg", "fcmp", "call"),
    }
)
INTRINSICS = frozenset(
    {"fma", "smax", "smin", "umax", "umin", "abs", "fabs", "strip.invariant.group"}
)

# Kinds of `Machine.kinds` by the name of an operation on vectors, or on scalars.
# fmt: off
_ALU = ("add", "sub", "and", "or", "xor", "icmp", "select", "smax", "smin", "umax", "umin", "abs")
_FLOAT = ("fadd", "fsub", "fmul", "fneg", "fabs", "fcmp", "fma")
KINDS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "hexagon": ({
        "load": "vector-load-unaligned", "store": "vector-store-unaligned",
        **dict.fromkeys(_ALU, "vector"), "mul": "vector-multiply-pair",
        **dict.fromkeys(("shl", "lshr", "ashr"), "shift"),
        **dict.fromkeys(("sext", "zext"), "permute-shift"), "trunc": "permute",
        "extractelement": "insert", "splat": "insert",
    }, {
        "load": "load", "store": "store", "mul": "multiply",
        **dict.fromkeys(_ALU, "alu"), **dict.fromkeys(_FLOAT, "float"),
        **dict.fromkeys(("shl", "lshr", "ashr", "sext", "zext", "trunc"), "alu-64"),
    }),
    "x86_64": ({
        "load": "vector-load", "store": "store",
        **dict.fromkeys(_ALU, "vector"), "mul": "vector-multiply",
        **dict.fromkeys(_FLOAT, "float"), "fma": "fma",
        **dict.fromkeys(("shl", "lshr", "ashr"), "vector"),
        **dict.fromkeys(("sext", "zext", "trunc", "extractelement", "splat"), "shuffle"),
    }, {
        "load": "load", "store": "store", "mul": "multiply",
        **dict.fromkeys(_ALU, "alu"), **dict.fromkeys(_FLOAT, "float"), "fma": "fma",
        **dict.fromkeys(("shl", "lshr", "ashr", "sext", "zext", "trunc"), "alu"),
    }),
}
FREE = frozenset({"shufflevector", "insertelement", "bitcast"})
"""Operations that choose parts of registers, and mostly become no instruction."""
# fmt: on


@frozen
class Phi:
    """A value that an iteration hands to the next."""

    name: str
    type: str
    begin: str
    after: str


@frozen
class Operation:
    """A line of the loop: what it defines, "" for a store, and the type of it."""

    text: str
    name: str
    type: str
    operands: tuple[str, ...]


@frozen
class InnerLoop:
    """An innermost loop of LLVM IR.

    Attributes:
        header: the label of its first block, and `latch` that of its last: the same, or the body.
        before: the block that enters it.
        exit: the label of the block after it.
        index: its index, which steps by 1 from `begin` to below `end`.
        phis: the others.
        addresses: operations on the index and what is constant in the loop: anyone may repeat them.
        scheduled: the other operations, in order.
        loop: these as instructions.
    """

    header: str
    latch: str
    before: str
    exit: str
    index: str
    begin: str
    end: str
    phis: tuple[Phi, ...]
    addresses: dict[str, Operation]
    scheduled: tuple[Operation, ...]
    loop: Loop


def blocks(text: str) -> dict[str, list[str]]:
    """The basic blocks of a function by label, each with its lines."""
    out: dict[str, list[str]] = {}
    label = ""
    for line in text.splitlines():
        found = _LABEL.match(line)
        if found:
            label = found[1]
            out[label] = []
        elif line == "}":
            label = ""
        elif label:
            out[label].append(line)
    return out


def inner_loops(text: str, architecture: str) -> list[InnerLoop]:
    """The innermost loops of a kernel that can be read; others are left out.

    Left out are loops with other blocks, with calls, and such that load and store one array.
    """
    parts = blocks(text)
    found = []
    for header in parts:
        loop = _inner_loop(header, parts, architecture)
        if loop is not None:
            found.append(loop)
    return found


def _inner_loop(header: str, parts: dict[str, list[str]], architecture: str) -> InnerLoop | None:
    lines = parts[header]
    branch = _BRANCH.match(lines[-1])
    phis = [m.groups() for m in map(_PHI.match, lines) if m]
    rest = [line for line in lines if " = phi " not in line][:-1]
    if not branch or not phis:
        return None
    if branch[2] == header:  # tested at its end
        latch, out, body = header, branch[3], rest
    elif len(rest) == 1 and parts[branch[2]][-1] == f"  br label %{header}":
        latch, out, body = branch[2], branch[3], parts[branch[2]][:-1] + rest
    else:
        return None
    test = next((m for m in map(_TEST.match, body) if m and m[1] == branch[1]), None)
    step = next((m for m in map(_STEP.match, body) if m), None)
    if not test or not step or test[2] != (step[1] if latch == header else step[2]):
        return None
    if any(row[5] != latch or row[3] == latch for row in phis):
        return None
    before = phis[0][3]
    index = next((row for row in phis if row[0] == step[2] and row[4] == step[1]), None)
    others = tuple(
        Phi(name, type_, begin, after)
        for name, type_, begin, _, after, _ in phis
        if name != step[2]
    )
    if index is None:
        return None
    body = [line for line in body if line not in (test[0], step[0])]
    read = _operations(body, step[2], {phi.name for phi in others})
    if read is None:
        return None
    addresses, scheduled = read
    if not 0 < len(scheduled) <= MAX_OPERATIONS:
        return None
    names = {operation.name for operation in scheduled}
    used = {x for operation in (*addresses.values(), *scheduled) for x in operation.operands}
    if step[1] in used or any(p.after not in names for p in others):
        return None
    instructions = _instructions(addresses, scheduled, others, step[2], architecture)
    if instructions is None:
        return None
    loop = Loop(header, header, instructions, len(instructions))
    return InnerLoop(
        header, latch, before, out, step[2], index[2], test[3], others, addresses, scheduled, loop
    )


def _operations(
    lines: Sequence[str], index: str, carried: set[str]
) -> tuple[dict[str, Operation], tuple[Operation, ...]] | None:
    """Addresses, and operations to be scheduled; None if a line is not understood."""
    defined = {m[1] for m in map(_OPERATION.match, lines) if m and m[1]} | carried
    addresses: dict[str, Operation] = {}
    scheduled = []
    for line in lines:
        match = _OPERATION.match(line)
        if not match:
            return None
        name, op, rest = match[1] or "", match[2], match[3]
        call = _CALL.match(rest) if op == "call" else None
        if op not in PURE | {"load", "store"} or "volatile" in rest or "atomic" in rest:
            return None
        if op == "call" and (not call or call[2] not in INTRINSICS):
            return None
        type_ = _type(op, rest) if op != "store" else ""
        if type_ is None:
            return None
        operands = tuple(NAME.findall(rest))
        operation = Operation(line, name, type_, operands)
        local = [x for x in operands if x in defined or x == index]
        is_address = type_ in ("i64", "i32", "ptr") and op not in ("load", "store")
        if is_address and all(x == index or x in addresses for x in local):
            addresses[name] = operation
        elif op == "getelementptr" or type_ == "ptr":
            return None  # an address that is made of what was loaded
        else:
            scheduled.append(operation)
    return addresses, tuple(scheduled)


def _type(op: str, rest: str) -> str | None:
    """The type of a result."""
    if op in ("getelementptr", "call"):
        call = _CALL.match(rest)
        return "ptr" if op == "getelementptr" else call[1] if call else None
    if op in ("sext", "zext", "trunc", "bitcast"):
        conversion = _CONVERSION.match(rest)
        return conversion[2] if conversion else None
    first = re.search(rf"(?:^|[a-z] ){_TYPE}(?=,? )", rest) if op != "load" else None
    if op == "load":
        first = re.match(rf"^{_TYPE},", rest)
    types = re.findall(r"<\d+ x \w+>|\b(?:i\d+|float|double|half|bfloat|ptr)\b", rest)
    if not types or (op == "load" and not first):
        return None
    if op == "shufflevector":
        mask = _MASK.search(rest)
        return re.sub(r"<\d+", f"<{mask[1]}", types[0]) if mask else None
    if op == "extractelement":
        return str(types[0].split(" x ")[1].rstrip(">"))
    if op in ("icmp", "fcmp"):
        lanes = re.match(r"<(\d+) x", types[0])
        return f"<{lanes[1]} x i1>" if lanes else "i1"
    return str(types[1] if op == "select" else types[0])


def _instructions(
    addresses: dict[str, Operation],
    scheduled: Sequence[Operation],
    phis: Sequence[Phi],
    index: str,
    architecture: str,
) -> tuple[Instruction, ...] | None:
    """Instructions; None if no row describes one, or if the loop loads what it stores."""
    of_vectors, of_scalars = KINDS[architecture]
    types = {operation.name: operation.type for operation in scheduled}
    carried = {phi.name: phi.after for phi in phis}
    position = {operation.name: i for i, operation in enumerate(scheduled)}
    roots = {"load": set[str](), "store": set[str]()}
    loaded: list[str] = []
    out = []

    def register(name: str) -> str:
        return ("v:" if types[name].startswith("<") else "r:") + name

    for i, operation in enumerate(scheduled):
        op = operation.text.split(" = ")[-1].split()[0]
        if op == "call":
            match = _CALL.match(operation.text.split(" call ")[1])
            assert match
            op = match[2]
        is_vector = "<" in (operation.type or operation.text)
        if op in FREE:
            op = "splat" if operation.text.endswith("zeroinitializer") else op
        kind = "free" if op in FREE else (of_vectors if is_vector else of_scalars).get(op)
        if kind is None:
            return None
        reads: list[str] = []
        for name in operation.operands:
            if name in carried:
                if i > position[carried[name]]:
                    return None  # the new value would be read instead of the old one
                name = carried[name]
            if name in types:
                reads.append(register(name))
        address: tuple[str, ...] = ()
        if op in ("load", "store"):
            base, stepped = _base(operation.operands[-1], addresses, index)
            roots[op].add(base)
            address = (f"r:{base}", "r:index") if stepped else (f"r:{base}",)
        writes = (register(operation.name),) if operation.name else (f"m:{i}",)
        if op == "load":
            loaded += writes
        elif op == "store":
            # An element may be overwritten in place once it was read, not before; stores keep their
            # order.
            reads += loaded
            loaded = [*writes]
        access = op if op in ("load", "store") else ""
        out.append(
            Instruction(
                operation.text.strip(),
                kind,
                tuple(dict.fromkeys(reads)),
                writes,
                access=access,
                address=address,
                packet=i,
            )
        )
    if roots["load"] & roots["store"]:
        return None
    step = Instruction("index", "alu", ("r:index",), ("r:index",), packet=len(out))
    return (*out, step)


def _base(name: str, addresses: dict[str, Operation], index: str) -> tuple[str, bool]:
    """The pointer from before the loop that an address begins at, and whether the index is in it.

    The pointer is the first operand of each step.
    """
    seen, stack, stepped = name, [name], False
    while stack:
        top = stack.pop()
        stepped |= top == index
        if top in addresses:
            stack += addresses[top].operands
    while seen in addresses:
        seen = next(x for x in addresses[seen].operands if not x.startswith("%i"))
    return seen, stepped
