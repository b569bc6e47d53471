"""Selections of arguments, by position and by name: static ones, donated ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from tfn._support.frozen import frozen
from tfn._support.validate import integers, several
from tfn.errors import ArgumentError, StaticArgumentError
from tfn.transforms.arguments import Argnums, Function, name_of, parameter_names

Names = str | Sequence[str]


@frozen
class Split:
    """The arguments of a call: what is traced, and what is static.

    `positions` says where the positional arguments of `dynamic` stood; `statics` are triples
    (position or name, type, value).
    """

    dynamic: tuple[Sequence[object], dict[str, object]]
    positions: tuple[int, ...] | None = None
    statics: tuple[tuple[int | str, type, object], ...] = ()

    def join(self, dynamic: Any) -> tuple[Sequence[object], dict[str, object]]:
        """All arguments, from the dynamic ones."""
        if self.positions is None:
            args: tuple[Sequence[object], dict[str, object]] = dynamic
            return args
        placed = dict(zip(self.positions, dynamic[0], strict=True))
        placed |= {at: v for at, _, v in self.statics if isinstance(at, int)}
        named = {name: v for name, _, v in self.statics if isinstance(name, str)}
        return [placed[i] for i in range(len(placed))], dynamic[1] | named


@frozen
class Arrangement:
    """The order of the arguments of calls of one form, for native entry points.

    Attributes:
        form: the number of positional arguments, and the names of the others, sorted.
        statics: gives of all arguments in that order the static ones, as one value or a tuple;
            None if there are none.
        free: gives a tuple of the others.
        many: whether there is more than one static argument.
    """

    form: tuple[int, tuple[str, ...]]
    statics: Callable[[Sequence[object]], Any] | None
    free: Callable[[Sequence[object]], tuple[object, ...]]
    many: bool

    def key(self, values: Sequence[object]) -> tuple[object, ...]:
        """The form of a call, with the types and values of its static arguments."""
        if self.statics is None:
            return self.form
        statics = self.statics(values)
        types = tuple(map(type, statics)) if self.many else type(statics)
        return self.form, statics, types


def _getter(places: Sequence[int]) -> Callable[[Sequence[object]], tuple[object, ...]]:
    """A function that gives the elements at some places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    at = slice(places[0], places[0] + 1) if places else slice(0)
    return lambda values: tuple(values[at])


@frozen
class Selection:
    """Some arguments of a function, by position and by name."""

    positions: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.positions or self.names)

    @staticmethod
    def of(function: Function, what: str, argnums: Argnums, argnames: Names) -> Selection:
        """The arguments meant by numbers and names, each found by both.

        `what` is said of them: "static".

        Raises:
            ArgumentError: for one that the function does not have.
        """
        name = name_of(function)
        numbers: Sequence[int] = [argnums] if isinstance(argnums, int) else ()
        if argnums != ():
            numbers = numbers or integers(name, f"{what}_argnums", argnums)
        names = [argnames] if isinstance(argnames, str) else argnames
        names = several(name, f"{what}_argnames", names, "names")
        if not numbers and not names:
            return Selection()
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return Selection(frozenset(numbers), frozenset(names))
        kinds = {p.kind for p in parameters}
        places = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        known = {p.name for p in parameters}
        open_end = inspect.Parameter.VAR_POSITIONAL in kinds
        wrong: list[int | str] = [
            n for n in numbers if not open_end and not -len(places) <= n < len(places)
        ]
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            wrong += [n for n in names if n not in known]
        if wrong:
            raise ArgumentError(
                f"{name} has no argument {wrong[0]!r}",
                got=f"argument {wrong[0]!r}",
                hint=f"it has {', '.join(known)}",
            )
        positions = {n if n >= 0 or open_end else n + len(places) for n in numbers}
        positions |= {places.index(n) for n in names if n in places}
        by_name = {*names, *(places[n] for n in positions if 0 <= n < len(places))}
        return Selection(frozenset(positions), frozenset(by_name))

    def arrange(self, count: int, names: Sequence[str]) -> Arrangement:
        """The arrangement of calls with `count` positional arguments, and these names."""
        ordered = tuple(sorted(names))
        fixed = {n % count if n < 0 else n for n in self.positions} if count else set()
        fixed |= {i for i, name in enumerate(ordered, count) if name in self.names}
        static = [i for i in range(count + len(ordered)) if i in fixed]
        free = [i for i in range(count + len(ordered)) if i not in fixed]
        statics = itemgetter(*static) if static else None
        return Arrangement((count, ordered), statics, _getter(free), len(static) > 1)

    def split(
        self,
        function: Function,
        args: Sequence[object],
        kwargs: dict[str, object],
        hashed: bool = True,
    ) -> Split:
        """The chosen arguments apart from the others.

        Raises:
            StaticArgumentError: naming one that cannot be hashed, if they are to be `hashed`.
        """
        if not self:
            return Split((args, kwargs))
        fixed = {n % len(args) if n < 0 else n for n in self.positions} if args else set()
        statics: list[tuple[int | str, type, object]] = [
            (i, type(x), x) for i, x in enumerate(args) if i in fixed
        ]
        statics += [(n, type(kwargs[n]), kwargs[n]) for n in sorted(kwargs) if n in self.names]
        for at, kind, value in statics if hashed else ():
            try:
                hash(value)
            except TypeError:
                names = parameter_names(function, len(args))
                name = names[at] if isinstance(at, int) else at
                raise StaticArgumentError(
                    f"the static argument {name} of {name_of(function)} cannot be hashed",
                    got=f"{kind.__name__} {str(value)[:60]}",
                    hint="pass a tuple for a list, a frozen dataclass for a dict; arrays are not "
                    "static",
                ) from None
        free = tuple(i for i in range(len(args)) if i not in fixed)
        rest = {n: x for n, x in kwargs.items() if n not in self.names}
        return Split((tuple(args[i] for i in free), rest), free, tuple(statics))
