"""Small parts of JAX's core that libraries ask for: jaxprs, traces, trees, dtypes, settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import optree

from tfn import jit, process_index, process_indices, tree, vjp
from tfn.array import Array
from tfn.compat.avals import ShapedArray, float0, typeof
from tfn.compat.jaxprs import Jaxpr, JaxprEqn, Var
from tfn.compat.linear_util import WrappedFun
from tfn.dtypes import INEXACT, canonical
from tfn.errors import ArgumentError, ConcretizationTypeError, TreeError
from tfn.extend import Argnums, frozen, section, traces
from tfn.random import keys
from tfn.transforms.shard.axes import live

# Jaxprs and traces.

Effects = frozenset
no_effects: frozenset[Any] = frozenset()
ParamDict = dict
array_types = {Array, np.ndarray, np.generic}


@frozen
class DropVar:
    """The variable of a result that nothing reads."""

    aval: ShapedArray


class DebugInfo(NamedTuple):
    """Facts about a function, for messages; tracebacks tell them here."""

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...] | None = None
    result_paths: tuple[str, ...] | None = None


class TraceTag:
    """A mark of a trace."""


class Token:
    """The order of effects: programs of tfn have one of their own."""


class AbstractToken:
    """The type of a `Token`."""


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Does nothing: a node that has no type, or reads what is not there, cannot exist."""


def gensym(suffix: str = "") -> Callable[[ShapedArray], Var]:
    """A function from types to new variables.

    Example:
        >>> gensym()(ShapedArray((), "float32")).aval.shape
        ()
    """
    return Var


def new_jaxpr_eqn(
    invars: Sequence[Any],
    outvars: Sequence[Any],
    primitive: Any,
    params: dict[str, Any],
    effects: Iterable[Any] = (),
    source_info: object = None,
    ctx: object = None,
) -> JaxprEqn:
    """An equation.

    Example:
        >>> x, y = Var(ShapedArray((), "float32")), Var(ShapedArray((), "float32"))
        >>> new_jaxpr_eqn([x], [y], "sin", {}).invars == [x]
        True
    """
    return JaxprEqn(list(invars), list(outvars), primitive, dict(params), frozenset(effects))


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """``force(val)``, of a value that is known.

    Args:
        force: a function such as `int`; the value as it is if None.
        val: the value.
        context: the text of the error.

    Raises:
        ConcretizationTypeError: for a traced value.

    Example:
        >>> concrete_or_error(int, 3.0)
        3
    """
    if isinstance(val, Array) and val.owner is not None and not val.known:
        raise ConcretizationTypeError(
            context or "a value has to be known when the function is traced", got=repr(val)[:80]
        )
    return val if force is None else force(val)


def call_impl(f: WrappedFun, *args: Any, **params: Any) -> Any:
    """The result of a wrapped function."""
    return f.call_wrapped(*args)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents: that of no bits for integers.

    Example:
        >>> primal_dtype_to_tangent_dtype("int32") == float0
        True
    """
    dtype = canonical(primal_dtype)
    return dtype if dtype in INEXACT else float0


def eval_context() -> AbstractContextManager[None]:
    """A block in which what does not depend on traced values is computed at once."""
    return traces.outside_traces()


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether an axis can be named."""
    return bool(live())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the axes that can be named."""
    return [named.axis.name for named in live()]


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether a function is being traced whose arguments are not known."""
    return any(not trace.known for trace in traces.running())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether an axis of `vmap` can be named."""
    return any(not named.manual for named in live())


def max_dim(d1: Any, d2: Any) -> Any:
    """The larger of two sizes."""
    return max(d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two sizes."""
    return min(d1, d2)


# Trees.


def static(**kwargs: Any) -> Any:
    """A field of a dataclass that belongs to its structure, with the arguments of a field.

    Example:
        >>> @tree.register_dataclass
        ... @dataclasses.dataclass
        ... class Layer:
        ...     x: float
        ...     name: str = static(default="layer")
        >>> tree.leaves(Layer(1.0))
        [1.0]
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


def is_tree_node(typ: type[Any]) -> bool:
    """Whether instances of a class are nodes of trees.

    Example:
        >>> is_tree_node(dict), is_tree_node(int)
        (True, False)
    """
    with section():
        known = optree.register_pytree_node.get(typ, namespace=tree.NAMESPACE) is not None
    return known or optree.is_namedtuple_class(typ)


def flatten_one_level(node: Any) -> tuple[list[Any], Any]:
    """The children of a node, and its structure with a leaf for each.

    Raises:
        TreeError: for a leaf.

    Example:
        >>> flatten_one_level([1, (2, 3)])[0]
        [1, (2, 3)]
    """
    children, structure = tree.flatten(node, is_leaf=lambda x: x is not node)
    if structure.is_leaf():
        raise TreeError("a leaf has no children", got=repr(node)[:80])
    return children, structure


def flatten_axes(
    name: str,
    treedef: tree.Structure,
    axis_tree: Any,
    *,
    kws: bool = False,
    tupled_args: bool = False,
) -> list[Any]:
    """One value for each leaf of a structure, from a tree that begins like it; None is a value.

    Example:
        >>> flatten_axes("axes", tree.structure([1, (2, 3)]), [0, None])
        [0, None, None]
    """
    marked = tree.unflatten(treedef, [0] * treedef.num_leaves)
    if kws:
        args, kwargs = marked
        own = tree.leaves(kwargs)
        return [*flatten_axes(name, tree.structure(args), axis_tree), *[0] * len(own)]
    return tree.broadcast_prefix(axis_tree, marked, lambda x: x is None)


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: tree.Structure
) -> tuple[bool, ...]:
    """Whether each leaf of ``(args, kwargs)`` is of a donated argument.

    Example:
        >>> donation_vector((1,), (), tree.structure(((0, [0, 0]), {})))
        (False, True, True)
    """
    args, kwargs = tree.unflatten(in_tree, [0] * in_tree.num_leaves)
    found = [i in donate_argnums for i, x in enumerate(args) for _ in tree.leaves(x)]
    found += [key in donate_argnames for key in sorted(kwargs) for _ in tree.leaves(kwargs[key])]
    return tuple(found)


def rebase_donate_argnums(
    donate_argnums: Sequence[int], static_argnums: Sequence[int]
) -> tuple[int, ...]:
    """Positions among the arguments that are not static.

    Example:
        >>> rebase_donate_argnums((2,), (0,))
        (1,)
    """
    both = set(donate_argnums) & set(static_argnums)
    if both:
        raise ArgumentError("a static argument cannot be donated", got=f"arguments {sorted(both)}")
    return tuple(sorted(i - sum(s < i for s in static_argnums) for i in donate_argnums))


def argnums_partial(
    f: WrappedFun, dyn_argnums: Argnums, args: Sequence[Any], **options: Any
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """A function of some arguments, with the others fixed; and those."""
    at = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)

    def of_some(*some: Any, **kwargs: Any) -> Any:
        filled = list(args)
        for i, x in zip(at, some, strict=True):
            filled[i] = x
        return f.call_wrapped(*filled, **kwargs)

    return WrappedFun(of_some, {}), tuple(args[i] for i in at)


# Dtypes.


def itemsize_bits(dtype: Any) -> int:
    """The bits of an element.

    Example:
        >>> itemsize_bits("bfloat16")
        16
    """
    known = canonical(dtype)
    name = getattr(known, "name", "")
    return {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4}.get(
        name, known.itemsize * 8
    )


def scalar_type_of(x: Any) -> type[Any]:
    """The type of Python's numbers that a value is of.

    Example:
        >>> import tfn.numpy as tnp
        >>> scalar_type_of(tnp.arange(3))
        <class 'int'>
    """
    kind = typeof(x).dtype.kind
    return {"b": bool, "i": int, "u": int, "c": complex}.get(kind, float)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether DLPack can carry arrays of a dtype.

    Example:
        >>> is_supported_dtype("float32"), is_supported_dtype(float0)
        (True, False)
    """
    if dtype == float0:
        return False
    return canonical(dtype).kind in "biufc" or canonical(dtype).name == "bfloat16"


def key_dtype(impl_spec: object = None) -> Any:
    """The dtype of random keys.

    Example:
        >>> import tfn
        >>> key_dtype() == tfn.random.key(0).dtype
        True
    """
    return keys.key(0).dtype


# Functions of `jax` itself.


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: Argnums, has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A forward and a backward pass, each compiled once.

    Args:
        fun: the function.
        argnums: positions of the arguments to differentiate by.
        has_aux: whether `fun` returns a pair, of which the first is differentiated.
        jitted: whether both are compiled.

    Returns:
        ``forward(*args) -> (result, residuals[, aux])``, ``backward(residuals, ct) -> cotangents``.

    Example:
        >>> forward, backward = fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
        >>> y, residuals = forward(2.0, 5.0)
        >>> [float(ct) for ct in backward(residuals, 1.0)]
        [5.0, 2.0]
    """
    at = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def of_some(args: Sequence[Any]) -> Callable[..., Any]:
        def call(*some: Any) -> Any:
            filled = list(args)
            for i, x in zip(at, some, strict=True):
                filled[i] = x
            return fun(*filled)

        return call

    def forward(*args: Any) -> Any:
        function: Any = vjp
        return function(of_some(args), *(args[i] for i in at), has_aux=has_aux)

    def backward(residuals: Any, ct: Any) -> Any:
        found = residuals(ct)
        return found[0] if isinstance(argnums, int) else tuple(found)

    return (jit(forward), jit(backward)) if jitted else (forward, backward)


def copy_to_host_async(x: Any) -> Any:
    """A tree as it is: arrays are in the memory of the host."""
    return x


def host_id(backend: object = None) -> int:
    """The number of this process."""
    return process_index()


def host_ids(backend: object = None) -> list[int]:
    """The numbers of all processes."""
    return list(process_indices())


def host_count(backend: object = None) -> int:
    """The number of processes."""
    return len(host_ids())


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions of what computes, or return them as a text.

    Example:
        >>> "numpy" in str(print_environment_info(return_string=True))
        True
    """
    text = f"tfn as jax\nnumpy: {np.__version__}\noptree: {optree.__version__}"
    if return_string:
        return text
    print(text)
    return None
