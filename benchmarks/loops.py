"""Loops as numba compiles them, for cases that are naturally loops; loaded by its process alone.

Each function is compiled at its first call.  `jit` leaves it as it is where numba is missing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

Compiled = Callable[..., Any]


def jit(f: Compiled) -> Compiled:
    """The function, compiled by numba at its first call; floats may be summed in another order."""
    compiled: list[Compiled] = []

    def run(*args: Any) -> Any:
        if not compiled:
            if importlib.util.find_spec("numba") is None:
                raise NotImplementedError
            import numba

            compiled.append(numba.njit(f, fastmath={"reassoc", "contract", "nsz"}, cache=True))
        return compiled[0](*args)

    return run


@jit
def recurrence(a: Any, b: Any) -> Any:
    """A linear recurrence along the first axis."""
    h = np.empty_like(b)
    h[0] = b[0]
    for i in range(1, len(b)):
        for j in range(b.shape[1]):
            h[i, j] = a[i, j] * h[i - 1, j] + b[i, j]
    return h


@jit
def add_rows(x: Any, index: Any, values: Any) -> Any:
    """Rows added at indices."""
    y = x.copy()
    for k in range(len(index)):
        for j in range(x.shape[1]):
            y[index[k], j] += values[k, j]
    return y


@jit
def add_elements(x: Any, index: Any, values: Any) -> Any:
    """Numbers added at indices."""
    y = x.copy()
    for k in range(len(index)):
        y[index[k]] += values[k]
    return y


@jit
def histogram(x: Any, bins: Any, low: Any, high: Any) -> Any:
    """Counts in bins of equal width."""
    counts = np.zeros(bins, np.int32)
    for v in x:
        if low <= v <= high:
            counts[min(int((v - low) / (high - low) * bins), bins - 1)] += 1
    return counts


@jit
def segment_max(values: Any, index: Any, count: Any) -> Any:
    """The largest of each segment, by column."""
    y = np.full((count, values.shape[1]), -np.inf, np.float32)
    for k in range(len(index)):
        for j in range(values.shape[1]):
            y[index[k], j] = max(y[index[k], j], values[k, j])
    return y


@jit
def life(x: Any, steps: Any) -> Any:
    """Conway's game of life."""
    n, m = x.shape
    for _ in range(steps):
        y = np.empty_like(x)
        for i in range(n):
            up, down = i - 1 if i else n - 1, i + 1 if i + 1 < n else 0
            for j in range(m):
                a, b = j - 1 if j else m - 1, j + 1 if j + 1 < m else 0
                t = x[up, a] + x[up, j] + x[up, b] + x[i, a] + x[i, b]
                t += x[down, a] + x[down, j] + x[down, b]
                y[i, j] = (t == 3) | ((t == 2) & (x[i, j] == 1))
        x = y
    return x


@jit
def rule110(x: Any, steps: Any) -> Any:
    """An elementary cellular automaton."""
    n = len(x)
    for _ in range(steps):
        y = np.empty_like(x)
        for i in range(n):
            a, b, c = x[i - 1], x[i], x[i + 1 if i + 1 < n else 0]
            y[i] = (b | c) & ~(a & b & c) & 1
        x = y
    return x


@jit
def heat1(x: Any, steps: Any) -> Any:
    """Heat on a circle."""
    n = len(x)
    for _ in range(steps):
        y = np.empty_like(x)
        for i in range(n):
            around = x[i - 1] + x[i + 1 if i + 1 < n else 0]
            y[i] = x[i] + np.float32(0.1) * (around - 2 * x[i])
        x = y
    return x


@jit
def heat2(x: Any, steps: Any) -> Any:
    """Heat on a torus."""
    n, m = x.shape
    for _ in range(steps):
        y = np.empty_like(x)
        for i in range(n):
            down = i + 1 if i + 1 < n else 0
            for j in range(m):
                right = j + 1 if j + 1 < m else 0
                around = x[i - 1, j] + x[down, j] + x[i, j - 1] + x[i, right]
                y[i, j] = x[i, j] + np.float32(0.1) * (around - 4 * x[i, j])
        x = y
    return x


@jit
def heat3(x: Any, steps: Any) -> Any:
    """Heat on a torus of three axes."""
    n, m, p = x.shape
    for _ in range(steps):
        y = np.empty_like(x)
        for i in range(n):
            a = i + 1 if i + 1 < n else 0
            for j in range(m):
                b = j + 1 if j + 1 < m else 0
                for k in range(p):
                    c = k + 1 if k + 1 < p else 0
                    around = x[i - 1, j, k] + x[a, j, k] + x[i, j - 1, k] + x[i, b, k]
                    around += x[i, j, k - 1] + x[i, j, c]
                    y[i, j, k] = x[i, j, k] + np.float32(0.1) * (around - 6 * x[i, j, k])
        x = y
    return x


@jit
def distances(x: Any, y: Any) -> Any:
    """Euclidean distances of all pairs."""
    z = np.empty((len(x), len(y)), np.float32)
    for i in range(len(x)):
        for j in range(len(y)):
            s = np.float32(0)
            for k in range(x.shape[1]):
                s += (x[i, k] - y[j, k]) ** 2
            z[i, j] = np.sqrt(s)
    return z


@jit
def manhattan(x: Any, y: Any) -> Any:
    """Distances along the axes, of all pairs."""
    z = np.empty((len(x), len(y)), np.float32)
    for i in range(len(x)):
        for j in range(len(y)):
            s = np.float32(0)
            for k in range(x.shape[1]):
                s += abs(x[i, k] - y[j, k])
            z[i, j] = s
    return z


@jit
def gaussian(x: Any, y: Any) -> Any:
    """Sums of Gaussians of all pairs."""
    z = np.zeros(len(x), np.float32)
    for i in range(len(x)):
        for j in range(len(y)):
            s = np.float32(0)
            for k in range(x.shape[1]):
                s += (x[i, k] - y[j, k]) ** 2
            z[i] += np.exp(np.float32(-0.5) * s)
    return z


@jit
def nearest(x: Any, y: Any) -> Any:
    """The nearest of the second points for each of the first."""
    z = np.empty(len(x), np.int64)
    for i in range(len(x)):
        least = np.float32(np.inf)
        for j in range(len(y)):
            s = np.float32(0)
            for k in range(x.shape[1]):
                s += (x[i, k] - y[j, k]) ** 2
            if s < least:
                least, z[i] = s, j
    return z


@jit
def forces(x: Any, y: Any) -> Any:
    """Forces of the second points on the first."""
    z = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(y)):
            s = np.float32(0.01)
            for k in range(x.shape[1]):
                s += (x[i, k] - y[j, k]) ** 2
            s = 1 / (s * np.sqrt(s))
            for k in range(x.shape[1]):
                z[i, k] += (x[i, k] - y[j, k]) * s
    return z


@jit
def newton(x: Any) -> Any:
    """Square roots."""
    y = np.empty_like(x)
    for i in range(len(x)):
        a, s = x[i], x[i]
        while abs(s * s - a) > np.float32(1e-4) * a:
            s = np.float32(0.5) * (s + a / s)
        y[i] = s
    return y


@jit
def collatz(x: Any) -> Any:
    """Steps until a number is 1."""
    y = np.empty_like(x)
    for i in range(len(x)):
        a, n = x[i], 0
        while a > 1:
            a = a // 2 if a % 2 == 0 else 3 * a + 1
            n += 1
        y[i] = n
    return y


@jit
def escape(x: Any) -> Any:
    """Steps until a point escapes."""
    y = np.empty(len(x), np.int32)
    for i in range(len(x)):
        a, b, n = np.float32(0), np.float32(0), 0
        while a * a + b * b < 4 and n < 100:
            a, b = a * a - b * b + x[i], 2 * a * b + np.float32(0.4)
            n += 1
        y[i] = n
    return y


@jit
def bodies(x: Any, v: Any, m: Any, steps: Any) -> Any:
    """Steps of a cluster of stars."""
    x, v = x.copy(), v.copy()
    n = len(x)
    for _ in range(steps):
        a = np.zeros_like(x)
        for i in range(n):
            for j in range(n):
                s = np.float32(0.01)
                for k in range(3):
                    s += (x[j, k] - x[i, k]) ** 2
                s = m[j] / (s * np.sqrt(s))
                for k in range(3):
                    a[i, k] += (x[j, k] - x[i, k]) * s
        v += np.float32(0.01) * a
        x += np.float32(0.01) * v
    return x, v


@jit
def alignment(a: Any, b: Any) -> Any:
    """The distance of edits of two sequences."""
    n, m = len(a), len(b)
    row = np.arange(m + 1).astype(np.float32)
    for i in range(n):
        diagonal, row[0] = row[0], np.float32(i + 1)
        for j in range(m):
            best = min(row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j]))
            diagonal, row[j + 1] = row[j + 1], best
    return row[m]


@jit
def shortest_paths(d: Any) -> Any:
    """Floyd and Warshall's algorithm."""
    d = d.copy()
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])
    return d


@jit
def mandelbrot(x: Any, y: Any, steps: Any) -> Any:
    """Steps until points of a plane escape."""
    counts = np.zeros(x.shape, np.int32)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            a, b = np.float32(0), np.float32(0)
            for _ in range(steps):
                if a * a + b * b > 4:
                    break
                a, b = a * a - b * b + x[i, j], 2 * a * b + y[i, j]
                counts[i, j] += 1
    return counts


@jit
def lorenz(s: Any, steps: Any) -> Any:
    """Trajectories of a chaotic system."""
    s = s.copy()
    h = np.float32(0.01)
    for i in range(s.shape[1]):
        x, y, z = s[0, i], s[1, i], s[2, i]
        for _ in range(steps):
            dx = 10 * (y - x)
            dy = x * (28 - z) - y
            dz = x * y - np.float32(8 / 3) * z
            x, y, z = x + h * dx, y + h * dy, z + h * dz
        s[0, i], s[1, i], s[2, i] = x, y, z
    return s


@jit
def viterbi(start: Any, move: Any, seen: Any) -> Any:
    """The scores of the best paths."""
    n = len(start)
    p = start + seen[0]
    for t in range(1, len(seen)):
        q = np.empty_like(p)
        for j in range(n):
            best = np.float32(-np.inf)
            for i in range(n):
                best = max(best, p[i] + move[i, j])
            q[j] = best + seen[t, j]
        p = q
    return p


@jit
def moving_average(x: Any, a: Any) -> Any:
    """Exponential smoothing along the first axis."""
    y = np.empty_like(x)
    for j in range(x.shape[1]):
        s = x[0, j]
        for i in range(len(x)):
            s = a * x[i, j] + (1 - a) * s
            y[i, j] = s
    return y
