"""Definitions of words, the portable vector functions of C kernels: ``add_f32x16``.

A kernel's text uses words for all that is not plain C on scalars.  `definitions` finds them in a
text and defines them twice: by the vectors of GCC and Clang, and for other compilers, where a
vector is a struct, lane by lane.

    #define add_f32x16(a, b) ((a) + (b))                                      GCC, Clang
    static f32x16 add_f32x16(f32x16 a, f32x16 b) { ... a.lane[i] + b.lane[i] ... }    others
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tfn.lower.codegen.render.c import division, lanes, memory
from tfn.lower.codegen.render.c.intrinsics import LIBRARY, instruction, x86
from tfn.lower.codegen.render.c.plain import FORMULAS, PLAIN, formula, plain
from tfn.lower.codegen.render.c.word import WORD, Word, parse

_TYPE = re.compile(r"(?<![A-Za-z0-9])([fsu])(\d+)x(\d+)(?![0-9])")

# fmt: off
DEFINE: dict[str, Callable[[Word, bool], str]] = {
    **dict.fromkeys(PLAIN, plain), **dict.fromkeys(FORMULAS, formula),
    **dict.fromkeys(LIBRARY, instruction),
    "quotient": division.quotient,
    "splat": lanes.splat, "steps": lanes.steps, "first": lanes.first, "bits": lanes.bits,
    "mask": lanes.mask, "shuffle": lanes.shuffle, "low": lanes.half, "high": lanes.half,
    "join": lanes.join, "reverse": lanes.reverse, "pairs": lanes.pairs,
    **dict.fromkeys(("load", "loadfirst", "loadwhere", "gather", "gatherwhere"), memory.load),
    **dict.fromkeys(("store", "storefirst", "storewhere", "scatter", "scatterwhere"), memory.store),
}
"""The definition of each operation, from a word, for GNU C or for other compilers."""
# fmt: on


def definitions(text: str, features: frozenset[str]) -> str:
    """The definitions of all words and types in a text, for compilers of either kind.

    Args:
        text: of kernels.
        features: of an x86-64 processor, by LLVM's names; empty for other processors.
    """
    gnu, others = _Definitions(True, features), _Definitions(False, features)
    gnu.define(text)
    others.define(text)
    # Without vectors both are the same: no need of the preprocessor.
    if not gnu.types and gnu.lines == others.lines:
        return "\n".join(gnu.lines)
    parts = [
        "#if TFN_GNU",
        *gnu.typedefs(),
        *gnu.lines,
        "#else",
        *others.typedefs(),
        *others.lines,
        "#endif",
    ]
    return "\n".join(parts)


def scalar_definitions(text: str) -> list[str]:
    """The definitions of the words of a text without vectors, each after those that it uses."""
    words = _Definitions(False, frozenset())
    words.define(text)
    assert not words.types, "a kernel without vectors"
    return words.lines


class _Definitions:
    """Definitions of words and types, in the order in which C needs them."""

    def __init__(self, gnu: bool, features: frozenset[str]) -> None:
        self.gnu, self.features = gnu, features
        self.lines: list[str] = []
        self.types: set[tuple[str, int, int]] = set()
        self.defined: set[str] = set()

    def define(self, text: str) -> None:
        """Define the words of a text, after those that their definitions use."""
        for letter, bits, lanes_ in _TYPE.findall(text):
            self.types |= {(kind, int(bits), int(lanes_)) for kind in {letter, "s", "u"}}
        for match in WORD.finditer(text):
            name = match[0]
            if name not in self.defined and match[1] in DEFINE:
                self.defined.add(name)
                word = parse(name)
                body = DEFINE[word.operation](word, self.gnu)
                special = x86(word, self.features) if self.gnu or not word.lanes else ""
                # Callees first: C needs definitions before their uses.
                self.define(body)
                self.define(special)
                if special and special != body:
                    body = f"#if TFN_X86\n{special}\n#else\n{body}\n#endif"
                if body:
                    self.lines.append(body)

    def typedefs(self) -> list[str]:
        """The types of vectors."""
        lines = []
        for letter, bits, count in sorted(self.types, key=lambda t: (t[1], t[2], t[0])):
            kind, size = f"{letter}{bits}", bits * count // 8
            name = f"{kind}x{count}"
            if self.gnu:
                lines.append(f"typedef {kind} {name} __attribute__((vector_size({size})));")
                if letter != "s":
                    lines.append(
                        f"typedef {kind} {name}_m __attribute__((vector_size({size}), "
                        f"aligned({bits // 8}), may_alias));"
                    )
            elif letter != "s":
                lines.append(f"typedef struct {{ {kind} lane[{count}]; }} {name};")
        return lines
