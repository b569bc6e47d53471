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
    """Dot products of pairs, added to a sum; of each pair the second product is added first."""
    kind, n = word.types[0], word.lanes
    narrow = f"u16x{2 * n}"
    x, y = ([f"{v}{'' if gnu else '.lane'}[2 * i + {j}]" for v in "bc"] for j in (0, 1))
    start = f"a{'' if gnu else '.lane'}[i]"
    if kind == "f32":
        (x0, y0), (x1, y1) = ([f"unbrain_u32((u32){v})" for v in pair] for pair in (x, y))
        lane = f"fma_f32({x0}, {y0}, fma_f32({x1}, {y1}, {start}))"
    else:
        products = [f"(u32)((s32)(s16){v} * (s32)(s16){u})" for v, u in (x, y)]
        lane = f"{start} + {products[1]} + {products[0]}"
    takes = [word.names["T"], narrow, narrow]
    if not gnu:
        return word.vector(word.names["T"], takes, lane)
    lanes = ", ".join(re.sub(r"\bi\b", str(i), lane) for i in range(n))
    return word.gnu(word.names["T"], takes, f"return ({word.names['T']}){{{lanes}}};")


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
