"""Layers as pairs of functions: ``jax.example_libraries.stax``.

    init, apply = serial(Dense(128), Relu, Dense(10))
    shape, params = init(key, (-1, 784))
    logits = apply(params, images)

`tfn.nn` has layers of its own, and equinox and flax run as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tfn import lax, random
from tfn import numpy as tnp
from tfn.errors import ArgumentError
from tfn.nn import elu as elu
from tfn.nn import gelu as gelu
from tfn.nn import leaky_relu as leaky_relu
from tfn.nn import log_softmax as log_softmax
from tfn.nn import relu as relu
from tfn.nn import selu as selu
from tfn.nn import sigmoid as sigmoid
from tfn.nn import softmax as softmax
from tfn.nn import softplus as softplus
from tfn.nn import standardize as standardize
from tfn.nn.initializers import glorot_normal as glorot_normal
from tfn.nn.initializers import normal as normal
from tfn.nn.initializers import ones as ones
from tfn.nn.initializers import zeros as zeros

glorot, randn, logsoftmax = glorot_normal, normal, log_softmax

GLOROT, NORMAL, SMALL = glorot_normal(), normal(), normal(1e-6)
"""The initializers of weights and biases, if no other is given."""

Layer = tuple[Callable[..., Any], Callable[..., Any]]
"""``init(key, input_shape) -> (output_shape, params)``, ``apply(params, inputs, rng=None)``."""


def Dense(out_dim: int, W_init: Any = GLOROT, b_init: Any = NORMAL) -> Layer:
    """A fully connected layer, to `out_dim` features.

    Example:
        >>> import tfn
        >>> shape, (w, b) = Dense(3)[0](tfn.random.key(0), (-1, 2))
        >>> shape, w.shape, b.shape
        ((-1, 3), (2, 3), (3,))
    """

    def init(key: Any, input_shape: Any) -> Any:
        for_w, for_b = random.split(key)
        params = W_init(for_w, (input_shape[-1], out_dim)), b_init(for_b, (out_dim,))
        return (*input_shape[:-1], out_dim), params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return tnp.dot(inputs, w) + b

    return init, apply


def _convolution(transposed: bool) -> Callable[..., Layer]:
    """The constructors of convolutions, and of transposed ones."""
    shape_of = lax.conv_transpose_shape_tuple if transposed else lax.conv_general_shape_tuple

    def make(
        dimension_numbers: Any,
        out_chan: int,
        filter_shape: Sequence[int],
        strides: Any = None,
        padding: Any = "VALID",
        W_init: Any = None,
        b_init: Any = SMALL,
    ) -> Layer:
        """A convolution, of axes in the order of `dimension_numbers`, with a bias."""
        of_x, of_w, of_y = dimension_numbers
        one = (1,) * len(filter_shape)
        by = strides or one
        make_w = W_init or glorot_normal(of_w.index("I"), of_w.index("O"))

        def init(key: Any, input_shape: Any) -> Any:
            sizes = {"O": out_chan, "I": input_shape[of_x.index("C")]}
            window = iter(filter_shape)
            shape_w = [sizes[c] if c in sizes else next(window) for c in of_w]
            at, to = of_x.index("N"), of_y.index("N")
            some = [1 if axis == at else n for axis, n in enumerate(input_shape)]
            out = list(shape_of(some, shape_w, by, padding, dimension_numbers))
            out[to] = input_shape[at]  # which may be -1: any batch
            for_w, for_b = random.split(key)
            shape_b = [out_chan if c == "C" else 1 for c in of_y]
            return tuple(out), (make_w(for_w, shape_w), b_init(for_b, shape_b))

        def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
            w, b = params
            if transposed:
                y = lax.conv_transpose(inputs, w, by, padding, dimension_numbers=dimension_numbers)
            else:
                y = lax.conv_general_dilated(
                    inputs, w, by, padding, dimension_numbers=dimension_numbers
                )
            return y + b

        return init, apply

    return make


GeneralConv = _convolution(False)
Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
GeneralConvTranspose = _convolution(True)
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """A normalisation over some axes, then a shift and a scale for each place of the others.

    Example:
        >>> import tfn
        >>> init, apply = BatchNorm(axis=0)
        >>> _, params = init(tfn.random.key(0), (2, 1))
        >>> [round(float(x), 3) for x in apply(params, tfn.numpy.array([[1.0], [3.0]])).ravel()]
        [-1.0, 1.0]
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(key: Any, input_shape: Any) -> Any:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        for_beta, for_gamma = random.split(key)
        beta = beta_init(for_beta, shape) if center else ()
        return input_shape, (beta, gamma_init(for_gamma, shape) if scale else ())

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        beta, gamma = params
        wide = tuple(None if i in axes else slice(None) for i in range(tnp.ndim(x)))
        z = standardize(x, axes, epsilon=epsilon)
        z = gamma[wide] * z if scale else z
        return z + beta[wide] if center else z

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer that applies a function to its inputs.

    Example:
        >>> import tfn.numpy as tnp
        >>> init, apply = elementwise(tnp.clip, min=0, max=1)
        >>> init(None, (3,)), float(apply((), tnp.asarray(2.0)))
        (((3,), ()), 1.0)
    """
    return (
        lambda key, input_shape: (input_shape, ()),
        lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs),
    )


Tanh, Exp = elementwise(tnp.tanh), elementwise(tnp.exp)
Relu, Elu, LeakyRelu = elementwise(relu), elementwise(elu), elementwise(leaky_relu)
Selu, Gelu = elementwise(selu), elementwise(gelu)
Sigmoid, Softplus = elementwise(sigmoid), elementwise(softplus)
LogSoftmax, Softmax = elementwise(log_softmax, axis=-1), elementwise(softmax, axis=-1)


def _pooling(reducer: Callable[..., Any], first: float, mean: bool = False) -> Callable[..., Layer]:
    """The constructors of layers that reduce windows."""

    def make(
        window_shape: Sequence[int],
        strides: Any = None,
        padding: Any = "VALID",
        spec: str | None = None,
    ) -> Layer:
        """A reduction over windows of the axes that are neither batch nor features."""
        n_axes = len(window_shape) + 2
        fixed = (0, n_axes - 1) if spec is None else (spec.index("N"), spec.index("C"))
        steps = strides or (1,) * len(window_shape)
        window, by = _spread(window_shape, fixed), _spread(steps, fixed)
        one = (1,) * n_axes

        def init(key: Any, input_shape: Any) -> Any:
            some = [1 if axis in fixed else n for axis, n in enumerate(input_shape)]
            pads = lax.padtype_to_pads(some, window, by, padding)
            out = lax.reduce_window_shape_tuple(some, window, by, pads, one, one)
            pairs = zip(out, input_shape, strict=True)
            return tuple(n if axis in fixed else m for axis, (m, n) in enumerate(pairs)), ()

        def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
            out = lax.reduce_window(inputs, first, reducer, window, by, padding)
            if not mean:
                return out
            thin = [1 if axis in fixed else n for axis, n in enumerate(inputs.shape)]
            ones_here = tnp.ones(thin, inputs.dtype)
            return out / lax.reduce_window(ones_here, 0.0, lax.add, window, by, padding)

        return init, apply

    return make


def _spread(sizes: Sequence[int], fixed: Sequence[int]) -> tuple[int, ...]:
    """Sizes of the axes of space, with ones at the others."""
    rest = iter(sizes)
    return tuple(1 if i in fixed else next(rest) for i in range(len(sizes) + 2))


MaxPool = _pooling(lax.max, -float("inf"))
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, mean=True)

Flatten: Layer = (
    lambda key, input_shape: ((input_shape[0], prod(input_shape[1:])), ()),
    lambda params, inputs, **kwargs: tnp.reshape(inputs, (inputs.shape[0], -1)),
)
Identity: Layer = (
    lambda key, input_shape: (input_shape, ()),
    lambda params, inputs, **kwargs: inputs,
)
FanInSum: Layer = (
    lambda key, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: sum(inputs[1:], inputs[0]),
)


def FanOut(num: int) -> Layer:
    """A layer that gives its inputs `num` times, as a list.

    Example:
        >>> FanOut(2)[1]((), 1.0)
        [1.0, 1.0]
    """
    return (
        lambda key, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


def FanInConcat(axis: int = -1) -> Layer:
    """A layer that joins a list of inputs along an axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> FanInConcat()[1]((), [tnp.ones((2, 1)), tnp.ones((2, 3))]).shape
        (2, 4)
    """

    def init(key: Any, input_shape: Any) -> Any:
        at = axis % len(input_shape[0])
        total = sum(shape[at] for shape in input_shape)
        return (*input_shape[0][:at], total, *input_shape[0][at + 1 :]), ()

    return init, lambda params, inputs, **kwargs: tnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """A layer that keeps each input with the probability `rate`, and scales it by its inverse.

    Raises:
        ArgumentError: when it is applied without a random key as ``rng``.

    Example:
        >>> Dropout(0.5, mode="test")[1]((), 1.0, rng=0)
        1.0
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        key = kwargs.get("rng")
        if key is None:
            raise ArgumentError(
                "a Dropout layer needs a random key when it is applied",
                got="no rng",
                hint="call apply(params, inputs, rng=key)",
            )
        if mode != "train":
            return inputs
        kept = random.bernoulli(key, rate, inputs.shape)
        return tnp.where(kept, inputs / rate, 0)

    return (lambda key, input_shape: (input_shape, ())), apply


# Layers of layers.


def serial(*layers: Layer) -> Layer:
    """Layers one after another.

    Example:
        >>> import tfn
        >>> init, apply = serial(Dense(4), Relu, Dense(2))
        >>> shape, params = init(tfn.random.key(0), (-1, 3))
        >>> shape, apply(params, tfn.numpy.ones((5, 3))).shape
        ((-1, 2), (5, 2))
    """

    def init(key: Any, input_shape: Any) -> Any:
        params = []
        for init_layer, _ in layers:
            key, for_layer = random.split(key)
            input_shape, of_layer = init_layer(for_layer, input_shape)
            params.append(of_layer)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        for (_, apply_layer), of_layer, key in zip(layers, params, keys, strict=True):
            inputs = apply_layer(of_layer, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def _keys(key: Any, count: int) -> Any:
    return (None,) * count if key is None else random.split(key, count)


def parallel(*layers: Layer) -> Layer:
    """Layers side by side, each on its own of a list of inputs.

    Example:
        >>> import tfn.numpy as tnp
        >>> _, apply = serial(FanOut(2), parallel(Identity, Exp), FanInSum)
        >>> float(apply([(), [(), ()], ()], tnp.asarray(0.0)))
        1.0
    """

    def init(key: Any, input_shape: Any) -> Any:
        keys = random.split(key, len(layers))
        pairs = [
            init_layer(k, shape)
            for (init_layer, _), k, shape in zip(layers, keys, input_shape, strict=True)
        ]
        return [shape for shape, _ in pairs], [params for _, params in pairs]

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        return [
            apply_layer(of_layer, x, rng=key, **kwargs)
            for (_, apply_layer), of_layer, x, key in zip(layers, params, inputs, keys, strict=True)
        ]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that is made when the shape of its inputs is known.

    Example:
        >>> import tfn
        >>> init, _ = shape_dependent(lambda shape: Dense(shape[-1]))
        >>> init(tfn.random.key(0), (-1, 3))[0]
        (-1, 3)
    """
    return (
        lambda key, input_shape: make_layer(input_shape)[0](key, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
