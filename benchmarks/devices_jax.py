"""The rows of devices.py that JAX has, too, with eight host devices: a JSON object of seconds.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python benchmarks/devices_jax.py calls steps
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

SECONDS: dict[str, float] = {}


def best_s(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest of several runs, the first one not counted."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - begin)
    return min(times)


def mesh_of(n: int) -> Any:
    """A mesh of the first devices, whose values the compiler divides."""
    return jax.make_mesh((n,), ("x",), axis_types=(AxisType.Auto,))


def summed(n: int) -> Any:
    """The sum of the parts of n devices."""
    total = lambda x: lax.psum(x, "x")
    return jax.jit(jax.shard_map(total, mesh=mesh_of(n), in_specs=P("x"), out_specs=P()))


def calls() -> None:
    """A tiny jitted call, on one device and on eight."""
    double, x = jax.jit(lambda x: x + x), jnp.ones(64)
    parts = jax.device_put(x, NamedSharding(mesh_of(8), P("x")))
    rows = {
        "call, one device": (double, x),
        "call, 8 devices": (double, parts),
        "psum, 8 devices": (summed(8), parts),
    }
    for name, (run, argument) in rows.items():
        # One after the other: with many sums under way, its threads wait for each other for ever.
        SECONDS[name] = best_s(lambda run=run, argument=argument: run(argument), 200)


def reductions() -> None:
    """`psum` of 64 MiB on each device."""
    for n in (2, 4, 8):
        sharding = NamedSharding(mesh_of(n), P("x"))
        x = jax.device_put(np.ones((n, (64 << 20) // 4), np.float32), sharding)
        run = summed(n)
        SECONDS[f"psum of 64 MiB over {n}"] = best_s(lambda run=run, x=x: run(x), 3)


def step_of(loss: Callable[..., Any], optimizer: Any, parameters: Any, data: Any, n: int) -> Any:
    """A training step with its data over n devices."""
    mesh = mesh_of(n)
    state = jax.device_put((parameters, optimizer.init(parameters)), NamedSharding(mesh, P()))
    data = jax.device_put(data, NamedSharding(mesh, P("x")))

    @jax.jit
    def step(parameters: Any, state: Any, *data: Any) -> Any:
        slopes = jax.grad(loss)(parameters, *data)
        updates, state = optimizer.update(slopes, state, parameters)
        return optax.apply_updates(parameters, updates), state

    return lambda: step(*state, *data)


def mlp(n: int) -> Any:
    """The training step of the MLP of devices.py."""
    rng, widths = np.random.default_rng(0), (784, 512, 10)
    layers = [
        (rng.normal(size=(a, b)).astype(np.float32) / math.sqrt(a), np.zeros(b, np.float32))
        for a, b in itertools.pairwise(widths)
    ]
    x, y = rng.normal(size=(128, 784)).astype(np.float32), np.arange(128) % 10

    def loss(layers: Any, x: Any, y: Any) -> Any:
        (w, b), (v, c) = layers
        logits = jax.nn.relu(x @ w + b) @ v + c
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    return step_of(loss, optax.adam(1e-3), layers, (x, y), n)


ALPHABET, LAYERS, WIDTH, HEADS = 80, 4, 128, 4


def gpt(n: int) -> Any:
    """The training step of the GPT of examples/char_gpt.py."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: (0.02 * rng.normal(size=shape)).astype(np.float32)
    blocks = {
        "norms": np.ones((LAYERS, 2, 2, WIDTH), np.float32),
        "qkv": normal(LAYERS, 3, WIDTH, WIDTH),
        "out": normal(LAYERS, WIDTH, WIDTH),
        "up": normal(LAYERS, WIDTH, 4 * WIDTH),
        "down": normal(LAYERS, 4 * WIDTH, WIDTH),
    }
    norm = np.ones((2, WIDTH), np.float32)
    parameters = normal(ALPHABET, WIDTH), blocks, norm, normal(WIDTH, ALPHABET)
    texts = rng.integers(0, ALPHABET, (16, 129)).astype(np.uint8)

    def normed(x: Any, norm: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * norm[0] + norm[1]

    def turned(x: Any) -> Any:
        half = x.shape[-1] // 2
        speeds = 10000.0 ** (-jnp.arange(half) / half)
        angles = (jnp.arange(x.shape[1])[:, None] * speeds)[:, None]
        a, b = x[..., :half], x[..., half:]
        sin, cos = jnp.sin(angles), jnp.cos(angles)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def block(x: Any, w: Any) -> Any:
        h = normed(x, w["norms"][0])
        q, k, v = ((h @ w["qkv"][i]).reshape(*h.shape[:2], HEADS, -1) for i in range(3))
        y = jax.nn.dot_product_attention(turned(q), turned(k), v, is_causal=True)
        x = x + y.reshape(x.shape) @ w["out"]
        return x + jax.nn.gelu(normed(x, w["norms"][1]) @ w["up"]) @ w["down"], None

    def loss(parameters: Any, texts: Any) -> Any:
        characters, blocks, norm, out = parameters
        texts = texts.astype(int)
        x = lax.scan(block, characters[texts[:, :-1]], blocks)[0]
        logits = normed(x, norm) @ out
        return optax.softmax_cross_entropy_with_integer_labels(logits, texts[:, 1:]).mean()

    return step_of(loss, optax.adamw(1e-3), parameters, (texts,), n)


def steps() -> None:
    """Training steps."""
    for n in (1, 2, 8):
        name = "MLP step, one device" if n == 1 else f"MLP step, data={n}"
        SECONDS[name] = best_s(mlp(n), 10)
    for n in (1, 2):
        name = "GPT step, one device" if n == 1 else f"GPT step, data={n}"
        SECONDS[name] = best_s(gpt(n), 4)


if __name__ == "__main__":
    for row in sys.argv[1:]:
        if row in ("calls", "reductions", "steps"):
            {"calls": calls, "reductions": reductions, "steps": steps}[row]()
    print(json.dumps(SECONDS))
