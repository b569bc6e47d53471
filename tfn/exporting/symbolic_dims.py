"""Symbolic dimensions: polynomials in symbols, and constraints on the symbols.

    symbolic_shape("b, 2*b + 1, 28", "b % 8 == 0")      (b, 2*b + 1, 28)

Every symbol is at least 1, unless a constraint requires more.  A `Size` is a polynomial with its
constraints: it computes and compares as an int does, for all values of the symbols that the
constraints allow; where the answer depends on the values, or has no proof, it raises `Undecided`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm, prod
from typing import Any

from tfn.dtypes import DType
from tfn.errors import ArgumentError, ExportError, ShapeError
from tfn.extend import const, frozen, shown
from tfn.lower.index import solver

Monomial = tuple[str, ...]
"""The symbols of a product, sorted; () is 1."""
Numbers = Mapping[str, int]
"""Values of symbols."""
TEXT_LIMIT = 1000
"""Characters of sizes and constraints: Python's parser crashes on deeply nested text."""


@dataclass(frozen=True, slots=True, repr=False)
class Polynomial:
    """A sum of products of symbols, divided by an integer.

    Attributes:
        terms: (product, factor) pairs, sorted, no factor 0.
        divisor: positive; it divides every value of the sum.
        constraints: of its symbols, as text.

    Example:
        >>> b, _ = symbolic_shape("b, 3")
        >>> 2 * b + 1, (b * b - b).at({"b": 4})
        (2*b + 1, 12)
    """

    terms: tuple[tuple[Monomial, int], ...]
    divisor: int = 1
    constraints: tuple[str, ...] = field(default=(), compare=False)

    @staticmethod
    def of(terms: Mapping[Monomial, Fraction], constraints: tuple[str, ...] = ()) -> Polynomial:
        """The polynomial with these coefficients."""
        nonzero = {m: k for m, k in terms.items() if k}
        divisor = lcm(*(k.denominator for k in nonzero.values()))
        whole = tuple(sorted((m, int(k * divisor)) for m, k in nonzero.items()))
        return Polynomial(whole, divisor, constraints)

    @staticmethod
    def constant(value: int) -> Polynomial:
        """A constant polynomial."""
        return Polynomial.of({(): Fraction(value)})

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that occur in it."""
        return frozenset(s for m, _ in self.terms for s in m)

    @property
    def fractions(self) -> dict[Monomial, Fraction]:
        """Its coefficients by product."""
        return {m: Fraction(k, self.divisor) for m, k in self.terms}

    @property
    def number(self) -> int | None:
        """Its value if it is a constant integer, else None."""
        if any(m for m, _ in self.terms) or self.divisor != 1:
            return None
        return sum(k for _, k in self.terms)

    def at(self, numbers: Numbers) -> int:
        """Its value for these values of the symbols.

        Raises:
            ShapeError: if it is no integer there.
        """
        value = sum(k * prod(numbers[s] for s in m) for m, k in self.terms)
        if value % self.divisor:
            where = ", ".join(f"{s} = {numbers[s]}" for s in sorted(self.symbols))
            raise ShapeError(f"the size {self} is no integer", got=where)
        return value // self.divisor

    def __add__(self, other: object) -> Polynomial:
        terms, new = self.fractions, _lifted(other)
        for m, k in new.fractions.items():
            terms[m] = terms.get(m, Fraction(0)) + k
        return Polynomial.of(terms, _joined(self, new))

    def __mul__(self, other: object) -> Polynomial:
        terms: dict[Monomial, Fraction] = {}
        new = _lifted(other)
        for a, j in self.fractions.items():
            for b, k in new.fractions.items():
                m = tuple(sorted(a + b))
                terms[m] = terms.get(m, Fraction(0)) + j * k
        return Polynomial.of(terms, _joined(self, new))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: object) -> Polynomial:
        return self + _lifted(other) * -1

    def __rsub__(self, other: object) -> Polynomial:
        return _lifted(other) - self

    def __floordiv__(self, other: object) -> Polynomial:
        if not isinstance(other, int) or other < 1:
            raise ArgumentError(
                "symbolic sizes are divided by positive integers",
                got=f"{self} // {other}",
                hint="divide by a size that is known",
            )
        return self * Polynomial(((((), 1),)), other)

    def __index__(self) -> int:
        raise ExportError(
            f"the size {self} is no number yet",
            got="a symbolic size",
            hint="tfn.export.serialize and tfn.export.export take it",
        )

    def __lt__(self, other: Any) -> bool:
        return bool(self.__index__() < other)

    __le__ = __gt__ = __ge__ = __lt__

    def __repr__(self) -> str:
        parts = [_term(m, k) for m, k in sorted(self.terms, key=lambda t: (-len(t[0]), t[0]))]
        text = " + ".join(parts).replace("+ -", "- ") or "0"
        if self.divisor == 1:
            return text
        return f"({text}) // {self.divisor}" if len(parts) > 1 else f"{text} // {self.divisor}"


def _term(monomial: Monomial, factor: int) -> str:
    if not monomial:
        return str(factor)
    sign = "-" if factor < 0 else ""
    return sign + "*".join([*([] if abs(factor) == 1 else [str(abs(factor))]), *monomial])


def _lifted(value: Any) -> Polynomial:
    return value if isinstance(value, Polynomial) else Polynomial.constant(int(value))


def _joined(*polynomials: Polynomial) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for p in polynomials for text in p.constraints))


@frozen
class Ratio:
    """A constant that depends on sizes: the value of a polynomial, or a number divided by it.

    Attributes:
        over: the numerator; 0 if the polynomial itself is the value.
    """

    polynomial: Polynomial
    over: int

    def bits(self, dtype: DType, numbers: Numbers) -> int:
        """The bits of the constant for these values of the symbols."""
        size = self.polynomial.at(numbers)
        bits: int = const(self.over / size if self.over else size, dtype).arg.bits
        return bits


def symbolic_shape(text: str, constraints: str | Sequence[str] = ()) -> tuple[Any, ...]:
    """A shape with symbolic dimensions.

    Args:
        text: sizes between commas: names, integers, and sums and products of them.
        constraints: comparisons of such sizes, as "b <= 1024" or "b % 8 == 0".

    Raises:
        ArgumentError: for text that is none of this.

    Example:
        >>> symbolic_shape("b, 28*28, 2*b + 1")
        (b, 784, 2*b + 1)
    """
    if not isinstance(text, str):
        raise ArgumentError("a symbolic shape is a text", got=shown(text), hint=_WRITTEN)
    listed = (constraints,) if isinstance(constraints, str) else tuple(constraints)
    for constraint in listed:
        Constraint.of(constraint)
    tree = _parsed(f"({text},)" if text.strip() else "()")
    sizes = [
        _evaluated(node, lambda name: Polynomial((((name,), 1),), 1, listed), text)
        for node in getattr(tree, "elts", [])
    ]
    return tuple(s if isinstance(s, int) or s.number is None else s.number for s in sizes)


_WRITTEN = "write a shape as 'batch, 2*n + 1, 3'"


def _parsed(text: str) -> Any:
    try:
        if len(text) <= TEXT_LIMIT:
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise ArgumentError("this is not a size, a shape or a constraint", got=text[:80], hint=_WRITTEN)


_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
}
_RELATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Lt: lambda x, y: x < y,
    ast.LtE: lambda x, y: x <= y,
    ast.Gt: lambda x, y: x > y,
    ast.GtE: lambda x, y: x >= y,
    ast.Eq: lambda x, y: x == y,
    ast.NotEq: lambda x, y: x != y,
}


def _evaluated(node: object, symbol: Callable[[str], Any], text: str) -> Any:
    try:
        return _value(node, symbol, text)
    except RecursionError:
        raise ArgumentError("a size is too deeply nested", got=text[:80]) from None


def _value(node: object, symbol: Callable[[str], Any], text: str) -> Any:
    """Evaluates an expression of integers, names, sums, products and remainders."""
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, symbol, text)
    if isinstance(node, ast.BinOp):
        left, right = (_value(side, symbol, text) for side in (node.left, node.right))
        positive = isinstance(node.right, ast.Constant) and right > 0
        if type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](left, right)
        if isinstance(node.op, ast.FloorDiv) and positive and isinstance(left, (int, Polynomial)):
            return left // right
        if isinstance(node.op, ast.Mod) and positive and not isinstance(left, Polynomial):
            return left % right
    raise ArgumentError(
        "sizes are made of names, integers, +, - and *, and of % in constraints",
        got=text,
        hint=_WRITTEN,
    )


@frozen
class Constraint:
    """A comparison of sizes, as text and as a Python syntax tree."""

    text: str
    tree: Any = field(compare=False, repr=False)

    @staticmethod
    def of(text: str) -> Constraint:
        """Parses a constraint.

        Raises:
            ArgumentError: if the text is no comparison.
        """
        tree = _parsed(text)
        if not isinstance(tree, ast.Compare) or not all(type(op) in _RELATIONS for op in tree.ops):
            raise ArgumentError(
                "a constraint is a comparison of sizes",
                got=text,
                hint="write 'n >= 2' or 'n % 8 == 0'",
            )
        constraint = Constraint(text, tree)
        constraint.on(lambda name: 1)  # raises for unknown operations
        return constraint

    @property
    def symbols(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name))

    @property
    def integers(self) -> frozenset[int]:
        """The integers in it."""
        return _integers(self.tree)

    @property
    def divisors(self) -> frozenset[int]:
        """The divisors of its remainders."""
        remainders = [
            n for n in ast.walk(self.tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)
        ]
        return frozenset(n for remainder in remainders for n in _integers(remainder.right))

    def on(self, symbol: Callable[[str], Any]) -> list[Any]:
        """Its comparisons, with `symbol(name)` for names: booleans for ints, z3 terms for terms."""
        sides = [self.tree.left, *self.tree.comparators]
        values = [_evaluated(side, symbol, self.text) for side in sides]
        return [
            _RELATIONS[type(relation)](a, b)
            for relation, a, b in zip(self.tree.ops, values, values[1:])
        ]

    def holds(self, numbers: Numbers) -> bool:
        """Whether these values of the symbols satisfy it."""
        return all(self.on(lambda name: numbers[name]))


def _integers(tree: ast.AST) -> frozenset[int]:
    values = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return frozenset(n for n in values if isinstance(n, int))


class Undecided(Exception):
    """Raised where the answer depends on the values of the symbols, or has no proof."""


class Scope:
    """Symbols with their constraints, and proofs from them.

    Attributes:
        symbols: sorted.
        constraints: in the order given; besides, every symbol is at least 1.
    """

    def __init__(self, symbols: Iterable[str], constraints: Iterable[str]) -> None:
        self.symbols = tuple(sorted(symbols))
        self.constraints = tuple(map(Constraint.of, dict.fromkeys(constraints)))
        strange = [c.text for c in self.constraints if not c.symbols <= set(self.symbols)]
        if strange:
            raise ArgumentError(
                "a constraint speaks of a size that no argument has",
                got=", ".join(strange),
                hint="name a size of an argument",
            )
        self._proved: dict[tuple[str, Polynomial, int], bool] = {}

    def allows(self, numbers: Numbers) -> bool:
        """Whether the constraints allow these values of the symbols."""
        return min(numbers.values(), default=1) >= 1 and not self.broken(numbers)

    def broken(self, numbers: Numbers) -> list[str]:
        """The constraints that these values violate."""
        violated = [f"{s} >= 1" for s in self.symbols if numbers[s] < 1]
        return violated + [c.text for c in self.constraints if not c.holds(numbers)]

    def always(self, relation: str, p: Polynomial, by: int = 0) -> bool:
        """Whether ``p > 0``, ``p >= 0``, ``p == 0`` or, for "%", ``p % by == 0`` is proved.

        Raises:
            MissingPackageError: if z3 is not installed.
        """
        key = relation, p, by
        if key not in self._proved:
            self._proved[key] = self._always(*key)
        return self._proved[key]

    def _always(self, relation: str, p: Polynomial, by: int) -> bool:
        value = p.number
        if value is not None:
            return {
                "%": by > 0 and value % max(by, 1) == 0,
                ">": value > 0,
                ">=": value >= 0,
                "==": value == 0,
            }[relation]
        if relation in (">", ">=") and all(k > 0 for _, k in p.terms):
            return True  # since symbols are positive
        z3 = solver.load()
        names = {s: z3.Int(s) for s in self.symbols}
        question = z3.Solver()
        question.set("timeout", solver.TIMEOUT_MS)
        question.add(*(n >= 1 for n in names.values()))
        question.add(*(part for c in self.constraints for part in c.on(names.__getitem__)))
        total = z3.IntVal(0)
        for m, k in p.terms:
            total += k * z3.Product(*(names[s] for s in m)) if m else k
        if relation == "%":
            question.add(total % (by * p.divisor) != 0)
        else:
            question.add({">": total <= 0, ">=": total < 0, "==": total != 0}[relation])
        return bool(question.check() == z3.unsat)


@dataclass(frozen=True, eq=False, slots=True)
class Size:
    """A polynomial with its constraints: type rules treat it as an int."""

    polynomial: Polynomial
    scope: Scope

    def _sized(self, p: Polynomial) -> Any:
        value = p.number
        return Size(p, self.scope) if value is None else value

    def __add__(self, other: object) -> Any:
        return self._sized(self.polynomial + _bare(other))

    def __mul__(self, other: object) -> Any:
        return self._sized(self.polynomial * _bare(other))

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: object) -> Any:
        return self._sized(self.polynomial - _bare(other))

    def __rsub__(self, other: object) -> Any:
        return self._sized(_lifted(_bare(other)) - self.polynomial)

    def __neg__(self) -> Any:
        return self._sized(-self.polynomial)

    def __floordiv__(self, other: object) -> Any:
        if isinstance(other, int) and self.scope.always("%", self.polynomial, other):
            return self._sized(self.polynomial // other)
        raise Undecided(f"what ({self}) // {other} is")

    def __mod__(self, other: object) -> Any:
        if isinstance(other, int) and self.scope.always("%", self.polynomial, other):
            return 0
        raise Undecided(f"what ({self}) % {other} is")

    def __eq__(self, other: object) -> bool:
        """Whether equality is proved; False also where it depends on the values of the symbols."""
        if not isinstance(other, (int, Size)):
            return False
        return self.scope.always("==", self.polynomial - _bare(other))

    def __hash__(self) -> int:
        return hash(self.polynomial)

    def __lt__(self, other: Any) -> bool:
        return self._decided(_lifted(_bare(other)) - self.polynomial, f"{self} < {other}")

    def __gt__(self, other: object) -> bool:
        return self._decided(self.polynomial - _bare(other), f"{self} > {other}")

    def __le__(self, other: object) -> bool:
        return not self.__gt__(other)

    def __ge__(self, other: object) -> bool:
        return not self.__lt__(other)

    def __bool__(self) -> bool:
        return not self.__le__(0)

    def _decided(self, p: Polynomial, question: str) -> bool:
        """Whether a polynomial is positive, for all values of the symbols or for none."""
        if self.scope.always(">", p):
            return True
        if self.scope.always(">=", -p):
            return False
        raise Undecided(f"whether {question}")

    def __repr__(self) -> str:
        return repr(self.polynomial)


def _bare(value: object) -> Any:
    return value.polynomial if isinstance(value, Size) else value
