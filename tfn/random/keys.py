"""Keys: the state of a random generator, as a value.

A key is two 32-bit words, or four of the generator "rbg".  `split` and `fold_in` make independent
keys of one; nothing else remembers anything, so the same key always gives the same numbers,
whatever the number of threads.
Numbers that should differ therefore need keys that differ: a key used twice is an error, unless
`clone` or ``config.key_reuse`` say that it is meant.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tfn import dtypes, tree
from tfn._support.frozen import frozen
from tfn._support.validate import shown
from tfn.array import Array, ArrayLike
from tfn.config import config
from tfn.dtypes import INTEGERS, UINT32, UINT64, KeyType
from tfn.eager.operands import a_shape, apply
from tfn.eager.run import asarray
from tfn.errors import ArgumentError, DTypeError, KeyReuseError, Line, place_of, show_line
from tfn.lax.generators import LARGEST_WORD, WORDS, fold_words, seed_words, split_words
from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.traces import Trace, running
from tfn.trace.uop import UOp

THREEFRY, RBG = WORDS

TYPES = {WORDS[THREEFRY]: KeyType("fry"), WORDS[RBG]: KeyType("rbg")}
"""Element types of keys, by the number of their words."""


class Use(NamedTuple):
    """The use of a key: by which function, on which line, within which trace."""

    name: str
    place: Line
    trace: Trace | None


class Key:
    """An array of keys: a scalar, or what `split` gives.  Immutable, and a node of pytrees.

    Under `vmap`, `scan` and `jit` a Key is what its array of words is; keys have no arithmetic.

    Attributes:
        data: the words, uint32 with a last axis of size 2, or 4 with the generator "rbg".

    Example:
        >>> first, second = split(key(0))
        >>> first.shape, first.dtype
        ((), key<fry>)
    """

    __slots__ = ("data", "used")
    data: Array
    used: Use | None
    __hash__ = None  # type: ignore[assignment]  # ``==`` is elementwise

    @property  # type: ignore[misc]  # of object it can be assigned, to no use
    def __class__(self) -> type[Any]:
        """The class that ``isinstance`` finds, beside Key itself; see `seen_as`."""
        return _SEEN_AS[0] if hasattr(self.data, "shape") else Key  # trees may hold anything

    def __init__(self, data: Array) -> None:
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "used", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Key is immutable: cannot set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Key, (self.data,)

    @property
    def dtype(self) -> KeyType:
        """``key<fry>``, or ``key<rbg>``."""
        return TYPES[self.data.shape[-1]]

    @property
    def shape(self) -> Shape:
        """Sizes of the axes, without that of the words."""
        return self.data.shape[:-1]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def owner(self) -> object:
        """The trace that its words belong to; None if they are known."""
        return getattr(self.data, "owner", None)  # trees may hold anything, such as types

    @property
    def weak_type(self) -> bool:
        """False: a key gives way to nothing."""
        return False

    @property
    def size(self) -> int:
        """The number of keys."""
        return prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError(
                "a single key has no length", got="a key of shape ()", hint="split(key) gives two"
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[Key]:
        if not self.shape:
            raise ArgumentError(
                "a single key cannot be iterated",
                got="a key of shape ()",
                hint="split(key) gives two",
            )
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, index: object) -> Key:
        return Key(self.data[_of_words(index)])

    @property
    def at(self) -> _At:
        """The keys with some of them replaced: ``keys.at[index].set(key)``; or ``.get()``."""
        return _At(self)

    def __bool__(self) -> bool:
        raise DTypeError("a key has no truth", got=f"a key of shape {self.shape}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise DTypeError(
            "NumPy has no arrays of keys",
            got=f"a key of shape {self.shape}",
            hint="tfn.random.key_data(key) gives its words",
        )

    def __getattr__(self, name: str) -> Any:
        if name in _PLACE and isinstance(self.data, Array):
            return getattr(self.data, name)
        if name == "kind":  # as functions of numbers ask for it
            raise DTypeError(
                "keys have no arithmetic",
                got=f"a key of shape {self.shape}",
                hint="tfn.random.bits(key) gives a number, tfn.random.key_data(key) the words",
            )
        raise AttributeError(f"a Key has no attribute {name!r}")

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else ~same

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Key):
            if isinstance(other, (bool, int, float, complex, np.generic, np.ndarray, Array)):
                raise DTypeError(
                    "keys are compared with keys",
                    got=shown(other),
                    hint="tfn.random.key_data(key) gives the words of a key",
                )
            return NotImplemented
        if not isinstance(self.data, Array) or not isinstance(other.data, Array):
            return self.data == other.data  # a tree of something else, such as dtypes
        return apply(_equal, [self.data, other.data])

    def __repr__(self) -> str:
        return f"Key(shape={self.shape}, dtype={self.dtype}, data={self.data!r})"

    def reshape(self, *shape: Any) -> Key:
        """The same keys in order under another shape."""
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if -1 not in sizes:
            sizes = a_shape("reshape", sizes)
        return Key(self.data.reshape((*sizes, self.data.shape[-1])))

    def ravel(self) -> Key:
        """The same keys in order along one axis."""
        return self.reshape(-1)

    @property
    def T(self) -> Key:
        """The same keys with their axes reversed."""
        return Key(self.data.transpose((*reversed(range(self.ndim)), self.ndim)))

    @property
    def itemsize(self) -> int:
        """The bytes of a key."""
        return self.dtype.itemsize

    def addressable_data(self, index: int) -> Key:
        """The part of the keys that is on a device of this process."""
        return Key(self.data.addressable_data(index))

    def copy(self) -> Key:
        """The same keys, in memory of their own."""
        return Key(self.data.copy())

    @property
    def nbytes(self) -> int:
        """The size of the words in bytes."""
        return self.data.nbytes

    def block_until_ready(self) -> Key:
        """This key, when its words have been computed."""
        self.data.block_until_ready()
        return self


_PLACE = frozenset(
    (
        *("committed", "copy_to_host_async", "device", "devices", "is_fully_addressable"),
        *("is_fully_replicated", "is_deleted", "is_ready", "sharding"),
    )
)
"""Attributes that keys have of their words."""


def _of_words(index: object) -> tuple[Any, ...]:
    """An index of keys as one of their words."""
    parts = index if isinstance(index, tuple) else (index,)
    rest = () if any(part is Ellipsis for part in parts) else (Ellipsis,)
    return (*parts, *rest, slice(None))


@frozen
class _At:
    """Keys, which an index follows; see `Key.at`."""

    __iter__ = None  # with `__getitem__` alone iteration would never end

    keys: Key

    def __getitem__(self, index: object) -> _Place:
        return _Place(self.keys, index)


@frozen
class _Place:
    """A place among keys; options are those of `Array.at`."""

    keys: Key
    index: object

    def get(self, **options: Any) -> Key:
        """The keys in this place."""
        return Key(self.keys.data.at[_of_words(self.index)].get(**options))

    def set(self, values: object, **options: Any) -> Key:
        """The keys with others in this place."""
        if not isinstance(values, Key):
            raise DTypeError("only keys can take the place of keys", got=shown(values))
        return Key(self.keys.data.at[_of_words(self.index)].set(values.data, **options))


tree.register_node(Key, lambda k: ((k.data,), None), lambda static, children: Key(*children))

KeyLike = Key | Array | np.ndarray
"""A key, or its words: an array as the older `PRNGKey` makes it, also one of NumPy."""


_SEEN_AS: list[type[Any]] = [Key]


def seen_as(kind: type[Any]) -> None:
    """Let keys be instances of another class too: of Array, which they are in JAX."""
    _SEEN_AS[:] = [kind]


def _equal(a: UOp, b: UOp) -> UOp:
    shape = np.broadcast_shapes(a.shape, b.shape)
    same = build.eq(build.broadcast_to(a, shape), build.broadcast_to(b, shape))
    return build.reduce(same, Op.MIN, (len(shape) - 1,))


def _data(key: object) -> object:
    """The words of a key as they are checked next: an Array, if it is a key."""
    if isinstance(key, Key):
        return key.data
    return asarray(key) if isinstance(key, np.ndarray) and key.dtype == np.uint32 else key


def _are_words(data: Array) -> bool:
    return data.dtype == UINT32 and data.ndim > 0 and data.shape[-1] in TYPES


def words_of(name: str, key: KeyLike, uses: bool = True) -> Array:
    """The words of a single key, shape (2,) or (4,); `name` is the function that uses it up.

    Raises:
        ArgumentError: for anything but a key, or for an array of them.
        KeyReuseError: for a key that has been used.
    """
    data = _data(key)
    if not isinstance(data, Array) or not _are_words(data):
        raise ArgumentError(
            f"{name} needs a key",
            got=f"key={shown(key)}",
            hint="make one with tfn.random.key(seed)",
        )
    if len(data.shape) != 1:
        raise ArgumentError(
            f"{name} needs a single key",
            got=f"keys of shape {data.shape[:-1]}",
            hint="take one of them, or use tfn.vmap over them",
        )
    if uses and isinstance(key, Key) and not config.key_reuse:
        _use(name, key)
    return data


def _use(name: str, key: Key) -> None:
    """Records that a key is used; branches, of which one will run, may use the same."""
    stack = running()
    use = Use(name, place_of(name), stack[-1] if stack else None)
    before = key.used
    if before is not None and before.trace is use.trace:
        raise KeyReuseError(
            f"{name} was given a key that {before.name} has used already",
            got=f"used at {show_line(before.place)}",
            hint="numbers of one key depend on each other: take two with tfn.random.split(key); "
            "if you want the same ones, tfn.random.clone(key)",
        )
    object.__setattr__(key, "used", use)


def _like(key: KeyLike, data: Array) -> Any:
    return Key(data) if isinstance(key, Key) else data


# The public functions.


Generator = str | KeyType | None
"""A generator: its name, the type of its keys, or None for the default."""

# fmt: off
NAMES = {
    THREEFRY: THREEFRY, "fry": THREEFRY,
    RBG: RBG, "philox": RBG, "unsafe_rbg": RBG, "urbg": RBG,
}
# fmt: on
"""Names of generators, and which they are: the keys of "unsafe_rbg" are split as those of "rbg"."""

_DEFAULT = [THREEFRY]


def set_default_generator(impl: Generator) -> None:
    """Let keys be of another generator where none is said; None for Threefry.

    Raises:
        ArgumentError: for another name.
    """
    _DEFAULT[:] = [THREEFRY if impl is None else _generator(impl)]


def _generator(*said: Generator) -> str:
    """The name of the generator that is said, or else of the default."""
    for impl in said:
        name = impl.tag if isinstance(impl, KeyType) else impl
        if name is not None:
            if name not in NAMES:
                raise ArgumentError(
                    "there is no random generator of this name",
                    got=f"impl={impl!r}",
                    hint=f"leave impl out, or write one of {', '.join(NAMES)}",
                )
            return NAMES[name]
    return _DEFAULT[0]


def key_dtype(impl_spec: Generator = None) -> KeyType:
    """Returns the element type of the keys of a generator.

    Raises:
        ArgumentError: for a name that is none of `NAMES`.

    Example:
        >>> key_dtype(), key_dtype("rbg")
        (key<fry>, key<rbg>)
    """
    return TYPES[WORDS[_generator(impl_spec)]]


def key(seed: ArrayLike, *, impl: Generator = None, dtype: Generator = None) -> Key:
    """Returns a key from an integer, of which 64 bits are used.

    Args:
        seed: a Python integer, or an integer scalar array, which may be traced.
        impl: the generator: ``"threefry2x32"``, or ``"rbg"``, whose bits are Philox's, as they
            are in JAX on CPUs and GPUs; ``"philox"`` and ``"unsafe_rbg"`` are names of it.
        dtype: the same as `impl`; `key_dtype` gives it.

    Raises:
        DTypeError: for anything but an integer.
        ArgumentError: for an integer of more than 64 bits, for an array with axes, or for
            another generator.

    Example:
        >>> key_data(key(42)).tolist()
        [0, 42]
    """
    return Key(PRNGKey(seed, impl=_generator(impl, dtype)))


def PRNGKey(seed: ArrayLike, *, impl: Generator = None) -> Array:
    """Returns the words of `key`, uint32[2] or [4]; every function here takes them as a key.

    Args:
        seed: a Python integer, or an integer scalar array, which may be traced.
        impl: the generator, as of `key`.

    Raises:
        DTypeError, ArgumentError: as `key`.

    Example:
        >>> PRNGKey(42).tolist()
        [0, 42]
    """
    count = WORDS[_generator(impl)]
    if isinstance(seed, int) and not isinstance(seed, bool):
        return apply(seed_words, [_integer(seed)], count)
    number = asarray(seed)
    if number.dtype not in INTEGERS:
        raise DTypeError(
            "a seed is an integer",
            got=f"seed={shown(seed)}",
            hint="round() makes an int of a float",
        )
    if number.shape:
        raise ArgumentError(
            "a seed is one integer",
            got=f"seed={shown(seed)}",
            hint="use tfn.vmap(tfn.random.key) for many",
        )
    return apply(seed_words, [number], count)


def _integer(value: int) -> Array:
    """A Python integer as an unsigned scalar: 32 bits where they hold it, as JAX has it.

    A negative one has 64 where these are the default of Python's integers.
    """
    least = 0 if dtypes.canonical(int).itemsize == 8 else -(1 << 31)
    if least <= value <= LARGEST_WORD:
        return asarray(np.array(value & LARGEST_WORD, UINT32))
    if not -(1 << 63) <= value < 1 << 64:
        raise ArgumentError(
            "a seed has at most 64 bits", got=f"seed={value}", hint="take seed % 2**64"
        )
    return asarray(np.array(value & ((1 << 64) - 1), UINT64))


def split(key: KeyLike, num: int | Sequence[int] = 2) -> Any:
    """Returns independent keys, derived from one.

    Args:
        key: a single key, used up by this call.
        num: number of keys, or the shape of an array of them.

    Returns:
        A `Key` of shape (num,) or `num`; words, uint32[..., 2] or [..., 4], if `key` is words.

    Raises:
        ArgumentError: unless `key` is a single key.

    Example:
        >>> first, second = split(key(0))
        >>> key_data(second).tolist()
        [928981903, 3453687069]
    """
    data = words_of("split", key)
    return _like(key, apply(split_words, [data], a_shape("split", num)))


def fold_in(key: KeyLike, data: ArrayLike) -> Any:
    """Returns a key that depends on a key and a number, such as that of a step or a layer.

    Args:
        data: an integer, or an integer scalar array, which may be traced; 32 bits are used.

    Raises:
        DTypeError: unless `data` is an integer.

    Example:
        >>> key_data(fold_in(key(0), 7)).tolist()
        [2716826189, 292468403]
    """
    words = words_of("fold_in", key, uses=False)
    if isinstance(data, int) and not isinstance(data, bool):
        number = asarray(np.array(operator.index(data) & LARGEST_WORD, UINT32))
    else:
        number = asarray(data)
    if number.dtype not in INTEGERS or number.shape:
        raise DTypeError(
            "fold_in needs one integer",
            got=f"data={shown(data)}",
            hint="tfn.vmap maps over several; round() makes an int of a float",
        )
    return _like(key, apply(fold_words, [words, number]))


def key_data(keys: KeyLike) -> Array:
    """Returns the words of keys: an array uint32[..., 2], or uint32[..., 4] of "rbg".

    Raises:
        ArgumentError: for what is no key.

    Example:
        >>> key_data(key(42)).tolist()
        [0, 42]
    """
    return _words("key_data", _data(keys))


def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: Generator = None, dtype: Generator = None
) -> Key:
    """Returns the keys with these words.

    Raises:
        ArgumentError: unless the array is uint32[..., 2], or uint32[..., 4] for ``"rbg"``.

    Example:
        >>> wrap_key_data(key_data(key(0))).shape
        ()
    """
    words = _words("wrap_key_data", asarray(key_bits_array))
    if impl is not None or dtype is not None:
        generator = _generator(impl, dtype)
        if words.shape[-1] != WORDS[generator]:
            raise ArgumentError(
                f"a key of {generator} has {WORDS[generator]} words",
                got=shown(words),
                hint="tfn.random.key(seed, impl=...) makes a key of an integer",
            )
    return Key(words)


def _words(name: str, data: object) -> Array:
    """Checks the words of keys, and returns them."""
    if not isinstance(data, Array) or not _are_words(data):
        raise ArgumentError(
            f"{name} needs the words of keys, which are uint32[..., 2], or uint32[..., 4] of rbg",
            got=shown(data),
            hint="tfn.random.key(seed) makes a key of an integer",
        )
    return data


def clone(key: KeyLike) -> Any:
    """Returns the same key once more, for use where a key is meant to be used twice.

    Example:
        >>> from tfn import random
        >>> first = key(0)
        >>> random.bits(random.clone(first)) == random.bits(first)
        Array(True, dtype=bool)
    """
    return Key(key.data) if isinstance(key, Key) else key


def key_impl(keys: KeyLike) -> str:
    """Returns the name of the generator that keys belong to.

    Raises:
        ArgumentError: for what is no key.

    Example:
        >>> key_impl(key(0)), key_impl(key(0, impl="philox"))
        ('threefry2x32', 'rbg')
    """
    return _generator(TYPES[key_data(keys).shape[-1]])
