"""Words that load and store vectors: whole ones, some of their lanes, lanes from anywhere.

    load(p)             loadfirst(p, n)             loadwhere(p, mask)
    store(p, v)         storefirst(p, n, v)         storewhere(p, mask, v)
    gather(p, i)        gatherwhere(p, i, mask)
    scatter(p, i, v)    scatterwhere(p, i, mask, v)

What is not loaded is 0, and its memory is not touched.
"""

from __future__ import annotations

from tfn.lower.codegen.render.c.word import Word


def load(word: Word, gnu: bool) -> str:
    """A whole vector, or the lanes that a number, indices or a mask say."""
    kind, element = word.names["T"], f"const {word.types[0]}_m *"
    lane = "{}[i]" if gnu else "{}.lane[i]"
    takes = [element, *_selectors(word)]
    at = f"a[(s64){lane.format('b')}]" if "gather" in word.does else "a[i]"
    if word.does == "load" and gnu:
        return f"#define {word.name}(a) (*(const {kind}_m *)(a))"
    if word.does == "loadfirst" and gnu:
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
    """As `load`; the vector comes last."""
    kind, element = word.names["T"], f"{word.types[0]}_m *"
    lane = "{}[i]" if gnu else "{}.lane[i]"
    takes = [element, *_selectors(word), kind]
    vector = "abcd"[len(takes) - 1]
    if word.does == "store" and gnu:
        return f"#define {word.name}(a, b) (void)(*({kind}_m *)(a) = (b))"
    if word.does == "storefirst" and gnu:
        size = int(word.types[0][1:]) // 8
        return word.gnu("void", takes, f"__builtin_memcpy(a, &c, (unsigned)b * {size}u);")
    at = f"a[(s64){lane.format('b')}]" if "scatter" in word.does else "a[i]"
    condition = _condition(word, lane)
    statement = f"{at} = {lane.format(vector)};"
    statement = f"if ({condition}) {statement}" if condition else statement
    if gnu:
        lines = [statement.replace("[i]", f"[{i}]") for i in range(word.lanes)]
        return word.gnu("void", takes, "\n  ".join(lines))
    return word.function("void", takes, f"for (int i = 0; i < {word.lanes}; ++i) {{ {statement} }}")


def _selectors(word: Word) -> list[str]:
    """The types of what says which lanes, and where they are."""
    index = [word.of("u64")] if word.does.startswith(("gather", "scatter")) else []
    which = ["int"] if word.does.endswith("first") else []
    return index + which + ([word.names["U"]] if word.does.endswith("where") else [])


def _condition(word: Word, lane: str) -> str:
    if word.does.endswith("first"):
        return "i < b"
    if word.does.endswith("where"):
        return lane.format("bc"[len(_selectors(word)) - 1])
    return ""
