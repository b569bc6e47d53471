"""Interpolation over sizes: polynomials through values, choice of witnesses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tfn.exporting.generalize import basis, solved, witnesses
from tfn.exporting.symbolic_dims import Polynomial, Scope

SCOPES = (
    Scope(["b"], []),
    Scope(["b"], ["b % 8 == 0"]),
    Scope(["b"], ["b <= 12"]),
    Scope(["b"], ["b >= 500", "b < 600"]),
    Scope(["b", "t"], ["b <= t"]),
    Scope(["b", "t"], ["t % 4 == 0", "b > 100"]),
    Scope(["a", "b", "c"], []),
)


@given(st.sampled_from(SCOPES), st.data())
def test_whatever_polynomial_there_is_is_found(scope: Scope, data: st.DataObject) -> None:
    monomials = basis(scope.symbols, 2)
    factors = {m: Fraction(data.draw(st.integers(-9, 9))) for m in monomials}
    wanted = Polynomial.of(factors)
    places = witnesses(scope)
    assert all(scope.allows(at) for at in places) and len(places) == len(monomials) + 2
    found = solved(monomials, places, [wanted.at(at) for at in places])
    assert found is not None and Polynomial.of(found) == wanted


def test_values_without_a_polynomial() -> None:
    places: list[Any] = witnesses(SCOPES[0])
    assert solved(basis("b", 2), places, [-(-at["b"] // 2) for at in places]) is None
    assert solved(basis("b", 1), places[:1], [3]) is None


def test_sizes_that_are_taken() -> None:
    taken = frozenset(n for at in witnesses(SCOPES[0]) for n in at.values())
    assert taken.isdisjoint(n for at in witnesses(SCOPES[0], taken) for n in at.values())
