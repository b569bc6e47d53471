"""Few combinations of parameters in place of their product: a covering array.

    @covering("dtype, size, axis", FLOATS, SIZES, (0, 1), pairs=[(1, 2)])

makes a test of each dtype, and of each size along each axis.  With ``pytest --exhaustive`` it is a
test of every combination.  Rows that take less time than pytest does are one test: `together`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from inspect import signature
from itertools import combinations, product
from typing import Any, TypeVar

import pytest

Row = TypeVar("Row")

exhaustive = False
"""Whether every combination is wanted: `tests/conftest.py` sets it before it imports tests."""

turn = 0
"""Which rows `in_turn` takes, from 0 to 11: `tests/conftest.py` sets it from ``--compiled``."""

TURNS = 12
"""After so many turns each row has been taken equally often."""


def cover(*values: Iterable[Any], pairs: Collection[tuple[int, int]] = ()) -> list[tuple[Any, ...]]:
    """Rows that have each value of each parameter, and all pairs of values where it matters.

    Among rows that would do, it is the one whose other pairs have been seen least.  The result
    depends on the arguments only: sets are sorted, whose order is another in each process.

    Args:
        values: those of each parameter.
        pairs: positions of two parameters all of whose combinations are wanted.
    """
    lists = [
        sorted(given, key=str) if isinstance(given, (set, frozenset)) else list(given)
        for given in values
    ]
    sizes = [range(len(given)) for given in lists]
    if exhaustive:
        return list(product(*lists))
    wanted = [
        dict(zip(pair, both)) for pair in pairs for both in product(*[sizes[i] for i in pair])
    ]
    wanted += [{i: value} for i, size in enumerate(sizes) for value in size]
    seen: Counter[tuple[tuple[int, int], ...]] = Counter()
    rows = []
    for want in wanted:
        key = tuple(sorted(want.items()))
        if seen[key]:
            continue
        row = dict(want)
        for i in sorted(range(len(lists)), key=lambda i: -len(lists[i])):
            if i not in row:
                row[i] = min(sizes[i], key=lambda value: _known(row, i, value, seen, pairs))
        items = sorted(row.items())
        seen.update([*((item,) for item in items), *combinations(items, 2)])
        rows.append(tuple(lists[i][value] for i, value in items))
    return rows


def _known(
    row: dict[int, int],
    i: int,
    value: int,
    seen: Counter[tuple[tuple[int, int], ...]],
    pairs: Collection[tuple[int, int]],
) -> tuple[int, int, int]:
    """How much of a value in a row has been seen: new pairs that are wanted, first."""
    with_others = [tuple(sorted([(i, value), item])) for item in row.items()]
    new = [both for both in with_others if not seen[both] and (both[0][0], both[1][0]) in {*pairs}]
    return -len(new), sum(seen[both] for both in with_others), seen[(i, value),]


def in_turn(one_in: int, rows: Iterable[Row]) -> list[Row]:
    """One row in so many, and others at the next turn: for slow rows of one kind.

    Args:
        one_in: a divisor of `TURNS`; there are at least as many rows.
        rows: values for `pytest.mark.parametrize`, or what one test does in a loop.
    """
    given = list(rows)
    assert TURNS % one_in == 0 and len(given) >= one_in, "each turn has rows, and each row a turn"
    if exhaustive:
        return given
    # Of a product of parameters no turn has one value of the last parameter alone.
    return [row for i, row in enumerate(given) if (i + i // one_in - turn) % one_in == 0]


def examples(most: int) -> int:
    """How many examples hypothesis draws: a third of what it draws if all are wanted."""
    return most if exhaustive else most // 3


def covering(
    names: str,
    *values: Iterable[Any],
    pairs: Collection[tuple[int, int]] = (),
    ids: Sequence[Any] | Any = None,
) -> pytest.MarkDecorator:
    """The mark of a test that gets the rows of `cover` as its arguments."""
    return pytest.mark.parametrize(names, cover(*values, pairs=pairs), ids=ids)


def together(
    names: str, rows: Iterable[Any], ids: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Rows as of `pytest.mark.parametrize`, in one test: for those that take less than 5 ms each.

    All rows run, with the same fixtures; the error of each that fails names the row.

    Raises:
        BaseExceptionGroup: several rows fail; the errors of the first ten.
    """
    keys, given = [name.strip() for name in names.split(",")], list(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            errors: list[BaseException] = []
            for row in given:
                values = row if len(keys) > 1 else [row]
                try:
                    test(**fixtures, **dict(zip(keys, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"where {names} is {', '.join(str(ids(v)) for v in values)}")
                    errors.append(error)
            if len(errors) == 1:
                raise errors[0]
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(given)} rows", errors[:10])

        own = signature(test)
        others = [p for name, p in own.parameters.items() if name not in keys]
        run.__dict__["__signature__"] = own.replace(parameters=others)
        return run

    return decorate
