"""Ahead-of-time compilation: a function traced, lowered and compiled before it is called.

    f.trace(x)             Traced     .jaxpr, .out_info
    f.lower(x)             Lowered    .as_text(stage), .cost_analysis()
    f.lower(x).compile()   Compiled   (x), .as_text(stage), .memory_analysis()

The arguments are types, or arrays of which only the types count.  A compiled function takes
arguments of these types and refuses all others, before anything runs.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tfn import tree
from tfn._support.frozen import frozen
from tfn.dtypes import DType
from tfn.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    ShapeError,
    TfnError,
    TreeError,
    user_place,
)
from tfn.trace import effects, runtime, traces
from tfn.trace.aval import Kind, kind_of
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Shape
from tfn.transforms.arguments import as_value, show
from tfn.transforms.shapes import ShapeDtypeStruct


@frozen
class Takes:
    """The arguments that a function was traced for.

    Attributes:
        name: the user's name of the function.
        structure: of (args, kwargs), without static arguments.
        types, names: of their leaves.
        donated: the indices of the leaves whose memory is donated.
    """

    name: str
    structure: tree.Structure
    types: tuple[ShapeDtypeStruct, ...]
    names: tuple[str, ...]
    donated: frozenset[int] = frozenset()

    def check(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[runtime.Value]:
        """The leaves of arguments as Values, if they are of the types.

        Raises:
            TreeError, ShapeError, DTypeError, ArgumentError: naming the argument that is not.
        """
        leaves, structure = tree.flatten((args, kwargs))
        if structure != self.structure:
            raise self._refusal(
                TreeError, "the arguments", tree.show(structure), tree.show(self.structure)
            )
        return [self._fit(i, leaf) for i, leaf in enumerate(leaves)]

    def warn_of_unused_donations(self, results: Sequence[runtime.Typed]) -> None:
        """Warn of donated leaves that have no result of their type, whose memory none can take."""
        free = Counter((y.shape, y.dtype) for y in results)
        unused = []
        for i in sorted(self.donated):
            kind = self.types[i].shape, self.types[i].dtype
            if not free[kind]:
                unused.append(f"{self.names[i]}, {show(self.types[i])}")
            free[kind] -= free[kind] > 0
        if unused:
            warnings.warn_explicit(
                f"Some donated buffers were not usable: {'; '.join(unused)}: {self.name} has no "
                "result of that shape and dtype left, which could be written over them",
                UserWarning,
                *(user_place() or (__file__, 1)),
            )

    def _fit(self, i: int, leaf: object) -> runtime.Value:
        name, expected = self.names[i], self.types[i]
        if isinstance(leaf, (bool, int, float, complex)):
            leaf = runtime.installed().asarray(leaf, expected.dtype if expected.weak_type else None)
        value: runtime.Value = as_value(leaf, name)
        if value.owner is not None:
            raise ArgumentError(
                f"{self.name} has been compiled, and can be neither traced nor transformed",
                got=repr(value),
                hint="use the function itself inside of jit, grad and vmap",
            )
        if value.shape != expected.shape:
            raise self._refusal(ShapeError, name, show(value), show(expected))
        if value.dtype != expected.dtype:
            raise self._refusal(DTypeError, name, show(value), show(expected))
        return self._placed(value, expected.sharding, name)

    def _placed(self, value: runtime.Value, sharding: Any, name: str) -> runtime.Value:
        """The value under the sharding that the function was compiled for."""
        has = value.kind.sharding if value.kind else None
        if has is sharding or has == sharding:
            return value
        if has is None or (sharding and has.is_equivalent_to(sharding, len(value.shape))):
            placed: runtime.Value = runtime.device_put(value, sharding)
            return placed
        raise self._refusal(DeviceError, name, str(has), str(sharding or "the default device"))

    def _refusal(self, error: type[TfnError], name: str, got: str, expected: str) -> TfnError:
        return error(
            f"{self.name} has been compiled for other arguments",
            got=f"{name}: {got}",
            hint=f"it was compiled for {name}: {expected}; lower and compile it for these as well, "
            "or use jit",
        )


@frozen
class ArgInfo:
    """An argument of a program.

    Attributes:
        aval: its type.
        donated: whether its memory is given to the results.
    """

    aval: ShapeDtypeStruct
    donated: bool

    @property
    def shape(self) -> Shape:
        """The sizes of its axes."""
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        """The dtype of its elements."""
        return self.aval.dtype


@frozen
class Traced:
    """A function closed over given kinds of arguments.

    Attributes:
        jaxpr: its parameters are the leaves of the arguments, then what was captured.
        captured: the Values it closed over.
        structure: of the result.
        weak: which results have a weak dtype.
        single: whether the result is one array.
        cells: state, whose values follow the leaves of the arguments, and come before the results.
        takes: its arguments.
        uses_axes: whether it was traced within named axes that it uses, so that it serves for one
            call alone.
        on: the shardings that the user has asked for, a `Request`.
        layouts: the division of each result over explicit axes of a mesh; None for one on none.
    """

    jaxpr: Jaxpr
    captured: tuple[runtime.Value, ...]
    structure: tree.Structure
    weak: tuple[bool, ...]
    single: bool
    cells: tuple[traces.Cell, ...]
    takes: Takes
    uses_axes: bool = False
    on: Any = None
    layouts: tuple[Any, ...] = ()

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of the parameters: arguments, state, what was captured."""
        state = self.jaxpr.params[len(self.takes.types) :][: len(self.cells)]
        return [
            *(t.kind for t in self.takes.types),
            *(kind_of(p.shape, p.dtype) for p in state),
            *(v.kind or kind_of(v.shape, v.dtype) for v in self.captured),
        ]

    def finish(self, results: list[Any]) -> Any:
        """The results of the program as the function returned them; its state is set."""
        for cell, value in zip(self.cells, results):
            cell.write(value)
        results = results[len(self.cells) :]
        if True in self.weak:
            pairs = zip(results, self.weak, strict=True)
            results = [runtime.installed().weaken(value, weak) for value, weak in pairs]
        return results[0] if self.single else tree.unflatten(self.structure, results)

    @property
    def out_info(self) -> Any:
        """The types of the results, as a tree of `ShapeDtypeStruct`."""
        results = zip(self.jaxpr.outputs[len(self.cells) :], self.weak, self.layouts, strict=True)
        types = [ShapeDtypeStruct(u.shape, u.dtype, w).with_layout(at) for u, w, at in results]
        return tree.unflatten(self.structure, types)

    @property
    def uses_refs(self) -> bool:
        """Whether there is state beside the order of side effects: a call reads and writes it."""
        return any(cell is not effects.TOKEN for cell in self.cells)

    @property
    def fun_name(self) -> str:
        """The user's name of the function."""
        return self.takes.name

    @property
    def in_tree(self) -> tree.Structure:
        """The structure of (args, kwargs), without static arguments."""
        return self.takes.structure

    @property
    def out_tree(self) -> tree.Structure:
        """The structure of the result."""
        return self.structure

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as the tree (args, kwargs)."""
        return tree.unflatten(self.in_tree, self.takes.types)

    @property
    def args_info(self) -> Any:
        """The arguments, as the tree (args, kwargs) of `ArgInfo`."""
        return tree.unflatten(
            self.in_tree,
            [ArgInfo(t, i in self.takes.donated) for i, t in enumerate(self.takes.types)],
        )

    def lower(self) -> Lowered:
        """The program for the default device, before it is compiled.

        Raises:
            ArgumentError: if it closes over a value of a running trace.
        """
        traced = [value for value in self.captured if value.owner is not None]
        if traced:
            raise ArgumentError(
                f"{self.fun_name} closes over a value that is being traced",
                got=repr(traced[0]),
                hint="lower it outside, or pass the value as an argument",
            )
        return Lowered(self, runtime.view(self.jaxpr, self.kinds))


@frozen
class Lowered:
    """A function lowered for the default device, not yet machine code.

    Attributes:
        traced: the traced function, with `out_info`, `in_avals`, `in_tree` and `out_tree`.
        view: its stages; see `tfn.inspect.show`.
    """

    traced: Traced
    view: Any

    def as_text(self, stage: str = "kernels") -> str:
        """The function at a stage of its compilation; `show` lists them.

        Raises:
            ArgumentError: for an unknown stage.
        """
        return str(self.view.text(stage))

    def _repr_html_(self) -> str:
        """In a notebook: the cost, and each stage, to be unfolded."""
        return str(self.view.html(self.traced.fun_name))

    def cost_analysis(self) -> dict[str, float]:
        """The cost of one call: ``flops``, ``transcendentals`` and ``bytes accessed``.

        Of a loop without a fixed number of steps one step is counted; of the branches of a cond,
        the most expensive one.
        ``bytes in`` and ``bytes out`` are those of the arguments and the results, each of them
        once: what has to be read and written, where nothing is donated.

        Example:
            >>> import tfn
            >>> x = tfn.ShapeDtypeStruct((4, 3), "float32")
            >>> tfn.jit(lambda x: tfn.numpy.exp(x @ x.T)).lower(x).cost_analysis()
            {'flops': 96.0, 'transcendentals': 16.0, 'bytes accessed': 240.0, 'bytes in': 48.0,
             'bytes out': 64.0}
        """
        return dict(self.view.cost)

    @property
    def out_info(self) -> Any:
        """The types of the results, as a tree of `ShapeDtypeStruct`."""
        return self.traced.out_info

    @property
    def in_tree(self) -> tree.Structure:
        """The structure of (args, kwargs), without static arguments."""
        return self.traced.in_tree

    @property
    def out_tree(self) -> tree.Structure:
        """The structure of the result."""
        return self.traced.out_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as the tree (args, kwargs)."""
        return self.traced.in_avals

    @property
    def args_info(self) -> Any:
        """The arguments, as the tree (args, kwargs) of `ArgInfo`."""
        return self.traced.args_info

    def compile(self, compiler_options: Mapping[str, object] | None = None) -> Compiled:
        """Machine code, ready to be called.

        Args:
            compiler_options: those of XLA, ``xla_...``, are accepted as in JAX and ignored.

        Raises:
            CompileError: if it cannot be made.
            ArgumentError: for an option that no compiler has.
        """
        unknown = [name for name in compiler_options or () if not name.startswith("xla_")]
        if unknown:
            raise ArgumentError(
                "compile got an option that neither tfn nor XLA has",
                got=", ".join(map(repr, unknown)),
                hint="leave compiler_options out: tfn.config has what can be chosen",
            )
        traced = self.traced
        runtime.installed().footprint(traced.jaxpr, kinds=traced.kinds, on=traced.on)
        leaves, results = len(traced.takes.types), len(traced.weak)
        entry = None
        if not traced.cells:
            entry = runtime.installed().entry(
                traced.jaxpr,
                [list(range(leaves))],
                list(range(results)),
                [None] * leaves,
                traced.weak,
                traced.captured,
                traced.takes.donated,
                traced.kinds,
                traced.on,
                traced.fun_name,
            )
        return Compiled(self, entry)


@frozen
class Compiled:
    """A function as machine code, for arguments of given types.

    Attributes:
        lowered: the lowered function.
        entry: the native entry point, which takes the list of leaves, if the device has one.

    Example:
        >>> import tfn
        >>> double = tfn.jit(lambda x: 2 * x).lower(tfn.ShapeDtypeStruct((2,), "float32")).compile()
        >>> double(tfn.numpy.ones(2)).tolist()
        [2.0, 2.0]
        >>> double(tfn.numpy.ones(3))
        Traceback (most recent call last):
        tfn.errors.ShapeError: <lambda> has been compiled for other arguments
          got: x: f32[3]
        ...
    """

    lowered: Lowered
    entry: runtime.Entry | None

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """The function's result; static arguments are left out.

        Raises:
            TreeError, ShapeError, DTypeError: for arguments of other types, naming them.
            ArgumentError: for traced ones.
        """
        traced = self.lowered.traced
        values = traced.takes.check(args, kwargs)
        if self.entry is not None:
            results = self.entry(values)
            if results is not NotImplemented:
                return results[0] if traced.single else tree.unflatten(traced.structure, results)
        operands = [*values, *(cell.read() for cell in traced.cells), *traced.captured]
        results = runtime.installed().call(
            traced.jaxpr, operands, traced.takes.donated, traced.on, traced.fun_name
        )
        return traced.finish(results)

    def as_text(self, stage: str = "assembly") -> str:
        """The function at a stage of its compilation; `show` lists them.

        Raises:
            ArgumentError: for an unknown stage.
        """
        return self.lowered.as_text(stage)

    def _repr_html_(self) -> str:
        """In a notebook: the cost, and each stage to be unfolded, machine code too."""
        return str(self.lowered.view.html(self.lowered.traced.fun_name, machine_code=True))

    def cost_analysis(self) -> dict[str, float]:
        """The cost of one call; see `Lowered.cost_analysis`."""
        return self.lowered.cost_analysis()

    @property
    def input_shardings(self) -> Any:
        """The shardings of the arguments, as the tree (args, kwargs).

        None for an argument that is not committed to devices.
        """
        types = self.lowered.traced.takes.types
        return tree.unflatten(self.in_tree, [t.sharding for t in types])

    @property
    def output_shardings(self) -> Any:
        """The shardings of the result, as its tree; None for the default device."""
        traced = self.lowered.traced
        _, _, _, kinds = runtime.installed().place(traced.jaxpr, traced.kinds, traced.on)
        kinds = kinds or [kind_of(u.shape, u.dtype) for u in traced.jaxpr.outputs]
        shardings = [kind.sharding for kind in kinds[len(traced.cells) :]]
        return tree.unflatten(self.out_tree, shardings)

    def memory_analysis(self) -> Any:
        """The memory that a call takes: a `Footprint`."""
        traced = self.lowered.traced
        return runtime.installed().footprint(
            traced.jaxpr, traced.takes.donated, traced.kinds, traced.on
        )

    @property
    def out_info(self) -> Any:
        """The types of the results, as a tree of `ShapeDtypeStruct`."""
        return self.lowered.out_info

    @property
    def in_tree(self) -> tree.Structure:
        """The structure of (args, kwargs), without static arguments."""
        return self.lowered.in_tree

    @property
    def out_tree(self) -> tree.Structure:
        """The structure of the result."""
        return self.lowered.out_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as the tree (args, kwargs)."""
        return self.lowered.in_avals

    @property
    def args_info(self) -> Any:
        """The arguments, as the tree (args, kwargs) of `ArgInfo`."""
        return self.lowered.args_info


def takes(
    name: str,
    structure: tree.Structure,
    values: Sequence[runtime.Value | ShapeDtypeStruct],
    names: Sequence[str],
    donated: frozenset[int],
) -> Takes:
    """The arguments of a trace for Values, or types, of which only the types count."""
    kinds = [v.kind for v in values]
    types = tuple(
        ShapeDtypeStruct(v.shape, v.dtype, v.weak_type, sharding=kind.sharding if kind else None)
        for v, kind in zip(values, kinds, strict=True)
    )
    return Takes(name, structure, types, tuple(names), donated)
