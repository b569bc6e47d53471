"""A word, the portable vector function of C kernels: ``add_f32x16``, an operation and its type."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfn._support.frozen import frozen

REGISTER_BITS = 128
"""Vectors of this size are passed to functions in the same way on all processors of a family."""

_WIDE = re.compile(r"[fsu](\d+)x(\d+)")
WORD = re.compile(r"\b([a-z]+)((?:_[fsu]\d+){1,2})(?:x(\d+))?(?=\()")


@frozen
class Word:
    """An operation on vectors, or on scalars.

    Attributes:
        name: the whole word.
        operation: its first part.
        types: of an element of the operand, and of the result if that is another.
        lanes: of the vectors; 0 for scalars.
    """

    name: str
    operation: str
    types: tuple[str, ...]
    lanes: int

    def of(self, element: str) -> str:
        """The vector type of the word's lanes, or the scalar type."""
        return f"{element}x{self.lanes}" if self.lanes else element

    @property
    def names(self) -> dict[str, str]:
        """The names in templates.

        T is the type of the operand, R of the result; U, S and F are the unsigned, signed and float
        type of T's width, V and W the unsigned and signed type of R's.  In lower case they are the
        types of one lane.  {is} makes a mask of a condition.
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

    def function(self, result: str, parameters: Sequence[str], body: str) -> str:
        """A definition as a function of a, b, c and d."""
        operands = ", ".join(f"{kind} {name}" for kind, name in zip(parameters, "abcd"))
        return f"WORD {result} {self.name}({operands}) {{\n  {body}\n}}"

    def gnu(self, result: str, parameters: Sequence[str], body: str) -> str:
        """A definition for GNU C; of vectors wider than `REGISTER_BITS` a statement expression.

        How wider vectors are passed to functions depends on the features of the processor.
        """
        types = " ".join([result, *parameters])
        sizes = [int(bits) * int(lanes) for bits, lanes in _WIDE.findall(types)]
        if max(sizes, default=0) <= REGISTER_BITS:
            return self.function(result, parameters, body)
        names = "abcd"[: len(parameters)]
        arguments = " ".join(f"{kind} {x} = ({x}_);" for kind, x in zip(parameters, names))
        lines = f"{arguments}\n  {body.replace('return ', '')}".replace("\n", " \\\n")
        head = f"#define {self.name}({', '.join(f'{x}_' for x in names)})"
        return f"{head} __extension__ ({{ {lines} }})"

    def vector(self, kind: str, parameters: Sequence[str], lane: str) -> str:
        """A function whose result is a vector, of which lane i is an expression."""
        loop = f"for (int i = 0; i < {self.lanes}; ++i) y.lane[i] = {lane};"
        return self.function(kind, parameters, f"{kind} y;\n  {loop}\n  return y;")

    def lane_by_lane(self, result: str, parameters: Sequence[str]) -> str:
        """The word as a loop over lanes, by the same word of scalars."""
        operands = ", ".join(f"{x}.lane[i]" for x in "abc"[: len(parameters)])
        scalar = f"{self.operation}_{'_'.join(self.types)}"
        return self.vector(result, parameters, f"{scalar}({operands})")


def parse(name: str) -> Word:
    """The word of this name."""
    match = WORD.match(name + "(")
    assert match, name
    operation, types, lanes = match.groups()
    return Word(name, operation, tuple(types[1:].split("_")), int(lanes or 0))
