"""Rows of `tfn.nn.optim`, compared with recorded optax: parameters after steps, rates at steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tests.numpy.rows import Row
from tests.options.calls import Odd

SHAPES = [((4, 2, 3), (4, 3), (4,))]
MASKS = [lambda *_: {"w": True, "b": False, "s": True}, lambda *_: lambda _: {"w": False,
    "b": True, "s": True}]  # fmt: skip
DTYPES = [None, "float32", "bfloat16"]


def modules(function: Callable[..., Any]) -> tuple[Any, Any]:
    """The arrays and the optimizers of the library of a function."""
    ours = function.__module__.startswith("tfn")
    names = ("tfn.numpy", "tfn.nn.optim") if ours else ("jax.numpy", "optax")
    return import_module(names[0]), import_module(names[1])


def steps(make: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A call that makes an optimizer, and gives the parameters after steps.

    Of each operand the first element is a parameter, and the others are its gradients.
    """

    def call(f: Callable[..., Any], xs: Sequence[np.ndarray], **how: Any) -> Any:
        numbers, optim = modules(f)
        trees = [dict(zip("wbs", map(numbers.asarray, step))) for step in zip(*xs)]
        optimizer = make(optim, lambda: f(**how))
        params, *gradients = trees
        state = optimizer.init(params)
        for slopes in gradients:
            updates, state = optimizer.update(slopes, state, params)
            params = optim.apply_updates(params, updates)
        return [params[k] for k in "wbs"]

    return call


def flat(*xs: np.ndarray) -> Sequence[np.ndarray]:
    """Operands, one of which is 0 and stays so, as with a unit that nothing reaches."""
    xs[0][:, 0, 0] = 0
    return xs


def odd(
    given: dict[str, Any], make: Any = lambda _, f: f(), ulps: int = 2**12, **values: Any
) -> Odd:
    """An optimizer, with keywords of every call."""
    row = Row(["float32"], SHAPES, within=(-2, 2), spread=True, ulps=ulps, jit=False, prepare=flat,
        call=steps(make))  # fmt: skip
    return Odd(row, given, values)


def whole(*_: np.ndarray) -> Sequence[np.ndarray]:
    """Numbers of steps before, at, between and behind the borders of schedules."""
    return (np.int32([-3, 0, 1, 2, 4, 5, 6, 10, 11, 1000, 2**30]),)


def rate(**given: Any) -> Any:
    """A schedule at numbers of steps."""
    values = {k: given.pop(k) for k in list(given) if isinstance(given[k], list)}
    row = Row(["int32"], [((11,),)], ulps=64, spread=True, prepare=whole, jit=False,
        call=lambda f, xs, **how: f(**how)(modules(f)[0].asarray(xs[0])))  # fmt: skip
    return Odd(row, given, values)


# fmt: off
RATE = {"learning_rate": .1}
RATES = [0., -1., lambda *_: lambda step: .1 / (1 + step)]
MOMENTS = {"b1": [0., .5], "b2": [0., .5], "eps": [0., .5], "eps_root": [.5]}
ADAM = {"learning_rate": RATES, **MOMENTS, "mu_dtype": DTYPES}
DECAY = {"weight_decay": [0., .5], "mask": [None, *MASKS]}
RMS = {"decay": [0., .5], "eps": [0., .5], "initial_scale": [1.], "eps_in_sqrt": [True, False]}
FACTORED = {"factored": [False], "min_dim_size_to_factor": [2, 3], "decay_rate": [.5, 0.]}
OPTIM = {
    "sgd": odd(RATE, learning_rate=RATES, momentum=[None, 0., .5], nesterov=[True],
        accumulator_dtype=DTYPES),
    "adam": odd(RATE, **ADAM), "nadam": odd(RATE, **ADAM),
    "adamw": odd(RATE, **ADAM, **DECAY),
    "adafactor": odd(RATE, learning_rate=[None, *RATES], **FACTORED, decay_offset=[1],
        multiply_by_parameter_scale=[False], clipping_threshold=[None, .5], momentum=[None, .5, 0.],
        dtype_momentum=["float32", "bfloat16"], weight_decay_rate=[None, .5, 0.], eps=[1e-3, 0.],
        weight_decay_mask=MASKS),
    "adagrad": odd(RATE, learning_rate=RATES, initial_accumulator_value=[0., 1.], eps=[0., .5]),
    "lamb": odd(RATE, **{k: ADAM[k] for k in ADAM if k != "mu_dtype"}, **DECAY),
    "lion": odd(RATE, learning_rate=RATES, b1=[0., .5], b2=[0., .5], mu_dtype=DTYPES, **DECAY),
    "radam": odd(RATE, learning_rate=RATES, **MOMENTS, threshold=[0., 1.5, 50.]),
    "rmsprop": odd(RATE, learning_rate=RATES, **RMS, centered=[True], momentum=[None, 0., .5],
        nesterov=[True]),
    "scale_by_adam": odd({}, **MOMENTS, mu_dtype=DTYPES, nesterov=[True]),
    "scale_by_radam": odd({}, **MOMENTS, threshold=[0., 1.5, 50.]),
    "scale_by_lion": odd({}, b1=[0., .5], b2=[0., .5], mu_dtype=DTYPES),
    "scale_by_rms": odd({}, **RMS), "scale_by_stddev": odd({}, **RMS),
    "scale_by_rss": odd({}, initial_accumulator_value=[0., 1.], eps=[0., .5]),
    "scale_by_factored_rms": odd({}, **FACTORED, step_offset=[1, 3], epsilon=[0., .5]),
    "scale_by_learning_rate": odd(RATE, learning_rate=RATES, flip_sign=[False]),
    "scale_by_param_block_rms": odd({}, min_scale=[0., 5.]),
    "scale_by_trust_ratio": odd({}, min_norm=[.5, 5.], trust_coefficient=[.5, 0.], eps=[.5]),
    "add_decayed_weights": odd({}, **DECAY),
    "ema": odd({"decay": .9}, decay=[0., .5, 1.], debias=[False], accumulator_dtype=DTYPES),
    "trace": odd({"decay": .9}, decay=[0., .5], nesterov=[True], accumulator_dtype=DTYPES),
    "clip": odd({"max_delta": .5}, max_delta=[0., 9.]),
    "clip_by_block_rms": odd({"threshold": .5}, threshold=[0., 9.]),
    "clip_by_global_norm": odd({"max_norm": .5}, max_norm=[0., 99.]),
    "constant_schedule": rate(value=.5),
    "cosine_decay_schedule": rate(init_value=.5, decay_steps=10, alpha=[.1, 1., 2.], exponent=[0.,
        .5, 2.]),
    "exponential_decay": rate(init_value=.5, transition_steps=5, decay_rate=.5, transition_begin=[
        2, -1], staircase=[True], end_value=[None, .2, .9, 0.]),
    "linear_schedule": rate(init_value=.5, end_value=.1, transition_steps=5, transition_begin=[2,
        -1, 0]),
    "piecewise_constant_schedule": rate(init_value=.5, boundaries_and_scales=[None,
        {4: .5, 6: .1}, {6: .1, 4: .5}, {0: .5}, {5: 0.}]),
    "polynomial_schedule": rate(init_value=.5, end_value=.1, power=2., transition_steps=5,
        transition_begin=[2, -1, 0]),
    "warmup_cosine_decay_schedule": rate(init_value=.1, peak_value=.5, warmup_steps=4,
        decay_steps=10, end_value=[.2, 1.], exponent=[0., .5, 2.]),
}
# fmt: on
LEFT = dict.fromkeys(("muon", "scale_by_muon"), "compared with PyTorch in tests/nn/test_optim.py")
"""Functions without a row, with the reason."""
