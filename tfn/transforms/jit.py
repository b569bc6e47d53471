"""`jit`: a function compiled whole, once for each kind of arguments.

A call looks up the kinds of its arguments - shape, dtype, weakness - and runs the program found
there.  On a miss the function is recorded, closed into a Jaxpr, and kept.  What it closed over,
arrays or values of an outer trace, became operands; with values of an outer trace nothing is
kept, since the next call may close over others.

Where the device has native calls, a program gets doors: one that takes the arguments as the user
passes them, tried first, and one that takes the list of leaves, for what is static, passed by
name, or of classes that only Python can take apart.
"""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, NamedTuple, Self, overload

import numpy as np

from tfn import tree
from tfn._support.cache import NODE_BYTES, Cache
from tfn._support.frozen import mutable
from tfn._support.validate import a_function
from tfn.dtypes import SHORT
from tfn.errors import ArgumentError, TfnError
from tfn.trace import bind, effects
from tfn.trace.aval import kind_of
from tfn.trace.jaxpr import calling, close
from tfn.trace.loop_cleanup import tidy
from tfn.trace.uop import walk
from tfn.transforms.annotations import checked
from tfn.transforms.aot import Lowered, Takes, Traced, takes
from tfn.transforms.arguments import (
    STATIC,
    Argnums,
    Function,
    Instance,
    P,
    Q,
    R,
    R_co,
    argument_names,
    as_value,
    name_of,
    parameter_names,
)
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.static_args import Names, Selection, Split
from tfn.transforms.tracing import record

_MADE_ARRAYS = {bool, int, float, np.ndarray}
"""What becomes an array when it is passed for one."""

MOST_NAMES = 64
"""For how many structures of arguments their names are kept."""

MOST_DOORS = 8
"""How many are tried one after the other before a call is looked up in a table."""


def closed(
    function: Function, call: Callable[[Sequence[Any]], Any], kinds: Sequence[Any], arguments: Takes
) -> Traced:
    """The closed function of leaves of these types."""
    recorded = record("jit", function, call, kinds, arguments.names, known=False)
    token, begin = recorded.effects, recorded.trace.begin
    inputs = [*recorded.inputs, begin] if begin and token else recorded.inputs
    jaxpr, captured = close(tidy([*token, *recorded.outputs]), inputs)
    values = tuple(leaf.arg.value for leaf in captured)
    structure, weak = recorded.structure, tuple(recorded.weak)
    return Traced(jaxpr, values, structure, weak, structure.is_leaf(), bool(token), arguments)


@mutable
class Entry:
    """A function closed over kinds of arguments.

    Attributes:
        trace_ns, trace_bytes: what the trace took, and takes.
        door: one that takes the list of leaves.
        direct: one that takes arguments as they are passed.
    """

    traced: Traced
    trace_ns: int
    trace_bytes: int
    door: bind.Door | None = None
    direct: bind.Door | None = None

    @property
    def making(self) -> bind.Making:
        """What its program took to make."""
        return bind.face().making(self.traced.jaxpr)._replace(trace_ns=self.trace_ns)

    @property
    def size_bytes(self) -> int:
        """What it takes, with the program that its doors hold."""
        program = bind.DOOR_BYTES + self.making.size_bytes if self.door else 0
        return self.trace_bytes + program


class CacheInfo(NamedTuple):
    """What a jitted function keeps, and what that took.

    Attributes:
        entries: how many programs it keeps.
        misses: how often it was traced.
        last_miss: why, the last time.
        last: what the last program took to make.
        total: what all that are kept took.
    """

    entries: int
    misses: int
    last_miss: str
    last: bind.Making
    total: bind.Making


@overload
def jit(
    function: Callable[P, R],
    *,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    donate_argnums: Argnums = (),
    donate_argnames: Names = (),
) -> Jitted[P, R]: ...


@overload
def jit(
    function: None = None,
    *,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    donate_argnums: Argnums = (),
    donate_argnames: Names = (),
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(
    function: Callable[P, R] | None = None,
    *,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    donate_argnums: Argnums = (),
    donate_argnames: Names = (),
) -> Jitted[P, R] | Callable[[Callable[P, R]], Jitted[P, R]]:
    """Compile a function whole, once for each shape, dtype and structure of its arguments.

    Usable as ``@jit``, ``@jit(static_argnames="n")`` and ``jit(f, ...)``, on functions and on
    methods.  The function must be pure: it runs as Python only when it is traced.  Arguments that
    are NumPy arrays are copied at each call; `device_put` copies them once.

    Args:
        static_argnums, static_argnames: arguments that are Python values; they must be hashable,
            and each new value is a new program.
        donate_argnums, donate_argnames: arguments whose arrays are given away: they are deleted
            when the program begins, and their memory may become that of results.

    Raises:
        StaticArgumentError: for a static argument that cannot be hashed.
        ArgumentError: for an argument or result that is not an array, a number or a tree of them.

    Example:
        >>> @jit
        ... def double(x):
        ...     return 2 * x
        >>> float(double(3.0))
        6.0
    """
    options = static_argnums, static_argnames, donate_argnums, donate_argnames
    if function is None:
        return lambda f: Jitted(f, *options)
    return Jitted(function, *options)


class Jitted(Generic[P, R_co]):
    """The result of `jit`: a function of the same signature, with a cache of programs.

    `called` is the name under which it stays one operation in a trace; see `call.call`.
    """

    __name__: str
    __wrapped__: Callable[P, R_co]

    def __init__(
        self,
        function: Callable[P, R_co],
        static_argnums: Argnums = (),
        static_argnames: Names = (),
        donate_argnums: Argnums = (),
        donate_argnames: Names = (),
        called: str = "",
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.called = function, called
        a_function(called or "jit", "function", function)
        self.static = Selection.of(function, "static", static_argnums, static_argnames)
        self.donated = Selection.of(function, "donate", donate_argnums, donate_argnames)
        both = self.static.names & self.donated.names
        if both:
            raise ArgumentError(
                f"{name_of(function)} cannot donate a static argument",
                got=", ".join(sorted(both)),
                hint="static arguments have no memory to give away",
            )
        self._names: dict[Any, list[str]] = {}
        self.clear_cache()

    def clear_cache(self) -> None:
        """Forget every program."""
        self._entries: Cache[Entry] = Cache("traces", lambda entry: entry.size_bytes)
        self._doors: list[bind.Door] = self._entries.shortcuts  # which are direct
        self._last: Entry | None = None
        self._last_key: Any = None
        self._misses, self._last_miss = 0, ""

    def cache_info(self) -> CacheInfo:
        """How many programs are kept, why the last one was new, and what they took to make.

        Example:
            >>> f = jit(lambda x: 2 * x)
            >>> float(f(1.0)), float(f(2.0))
            (2.0, 4.0)
            >>> f.cache_info().misses, f.cache_info().last.kernels
            (1, 1)
        """
        made = [entry.making for _, entry in self._entries.items()]
        last = self._last.making if self._last else bind.Making()
        total = bind.Making(*map(sum, zip(*made)))
        return CacheInfo(len(self._entries), self._misses, self._last_miss, last, total)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The closed function for these arguments; `ShapeDtypeStruct` will do for an array."""
        split = self.static.split(self.function, args, kwargs)
        leaves, structure = tree.flatten(split.dynamic)
        names = self._names_of(split, structure)
        kinds = [
            x if isinstance(x, ShapeDtypeStruct) else as_value(x, name, STATIC)
            for x, name in zip(leaves, names, strict=True)
        ]
        return self._find(split, structure, kinds, names).traced

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for these arguments, on its way to machine code; nothing runs.

        Example:
            >>> import tfn
            >>> row = tfn.ShapeDtypeStruct((3,), "float32")
            >>> print(jit(lambda x: x + 1).lower(row).as_text("ranges"))
            kernel 0: d:f32[3] <- a:f32[3]
              for r0 in 3:
                d[r0] = a[r0] + 1.0
        """
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results for these arguments; nothing is computed."""
        return self.trace(*args, **kwargs).out_info

    def memory_analysis(self, *args: Any, **kwargs: Any) -> Any:
        """The memory that a call with these arguments takes: a `Footprint`; nothing runs.

        Results that are written over donated arguments take none.

        Example:
            >>> import numpy as np
            >>> jit(lambda x: x + 1).memory_analysis(np.zeros(256, "float32")).output_bytes
            1024
        """
        traced = self.trace(*args, **kwargs)
        return bind.face().footprint(traced.jaxpr, traced.takes.donated)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The function's result, from the program for arguments of this kind."""
        if not kwargs:
            for door in self._doors:
                result: R_co = door(*args)
                if result is not NotImplemented:
                    return result
            if self._doors and not self.static and not _MADE_ARRAYS.isdisjoint(map(type, args)):
                values = [bind.face().asarray(x) if type(x) in _MADE_ARRAYS else x for x in args]
                for door in self._doors:
                    result = door(*values)
                    if result is not NotImplemented:
                        return result
        result = self._call(args, kwargs)
        return result

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of any kind: with numbers or static arguments, new, or within an outer trace."""
        split = self.static.split(self.function, args, kwargs)
        values, structure = tree.flatten(split.dynamic)
        try:
            kinds = tuple([(x.kind, x.weak_type) for x in values])
        except AttributeError:  # numbers, or arrays of NumPy
            values = self._values(values, split, structure)
            kinds = tuple([(x.kind, x.weak_type) for x in values])
        key = structure, split.statics, kinds
        entry = self._entries.young.get(key)
        if entry is None:  # new, old, or within an outer trace
            names = self._names_of(split, structure)
            entry = self._find(split, structure, values, names)
        traced = entry.traced
        if entry.door is not None:
            results = entry.door(values)
            if results is not NotImplemented:
                results = results[traced.acts :]
                return results[0] if traced.single else tree.unflatten(traced.structure, results)
        token = [effects.token()] if traced.acts else []
        operands = [*values, *token, *traced.captured]
        if bind.innermost(operands) is not None:
            jaxpr = calling(traced.jaxpr, self.called) if self.called else traced.jaxpr
            results = bind.call(jaxpr, operands, traced.weak, traced.acts)
            return tree.unflatten(traced.structure, results)
        if entry.door is None:
            self._open(key, entry, split, values)
            if entry.door is not None:
                return self._call(args, kwargs)
        gone = self._given_away(split, structure)
        return traced.finish(bind.face().call(traced.jaxpr, operands, gone)[traced.acts :])

    def _values(self, leaves: Sequence[Any], split: Split, structure: tree.Structure) -> list[Any]:
        try:
            return [bind.face().asarray(x) for x in leaves]
        except (TfnError, TypeError):  # again, to say where it stands
            names = self._names_of(split, structure)
            return [as_value(x, name, STATIC) for x, name in zip(leaves, names, strict=True)]

    def _find(
        self, split: Split, structure: tree.Structure, values: Sequence[Any], names: list[str]
    ) -> Entry:
        """The entry for these types, traced if it is not there."""
        kinds = tuple([(kind_of(v.shape, v.dtype), v.weak_type) for v in values])
        key = structure, split.statics, kinds
        entry = self._entries.find(key)
        if entry is not None:
            self._shorten(entry.direct)
        else:

            def call(leaves: Sequence[Any]) -> Any:
                args, kwargs = split.join(tree.unflatten(structure, leaves))
                return checked(name_of(self.function), self.function, args, kwargs)

            donated = self._given_away(split, structure)
            arguments = takes(name_of(self.function), structure, values, names, donated)
            start = time.perf_counter_ns()
            traced = closed(self.function, call, values, arguments)
            trace_ns = time.perf_counter_ns() - start
            nodes = sum(1 for _ in walk(traced.jaxpr.outputs))
            entry = self._last = Entry(traced, trace_ns, NODE_BYTES * nodes)
            self._misses += 1
            self._last_miss = _why(self.function, key, self._last_key, names)
            if all(value.trace is None for value in entry.traced.captured):
                self._entries.keep(key, entry)
                self._last_key = key
        return entry

    def _shorten(self, door: bind.Door | None) -> None:
        """Try a door first from now on."""
        if door is not None and door not in self._doors:
            self._doors.insert(0, door)
            del self._doors[MOST_DOORS:]

    def _open(self, key: Any, entry: Entry, split: Split, values: Sequence[Any]) -> None:
        """Make the doors of an entry, if the device has any."""
        traced, opens, structure = entry.traced, bind.face().door, key[0]
        _, kwargs = structure.children()
        token = [effects.first()] if traced.acts else []
        common = (
            [x.weak_type for x in values],
            [*(False for _ in token), *traced.weak],
            [*token, *traced.captured],
            self._given_away(split, structure),
        )
        first, last = len(token), len(token) + len(traced.weak)
        door = opens(traced.jaxpr, [list(range(len(values)))], list(range(last)), *common)
        entry.door = effects.outside(door) if door and traced.acts else door
        direct = not split.statics and not kwargs.num_leaves
        if entry.door and direct and tree.is_open(structure) and tree.is_open(traced.structure):
            taken, _ = tree.unflatten(structure, range(len(values)))
            gives = tree.unflatten(traced.structure, range(first, last))
            door = opens(traced.jaxpr, taken, (0, gives) if token else gives, *common)
            if door is not None:
                entry.direct = effects.outside(door, 1) if token else door
                self._entries.find(key)  # to be young, as what is tried first has to be
                self._shorten(entry.direct)

    def _names_of(self, split: Split, structure: tree.Structure) -> list[str]:
        key = structure, split.positions
        if key not in self._names:
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            self._names[key] = argument_names(self.function, structure, split.positions)
        return self._names[key]

    def _given_away(self, split: Split, structure: tree.Structure) -> frozenset[int]:
        """The numbers of the leaves that are donated."""
        args, kwargs = structure.children()
        places = split.positions or range(args.num_children)
        chosen = [at in self.donated.positions for at in places]
        chosen += [name in self.donated.names for name in kwargs.entries()]
        sizes = [part.num_leaves for part in (*args.children(), *kwargs.children())]
        gone = [is_gone for is_gone, size in zip(chosen, sizes, strict=True) for _ in range(size)]
        return frozenset([i for i, is_gone in enumerate(gone) if is_gone])

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(
        self: Jitted[Concatenate[Instance, Q], R_co], instance: Instance, owner: type
    ) -> Callable[Q, R_co]: ...

    def __get__(self, instance: object, owner: type) -> object:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<{'call' if self.called else 'jit'} of {name_of(self.function)}>"


def _why(function: Function, key: Any, before: Any, names: Sequence[str]) -> str:
    """What a new key has that the last one had not."""
    if before is None:
        return "the first call"
    if key == before:
        return "it had not been used for long, and was dropped"
    if key[0] != before[0]:
        return f"the structure {tree.show(key[0])} instead of {tree.show(before[0])}"
    changes = []
    for (at, _, new), (_, _, old) in zip(key[1], before[1]):
        if new != old or type(new) is not type(old):
            name = parameter_names(function, at + 1)[at] if isinstance(at, int) else at
            changes.append(f"static argument {name}: {new!r} instead of {old!r}")
    for name, new, old in zip(names, key[2], before[2]):
        if new != old:
            changes.append(f"{name}: {_show_type(new)} instead of {_show_type(old)}")
    return "; ".join(changes) or "the static arguments were passed in another way"


def _show_type(kind: Any) -> str:
    (shape, dtype), weak = (kind[0].shape, kind[0].dtype), kind[1]
    return f"{SHORT[dtype]}[{','.join(map(str, shape))}]" + (" (weak)" if weak else "")
