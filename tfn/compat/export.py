"""Functions as bytes: ``jax.export``, over `tfn.export.serialize`.

    exported = export(jax.jit(f))(x)
    data = exported.serialize()                 other processes and machines:
    y = deserialize(data).call(x)

The bytes are those of `tfn.exporting.serialize`, behind a head with the trees of arguments and
results.  Sizes may be symbolic.  A function that was read can be differentiated as often as one
likes, so ``vjp_order`` means nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import optree

from tfn import jit, tree, vjp
from tfn.compat.avals import ShapedArray
from tfn.compat.jaxprs import typed
from tfn.dtypes import INEXACT
from tfn.errors import ArgumentError, ExportError, NotAvailableError, TreeError
from tfn.exporting import Polynomial, Portable, Symbolic, anyhow, symbolic_dims
from tfn.exporting import deserialize as read
from tfn.extend import Jitted, ShapeDtypeStruct, frozen, name_of, run, section

Function = Callable[..., Any]

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10

MAGIC = b"tfn exported 1\n"
MAX_HEAD_BYTES = 1 << 24
"""A head is text about two trees; a longer one is refused before it is read."""


class DisabledSafetyCheck(NamedTuple):
    """A check of JAX that is left out: tfn has neither custom calls nor platforms to check."""

    name: str

    @staticmethod
    def platform() -> DisabledSafetyCheck:
        """The check of the platform against those that the function was exported for."""
        return DisabledSafetyCheck("platform")

    @staticmethod
    def custom_call(target_name: str) -> DisabledSafetyCheck:
        """The check of a custom call against those known to be stable."""
        return DisabledSafetyCheck(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The target of the custom call, None for another check."""
        kind, _, target = self.name.partition(":")
        return target if kind == "custom_call" else None


@frozen
class Exported:
    """A function with the types and trees of its arguments and results.

    Attributes:
        fun_name: its name.
        in_tree, in_avals: the structure of ``(args, kwargs)``, and the types of its leaves.
        out_tree, out_avals: those of the result.
        platforms: on which it may run.
        disabled_safety_checks: as given.
        function: of the leaves, in order; its result is the tuple of leaves.
    """

    fun_name: str
    in_tree: tree.Structure
    in_avals: tuple[ShapedArray, ...]
    out_tree: tree.Structure
    out_avals: tuple[ShapedArray, ...]
    platforms: tuple[str, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    function: Portable | Symbolic

    nr_devices = property(lambda self: 1)
    ordered_effects = property(lambda self: ())
    unordered_effects = property(lambda self: ())
    uses_global_constants = property(lambda self: isinstance(self.function, Symbolic))
    module_kept_var_idx = property(lambda self: tuple(range(len(self.in_avals))))
    calling_convention_version = property(lambda self: maximum_supported_calling_convention_version)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result: it may be jitted, differentiated and batched.

        Raises:
            TreeError: for arguments of another structure.
            ShapeError, DTypeError: for an array of another type.
        """
        leaves, structure = tree.flatten((args, kwargs))
        if structure != self.in_tree:
            raise TreeError(
                f"{self.fun_name} was exported for other arguments",
                got=f"{tree.show(structure)} instead of {tree.show(self.in_tree)}",
                hint="pass the containers that it was exported with",
            )
        return tree.unflatten(self.out_tree, list(self.function(*leaves)))

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The function as bytes.

        Args:
            vjp_order: accepted; what is read can be differentiated to any order.

        Raises:
            ExportError: for a tree with a class that has not been registered.
        """
        head = {
            "name": self.fun_name,
            "in": _tree_as_text(self.in_tree),
            "out": _tree_as_text(self.out_tree),
            "platforms": self.platforms,
            "checks": [c.name for c in self.disabled_safety_checks],
        }
        text = json.dumps(head, sort_keys=True).encode()
        return bytearray(MAGIC + len(text).to_bytes(8, "little") + text + self.function.serialize())

    def has_vjp(self) -> bool:
        """Whether there is a gradient: always."""
        return True

    def vjp(self) -> Exported:
        """The function of the flat arguments, then the cotangents of the flat results, that gives
        the cotangents of the arguments: of integers zeros."""
        count = len(self.in_avals)
        moving = [i for i, a in enumerate(self.in_avals) if a.dtype in INEXACT]
        results = [i for i, a in enumerate(self.out_avals) if a.dtype in INEXACT]

        def back(*flat: Any) -> Any:
            xs, cts = flat[:count], flat[count:]

            def of_moving(*some: Any) -> Any:
                filled = list(xs)
                for i, x in zip(moving, some, strict=True):
                    filled[i] = x
                out = self.function(*filled)
                return tuple(out[i] for i in results)

            found = list(map(_zeros, xs))
            _, pull = vjp(of_moving, *(xs[i] for i in moving))
            for i, ct in zip(moving, pull(tuple(cts[i] for i in results)), strict=True):
                found[i] = ct
            return tuple(found)

        back.__name__ = f"vjp_of_{self.fun_name}"
        types = [ShapeDtypeStruct(a.shape, a.dtype) for a in (*self.in_avals, *self.out_avals)]
        made: Exported = export(jit(back), platforms=self.platforms)(*types)
        return made

    def mlir_module(self) -> str:
        """Raises an error.

        Raises:
            NotAvailableError: always.
        """
        raise NotAvailableError(
            "tfn makes no MLIR", got="mlir_module()", hint="tfn.show tells what is compiled"
        )

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, {self.function!r})"


def _zeros(x: Any) -> Any:
    return run.asarray(x) * 0


def export(
    fun_jit: Function,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: object = None,
) -> Callable[..., Exported]:
    """A function that exports a jitted function for arguments, or for their types.

    Args:
        fun_jit: a function that `tfn.jit` has made.
        platforms: on which it may run; this one if None.
        disabled_checks: accepted, and kept.

    Raises:
        ArgumentError: for a function that is not jitted.
        ExportError: for one with effects.

    Example:
        >>> import tfn
        >>> made = export(tfn.jit(lambda x: {"twice": 2 * x}))(tfn.ShapeDtypeStruct((), "float32"))
        >>> deserialize(made.serialize()).call(3.0)["twice"].item()
        6.0
    """
    jitted = getattr(fun_jit, "_jitted", fun_jit)
    if not isinstance(jitted, Jitted):
        raise ArgumentError(
            "export takes a jitted function",
            got=name_of(fun_jit),
            hint="write export(jax.jit(f))",
        )

    def make(*args: Any, **kwargs: Any) -> Exported:
        split = jitted.static.split(jitted.function, args, kwargs)
        leaves, in_tree = tree.flatten(split.dynamic)
        types = [
            x if isinstance(x, ShapeDtypeStruct) else typed(x, f"argument {i}")
            for i, x in enumerate(leaves)
        ]
        seen: list[tree.Structure] = []

        def flat(*xs: Any) -> Any:
            new_args, new_kwargs = split.join(tree.unflatten(in_tree, list(xs)))
            results, structure = tree.flatten(jitted.function(*new_args, **new_kwargs))
            seen.append(structure)
            return tuple(results)

        flat.__name__ = name_of(jitted.function)
        function = anyhow(flat)(*types)
        return Exported(
            name_of(jitted.function),
            in_tree,
            _avals(function.in_avals),
            seen[-1],
            _avals(function.out_avals),
            tuple(platforms or (default_export_platform(),)),
            tuple(disabled_checks),
            function,
        )

    return make


def _avals(types: Sequence[ShapeDtypeStruct]) -> tuple[ShapedArray, ...]:
    return tuple(ShapedArray(t.shape, t.dtype, t.weak_type) for t in types)


def deserialize(blob: bytes | bytearray) -> Exported:
    """The function in bytes.

    Raises:
        ExportError: for bytes that `Exported.serialize` has not written, or that are damaged.
    """
    data = bytes(blob)
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    start = len(MAGIC) + 8
    if not data.startswith(MAGIC) or size > MAX_HEAD_BYTES or start + size > len(data):
        raise ExportError("these bytes are no exported function", got=f"{len(data):,} bytes")
    try:
        head = json.loads(data[start : start + size])
        in_tree, out_tree = (_tree_of_text(head[key]) for key in ("in", "out"))
        texts = [head["name"], *head["platforms"], *head["checks"]]
        if not all(type(text) is str for text in texts):
            raise ValueError(f"texts {texts}")
    except ExportError:
        raise
    except Exception as error:  # of many classes: the bytes may be anything
        raise ExportError(
            "the head of an exported function is damaged",
            got=f"{type(error).__name__}: {error}"[:300],
        ) from error
    function = read(data[start + size :])
    types = _avals(function.in_avals), _avals(function.out_avals)
    if [len(t) for t in types] != [in_tree.num_leaves, out_tree.num_leaves]:
        raise ExportError("the head of an exported function does not fit the function")
    checks = tuple(DisabledSafetyCheck(name) for name in head["checks"])
    return Exported(
        head["name"],
        in_tree,
        types[0],
        out_tree,
        types[1],
        tuple(head["platforms"]),
        checks,
        function,
    )


# Trees as text.


@frozen
class Node:
    """A class in trees as text: its name, and functions that write and read it."""

    name: str
    to_bytes: Function
    from_bytes: Function
    from_children: Function


NODES: dict[type[Any], Node] = {}
"""Classes that can be in trees of serialized functions, beside Python's containers."""


def register_pytree_node_serialization(
    nodetype: type[Any],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type[Any]:
    """Let a class be in the trees of serialized functions.

    Args:
        nodetype: a class that is a node of trees.
        serialized_name: under which it is written; unique.
        serialize_auxdata, deserialize_auxdata: its static part as bytes, and back.
        from_children: from the static part and children to an instance; that of the registered
            node if None.

    Raises:
        ArgumentError: for a class that is no node, or a name that is taken.
    """
    entry = _registered(nodetype)
    if any(node.name == serialized_name for node in NODES.values()):
        raise ArgumentError(
            "a class has a name of its own in serialized functions",
            got=f"{serialized_name!r} for {nodetype.__name__}, which is taken",
        )
    make = from_children or entry.unflatten_func
    NODES[nodetype] = Node(serialized_name, serialize_auxdata, deserialize_auxdata, make)
    return nodetype


def register_namedtuple_serialization(nodetype: type[Any], *, serialized_name: str) -> type[Any]:
    """Let a named tuple be in the trees of serialized functions, under a name."""
    if any(node.name == serialized_name for node in NODES.values()):
        raise ArgumentError(
            "a class has a name of its own in serialized functions", got=repr(serialized_name)
        )
    make = lambda aux, children: nodetype(*children)
    NODES[nodetype] = Node(serialized_name, lambda aux: b"", lambda data: None, make)
    return nodetype


def _registered(cls: type[Any]) -> Any:
    with section():
        entry = optree.register_pytree_node.get(cls, namespace=tree.NAMESPACE)
    if entry is None:
        raise ArgumentError(f"{cls.__name__} is no node of trees", hint="register it first")
    return entry


def _tree_as_text(structure: tree.Structure) -> Any:
    """A structure as lists of text and numbers."""
    return _as_text(tree.unflatten(structure, [0] * structure.num_leaves))


def _as_text(x: Any) -> Any:
    if x is None:
        return ["none"]
    kind = type(x)
    if kind in NODES:
        node = NODES[kind]
        if isinstance(x, tuple):
            return ["node", node.name, "", [*map(_as_text, x)]]
        children, static, *_ = _registered(kind).flatten_func(x)
        aux = base64.b64encode(node.to_bytes(static)).decode()
        return ["node", node.name, aux, [*map(_as_text, children)]]
    if kind in (tuple, list):
        return [kind.__name__, [*map(_as_text, x)]]
    if kind is dict:
        if not all(type(key) in (str, int) for key in x):
            raise ExportError(
                "dicts of serialized functions have keys of text or numbers", got=repr([*x])[:80]
            )
        return ["dict", [[key, _as_text(value)] for key, value in x.items()]]
    if tree.structure(x).is_leaf():
        return ["leaf"]
    raise ExportError(
        f"{kind.__name__} cannot be in the trees of a serialized function",
        got="an argument or a result with it",
        hint="register_pytree_node_serialization, or register_namedtuple_serialization, says how",
    )


def _tree_of_text(text: Any) -> tree.Structure:
    return tree.structure(_of_text(text))


def _of_text(text: Any) -> Any:
    kind, *rest = text
    if kind in ("leaf", "none"):
        return 0 if kind == "leaf" else None
    if kind in ("tuple", "list"):
        children = [*map(_of_text, rest[0])]
        return tuple(children) if kind == "tuple" else children
    if kind == "dict":
        return {key: _of_text(value) for key, value in rest[0]}
    name, aux, children = rest
    for node in NODES.values():
        if node.name == name:
            static = node.from_bytes(base64.b64decode(aux))
            return node.from_children(static, [*map(_of_text, children)])
    raise ExportError(
        f"a serialized function has the class {name} in its trees",
        got="a class that is not registered",
        hint="register it as where the function was written",
    )


# Symbolic sizes.


class SymbolicScope:
    """Constraints that the symbols of several shapes share.

    Example:
        >>> symbolic_shape("b", scope=SymbolicScope(["b >= 2"]))
        (b,)
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        self.constraints = tuple(constraints_str)


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """A shape with symbolic sizes, as `tfn.export.symbolic_shape`.

    Args:
        shape_spec: sizes between commas; "_" and "..." stand for those of `like`.
        constraints: comparisons of sizes.
        scope: more constraints.
        like: the sizes that may be left out.

    Raises:
        ArgumentError: for text that is no shape.

    Example:
        >>> symbolic_shape("b, _, ...", like=(None, 28, 3))
        (b, 28, 3)
    """
    known = [] if like is None else list(like)
    parts = ["..."] if shape_spec is None else [p.strip() for p in shape_spec.split(",")]
    parts = [p for p in parts if p]
    if "..." in parts:
        at = parts.index("...")
        parts[at : at + 1] = ["_"] * (len(known) - len(parts) + 1)
    if "_" in parts and len(known) != len(parts):
        raise ArgumentError(
            "a shape that leaves sizes out needs like= of as many axes",
            got=f"{shape_spec!r} like {like}",
        )
    parts = [str(known[i]) if p == "_" else p for i, p in enumerate(parts)]
    every = (*constraints, *(scope.constraints if scope else ()))
    return symbolic_dims.symbolic_shape(", ".join(parts), every)


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """Types of arguments with symbolic sizes.

    Args:
        args: arrays, or their types: a tree.
        shapes_specs: a text for all, or a tree of texts and None that begins like `args`.
        constraints, scope: as for `symbolic_shape`.

    Example:
        >>> import tfn.numpy as tnp
        >>> symbolic_args_specs((tnp.ones((2, 3)),), "b, _")[0].shape
        (b, 3)
    """
    is_spec = lambda x: x is None or isinstance(x, str)
    if isinstance(args, tuple) and isinstance(shapes_specs, list):
        shapes_specs = tuple(shapes_specs)
    texts, prefix = tree.flatten(shapes_specs, is_leaf=is_spec)
    parts = tree.flatten_up_to(prefix, args)

    def one(text: str | None, x: Any) -> ShapeDtypeStruct:
        kind = typed(x, "an argument")
        shape = symbolic_shape(text, constraints=constraints, scope=scope, like=kind.shape)
        return ShapeDtypeStruct(shape, kind.dtype)

    made = [
        tree.map(lambda x, text=text: one(text, x), part)
        for text, part in zip(texts, parts, strict=True)
    ]
    return tree.unflatten(prefix, made)


def is_symbolic_dim(p: Any) -> bool:
    """Whether a size is symbolic.

    Example:
        >>> [is_symbolic_dim(n) for n in symbolic_shape("b, 3")]
        [True, False]
    """
    return isinstance(p, Polynomial)


def default_export_platform() -> str:
    """The platform that a function is exported for if none is given.

    Example:
        >>> default_export_platform()
        'cpu'
    """
    return "cpu"
