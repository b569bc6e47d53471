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


def orthogonal(x: np.ndarray, steps: int, eps: float) -> np.ndarray:
    """The Newton-Schulz iteration of Muon, by its published coefficients."""
    x = x / (np.sqrt((x * x).sum((-2, -1), keepdims=True)) + eps)
    for _ in range(steps):
        square = x @ x.mT
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x


def muon_alone(
    xs: Sequence[np.ndarray], beta: float = 0.95, ns_steps: int = 5, nesterov: bool = True,
    eps: float = 1e-8,
) -> list[np.ndarray]:  # fmt: skip
    """The sums of a parameter and its updates, as `steps` gives them."""
    results = []
    for first, *slopes in xs:
        momentum = np.zeros_like(first)
        for g in slopes:
            momentum = beta * momentum + (1 - beta) * g
            used = beta * momentum + (1 - beta) * g if nesterov else momentum
            tall = max(1, g.shape[-2] / g.shape[-1]) ** 0.5
            first = first + tall * orthogonal(used, ns_steps, eps)
        results.append(first)
    return results


def muon(
    xs: Sequence[np.ndarray], learning_rate: Any, beta: float = 0.95, weight_decay: float = 0.0,
    ns_steps: int = 5, nesterov: bool = True, mask: Any = None, adam_b1: float = 0.9,
    adam_b2: float = 0.999, eps: float = 1e-8,
) -> list[np.ndarray]:  # fmt: skip
    """The parameters after steps: Muon where there are two axes or a mask says so, else Adam."""
    chosen = {k: x[0].ndim == 2 for k, x in zip("wbs", xs)}
    chosen = chosen if mask is None else mask({}) if callable(mask) else mask
    results = []
    for name, (p, *slopes) in zip("wbs", xs):
        momentum, mean, squares = (np.zeros_like(p) for _ in range(3))
        for i, g in enumerate(slopes, 1):
            momentum = beta * momentum + (1 - beta) * g
            mean = adam_b1 * mean + (1 - adam_b1) * g
            squares = adam_b2 * squares + (1 - adam_b2) * g * g
            if chosen[name]:
                used = beta * momentum + (1 - beta) * g if nesterov else momentum
                step = max(1, p.shape[-2] / p.shape[-1]) ** 0.5 * orthogonal(used, ns_steps, eps)
            else:
                first, second = mean / (1 - adam_b1**i), squares / (1 - adam_b2**i)
                step = first / (np.sqrt(second) + eps)
            rate = learning_rate(i - 1) if callable(learning_rate) else learning_rate
            p = p - rate * (step + weight_decay * p)
        results.append(p)
    return results


def by_formula(want: Callable[..., Any], given: dict[str, Any], **values: Any) -> Odd:
    """An optimizer of matrices, against the formula in NumPy."""

    def call(f: Callable[..., Any], xs: Sequence[np.ndarray], **how: Any) -> Any:
        return f(xs, **how) if f is want else steps(lambda _, make: make())(f, xs, **how)

    row = Row(["float32"], [((4, 2, 3), (4, 3, 2), (4, 2, 2))], within=(-2, 2), spread=True,
        ulps=2**14, jit=False, call=call, want=want)  # fmt: skip
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
NEWTON = {"beta": [0., .5], "ns_steps": [0, 1, 9], "nesterov": [True, False], "eps": [0., .5]}
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
    "muon": by_formula(muon, RATE, learning_rate=RATES, **NEWTON, weight_decay=[.5], mask=[None,
        *MASKS], adam_b1=[.5], adam_b2=[0.5]),
    "scale_by_muon": by_formula(muon_alone, {}, **NEWTON),
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
LEFT: dict[str, str] = {}
"""Functions without a row, with the reason."""
