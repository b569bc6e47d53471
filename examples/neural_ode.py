"""Learn how hares and lynxes live together: a differential equation whose right side is a network.

    python examples/neural_ode.py            learn from 1900 to 1914, predict up to 1920
    python examples/neural_ode.py --check    the gradient beside differences, in 64 bits
    python examples/neural_ode.py --resume   go on where the last run was interrupted

The equation is solved by the method of Dormand and Prince with steps as long as they can be: a
`while_loop` inside of a `scan` over the years, inside of a `vmap` over the years to begin with.
The gradient goes back through all of them, since `max_steps` bounds the loop.

Source: Dormand, Prince 1980, "A family of embedded Runge-Kutta formulae"; Hairer, Norsett, Wanner
1993, "Solving ordinary differential equations I", II.4 (the choice of steps); Chen et al. 2018,
arXiv:1806.07366 (networks as equations).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from command_line import add_training, parsed, run
from rich.console import Console

import tfn
from tfn import lax, nn, random, tree
from tfn import numpy as jnp
from tfn.nn import optim
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.progress import Training, plot

# Thousands of pelts that the Hudson's Bay Company bought, each year from 1900 to 1920, after Hewitt
# 1921, "The conservation of the wild life of Canada", in the numbers of Howard 2009.
HARES = (
    30.0,
    47.2,
    70.2,
    77.4,
    36.3,
    20.6,
    18.1,
    21.4,
    22.0,
    25.4,
    27.1,
    40.3,
    57.0,
    76.6,
    52.3,
    19.5,
    11.2,
    7.6,
    14.6,
    16.2,
    24.7,
)
LYNXES = (
    4.0,
    6.1,
    9.8,
    35.2,
    59.4,
    41.7,
    19.0,
    13.0,
    8.3,
    9.1,
    7.4,
    8.0,
    12.3,
    19.5,
    45.7,
    51.1,
    29.7,
    15.8,
    9.7,
    10.1,
    8.6,
)
LEARNED = 15  # years; the others are for the test
AHEAD = 5  # years to predict from each one

Field = Callable[[tfn.Array], tfn.Array]

# fmt: off
STAGES = (  # what of the slopes so far makes the next place to look at
    (1/5,),
    (3/40, 9/40),
    (44/45, -56/15, 32/9),
    (19372/6561, -25360/2187, 64448/6561, -212/729),
    (9017/3168, -355/33, 46732/5247, 49/176, -5103/18656),
    (35/384, 0, 500/1113, 125/192, -2187/6784, 11/84),
)
ERROR = (71/57600, 0, -71/16695, 71/1920, -17253/339200, 22/525, -1/40)  # fifth order less fourth
# fmt: on


class Solver(NamedTuple):
    """Tolerances of the solver.

    Attributes:
        relative, absolute: errors that a step may make.
        steps: how many there can be from one time to the next.
    """

    relative: float = 1e-4
    absolute: float = 1e-5
    steps: int = 64


def mixed(weights: Sequence[float], slopes: Sequence[tfn.Array]) -> Any:
    """A sum of slopes."""
    return sum(w * k for w, k in zip(weights, slopes, strict=True) if w)


def advance(
    field: Field, y: tfn.Array, start: Any, end: Any, dt: tfn.Array, solver: Solver
) -> tuple[tfn.Array, tfn.Array]:
    """Integrate y from a time to another; also the length of the step to try next.

    The result is NaN if there are not enough steps.
    """

    def unfinished(state: Any) -> Any:
        return state[0] < end

    def step(state: Any) -> Any:
        now, y, slope, dt = state
        length = jnp.minimum(dt, end - now)
        slopes = [slope]
        for weights in STAGES:
            there = y + length * mixed(weights, slopes)
            slopes.append(field(there))
        allowed = solver.absolute + solver.relative * jnp.maximum(abs(y), abs(there))
        error = jnp.sqrt(jnp.mean((length * mixed(ERROR, slopes) / allowed) ** 2))
        good = error <= 1
        # What is learned must not depend on how the steps were chosen.
        change = lax.stop_gradient(jnp.clip(0.9 * jnp.maximum(error, 1e-10) ** -0.2, 0.2, 5.0))
        now = jnp.where(good, jnp.where(length < dt, end, now + length), now)
        longest = jnp.where(good & (length < dt), dt, length * change)  # do not shrink for the end
        return now, jnp.where(good, there, y), jnp.where(good, slopes[-1], slope), longest

    first = (jnp.asarray(start, y.dtype), y, field(y), dt)
    now, y, _, dt = lax.while_loop(unfinished, step, first, max_steps=solver.steps)
    return jnp.where(now < end, jnp.nan, y), dt


def solve(
    field: Field,
    y: tfn.Array,
    times: tfn.Array,
    solver: Solver = Solver(),  # noqa: B008
) -> tfn.Array:
    """The solution of ``y' = field(y)`` at increasing times; y is the value at the first."""

    def on(state: Any, span: Any) -> Any:
        y, dt = advance(field, state[0], span[0], span[1], state[1], solver)
        return (y, dt), y

    dt = (times[1] - times[0]) / 8
    ys = lax.scan(on, (y, dt), (times[:-1], times[1:]))[1]
    return jnp.concatenate([y[None], ys])


# What is learned.


def populations(dtype: Any = float) -> tfn.Array:
    """Logarithms of hares and lynxes (years, 2), moved so that their means are 0."""
    logs = np.log(np.array([HARES, LYNXES]).T)
    return jnp.asarray(logs - logs[:LEARNED].mean(0), dtype)


def predict(network: nn.MLP, first: tfn.Array, years: int, solver: Solver) -> tfn.Array:
    """The populations of a year and of the `years` after it."""
    return solve(network, first, jnp.arange(years + 1).astype(first.dtype), solver)


def loss_of(network: nn.MLP, known: tfn.Array, solver: Solver) -> tfn.Array:
    """The mean squared error of predictions from each year that is known."""
    starts = known.shape[0] - AHEAD
    windows = known[jnp.arange(starts)[:, None] + jnp.arange(AHEAD + 1)]
    predicted = tfn.vmap(lambda first: predict(network, first, AHEAD, solver))(windows[:, 0])
    return jnp.mean((predicted[:, 1:] - windows[:, 1:]) ** 2)


def factor(error: Any) -> float:
    """The factor by which a prediction is wrong, from the mean squared error of logarithms."""
    return math.exp(math.sqrt(float(error)))


def make_step(optimizer: optim.GradientTransformation, solver: Solver) -> Callable[..., Any]:
    """The compiled training step for an optimizer; network and state are donated."""

    def step(network: nn.MLP, state: Any, known: tfn.Array) -> Any:
        loss, slopes = tfn.value_and_grad(loss_of)(network, known, solver)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, loss

    compiled: Callable[..., Any] = tfn.jit(step, donate_argnums=(0, 1))
    return compiled


def initial(seed: int) -> nn.MLP:
    """A network with random parameters."""
    return nn.MLP.init(random.key(seed), (2, 16, 16, 2), activation=nn.tanh)


def check(console: Console) -> float:
    """Compare the gradient with differences of the loss; the largest relative error."""
    network = nn.cast(initial(0), jnp.float64)
    known, solver = populations(jnp.float64)[:LEARNED], Solver(1e-10, 1e-10, 512)
    loss = tfn.jit(lambda network: loss_of(network, known, solver))
    slopes, worst = tfn.jit(tfn.grad(loss))(network), 0.0
    numbers = np.random.default_rng(0)
    for _ in range(3):
        along = tree.map(lambda x: jnp.asarray(numbers.standard_normal(x.shape)), network)
        slope = sum((a * b).sum() for a, b in zip(tree.leaves(slopes), tree.leaves(along)))
        ends = [loss(tree.map(lambda x, a, h=h: x + h * a, network, along)) for h in (1e-5, -1e-5)]
        difference = (ends[0] - ends[1]) / 2e-5
        worst = max(worst, abs(float(slope / difference) - 1))
        console.print(
            f"slope {float(slope):+.12f}, by differences {float(difference):+.12f}", highlight=False
        )
    console.print(f"neural_ode: gradients are right up to {worst:.1e}", highlight=False)
    return worst


def train(options: argparse.Namespace, console: Console) -> float:
    """Learn as the options say; by which factor the populations of later years are missed."""
    solver, every = Solver(), populations()
    optimizer = optim.adam(optim.cosine_decay_schedule(1e-2, max(1, options.steps)))
    step = make_step(optimizer, solver)
    checkpoints = Checkpoints(options.checkpoints / f"ode-{options.seed}-{options.steps}")
    if not options.resume:
        checkpoints.clear()
    network = initial(options.seed)
    done, (network, state) = checkpoints.resume((network, optimizer.init(network)))
    training = Training(options.steps, "steps", done, quiet=options.quiet, console=console)
    with training:
        while training.done < options.steps:
            network, state, loss = step(network, state, every[:LEARNED])
            training.step(1, loss=loss)
            if training.done % options.save_every == 0 or training.done == options.steps:
                training.note(
                    f"step {training.done}: populations are missed by a factor of "
                    f"{factor(loss):.2f}"
                )
                checkpoints.save(training.done, (network, state))
    later = every[LEARNED - 1 :]
    predicted = predict(network, later[0], len(later) - 1, solver)
    missed = factor(jnp.mean((predicted - later)[1:] ** 2))
    unchanged = factor(jnp.mean((later[0] - later)[1:] ** 2))
    if options.plot:
        names = ("hares, predicted", "lynxes, predicted", "hares", "lynxes")
        values = np.concatenate([np.asarray(predicted), np.asarray(later)], 1).T
        years = range(1900 + LEARNED - 1, 1921)
        plot(
            options.plot,
            {n: [*zip(years, v.tolist())] for n, v in zip(names, values)},
            title="Logarithms of populations",
        )
        training.note(f"the curves are in {options.plot}")
    training.note(f"checkpoints are in {checkpoints.folder}")
    console.print(
        f"neural_ode: later years are missed by a factor of {missed:.2f}, {unchanged:.2f} if one "
        f"says that nothing changes, {training.summary()}",
        highlight=False,
        soft_wrap=True,
    )
    return missed


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Learn a differential equation.")
    parser.add_argument("--check", action="store_true", help="compare gradients with differences")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    add_training(parser, save_every=250)
    parser.add_argument("--plot", type=Path, help="a PNG file for what is predicted")
    parser.add_argument("--smoke", action="store_true", help="20 steps")
    return parsed(parser, arguments, steps=20, save_every=10)


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn, or check; the exit status."""
    options = parse(arguments)
    if options.check:
        return int(check(Console()) > 1e-6)
    return run(train, options)


if __name__ == "__main__":
    sys.exit(main())
