"""Just-in-time compilation: `jit` compiles a function whole, once for each type of arguments.

A call looks up the abstract values of its arguments - shape, dtype, weakness - and runs the program
in the cache.  On a miss the function is traced, closed into a Jaxpr, and cached.  Captured arrays,
and captured values of an outer trace, become operands; with values of an outer trace nothing is
cached, since the next call may capture others.

If the device has native entry points, a program gets two: a direct one, which takes the arguments
as the user passes them and is tried first, and one that takes the list of leaves, for arguments
that are static, passed by name, or of classes that only Python can flatten.
"""

from __future__ import annotations

import operator
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Concatenate, Generic, NamedTuple, Self, overload
from weakref import WeakKeyDictionary

from tfn import tree
from tfn._support import events
from tfn._support.cache import NODE_BYTES, Cache
from tfn._support.frozen import mutable
from tfn._support.lazy import by_name
from tfn._support.validate import a_function
from tfn.config import config
from tfn.dtypes import RULES, SHORT, number
from tfn.errors import ArgumentError, TfnError
from tfn.trace import bind, effects, refs, runtime, source_lines, traces
from tfn.trace.aval import kind_of
from tfn.trace.jaxpr import calling, close
from tfn.trace.loop_cleanup import tidy
from tfn.trace.mesh import mesh_reads
from tfn.trace.place import common_place
from tfn.trace.uop import Key, walk
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
    converted,
    is_type,
    name_of,
    parameter_names,
    wraps,
)
from tfn.transforms.disable import DISABLED
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.shard import axes, layout, vary
from tfn.transforms.shard.jit_shardings import Shardings, mesh_key
from tfn.transforms.static_args import Arrangement, Names, Selection, Split
from tfn.transforms.tracing import record

_bucketed = by_name("tfn.buckets.bucketed.bucketed")

MAX_NAMED_STRUCTURES = 64
"""The structures of arguments whose names are cached, for errors; more are seldom live at once."""

MAX_DIRECT_ENTRIES = 8
"""The direct entry points that are tried in turn before a call is looked up in the cache: each try
that fails costs some of the time that the look-up in Python would take."""


def closed(
    function: Function,
    call: Callable[[list[Any]], object],
    kinds: Sequence[Any],
    arguments: Takes,
    shardings: Shardings | None = None,
) -> Traced:
    """The closed function of leaves of these types."""
    recorded = record("jit", function, call, kinds, arguments.names, known=False)
    cells, outputs, on = recorded.cells, recorded.outputs, None
    if shardings is not None:
        outputs = shardings.constrain(outputs, recorded.structure)
        on = shardings.request(recorded.structure, len(cells))
    inputs = [*recorded.inputs, *recorded.before]
    jaxpr, captured = close(tidy([*recorded.after, *outputs]), inputs)
    if not traces.running():  # within another program nothing is donated
        arguments.warn_of_unused_donations(recorded.outputs)
    values = tuple(leaf.arg.value for leaf in captured)
    jaxpr = replace(jaxpr, captured=len(values))
    structure, weak = recorded.structure, tuple(recorded.weak)
    single, uses_axes = structure.is_leaf(), recorded.trace.uses_axes
    layouts = tuple([recorded.layout_of(u) for u in outputs])
    return Traced(jaxpr, values, structure, weak, single, cells, arguments, uses_axes, on, layouts)


@mutable
class Entry:
    """A specialization of a function for one type of arguments.

    Attributes:
        trace_ns, trace_bytes: the time that tracing took, and the memory of the trace.
        by_leaves: the native entry point that takes the list of leaves.
        direct: the native entry point that takes arguments as they are passed, in the order of an
            `Arrangement`.
        key: of that arrangement, if there are static arguments or arguments by name.
        device: the default device for which the entry points were made.
    """

    traced: Traced
    trace_ns: int
    trace_bytes: int
    device: str = ""
    by_leaves: runtime.Entry | None = None
    direct: runtime.Entry | None = None
    key: tuple[object, ...] | None = None

    @property
    def compile_stats(self) -> runtime.CompileStats:
        """The compile statistics of its program."""
        traced = self.traced
        stats = runtime.installed().compile_stats(traced.jaxpr, traced.kinds, traced.on)
        return stats._replace(trace_ns=self.trace_ns)

    @property
    def size_bytes(self) -> int:
        """Its memory, with that of the program that its entry points refer to."""
        program = runtime.ENTRY_BYTES + self.compile_stats.size_bytes if self.by_leaves else 0
        return self.trace_bytes + program


class CacheInfo(NamedTuple):
    """The cache of a jitted function.

    Attributes:
        entries: the number of programs in it.
        misses: the number of calls that were traced.
        last_miss: the reason of the last one.
        last: compile statistics of the last program.
        total: compile statistics of all programs in the cache.
    """

    entries: int
    misses: int
    last_miss: str
    last: runtime.CompileStats
    total: runtime.CompileStats


SHARES: list[bool] = [False]
"""Whether each `jit` of one function, with the same options, has the programs of the others.

So it is in JAX, whose users call ``jit(f)(x)`` in loops."""

_SHARED: WeakKeyDictionary[Function, dict[Any, Cache[Entry]]] = WeakKeyDictionary()
"""The programs of functions, by options, where they are shared."""


def _new_cache() -> Cache[Entry]:
    return Cache("traces", lambda entry: entry.size_bytes)


@overload
def jit(
    fun: Callable[P, R],
    /,
    *,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    donate_argnums: Argnums = (),
    donate_argnames: Names = (),
    in_shardings: Any = None,
    out_shardings: Any = None,
    device: Any = None,
) -> Jitted[P, R]: ...


@overload
def jit(
    fun: None = None,
    /,
    *,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    donate_argnums: Argnums = (),
    donate_argnames: Names = (),
    in_shardings: Any = None,
    out_shardings: Any = None,
    device: Any = None,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


@overload
def jit(
    fun: Any = None,
    /,
    *,
    buckets: Any,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    donate_argnums: Argnums = (),
    donate_argnames: Names = (),
) -> Any: ...


def jit(
    fun: Callable[P, R] | None = None,
    /,
    *,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    donate_argnums: Argnums = (),
    donate_argnames: Names = (),
    in_shardings: Any = None,
    out_shardings: Any = None,
    device: Any = None,
    buckets: Any = None,
) -> Any:
    """Compile a function whole, once for each shape, dtype and structure of its arguments.

    Usable as ``@jit``, ``@jit(static_argnames="n")`` and ``jit(f, ...)``, on functions and on
    methods.  The function must be pure: it runs as Python only when it is traced.  Arguments that
    are NumPy arrays are copied at each call; `device_put` copies them once.

    Args:
        static_argnums, static_argnames: arguments that are Python values; they must be hashable,
            and each new value is a new program.
        donate_argnums, donate_argnames: arguments whose arrays are donated: they are deleted when
            the program begins, and results may reuse their memory.
        in_shardings: the shardings of positional arguments: one for all, or a tree of them that
            begins like the tuple of arguments; None for any.  Arrays that are not committed to
            devices are brought there.
        out_shardings: the shardings of results: one for all, or a tree of them that begins like
            the result; None leaves a result to the compiler.
        device: the device to run on, where no argument is committed to another one.
        buckets: axes whose sizes are rounded up, so that one program serves many sizes: a dict from
            arguments to the names of their axes, as ``{"x": "batch _"}``, or `tfn.Buckets`, which
            says to what.  Results are those of the true sizes.

    Raises:
        DeviceError: for arguments on different devices, naming two of them.
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
    shardings = in_shardings, out_shardings, device
    if buckets is not None:
        return _bucketed(fun, buckets, options, shardings)
    made: Any = lambda f: Jitted(f, *options, shardings=shardings)
    return made if fun is None else made(fun)


class Jitted(Generic[P, R_co]):
    """The result of `jit`: a function of the same signature, with a cache of programs.

    With the name `called` it stays one operation in a trace; see `call.call`.
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
        shardings: tuple[Any, Any, Any] = (None, None, None),
    ) -> None:
        wraps(function)(self)
        self.function, self.called = function, called
        a_function(called or "jit", "function", function)
        self.static = Selection.of(function, "static", static_argnums, static_argnames)
        self.donated = Selection.of(function, "donate", donate_argnums, donate_argnames)
        if both := self.static.names & self.donated.names:
            raise ArgumentError(
                f"{name_of(function)} cannot donate a static argument",
                got=", ".join(sorted(both)),
                hint="static arguments have no memory to give away",
            )
        self.shardings = Shardings.of(name_of(function), *shardings)
        self._reads_mesh = self.shardings is not None and self.shardings.has_specs
        self._names: dict[Key, list[str]] = {}
        plain = type(function) is types.FunctionType and self.shardings is None and not called
        self._shared = _SHARED.setdefault(function, {}) if plain and SHARES[0] else {}
        self._options = self.static, self.donated, number(0), number(0.0)
        kept = self._shared.get(self._options)
        self._use(_new_cache() if kept is None else kept)

    def clear_cache(self) -> None:
        """Forget every program."""
        self._use(_new_cache())

    def _use(self, entries: Cache[Entry]) -> None:
        """Keep programs in this cache; so does each `jit` from now on that shares them."""
        self._entries = self._shared[self._options] = entries
        self._direct: list[runtime.Entry] = self._entries.shortcuts  # direct entry points
        self._direct_by = self._entries.shortcuts_by  # those of calls with an arrangement
        self._arrangements: dict[Any, Arrangement] = {}
        self._last: Entry | None = None
        self._last_key: Any = None
        self._misses, self._last_miss = 0, ""

    def cache_info(self) -> CacheInfo:
        """The number of programs, the reason of the last miss, and compile statistics.

        Example:
            >>> f = jit(lambda x: 2 * x)
            >>> float(f(1.0)), float(f(2.0))
            (2.0, 4.0)
            >>> f.cache_info().misses, f.cache_info().last.kernels
            (1, 1)
        """
        stats = [entry.compile_stats for _, entry in self._entries.items()]
        last = self._last.compile_stats if self._last else runtime.CompileStats()
        total = runtime.CompileStats(*map(sum, zip(*stats)))
        return CacheInfo(len(self._entries), self._misses, self._last_miss, last, total)

    def trace(self, *args: object, **kwargs: object) -> Traced:
        """The closed function for these arguments; `ShapeDtypeStruct` will do for an array."""
        split = self.static.split(self.function, args, kwargs)
        leaves, structure = tree.flatten(split.dynamic)
        names = self._names_of(split, structure)
        kinds = [
            x
            if isinstance(x, ShapeDtypeStruct)
            else ShapeDtypeStruct(x.shape, x.dtype)
            if is_type(x)
            else as_value(x, name, STATIC)
            for x, name in zip(leaves, names, strict=True)
        ]
        if self.shardings is not None:
            kinds = self.shardings.put(split.dynamic[0], kinds, names)
        return self._find(split, structure, kinds, names, source_lines.tracked()).traced

    def lower(self, *args: object, **kwargs: object) -> Lowered:
        """The program for these arguments, lowered but not compiled; nothing runs.

        Example:
            >>> import tfn
            >>> row = tfn.ShapeDtypeStruct((3,), "float32")
            >>> print(jit(lambda x: x + 1).lower(row).as_text("ranges"))
            kernel 0: d:f32[3] <- a:f32[3]
              for r0 in 3:
                d[r0] = a[r0] + 1.0
        """
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: object, **kwargs: object) -> Any:
        """The types of the results for these arguments; nothing is computed."""
        return self.trace(*args, **kwargs).out_info

    def memory_analysis(self, *args: object, **kwargs: object) -> Any:
        """The memory that a call with these arguments takes: a `Footprint`; nothing runs.

        Results that are written over donated arguments take none.

        Example:
            >>> import numpy as np
            >>> jit(lambda x: x + 1).memory_analysis(np.zeros(256, "float32")).output_bytes
            1024
        """
        traced = self.trace(*args, **kwargs)
        return runtime.installed().footprint(
            traced.jaxpr, traced.takes.donated, traced.kinds, traced.on
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The function's result, from the program for arguments of this type."""
        if DISABLED[0]:
            return self.function(*args, **kwargs)
        entries, values = self._direct, args
        if kwargs or self.static:
            entries, values = self._arranged(args, kwargs)
        for direct in entries:
            result: R_co = direct(*values)
            if result is not NotImplemented:
                return result
        if entries:
            changed = [converted(x) for x in values]
            if not all(map(operator.is_, changed, values)):
                for direct in entries:
                    result = direct(*changed)
                    if result is not NotImplemented:
                        return result
        result = self._call(args, kwargs)
        return result

    def _arranged(self, args: Any, kwargs: Any) -> tuple[list[runtime.Entry], Any]:
        """The direct entry points for the static arguments of a call, and the other arguments."""
        form = (len(args), *kwargs) if kwargs else len(args)
        arrangement = self._arrangements.get(form)
        if arrangement is None:
            if len(self._arrangements) >= MAX_NAMED_STRUCTURES:
                self._arrangements.clear()
            arrangement = self._arrangements[form] = self.static.arrange(len(args), tuple(kwargs))
        values = [*args, *map(kwargs.__getitem__, arrangement.form[1])] if kwargs else args
        try:
            entries = self._direct_by.get(arrangement.key(values))
        except TypeError:  # one cannot be hashed: the general call says which
            entries = None
        return (entries, arrangement.free(values)) if entries else ([], args)

    def _call(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """The general call: numbers or static arguments, a miss, or within an outer trace."""
        split = self.static.split(self.function, args, kwargs)
        flatten = tree.flatten if self.shardings is None else refs.flatten
        values, structure = flatten(split.dynamic)
        if self.shardings is not None:
            values = self._values(values, split, structure)
            names = self._names_of(split, structure)
            values = self.shardings.put(split.dynamic[0], values, names)
        try:
            kinds = tuple([(x.kind, x.weak_type) for x in values])
        except AttributeError:  # numbers, arrays of NumPy, or references
            values, structure = refs.flatten(split.dynamic)
            values = self._values(values, split, structure)
            kinds = tuple([(x.kind, x.weak_type) for x in values])
        key = structure, split.statics, kinds, *RULES[0]
        entry = None
        if not self._reads_mesh and not axes.live():
            entry = self._entries.young.get(key)
        anew = source_lines.tracked() and bind.innermost(values) is not None
        if entry is None or anew:  # a miss, an old entry, or within an outer trace
            names = self._names_of(split, structure)
            entry = self._find(split, structure, values, names, anew)
        traced = entry.traced
        if entry.by_leaves is not None:
            results = entry.by_leaves(values)
            if results is not NotImplemented:
                results = results[len(traced.cells) :]
                return results[0] if traced.single else tree.unflatten(traced.structure, results)
        operands = [*values, *(cell.read() for cell in traced.cells), *traced.captured]
        if bind.innermost(operands) is not None:
            jaxpr = calling(traced.jaxpr, self.called) if self.called else traced.jaxpr
            results = bind.call(jaxpr, operands, traced.weak, traced.cells)
            return tree.unflatten(traced.structure, results)
        new = entry.by_leaves is None or entry.device != config.device
        if new and not traced.uses_axes and not traced.uses_refs:
            self._make_entry_points(key, entry, split, values, args, kwargs)
            if entry.by_leaves is not None:
                return self._call(args, kwargs)
        gone = self._donated(split, structure)
        results = runtime.installed().call(traced.jaxpr, operands, gone, traced.on, traced.fun_name)
        return traced.finish(results)

    def _values(
        self, leaves: Sequence[object], split: Split, structure: tree.Structure
    ) -> list[Any]:
        try:
            return [runtime.installed().asarray(x) for x in leaves]
        except (TfnError, TypeError):  # again, with the names for an error
            names = self._names_of(split, structure)
            return [as_value(x, name, STATIC) for x, name in zip(leaves, names, strict=True)]

    def _find(
        self,
        split: Split,
        structure: tree.Structure,
        values: Sequence[Any],
        names: list[str],
        anew: bool = False,
    ) -> Entry:
        """The entry for these types, traced on a miss.

        Or traced `anew`, and not kept: for source lines, which the nodes of the cache do not have.
        """
        types = [v.kind or kind_of(v.shape, v.dtype) for v in values]
        kinds = tuple([(kind, v.weak_type) for kind, v in zip(types, values, strict=True)])
        rest = structure, split.statics, kinds, *RULES[0], *vary.key(values), *layout.key(values)
        key: Any = (*rest, *mesh_key(self._reads_mesh))
        entry = None if anew else self._entries.find(key)
        if entry is not None:
            self._prefer(entry)
        else:
            common_place(name_of(self.function), types, names)

            def call(leaves: list[Any]) -> object:
                args, kwargs = split.join(tree.unflatten(structure, leaves))
                return checked(name_of(self.function), self.function, args, kwargs)

            donated = self._donated(split, structure)
            arguments = takes(name_of(self.function), structure, values, names, donated)
            start_ns, reads = time.perf_counter_ns(), mesh_reads()
            traced = closed(self.function, call, values, arguments, self.shardings)
            trace_ns = time.perf_counter_ns() - start_ns
            if mesh_reads() != reads:  # the mesh that is set is an argument, too
                self._reads_mesh = True
                self._direct.clear()
                key = (*rest, *mesh_key(True))
            nodes = sum(1 for _ in walk(traced.jaxpr.outputs))
            entry = Entry(traced, trace_ns, NODE_BYTES * nodes)
            if anew:
                return entry
            self._last = entry
            self._misses += 1
            self._last_miss = _why(self.function, key, self._last_key, names)
            events.add("trace", traced.fun_name, start_ns, self._last_miss)
            inside = any(value.owner is not None for value in traced.captured)
            inside = inside or not all(cell.lasting for cell in traced.cells)
            if not inside and not traced.uses_axes:
                self._entries.keep(key, entry)
                self._last_key = key
        return entry

    def _prefer(self, entry: Entry) -> None:
        """Try the direct entry point of an entry first from now on."""
        if entry.direct is None:
            return
        entries = self._direct
        if entry.key is not None:
            entries = self._direct_by.setdefault(entry.key, [])
        if entry.direct not in entries:
            entries.insert(0, entry.direct)
            del entries[MAX_DIRECT_ENTRIES:]

    def _make_entry_points(
        self, key: Any, entry: Entry, split: Split, values: Sequence[Any], args: Any, kwargs: Any
    ) -> None:
        """Make the native entry points of an entry, if the device has any."""
        traced, make, structure = entry.traced, runtime.installed().entry, key[0]
        entry.device = config.device
        for entries in (self._direct, *self._direct_by.values()):
            entries[:] = [direct for direct in entries if direct is not entry.direct]
        token = [effects.first() for _ in traced.cells]  # there is no other state
        common = (
            [x.weak_type for x in values],
            [*(False for _ in token), *traced.weak],
            [*token, *traced.captured],
            self._donated(split, structure),
            traced.kinds,
            traced.on,
            traced.fun_name,
        )
        first, last = len(token), len(token) + len(traced.weak)
        native = make(traced.jaxpr, [list(range(len(values)))], list(range(last)), *common)
        entry.by_leaves = effects.outside(native) if native and token else native
        if (
            entry.by_leaves
            and not self._reads_mesh
            and tree.is_open(structure)
            and tree.is_open(traced.structure)
        ):
            parameters, named = tree.unflatten(structure, range(len(values)))
            if kwargs or self.static:
                arrangement = self.static.arrange(len(args), tuple(kwargs))
                parameters = [*parameters, *(named[name] for name in sorted(named))]
                entry.key = arrangement.key([*args, *(kwargs[name] for name in sorted(kwargs))])
            gives = tree.unflatten(traced.structure, range(first, last))
            native = make(traced.jaxpr, parameters, (0, gives) if token else gives, *common)
            if native is not None:
                entry.direct = effects.outside(native, 1) if token else native
                # Keeps the entry young: direct entry points refer to young entries alone.
                self._entries.find(key)
                self._prefer(entry)

    def _names_of(self, split: Split, structure: tree.Structure) -> list[str]:
        key = structure, split.positions
        if key not in self._names:
            if len(self._names) >= MAX_NAMED_STRUCTURES:
                self._names.clear()
            self._names[key] = argument_names(self.function, structure, split.positions)
        return self._names[key]

    def _donated(self, split: Split, structure: tree.Structure) -> frozenset[int]:
        """The indices of the leaves that are donated."""
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
    """The difference between a new key and the last one, for `CacheInfo.last_miss`."""
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
    place = f" of {kind[0].sharding}" if kind[0].sharding else ""
    text = f"{SHORT[dtype]}[{','.join(map(str, shape))}]" + (" (weak)" if weak else "")
    return text + place
