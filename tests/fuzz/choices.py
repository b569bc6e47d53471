"""Choices: the numbers that a program is drawn from, and the smallest ones that fail in one way.

    Choices(Random("7/12"))         as many random numbers as are asked for
    Choices(given=(3, 0, 1))        those, then zeros: the same program again, or one like it

A program is a function of its choices, so to shrink it is to shrink a list of numbers: parts of it
are left out, and numbers become smaller, as long as the program still fails.  Zero chooses the
simplest, and each step of a program is a span of choices that can be left out alone.

Source: D. R. MacIver and A. F. Donaldson, Test-Case Reduction via Test-Case Generation, 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

Numbers = tuple[int, ...]


class Choices:
    """Numbers below limits, as they are asked for.

    Args:
        random: draws the numbers behind those that are given; they are 0 without it.
        given: the first numbers; one that is not below its limit becomes the largest that is.

    Attributes:
        made: the numbers so far.
        spans: begin and end of what can be left out of them.
    """

    def __init__(self, random: Random | None = None, given: Sequence[int] = ()) -> None:
        self.random = random
        self.given = given
        self.made: list[int] = []
        self.spans: list[tuple[int, int]] = []

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        at = len(self.made)
        if at < len(self.given):
            number = min(self.given[at], limit - 1)
        elif self.random is not None:
            number = int(self.random.random() * limit)
        else:
            number = 0
        self.made.append(number)
        return number

    def one_of(self, choices: Sequence[Any]) -> Any:
        """One of several; no number is drawn for one alone."""
        return choices[0] if len(choices) == 1 else choices[self.below(len(choices))]

    def permutation(self, size: int) -> tuple[int, ...]:
        """An order of the numbers below a size."""
        rest = list(range(size))
        return tuple(rest.pop(self.below(len(rest))) for _ in range(size))

    @contextmanager
    def span(self) -> Iterator[None]:
        """Marks the numbers that are drawn within as a part that can be left out."""
        begin = len(self.made)
        try:
            yield
        finally:
            self.spans.append((begin, len(self.made)))


def smallest(choices: Choices, failing: Callable[[Choices], bool]) -> Choices:
    """The smallest choices, by their number and then in order, that still fail.

    Args:
        choices: some that fail.
        failing: makes a program of choices, and tells whether it fails.  It may raise to end early.
    """
    best = choices
    tried: set[Numbers] = {tuple(best.made)}

    def better(given: Sequence[int]) -> bool:
        nonlocal best
        if tuple(given) in tried:
            return False
        tried.add(tuple(given))
        other = Choices(given=given)
        if not failing(other) or _size(other) >= _size(best):
            return False
        tried.add(tuple(other.made))
        best = other
        return True

    before = None
    while before is not best:
        before = best
        _leave_out(lambda: best, better)
        _lower(lambda: best, better)
    return best


def _size(choices: Choices) -> tuple[int, list[int]]:
    return len(choices.made), choices.made


def _leave_out(best: Callable[[], Choices], better: Callable[[Sequence[int]], bool]) -> None:
    """Leaves out spans, the longest first, then any few numbers; from the end to the begin."""
    again = True
    while again:
        spans = sorted(set(best().spans), key=lambda span: (span[0] - span[1], -span[0]))
        again = any(better(best().made[:i] + best().made[j:]) for i, j in spans if i < j)
    for length in (8, 4, 2, 1):
        at = len(best().made) - length
        while at >= 0:
            better(best().made[:at] + best().made[at + length :])
            at = min(at - 1, len(best().made) - length)


def _lower(best: Callable[[], Choices], better: Callable[[Sequence[int]], bool]) -> None:
    """Makes each number zero, or as small as a search in halves finds."""
    at = 0
    while at < len(best().made):
        numbers = best().made
        if numbers[at] and not better([*numbers[:at], 0, *numbers[at + 1 :]]):
            low, high = 0, numbers[at]
            while low + 1 < high:
                middle = (low + high) // 2
                if better([*numbers[:at], middle, *numbers[at + 1 :]]):
                    high = middle
                else:
                    low = middle
        at += 1
