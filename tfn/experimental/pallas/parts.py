"""Functions that kernels use: conditions, loops, scratch memory, masked reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import debug, lax, tree
from tfn import numpy as tnp
from tfn.errors import ArgumentError
from tfn.experimental.pallas.call import blank, is_type
from tfn.experimental.pallas.refs import Block
from tfn.experimental.pallas.specs import CostEstimate, MemoryRef
from tfn.extend import Shape


def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """A decorator that runs a function of no arguments if a condition holds.

    Example:
        >>> block = Block(tnp.zeros(()))
        >>> @when(tnp.asarray(True))
        ... def _():
        ...     block[...] = 5.0
        >>> float(block[...])
        5.0
    """

    def decide(function: Callable[[], None]) -> None:
        if isinstance(condition, bool):
            if condition:
                function()
            return

        def call() -> int:
            function()
            return 0

        lax.cond(tnp.asarray(condition, bool), call, lambda: 0)

    return decide


def loop(
    lower: Any, upper: Any, *, step: Any = 1, unroll: object = None
) -> Callable[[Callable[[Any], None]], None]:
    """A decorator that runs a function of an index for lower, lower + step, ... below upper.

    Args:
        lower, upper, step: integers, which may be traced.
        unroll: accepted, and not used.

    Example:
        >>> block = Block(tnp.zeros(()))
        >>> @loop(0, 4)
        ... def _(i):
        ...     block[...] += i
        >>> float(block[...])
        6.0
    """

    def repeat(body: Callable[[Any], None]) -> None:
        def run(i: Any, carry: Any) -> Any:
            body(lower + i * step)
            return carry

        lax.fori_loop(0, (upper - lower + step - 1) // step, run, 0)

    return repeat


def run_scoped(f: Callable[..., Any], *types: Any, **kw_types: Any) -> Any:
    """The result of a function of scratch memory.

    Args:
        f: ``f(*blocks, **blocks)``.
        types, kw_types: types of memory, as `VMEM` makes them.

    Example:
        >>> from tfn.experimental.pallas import VMEM
        >>> def f(block):
        ...     block[...] = tnp.arange(3.0)
        ...     return block[1]
        >>> float(run_scoped(f, VMEM((3,), "float32")))
        1.0
    """
    made = tree.map(lambda t: Block(blank(t)), types, is_leaf=is_type)
    named = tree.map(lambda t: Block(blank(t)), kw_types, is_leaf=is_type)
    return f(*made, **named)


def with_scoped(*types: Any, **kw_types: Any) -> Callable[[Callable[..., Any]], Any]:
    """`run_scoped` as a decorator: the name of the function becomes its result.

    Example:
        >>> from tfn.experimental.pallas import VMEM
        >>> @with_scoped(VMEM((), "float32"))
        ... def value(block):
        ...     block[...] = 2.0
        ...     return block[...]
        >>> float(value)
        2.0
    """
    return lambda f: run_scoped(f, *types, **kw_types)


def load(ref: Any, idx: Any, *, mask: Any = None, other: Any = None, **hints: Any) -> Any:
    """The elements of a block at an index; `other`, or zero, where the mask is False.

    Example:
        >>> mask = tnp.asarray([True, False])
        >>> load(Block(tnp.ones(2)), ..., mask=mask, other=7.0).tolist()
        [1.0, 7.0]
    """
    found = ref[idx]
    return found if mask is None else tnp.where(mask, found, 0 if other is None else other)


def store(ref: Any, idx: Any, val: Any, *, mask: Any = None, **hints: Any) -> None:
    """Writes the elements of a block at an index, where the mask is True.

    Example:
        >>> block = Block(tnp.zeros(2))
        >>> store(block, ..., 1.0, mask=tnp.asarray([True, False]))
        >>> block[...].tolist()
        [1.0, 0.0]
    """
    ref[idx] = val if mask is None else tnp.where(mask, val, ref[idx])


def swap(ref: Any, idx: Any, val: Any, *, mask: Any = None, **hints: Any) -> Any:
    """Writes the elements of a block at an index, and returns those before.

    Example:
        >>> float(swap(Block(tnp.asarray(3.0)), ..., 1.0))
        3.0
    """
    before = ref[idx]
    store(ref, idx, val, mask=mask)
    return before


def atomic_add(ref: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Adds to the elements of a block at an index, and returns those before.

    Example:
        >>> block = Block(tnp.asarray(3.0))
        >>> float(atomic_add(block, ..., 1.0)), float(block[...])
        (3.0, 4.0)
    """
    before = ref[idx]
    store(ref, idx, before + val, mask=mask)
    return before


def empty(shape: Sequence[int], dtype: Any, **hints: Any) -> Any:
    """An array that nothing was written to: NaN, or the least integer.

    Example:
        >>> empty((1,), "float32").tolist()
        [nan]
    """
    return blank(MemoryRef(tuple(shape), tnp.zeros((), dtype).dtype))


def empty_like(x: Any, **hints: Any) -> Any:
    """An array of the shape and dtype of another that nothing was written to.

    Example:
        >>> empty_like(tnp.ones(2)).shape
        (2,)
    """
    return blank(MemoryRef(tuple(x.shape), x.dtype))


def empty_ref_like(x: Any) -> Block:
    """A block of the shape and dtype of an array that nothing was written to.

    Example:
        >>> empty_ref_like(tnp.ones(2))
        Block(float32[2])
    """
    return Block(empty_like(x))


def debug_print(fmt: str, *args: Any) -> None:
    """Prints values, as `tfn.debug.print`; without braces, behind the text.

    Example:
        >>> debug_print("x is {}", 1.0)
        x is 1.0
    """
    text = fmt if "{" in fmt else fmt + " {}" * len(args)
    debug.print(text, *args)


def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostEstimate:
    """A cost that says nothing: it is a hint, which no compiler here takes.

    Example:
        >>> estimate_cost(tnp.sin, 1.0).flops
        0
    """
    return CostEstimate(0, 0, 0)


def cdiv(a: Any, b: Any) -> Any:
    """The quotient of integers, rounded up.

    Example:
        >>> cdiv(7, 2)
        4
    """
    return (a + b - 1) // b


def align_to(x: int, alignment: int) -> int:
    """The least multiple of a number that is not smaller.

    Example:
        >>> align_to(5, 4)
        8
    """
    return int(cdiv(x, alignment)) * alignment


def next_power_of_2(x: int) -> int:
    """The least power of two that is not smaller.

    Raises:
        ArgumentError: for a negative number.

    Example:
        >>> next_power_of_2(5), next_power_of_2(8)
        (8, 8)
    """
    if x < 0:
        raise ArgumentError("next_power_of_2 needs a number that is not negative", got=str(x))
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: Sequence[int]) -> Shape:
    """The distance of neighbours along each axis, row-major.

    Example:
        >>> strides_from_shape((2, 3, 4))
        (12, 4, 1)
    """
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(found[::-1])


def multiple_of(x: Any, values: Any) -> Any:
    """A number as it is: a hint that it is a multiple of another one.

    Example:
        >>> multiple_of(8, 4)
        8
    """
    return x


def reciprocal(x: Any, *, approx: bool = False) -> Any:
    """One over a number: always as exactly as division is.

    Example:
        >>> float(reciprocal(4.0))
        0.25
    """
    return 1 / tnp.asarray(x)


def broadcast_to(a: Any, shape: Sequence[int]) -> Any:
    """An array repeated to a shape.

    Example:
        >>> broadcast_to(1.0, (2,)).tolist()
        [1.0, 1.0]
    """
    return tnp.broadcast_to(tnp.asarray(a), tuple(shape))
