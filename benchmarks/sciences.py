"""Small whole programs of many sciences, each a function of a facade and arrays.

Most are written once for all libraries; what is naturally a loop has one of numba's beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loops
import numpy as np
from facades import Facade
from operations import Argument, Drawn, Random, length

Program = Callable[[Random], Drawn]


def drawn(f: Callable[..., Any], *arguments: Argument, numba: Any = None, **more: Any) -> Drawn:
    """A program with its arguments."""
    return Drawn(f, arguments, instead={"numba": numba} if numba else {}, **more)


# Mechanics and chemistry.


def gravity(r: Random) -> Drawn:
    """Ten steps of a cluster of stars."""
    n = length(r, 16, 200)

    def run(f: Facade, x: Any, v: Any, m: Any) -> Any:
        def step(s: Any) -> Any:
            x, v = s
            d = x[None, :, :] - x[:, None, :]
            near = f.xp.sum(d * d, axis=-1) + 0.01
            a = f.xp.sum(d * (m[None, :] * near**-1.5)[:, :, None], axis=1)
            v = v + 0.01 * a
            return x + 0.01 * v, v

        return f.repeat(10, step, (x, v))

    arguments = Argument((n, 3)), Argument((n, 3)), Argument((n,), values="positive")
    return drawn(run, *arguments, numba=lambda x, v, m: loops.bodies(x, v, m, 10))


def lennard_jones(r: Random) -> Drawn:
    """Energy and forces of a gas, forces as its gradient."""
    n = length(r, 16, 200)

    def energy(f: Facade, x: Any, own: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        s = 1 / (f.xp.sum(d * d, axis=-1) + 1.0 + 1e6 * own)
        return 2 * f.xp.sum(s**6 - s**3)

    return drawn(
        lambda f, x, own: f.grad(lambda x: energy(f, x, own))(x),
        Argument((n, 3)),
        Argument((n, n), values=(0.0, 0.1)),
    )


def lorenz(r: Random) -> Drawn:
    """Many trajectories of a chaotic system."""

    def run(f: Facade, s: Any) -> Any:
        def step(s: Any) -> Any:
            x, y, z = s[0], s[1], s[2]
            d = f.xp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
            return s + 0.01 * d

        return f.repeat(50, step, s)

    return drawn(run, Argument((3, length(r, 1, 3000))), numba=lambda s: loops.lorenz(s, 50))


def runge_kutta(r: Random) -> Drawn:
    """Predators and prey, by a method of fourth order, for many parameters."""
    n = length(r, 1, 2000)

    def run(f: Facade, s: Any, p: Any) -> Any:
        def slope(s: Any) -> Any:
            return f.xp.stack([s[0] * (p - s[1]), s[1] * (s[0] - 1.0)])

        def step(s: Any) -> Any:
            a = slope(s)
            b = slope(s + 0.005 * a)
            c = slope(s + 0.005 * b)
            d = slope(s + 0.01 * c)
            return s + (0.01 / 6) * (a + 2 * b + 2 * c + d)

        return f.repeat(20, step, s)

    return drawn(run, Argument((2, n), values="positive"), Argument((n,), values="positive"))


def pendulum_gradient(r: Random) -> Drawn:
    """The gradient of where pendulums end to where they begin."""
    n, steps = length(r, 1, 500), 20

    def end(f: Facade, q: Any, p: Any) -> Any:
        if f.traces:

            def body(s: Any, _: Any) -> Any:
                p = s[1] - 0.05 * f.xp.sin(s[0])
                return (s[0] + 0.05 * p, p), None

            return f.xp.sum(f.lax.scan(body, (q, p), None, steps)[0][0] ** 2)
        for _ in range(steps):
            p = p - 0.05 * f.xp.sin(q)
            q = q + 0.05 * p
        return f.xp.sum(q**2)

    return drawn(
        lambda f, q, p: f.grad(lambda q, p: end(f, q, p), 2)(q, p), Argument((n,)), Argument((n,))
    )


def reaction_diffusion(r: Random) -> Drawn:
    """Patterns of two chemicals on a torus."""
    n, m = length(r, 16, 200), length(r, 16, 200)

    def run(f: Facade, u: Any, v: Any) -> Any:
        roll = f.xp.roll

        def laplacian(x: Any) -> Any:
            return roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4 * x

        def step(s: Any) -> Any:
            u, v = s
            react = u * v * v
            return (
                u + 0.16 * laplacian(u) - react + 0.035 * (1 - u),
                v + 0.08 * laplacian(v) + react - 0.1 * v,
            )

        return f.repeat(10, step, (u, v))

    return drawn(run, Argument((n, m), values=(0.0, 1.0)), Argument((n, m), values=(0.0, 1.0)))


def wave(r: Random) -> Drawn:
    """A wave in a box."""
    n, m = length(r, 16, 300), length(r, 16, 300)

    def run(f: Facade, u: Any, before: Any) -> Any:
        def step(s: Any) -> Any:
            u, before = s
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            inner = 2 * u[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.2 * (around - 4 * u[1:-1, 1:-1])
            return f.xp.pad(inner, [(1, 1), (1, 1)]), u

        return f.repeat(10, step, (u, before))

    return drawn(run, Argument((n, m)), Argument((n, m)))


def advection(r: Random) -> Drawn:
    """Transport by upwind differences."""
    n = length(r, 100, 50_000)

    def run(f: Facade, x: Any, c: Any) -> Any:
        def step(x: Any) -> Any:
            flow = f.xp.where(c > 0, x - f.xp.roll(x, 1, 0), f.xp.roll(x, -1, 0) - x)
            return x - 0.1 * c * flow

        return f.repeat(10, step, x)

    return drawn(run, Argument((n,)), Argument((n,)))


def jacobi(r: Random) -> Drawn:
    """Poisson's equation, by twenty sweeps."""
    n = length(r, 16, 200)

    def run(f: Facade, b: Any) -> Any:
        def step(u: Any) -> Any:
            v = f.xp.pad(u, [(1, 1), (1, 1)])
            return 0.25 * (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] + b)

        return f.repeat(20, step, b * 0)

    return drawn(run, Argument((n, n)))


def conjugate_gradients(r: Random) -> Drawn:
    """A linear system, by twenty steps."""
    n = length(r, 16, 300)

    def run(f: Facade, a: Any, b: Any) -> Any:
        dot = f.xp.dot

        def step(s: Any) -> Any:
            x, g, p = s
            ap = a @ p
            rate = dot(g, g) / (dot(p, ap) + 1e-20)
            h = g - rate * ap
            return x + rate * p, h, h + dot(h, h) / (dot(g, g) + 1e-20) * p

        return f.repeat(10, step, (b * 0, b, b))[0]

    return drawn(run, Argument((n, n), values="definite"), Argument((n,)))


def ising(r: Random) -> Drawn:
    """Magnets of one byte, a checkerboard of flips at given chances."""
    n, m = 2 * length(r, 8, 128), 2 * length(r, 8, 128)
    board = (np.add.outer(np.arange(n), np.arange(m)) % 2).astype(np.int8)

    def run(f: Facade, x: Any, chance: Any) -> Any:
        roll, black = f.xp.roll, f.array(board)

        def half(x: Any, colour: int) -> Any:
            total = roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1)
            gain = f.cast(2 * x * total, "float32")
            flips = (chance < f.xp.exp(-0.44 * gain)) & (black == colour)
            return f.xp.where(flips, -x, x)

        return f.repeat(4, lambda x: half(half(x, 0), 1), x)

    spins = Argument((n, m), "int8", (0, 2))
    return drawn(
        lambda f, x, chance: run(f, 2 * x - 1, chance), spins, Argument((n, m), values=(0.0, 1.0))
    )


def mandelbrot(r: Random) -> Drawn:
    """Steps until points escape."""
    n, m = length(r, 16, 150), length(r, 16, 150)

    def run(f: Facade, x: Any, y: Any) -> Any:
        def step(s: Any) -> Any:
            a, b, n = s
            inside = a * a + b * b <= 4
            c, d = a * a - b * b + x, 2 * a * b + y
            return f.xp.where(inside, c, a), f.xp.where(inside, d, b), n + inside

        zero = f.cast(x * 0, "int32")
        return f.repeat(30, step, (x * 0, y * 0, zero))[2]

    place = Argument((n, m), values=(-1.5, 0.5))
    return drawn(run, place, place, numba=lambda x, y: loops.mandelbrot(x, y, 30), loose=True)


# Life, words and signals.


def alignment(r: Random) -> Drawn:
    """The distance of edits between two sequences, along diagonals of its table."""
    n = length(r, 16, 300)

    def run(f: Facade, a: Any, b: Any) -> Any:
        f.only("tfn", "jax")
        lax, xp = f.lax, f.xp
        row = xp.arange(n + 1, dtype="float32")

        def next_row(row: Any, given: Any) -> Any:
            letter, i = given
            best = xp.minimum(row[1:] + 1, row[:-1] + (b != letter))
            start = xp.concatenate([xp.reshape(i + 1, (1,)), best])
            place = xp.arange(n + 1, dtype="float32")
            return lax.cummin(start - place) + place, None

        numbers = xp.arange(n, dtype="float32")
        return lax.scan(next_row, row, (a, numbers))[0][-1]

    word = Argument((n,), "int32", (0, 4))
    return drawn(run, word, word, numba=loops.alignment)


def viterbi(r: Random) -> Drawn:
    """The best path's score in a hidden Markov model."""
    n, t = length(r, 2, 64), length(r, 8, 300)

    def run(f: Facade, start: Any, move: Any, seen: Any) -> Any:
        def step(p: Any, s: Any) -> Any:
            return f.xp.max(p[:, None] + move, axis=0) + s, p

        return f.scan(step, start + seen[0], seen[1:])[0]

    return drawn(run, Argument((n,)), Argument((n, n)), Argument((t, n)), numba=loops.viterbi)


def forward_algorithm(r: Random) -> Drawn:
    """The likelihood of a hidden Markov model, in logarithms."""
    n, t = length(r, 2, 64), length(r, 8, 200)

    def run(f: Facade, move: Any, seen: Any) -> Any:
        def step(p: Any, s: Any) -> Any:
            q = p[:, None] + move
            top = f.xp.max(q, axis=0)
            return top + f.xp.log(f.xp.sum(f.xp.exp(q - top), axis=0)) + s, top

        return f.scan(step, seen[0], seen[1:])[0]

    return drawn(run, Argument((n, n)), Argument((t, n)))


def epidemics(r: Random) -> Drawn:
    """The sick and the healthy of many towns, with travel between them."""
    n = length(r, 4, 200)

    def run(f: Facade, s: Any, i: Any, travel: Any) -> Any:
        def step(state: Any) -> Any:
            s, i = state
            new = 0.2 * s * (travel @ i)
            return s - new, i + new - 0.1 * i

        return f.repeat(30, step, (s, i))

    unit = Argument((n,), values=(0.0, 1.0))
    return drawn(run, unit, unit, Argument((n, n), values=(0.0, 0.01)))


def neurons(r: Random) -> Drawn:
    """Neurons that integrate and fire, coupled by weights."""
    n = length(r, 16, 300)

    def run(f: Facade, v: Any, w: Any, given: Any) -> Any:
        def step(v: Any) -> Any:
            fires = f.cast(v > 1.0, "float32")
            return f.xp.where(v > 1.0, 0.0, v + 0.1 * (given - v)) + w @ fires

        return f.repeat(30, step, v)

    return drawn(run, Argument((n,)), Argument((n, n), values=(0.0, 0.01)), Argument((n,)),
                 loose=True)  # fmt: skip


def reservoir(r: Random) -> Drawn:
    """An echo state network."""
    n, t = length(r, 8, 200), length(r, 8, 100)

    def run(f: Facade, w: Any, x: Any) -> Any:
        def step(h: Any, u: Any) -> Any:
            h = f.xp.tanh(w @ h + u)
            return h, h

        return f.scan(step, x[0] * 0, x)[1]

    return drawn(run, Argument((n, n), values=(-0.1, 0.1)), Argument((t, n)))


def moving_average(r: Random) -> Drawn:
    """Exponential smoothing of many prices."""

    def run(f: Facade, x: Any) -> Any:
        def step(s: Any, u: Any) -> Any:
            s = 0.1 * u + 0.9 * s
            return s, s

        return f.scan(step, x[0], x)[1]

    return drawn(run, Argument((length(r, 16, 1000), length(r, 1, 256))),
                 numba=lambda x: loops.moving_average(x, np.float32(0.1)))  # fmt: skip


def kalman(r: Random) -> Drawn:
    """A filter of noisy positions, for many objects."""
    t, n = length(r, 8, 100), length(r, 1, 500)

    def run(f: Facade, z: Any) -> Any:
        def step(s: Any, z: Any) -> Any:
            x, v, p, q, c = s
            x, p = x + v, p + 2 * c + q + 0.01
            c, q = c + q, q + 0.01
            k, g = p / (p + 1), c / (p + 1)
            d = z - x
            return (x + k * d, v + g * d, (1 - k) * p, q - g * c, (1 - k) * c), x

        one = z[0] * 0 + 1
        return f.scan(step, (z[0], one * 0, one, one, one * 0), z)[1]

    return drawn(run, Argument((t, n)))


def spectrogram(r: Random) -> Drawn:
    """Power of windowed pieces of a signal."""
    n, k = int(r.choice([64, 128, 256])), length(r, 4, 100)

    def run(f: Facade, x: Any, w: Any) -> Any:
        y = f.xp.fft.rfft(f.xp.reshape(x, (k, n)) * w)
        return f.xp.log(f.xp.abs(y) ** 2 + 1e-6)

    return drawn(run, Argument((k * n,)), Argument((n,)))


def autocorrelation(r: Random) -> Drawn:
    """Of a signal, at 32 lags."""
    n = length(r, 100, 20_000)

    def run(f: Facade, x: Any) -> Any:
        x = x - f.xp.mean(x)
        return f.xp.stack([f.xp.sum(x[: n - k] * x[k:]) for k in range(32)])

    return drawn(run, Argument((n,)))


def sobel(r: Random) -> Drawn:
    """Edges of a photograph of bytes."""
    n, m = length(r, 16, 500), length(r, 16, 500)

    def run(f: Facade, x: Any) -> Any:
        x = f.cast(x, "int16")
        a = x[:-2] + 2 * x[1:-1] + x[2:]
        b = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
        dx, dy = a[:, 2:] - a[:, :-2], b[2:] - b[:-2]
        return f.cast(f.xp.minimum(f.xp.abs(dx) + f.xp.abs(dy), 255), "uint8")

    return drawn(run, Argument((n, m), "uint8", (0, 255)))


def demosaic(r: Random) -> Drawn:
    """Gamma, white balance and a matrix of colours."""
    n, m = length(r, 16, 300), length(r, 16, 300)

    def run(f: Facade, x: Any, w: Any) -> Any:
        y = (f.cast(x, "float32") / 255.0) ** 2.2
        y = f.xp.matmul(y, w)
        return f.cast(f.xp.clip(y, 0.0, 1.0) ** (1 / 2.2) * 255.0, "uint8")

    return drawn(run, Argument((n, m, 3), "uint8", (0, 255)), Argument((3, 3), values=(0.0, 0.3)),
                 loose=True)  # fmt: skip


def bilateral(r: Random) -> Drawn:
    """A filter that keeps edges, over a window of 5 by 5."""
    n, m = length(r, 16, 150), length(r, 16, 150)

    def run(f: Facade, x: Any) -> Any:
        y = f.xp.pad(x, [(2, 2), (2, 2)])
        total, weights = x * 0, x * 0
        for i in range(5):
            for j in range(5):
                z = y[i : i + n, j : j + m]
                w = f.xp.exp(-((z - x) ** 2) - 0.1 * ((i - 2) ** 2 + (j - 2) ** 2))
                total, weights = total + w * z, weights + w
        return total / weights

    return drawn(run, Argument((n, m)))


# Statistics, graphs and money.


def k_means(r: Random) -> Drawn:
    """Five rounds of clustering."""
    n, k, d = length(r, 16, 2000), length(r, 2, 32), length(r, 1, 16)

    def run(f: Facade, x: Any, c: Any) -> Any:
        eye = f.array(np.eye(k, dtype=np.float32))

        def step(c: Any) -> Any:
            apart = f.xp.sum(x * x, axis=1)[:, None] - 2 * (x @ c.T) + f.xp.sum(c * c, axis=1)
            chosen = eye[f.xp.argmin(apart, axis=1)]
            return (chosen.T @ x) / (f.xp.sum(chosen, axis=0)[:, None] + 1e-6)

        return f.repeat(5, step, c)

    return drawn(run, Argument((n, d)), Argument((k, d)), loose=True)


def mixture(r: Random) -> Drawn:
    """One step of expectation and maximisation for Gaussians."""
    n, k = length(r, 16, 5000), length(r, 2, 16)

    def run(f: Facade, x: Any, mean: Any, scale: Any) -> Any:
        z = (x[:, None] - mean) / scale
        p = f.xp.exp(-0.5 * z * z) / scale
        p = p / f.xp.sum(p, axis=1, keepdims=True)
        total = f.xp.sum(p, axis=0)
        new = f.xp.sum(p * x[:, None], axis=0) / total
        return new, f.xp.sqrt(f.xp.sum(p * (x[:, None] - new) ** 2, axis=0) / total)

    return drawn(run, Argument((n,)), Argument((k,)), Argument((k,), values="positive"))


def logistic_regression(r: Random) -> Drawn:
    """Ten steps down a gradient written by hand."""
    n, d = length(r, 16, 1000), length(r, 2, 100)

    def run(f: Facade, x: Any, y: Any, w: Any) -> Any:
        def step(w: Any) -> Any:
            p = 1 / (1 + f.xp.exp(-(x @ w)))
            return w - 0.1 * ((p - y) @ x) / n

        return f.repeat(10, step, w)

    return drawn(run, Argument((n, d)), Argument((n,), values=(0.0, 1.0)), Argument((d,)))


def gaussian_process(r: Random) -> Drawn:
    """The mean of a process at new points."""
    n, m = length(r, 8, 100), length(r, 8, 100)

    def run(f: Facade, x: Any, y: Any, z: Any) -> Any:
        eye = f.array(np.eye(n, dtype=np.float32))
        k = f.xp.exp(-0.5 * (x[:, None] - x[None, :]) ** 2) + 0.1 * eye
        return f.xp.exp(-0.5 * (z[:, None] - x[None, :]) ** 2) @ f.xp.linalg.solve(k, y)

    return drawn(run, Argument((n,)), Argument((n,)), Argument((m,)))


def bootstrap(r: Random) -> Drawn:
    """Means of resampled data."""
    n, k = length(r, 16, 500), length(r, 8, 200)

    def run(f: Facade, x: Any, i: Any) -> Any:
        y = f.xp.reshape(f.take(x, f.xp.reshape(i, (-1,))), (k, n))
        return f.xp.mean(y, axis=1), f.xp.sqrt(f.xp.var(y, axis=1))

    return drawn(run, Argument((n,)), Argument((k, n), "int32", (0, n)))


def page_rank(r: Random) -> Drawn:
    """Ranks of pages, by their links as pairs of indices."""
    n = length(r, 16, 2000)
    links = 8 * n

    def run(f: Facade, a: Any, b: Any) -> Any:
        one = f.array(np.ones(n, np.float32))
        degree = f.add_at(one, a, f.array(np.ones(links, np.float32)))

        def step(rank: Any) -> Any:
            return 0.15 + 0.85 * f.add_at(one * 0, b, f.take(rank / degree, a))

        return f.repeat(5, step, one)

    page = Argument((links,), "int32", (0, n))
    return drawn(run, page, page)


def graph_network(r: Random) -> Drawn:
    """A layer that sends messages along edges."""
    n, d = length(r, 16, 1000), length(r, 4, 64)
    edges = 6 * n

    def run(f: Facade, x: Any, w: Any, a: Any, b: Any) -> Any:
        messages = f.xp.maximum(f.take(x, a) @ w, 0.0)
        return f.xp.tanh(x + f.add_at(x * 0, b, messages))

    node = Argument((edges,), "int32", (0, n))
    return drawn(run, Argument((n, d)), Argument((d, d)), node, node)


def shortest_paths(r: Random) -> Drawn:
    """Between all pairs of nodes, one node after the other."""
    n = length(r, 8, 100)

    def run(f: Facade, d: Any) -> Any:
        def step(s: Any) -> Any:
            d, k = s
            return f.xp.minimum(d, d[:, k][:, None] + d[k][None, :]), k + 1

        return f.repeat(n, step, (d, 0))[0]

    return drawn(run, Argument((n, n), values="positive"), numba=loops.shortest_paths)


def options(r: Random) -> Drawn:
    """Prices by a tree of so many steps, for many strikes."""
    n = length(r, 8, 100)

    def run(f: Facade, spot: Any, strike: Any) -> Any:
        up = f.array(np.float32(1.02) ** np.arange(-n, n + 1, 2, dtype=np.float32))
        value = f.xp.maximum(strike[:, None] - spot[:, None] * up, 0.0)
        for _ in range(8):
            value = 0.995 * (0.49 * value[:, 1:] + 0.51 * value[:, :-1])
        return value

    price = Argument((length(r, 1, 500),), values=(90.0, 110.0))
    return drawn(run, price, price)


def black_scholes(r: Random) -> Drawn:
    """Prices of many calls, and their slopes to the spot."""
    n = length(r, 16, 20_000)

    def price(f: Facade, s: Any, k: Any) -> Any:
        def normal(x: Any) -> Any:
            return 1 / (1 + f.xp.exp(-1.702 * x))

        d = f.xp.log(s / k) / 0.2 + 0.1
        return f.xp.sum(s * normal(d) - k * normal(d - 0.2))

    money = Argument((n,), values=(50.0, 150.0))
    return drawn(lambda f, s, k: f.grad(lambda s: price(f, s, k))(s), money, money)


def monte_carlo(r: Random) -> Drawn:
    """Random walks from given noise: their largest values and ends."""
    n, t = length(r, 8, 2000), length(r, 8, 200)

    def run(f: Facade, noise: Any) -> Any:
        paths = f.xp.exp(f.xp.cumsum(0.01 * noise, 1))
        return f.xp.max(paths, axis=1), f.xp.mean(f.xp.maximum(paths[:, -1] - 1.0, 0.0))

    return drawn(run, Argument((n, t)))


def portfolio(r: Random) -> Drawn:
    """Covariances of returns, and weights by projected gradients."""
    t, n = length(r, 16, 500), length(r, 2, 100)

    def run(f: Facade, x: Any, w: Any) -> Any:
        d = x - f.xp.mean(x, axis=0)
        c = d.T @ d / t

        def step(w: Any) -> Any:
            w = f.xp.maximum(w - 0.01 * (c @ w), 0.0)
            return w / (f.xp.sum(w) + 1e-6)

        return f.repeat(10, step, w)

    return drawn(run, Argument((t, n)), Argument((n,), values="positive"))


# Learning, and the sky.


def perceptron(r: Random) -> Drawn:
    """The gradient of a small network's loss."""
    n, a, b = length(r, 1, 200), length(r, 2, 100), length(r, 2, 100)

    def loss(f: Facade, u: Any, v: Any, x: Any, y: Any) -> Any:
        return f.xp.mean((f.xp.tanh(x @ u) @ v - y) ** 2)

    return drawn(
        lambda f, u, v, x, y: f.grad(lambda u, v: loss(f, u, v, x, y), 2)(u, v),
        Argument((a, b)),
        Argument((b, 1)),
        Argument((n, a)),
        Argument((n, 1)),
    )


def autoencoder(r: Random) -> Drawn:
    """The gradient of four layers, with batch norm."""
    n, d, h = length(r, 4, 128), length(r, 8, 128), length(r, 2, 64)

    def loss(f: Facade, a: Any, b: Any, x: Any) -> Any:
        z = x @ a
        z = (z - f.xp.mean(z, axis=0)) / f.xp.sqrt(f.xp.mean(z * z, axis=0) + 1e-3)
        return f.xp.mean((f.xp.maximum(z, 0.0) @ b - x) ** 2)

    return drawn(
        lambda f, a, b, x: f.grad(lambda a, b: loss(f, a, b, x), 2)(a, b),
        Argument((d, h)),
        Argument((h, d)),
        Argument((n, d)),
    )


def transport(r: Random) -> Drawn:
    """Sinkhorn's balancing of a matrix."""
    n, m = length(r, 8, 200), length(r, 8, 200)

    def run(f: Facade, cost: Any) -> Any:
        k = f.xp.exp(-cost)

        def step(s: Any) -> Any:
            u, v = s
            u = 1.0 / (k @ v)
            return u, 1.0 / (u @ k)

        ones = f.array(np.ones(n, np.float32)), f.array(np.ones(m, np.float32))
        u, v = f.repeat(20, step, ones)
        return u[:, None] * k * v[None, :]

    return drawn(run, Argument((n, m), values=(0.0, 2.0)))


def kepler(r: Random) -> Drawn:
    """Where planets are, by Newton's method."""
    n = length(r, 1, 20_000)

    def run(f: Facade, mean: Any, e: Any) -> Any:
        def step(x: Any) -> Any:
            return x - (x - e * f.xp.sin(x) - mean) / (1 - e * f.xp.cos(x))

        return f.repeat(6, step, mean)

    return drawn(run, Argument((n,), values=(0.0, 3.0)), Argument((n,), values=(0.0, 0.5)))


def light_curves(r: Random) -> Drawn:
    """A periodogram of uneven times."""
    n, k = length(r, 8, 300), length(r, 8, 300)

    def run(f: Facade, t: Any, y: Any, w: Any) -> Any:
        phase = w[:, None] * t[None, :]
        return (
            f.xp.sum(y * f.xp.cos(phase), axis=1) ** 2 + f.xp.sum(y * f.xp.sin(phase), axis=1) ** 2
        )

    return drawn(run, Argument((n,), values=(0.0, 10.0)), Argument((n,)), Argument((k,)))


def rotations(r: Random) -> Drawn:
    """Points turned by quaternions."""
    n = length(r, 16, 20_000)

    def run(f: Facade, q: Any, p: Any) -> Any:
        q = q / f.xp.sqrt(f.xp.sum(q * q, axis=-1, keepdims=True))
        w, x, y, z = (q[:, i] for i in range(4))
        a, b, c = (p[:, i] for i in range(3))
        u, v, t = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
        return f.xp.stack(
            [a + w * u + y * t - z * v, b + w * v + z * u - x * t, c + w * t + x * v - y * u], -1
        )

    return drawn(run, Argument((n, 4)), Argument((n, 3)))


def ray_marching(r: Random) -> Drawn:
    """Spheres seen by rays."""
    n, k = length(r, 64, 5000), length(r, 2, 16)

    def run(f: Facade, d: Any, centre: Any, radius: Any) -> Any:
        def step(t: Any) -> Any:
            p = t[:, None] * d
            apart = p[:, None, :] - centre[None, :, :]
            near = f.xp.sqrt(f.xp.sum(apart * apart, axis=-1)) - radius
            return t + 0.9 * f.xp.min(near, axis=1)

        return f.repeat(8, step, d[:, 0] * 0)

    arguments = Argument((n, 3), values=(-0.6, 0.6)), Argument((k, 3), values=(1.0, 5.0))
    return drawn(run, *arguments, Argument((k,), values=(0.1, 0.5)))


def quantum_walk(r: Random) -> Drawn:
    """A coin and a line, in complex amplitudes."""
    n = length(r, 16, 2000)

    def run(f: Facade, a: Any, b: Any) -> Any:
        def step(s: Any) -> Any:
            a, b = s
            up, down = (a + b) * 0.70710678, (a - b) * 0.70710678
            return f.xp.roll(up, 1, 0), f.xp.roll(down, -1, 0)

        a, b = f.repeat(20, step, (a, b))
        return f.xp.abs(a) ** 2 + f.xp.abs(b) ** 2

    return drawn(run, Argument((n,), "complex64"), Argument((n,), "complex64"))


def sandpile(r: Random) -> Drawn:
    """Grains that topple, in small integers."""
    n, m = length(r, 16, 200), length(r, 16, 200)

    def run(f: Facade, x: Any) -> Any:
        def step(x: Any) -> Any:
            over = x >> 2
            y = f.xp.pad(over, [(1, 1), (1, 1)])
            return (x & 3) + y[2:, 1:-1] + y[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2]

        return f.repeat(10, step, x)

    return drawn(run, Argument((n, m), "int16", (0, 12)))


PROGRAMS: dict[str, Program] = {
    f.__name__: f
    for f in (
        *(gravity, lennard_jones, lorenz, runge_kutta, pendulum_gradient, reaction_diffusion),
        *(wave, advection, jacobi, conjugate_gradients, ising, mandelbrot, alignment, viterbi),
        *(forward_algorithm, epidemics, neurons, reservoir, moving_average, kalman, spectrogram),
        *(autocorrelation, sobel, demosaic, bilateral, k_means, mixture, logistic_regression),
        *(gaussian_process, bootstrap, page_rank, graph_network, shortest_paths, options),
        *(black_scholes, monte_carlo, portfolio, perceptron, autoencoder, transport, kepler),
        *(light_curves, rotations, ray_marching, quantum_walk, sandpile),
    )
}
