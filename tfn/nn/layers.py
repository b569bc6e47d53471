"""Linear, Embedding, Dropout, DropPath, MLP, Sequential: the layers without axes of space or time.

As for all modules of this package: ``init`` makes one, from a key first of all if anything in it
is random; its arrays are parameters; calling it is a pure function of them and of the arguments.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tfn import numpy as jnp
from tfn import random, tree
from tfn._support.validate import real_number
from tfn.array import Array
from tfn.eager.operands import array_of
from tfn.errors import ArgumentError
from tfn.nn import initializers
from tfn.nn.functions import relu
from tfn.nn.initializers import Initializer
from tfn.nn.module import module, static
from tfn.random import KeyLike

if TYPE_CHECKING:
    from jaxtyping import Float, Integer


@module
class Linear:
    """``x @ weight + bias`` on the last axis.

    Example:
        >>> layer = Linear.init(random.key(0), 3, 4)
        >>> layer
        Linear(weight=f32[3,4], bias=f32[4])
        >>> layer(jnp.ones((2, 3))).shape
        (2, 4)
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"] | None

    @staticmethod
    def init(
        key: KeyLike,
        inputs: int,
        outputs: int,
        *,
        use_bias: bool = True,
        weight_init: Initializer | None = None,
        dtype: Any = float,
    ) -> Linear:
        """Returns a layer with random weights and zero biases.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of features of the input.
            outputs: number of features of the output.
            use_bias: whether to add a learned number to each output.
            weight_init: makes the weights; variance 1 / inputs if None.
            dtype: floating dtype of the parameters; float32 by default.
        """
        make = weight_init or initializers.lecun_normal()
        weight = make(key, (inputs, outputs), dtype)
        return Linear(weight, jnp.zeros((outputs,), dtype) if use_bias else None)

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        """Returns ``x @ weight + bias``."""
        y = array_of("a layer", x) @ self.weight
        return y if self.bias is None else y + self.bias


@module
class Embedding:
    """A table with a row for each index.

    Example:
        >>> Embedding.init(random.key(0), 10, 4)(jnp.array([1, 2, 3])).shape
        (3, 4)
    """

    weight: Float[Array, "rows features"]

    @staticmethod
    def init(
        key: KeyLike,
        rows: int,
        features: int,
        *,
        weight_init: Initializer | None = None,
        dtype: Any = float,
    ) -> Embedding:
        """Returns a table of random rows.

        Args:
            key: a key, from which the random weights are drawn.
            rows: number of rows.
            features: size of a row.
            weight_init: makes the table; standard normal if None.
            dtype: floating dtype of the parameters; float32 by default.
        """
        make = weight_init or initializers.normal(1.0)
        return Embedding(make(key, (rows, features), dtype))

    def __call__(self, x: Integer[Array, "*places"]) -> Float[Array, "*places features"]:
        """Returns the row of each index; negative ones count from the end, others are clamped."""
        return self.weight[x]

    def attend(self, x: Float[Array, "... features"]) -> Float[Array, "... rows"]:
        """Returns the product of x with each row: logits, for a model whose outputs share the
        table.
        """
        return x @ self.weight.T


@module
class Dropout:
    """Sets elements to 0 at random, and scales the others up so that the mean stays.

    Attributes:
        rate: probability of an element to be dropped.
        inference: whether to do nothing.

    Source: Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from
    overfitting".

    Example:
        >>> Dropout(0.5)(jnp.ones((2, 3)), key=random.key(0)).shape
        (2, 3)
    """

    rate: float = static(compared=False, default=0.5)
    inference: bool = static(compared=False, default=False)

    def __call__(
        self, x: Float[Array, "*axes"], *, key: KeyLike | None = None, inference: bool | None = None
    ) -> Float[Array, "*axes"]:
        """Returns x with elements dropped at random, the others divided by ``1 - rate``.

        Args:
            x: floats of any shape.
            key: a key, from which the dropped elements are drawn; needed while training.
            inference: whether to return x as it is; the attribute of the layer if None.

        Raises:
            ArgumentError: if there is no key while training.
        """
        inference = self.inference if inference is None else inference
        return _dropped("dropout", x, self.rate, key, inference, x.shape)


def _dropped(
    name: str,
    x: Array,
    rate: float,
    key: KeyLike | None,
    inference: bool,
    lead: tuple[int, ...],
) -> Array:
    """x without a random part of the elements, or of the parts, of its first axes `lead`."""
    real_number(name, "rate", rate, 0, 1)
    if inference or rate == 0:
        return x
    if key is None:
        raise ArgumentError(
            f"{name} needs a key while training",
            got="key=None",
            hint="pass key=..., or inference=True",
        )
    if rate == 1:
        return jnp.zeros_like(x)
    mask = random.bernoulli(key, 1.0 - rate, lead).reshape(*lead, *(1,) * (x.ndim - len(lead)))
    return jnp.where(mask, x / (1.0 - rate), 0.0)


@module
class DropPath:
    """Sets whole examples to 0 at random, and scales up the others: stochastic depth.

    Put on the branch of a residual block, ``x + drop(branch(x), key=key)``, it skips the block for
    some examples of a batch.

    Attributes:
        rate: probability of an example to be dropped.
        inference: whether to drop nothing by default.

    Source: Huang et al. 2016, arXiv:1603.09382.

    Example:
        >>> y = DropPath(0.5)(jnp.ones((8, 3)), key=random.key(0))
        >>> sorted(set(y.sum(1).tolist()))
        [0.0, 6.0]
    """

    rate: float = static(compared=False, default=0.1)
    inference: bool = static(compared=False, default=False)

    def __call__(
        self,
        x: Float[Array, "*axes"],
        *,
        key: KeyLike | None = None,
        inference: bool | None = None,
    ) -> Float[Array, "*axes"]:
        """Returns x with examples dropped at random, the others divided by ``1 - rate``.

        Args:
            x: floats, with the examples along the first axis; of one example, as under `vmap`, a
                number is one too.
            key: a key, from which the dropped examples are drawn; needed while training.
            inference: whether to return x as it is; the attribute of the layer if None.

        Raises:
            ArgumentError: if there is no key while training.
        """
        inference = self.inference if inference is None else inference
        return _dropped("drop path", x, self.rate, key, inference, x.shape[:1])


@module
class MLP:
    """Linear layers with an activation between them.

    Example:
        >>> MLP.init(random.key(0), (784, 128, 10))(jnp.ones((2, 784))).shape
        (2, 10)
    """

    layers: tuple[Linear, ...]
    activation: Callable[[Array], Array] = static(default=relu)

    @staticmethod
    def init(
        key: KeyLike,
        sizes: Sequence[int],
        *,
        activation: Callable[[Array], Array] = relu,
        use_bias: bool = True,
        weight_init: Initializer | None = None,
        dtype: Any = float,
    ) -> MLP:
        """Returns linear layers from each size to the next.

        Args:
            key: a key, from which the random weights are drawn.
            sizes: number of features of the input, of the hidden layers, and of the output.
            activation: applied to the outputs of every layer but the last.
            use_bias: whether the layers have biases.
            weight_init: makes the weights; variance 1 / inputs if None.
            dtype: floating dtype of the parameters; float32 by default.

        Raises:
            ArgumentError: for fewer than two sizes.
        """
        if len(sizes) < 2:
            raise ArgumentError(
                "an MLP needs sizes of inputs and outputs",
                got=f"sizes={tuple(sizes)}",
                hint="write (inputs, hidden, ..., outputs)",
            )
        keys = random.split(key, len(sizes) - 1)
        layers = tuple(
            Linear.init(k, n, m, use_bias=use_bias, weight_init=weight_init, dtype=dtype)
            for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
        )
        return MLP(layers, activation)

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        """Returns the outputs of the last layer, without an activation."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


@module
class Lambda:
    """A function as a module, without parameters.

    Example:
        >>> Lambda(jnp.abs)(jnp.array([-1.0])).tolist()
        [1.0]
    """

    function: Callable[[Any], Any] = static()

    def __call__(self, x: object) -> Any:
        """Returns the function of x."""
        return self.function(x)


@module
class Sequential:
    """Modules and functions, applied in order.

    Example:
        >>> first, second = random.split(random.key(0))
        >>> model = Sequential.init(Linear.init(first, 3, 8), relu, Linear.init(second, 8, 2))
        >>> model(jnp.ones((5, 3))).shape
        (5, 2)
    """

    layers: tuple[Any, ...]

    @staticmethod
    def init(*layers: Callable[[Any], Any]) -> Sequential:
        """Returns the layers as one module; functions become part of its structure."""
        is_tree = [tree.structure(layer) != tree.structure(0) for layer in layers]
        return Sequential(
            tuple(
                x if has_leaves else Lambda(x)
                for x, has_leaves in zip(layers, is_tree, strict=True)
            )
        )

    def __call__(self, x: object, *, key: KeyLike | None = None, **options: Any) -> Any:
        """Applies the layers in order.

        Args:
            x: input of the first layer.
            key: split into one for each layer; those that take a key get theirs.
            options: keyword arguments for the layers that take them, such as ``inference=True``.

        Raises:
            ArgumentError: for an option that no layer takes.
        """
        kinds: list[Any] = [type(layer) for layer in self.layers]
        taken = [*map(_options, kinds)]
        unknown = options.keys() - {"inference"}.union(*taken)
        if unknown:
            raise ArgumentError(
                "no layer of this Sequential takes this option",
                got=", ".join(sorted(unknown)),
                hint="layers take " + (", ".join(sorted(set().union(*taken))) or "none"),
            )
        keys = [None] * len(taken) if key is None else random.split(key, max(1, len(taken)))
        for layer, names, own in zip(self.layers, taken, keys):
            chosen = {name: value for name, value in options.items() if name in names}
            if own is not None and "key" in names:
                chosen["key"] = own
            x = layer(x, **chosen)
        return x


@cache
def _options(kind: Hashable) -> frozenset[str]:
    """The keyword arguments of a layer beside its input."""
    parameters = inspect.signature(getattr(kind, "__call__")).parameters.values()  # noqa: B004, B009
    named = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    inner = {"inference"} if any(p.kind is p.VAR_KEYWORD for p in parameters) else set()
    return frozenset(named | inner)
