"""A word of C kernels, ``add_f32x16``: an operation, and the type it works on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfn._support.frozen import frozen

REGISTER_BITS = 128
_WIDE = re.compile(r"[fsu](\d+)x(\d+)")
WORD = re.compile(r"\b([a-z]+)((?:_[fsu]\d+){1,2})(?:x(\d+))?(?=\()")


@frozen
class Word:
    """An operation on elements of a type, of so many lanes, 0 for scalars.

    Attributes:
        name: the whole of it.
        does: the operation.
        types: of an element of the operand, and of the result if that is another.
    """

    name: str
    does: str
    types: tuple[str, ...]
    lanes: int

    def of(self, element: str) -> str:
        """The type of as many lanes as the word has."""
        return f"{element}x{self.lanes}" if self.lanes else element

    @property
    def names(self) -> dict[str, str]:
        """What templates may name: T operand, R result, U, S, F of its width, V and W of R's.

        In small letters they are the types of one lane.  {is} makes a mask of a condition.
        """
        t, r = self.types[0], self.types[-1]
        width, other = t[1:], r[1:]
        kinds = {"t": t, "r": r, "u": f"u{width}", "s": f"s{width}", "f": f"f{width}"}
        kinds |= {"v": f"u{other}", "w": f"s{other}"}
        return {
            **kinds,
            **{name.upper(): self.of(kind) for name, kind in kinds.items()},
            "is": f"({self.of(f'u{width}')})" if self.lanes else f"-(u{width})",
            "bits": f"bits_f{width}_{self.of(f'u{width}')}",
            "unbits": f"bits_u{width}_{self.of(f'f{width}')}",
        }

    def function(self, gives: str, takes: Sequence[str], body: str) -> str:
        """A definition as a function of a, b, c and d."""
        operands = ", ".join(f"{kind} {name}" for kind, name in zip(takes, "abcd"))
        return f"WORD {gives} {self.name}({operands}) {{\n  {body}\n}}"

    def gnu(self, gives: str, takes: Sequence[str], body: str) -> str:
        """The same for GNU C: where vectors are wider than some registers, as an expression.

        How such vectors would be passed to a function depends on the processor.
        """
        sizes = [int(bits) * int(lanes) for bits, lanes in _WIDE.findall(" ".join([gives, *takes]))]
        if max(sizes, default=0) <= REGISTER_BITS:
            return self.function(gives, takes, body)
        names = "abcd"[: len(takes)]
        given = " ".join(f"{kind} {x} = ({x}_);" for kind, x in zip(takes, names))
        lines = f"{given}\n  {body.replace('return ', '')}".replace("\n", " \\\n")
        head = f"#define {self.name}({', '.join(f'{x}_' for x in names)})"
        return f"{head} __extension__ ({{ {lines} }})"

    def vector(self, kind: str, takes: Sequence[str], lane: str) -> str:
        """A function that gives a vector, of which lane i is an expression."""
        loop = f"for (int i = 0; i < {self.lanes}; ++i) y.lane[i] = {lane};"
        return self.function(kind, takes, f"{kind} y;\n  {loop}\n  return y;")

    def lane_by_lane(self, gives: str, takes: Sequence[str]) -> str:
        """The word of vectors as that of scalars, for each lane."""
        operands = ", ".join(f"{x}.lane[i]" for x in "abc"[: len(takes)])
        return self.vector(gives, takes, f"{self.does}_{'_'.join(self.types)}({operands})")


def parse(name: str) -> Word:
    """The word of a name."""
    found = WORD.match(name + "(")
    assert found, name
    does, types, lanes = found.groups()
    return Word(name, does, tuple(types[1:].split("_")), int(lanes or 0))
