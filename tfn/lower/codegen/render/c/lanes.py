"""Words that make vectors, shuffle them, take them apart, and reinterpret their bits."""

from __future__ import annotations

import re

from tfn.lower.codegen.render.c.word import Word


def splat(word: Word, gnu: bool) -> str:
    """A scalar in every lane."""
    return _each(word, gnu, word.types[0], ["(a)"] * word.lanes, "a")


def steps(word: Word, gnu: bool) -> str:
    """0, a, 2 a, ..."""
    kind = word.types[0]
    values = [f"({kind}){i} * ({kind})(a)" for i in range(word.lanes)]
    return _each(word, gnu, kind, values, f"({kind})i * a")


def first(word: Word, gnu: bool) -> str:
    """A mask of the first `a` lanes."""
    kind = word.types[0]
    values = [f"{i} < (a) ? ({kind})-1 : 0" for i in range(word.lanes)]
    return _each(word, gnu, "int", values, f"-({kind})(i < a)")


def _each(word: Word, gnu: bool, takes: str, values: list[str], lane: str) -> str:
    kind = word.names["T"]
    if gnu:
        return f"#define {word.name}(a) (({kind}){{{', '.join(values)}}})"
    return word.vector(kind, [takes], lane)


def bits(word: Word, gnu: bool) -> str:
    """The same bits as another type."""
    names = word.names
    if gnu and word.lanes:
        return f"#define {word.name}(a) (({names['R']})(a))"
    if word.lanes:
        return word.lane_by_lane(names["R"], [names["T"]])
    body = f"union {{ {names['t']} a; {names['r']} y; }} same;\n  same.a = a;\n  return same.y;"
    return word.function(names["r"], [names["t"]], body)


def mask(word: Word, gnu: bool) -> str:
    """A mask for lanes of another width."""
    names = word.names
    if gnu:
        inner = f"__builtin_convertvector(({names['S']})(a), {names['W']})"
        return f"#define {word.name}(a) (({names['V']}){inner})"
    return word.vector(names["V"], [names["T"]], f"({names['v']})({names['s']})a.lane[i]")


def shuffle(word: Word, gnu: bool) -> str:
    """Lanes selected from two vectors, by constant numbers."""
    if gnu:
        return f"#define {word.name}(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)"
    kind, n = word.names["T"], word.lanes
    picker = Word(f"{word.name}_by", "", word.types, n)
    lane = f"c[i] < {n} ? a.lane[c[i]] : b.lane[c[i] - {n}]"
    function = picker.vector(kind, [kind, kind, "const int *"], lane)
    call = f"{picker.name}(a, b, (const int[]){{__VA_ARGS__}})"
    return f"{function}\n#define {word.name}(a, b, ...) {call}"


def half(word: Word, gnu: bool) -> str:
    """The lower or upper half of the lanes; of two lanes, or of one, a scalar."""
    kind, n = word.types[0], word.lanes // 2
    start = 0 if word.operation == "low" else n
    if n <= 1:
        return f"#define {word.name}(a) ((a){'' if gnu else '.lane'}[{start}])"
    if gnu:
        order = ", ".join(str(start + i) for i in range(n))
        return f"#define {word.name}(a) __builtin_shufflevector(a, a, {order})"
    part = Word(word.name, word.operation, word.types, n)
    return part.vector(f"{kind}x{n}", [word.names["T"]], f"a.lane[{start} + i]")


def pairs(word: Word, gnu: bool) -> str:
    """Dot products of neighbours, added to a sum, the last ones first.

    Integers of 16 bits are signed; of bytes the first ones are not, the second ones are.
    """
    (narrow, kind), n = word.types, word.lanes
    count = int(kind[1:]) // int(narrow[1:])
    lane = f"a{'' if gnu else '.lane'}[i]"
    for j in reversed(range(count)):
        x, y = (f"{v}{'' if gnu else '.lane'}[{count} * i + {j}]" for v in "bc")
        if kind == "f32":
            lane = f"fma_f32(unbrain_u32((u32){x}), unbrain_u32((u32){y}), {lane})"
        else:
            first = "u8" if narrow == "u8" else "s16"
            product = f"(s32)({first}){x} * (s32)(s{narrow[1:]}){y}"
            lane = f"({kind})({lane} + ({kind})({product}))"
    result, operands = word.names["R"], f"{narrow}x{count * n}"
    takes = [result, operands, operands]
    if not gnu:
        return word.vector(result, takes, lane)
    lanes = ", ".join(re.sub(r"\bi\b", str(i), lane) for i in range(n))
    return word.gnu(result, takes, f"return ({result}){{{lanes}}};")


def join(word: Word, gnu: bool) -> str:
    """Two vectors as one; for GNU vectors only."""
    order = ", ".join(map(str, range(word.lanes)))
    return f"#define {word.name}(a, b) __builtin_shufflevector(a, b, {order})" if gnu else ""


def reverse(word: Word, gnu: bool) -> str:
    """The lanes from last to first."""
    n = word.lanes
    if gnu:
        order = ", ".join(str(n - 1 - i) for i in range(n))
        return f"#define {word.name}(a) __builtin_shufflevector(a, a, {order})"
    return word.vector(word.names["T"], [word.names["T"]], f"a.lane[{n - 1} - i]")
