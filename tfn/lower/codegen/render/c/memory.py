"""Words that load and store vectors: contiguous, a prefix, masked, gathered and scattered.

    load(p)             loadfirst(p, n)             loadwhere(p, mask)
    store(p, v)         storefirst(p, n, v)         storewhere(p, mask, v)
    gather(p, i)        gatherwhere(p, i, mask)
    scatter(p, i, v)    scatterwhere(p, i, mask, v)

Lanes that are not loaded are 0, and their memory is not touched.
"""

from __future__ import annotations

from tfn.lower.codegen.render.c.word import Word


def load(word: Word, gnu: bool) -> str:
    """A contiguous vector, or lanes selected by a count, a mask or indices."""
    kind, element = word.names["T"], f"const {word.types[0]}_m *"
    lane = "{}[i]" if gnu else "{}.lane[i]"
    takes = [element, *_selectors(word)]
    at = f"a[(s64){lane.format('b')}]" if "gather" in word.operation else "a[i]"
    if word.operation == "load" and gnu:
        return f"#define {word.name}(a) (*(const {kind}_m *)(a))"
    if word.operation == "loadfirst" and gnu:
        size = int(word.types[0][1:]) // 8
        copy = f"__builtin_memcpy(&y, a, (unsigned)b * {size}u);"
        return word.gnu(kind, takes, f"{kind} y = {{0}};\n  {copy}\n  return y;")
    condition = _condition(word, lane)
    value = f"{condition} ? {at} : 0" if condition else at
    if gnu:
        values = ", ".join(value.replace("[i]", f"[{i}]") for i in range(word.lanes))
        return word.gnu(kind, takes, f"return ({kind}){{{values}}};")
    return word.vector(kind, takes, value)


def store(word: Word, gnu: bool) -> str:
    """As `load`; the vector is the last operand."""
    kind, element = word.names["T"], f"{word.types[0]}_m *"
    lane = "{}[i]" if gnu else "{}.lane[i]"
    takes = [element, *_selectors(word), kind]
    vector = "abcd"[len(takes) - 1]
    if word.operation == "store" and gnu:
        return f"#define {word.name}(a, b) (void)(*({kind}_m *)(a) = (b))"
    if word.operation == "storefirst" and gnu:
        size = int(word.types[0][1:]) // 8
        return word.gnu("void", takes, f"__builtin_memcpy(a, &c, (unsigned)b * {size}u);")
    at = f"a[(s64){lane.format('b')}]" if "scatter" in word.operation else "a[i]"
    condition = _condition(word, lane)
    statement = f"{at} = {lane.format(vector)};"
    statement = f"if ({condition}) {statement}" if condition else statement
    if gnu:
        lines = [statement.replace("[i]", f"[{i}]") for i in range(word.lanes)]
        return word.gnu("void", takes, "\n  ".join(lines))
    return word.function("void", takes, f"for (int i = 0; i < {word.lanes}; ++i) {{ {statement} }}")


def _selectors(word: Word) -> list[str]:
    """The types of the operands that select lanes: indices, a count or a mask."""
    index = [word.of("u64")] if word.operation.startswith(("gather", "scatter")) else []
    which = ["int"] if word.operation.endswith("first") else []
    return index + which + ([word.names["U"]] if word.operation.endswith("where") else [])


def _condition(word: Word, lane: str) -> str:
    if word.operation.endswith("first"):
        return "i < b"
    if word.operation.endswith("where"):
        return lane.format("bc"[len(_selectors(word)) - 1])
    return ""
