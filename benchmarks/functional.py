"""The rows for a library with JAX's names: JAX itself, and tfn."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from rows import HEADS, Inputs, Step

LAYOUT = ("NHWC", "HWIO", "NHWC")


def calling(library: Any, step: Step, function: Any, *args: Any, **kwargs: Any) -> Step:
    """A step that says which compiled function it calls, and the types of what it passes."""
    kind = library.ShapeDtypeStruct
    types = library.tree.map(lambda x: kind(x.shape, x.dtype), args)
    step.calls = function, types, kwargs  # type: ignore[attr-defined]
    return step


class Functional:
    """Programs in terms of one library's modules."""

    def __init__(self, name: str) -> None:
        self.library: Any = importlib.import_module(name)
        self.xp: Any = importlib.import_module(f"{name}.numpy")
        self.lax, self.nn, self.tree = self.library.lax, self.library.nn, self.library.tree
        self.wait: Any = self.library.block_until_ready

    def program(self, f: Callable[..., Any], jitted: bool = True) -> Callable[[Inputs], Step]:
        """A function, on inputs by name."""

        def build(inputs: Inputs) -> Step:
            run = self.library.jit(f) if jitted else f
            arrays = [self.tree.map(self.xp.asarray, x) for x in inputs.values()]
            step: Step = lambda: self.wait(run(*arrays))
            return calling(self.library, step, run, *arrays) if jitted else step

        return build

    def training(self, loss: Callable[..., Any]) -> Callable[[Inputs], Step]:
        """One Adam step after the other."""
        xp, tree = self.xp, self.tree

        def step(state: Any, *batch: Any) -> Any:
            p, m, v, t = state
            value, g = self.library.value_and_grad(loss)(p, *batch)
            t = t + 1.0
            m = tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
            c, d = 1 - 0.9**t, 1 - 0.999**t
            p = tree.map(lambda p, m, v: p - 1e-3 * (m / c) / (xp.sqrt(v / d) + 1e-8), p, m, v)
            return (p, m, v, t), value

        def build(inputs: Inputs) -> Step:
            run = self.library.jit(step, donate_argnums=0)
            p, *batch = (tree.map(xp.asarray, x) for x in inputs.values())
            zeros = [tree.map(xp.zeros_like, p) for _ in range(2)]
            state = [(p, *zeros, xp.float32(0))]

            def once() -> Any:
                state[0], value = self.wait(run(state[0], *batch))
                return value

            return calling(self.library, once, run, state[0], *batch)

        return build

    def gradient(self, f: Callable[..., Any], argnums: Any) -> Callable[[Inputs], Step]:
        """The gradient of the sum of a function's results times the last input."""
        return self.program(
            lambda *args: self.library.grad(
                lambda *args: self.xp.sum(f(*args[:-1]) * args[-1]), argnums
            )(*args)
        )

    def eager(self, x: Any) -> Any:
        """Twenty operations."""
        for _ in range(5):
            x = self.xp.tanh(x * 1.01 + 0.1) - 0.2
        return x

    def gelu(self, x: Any) -> Any:
        """As GPT-2 has it."""
        return 0.5 * x * (1 + self.xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def norm(self, x: Any, g: Any, b: Any) -> Any:
        """Rows with mean 0 and variance 1, scaled and shifted."""
        centred = x - self.xp.mean(x, -1, keepdims=True)
        variance = self.xp.mean(centred * centred, -1, keepdims=True)
        return centred * self.lax.rsqrt(variance + 1e-5) * g + b

    def conv(self, x: Any, w: Any, padding: str = "SAME") -> Any:
        """A convolution, channels last."""
        return self.lax.conv_general_dilated(x, w, (1, 1), padding, dimension_numbers=LAYOUT)

    def cross_entropy(self, logits: Any, y: Any) -> Any:
        """Of labels."""
        logits = self.nn.log_softmax(logits, axis=-1)
        return -self.xp.mean(self.xp.take_along_axis(logits, y[..., None], axis=-1))

    def mlp(self, layers: Any, x: Any, y: Any) -> Any:
        """The loss of dense layers."""
        for w, b in layers[:-1]:
            x = self.nn.relu(x @ w + b)
        return self.cross_entropy(x @ layers[-1][0] + layers[-1][1], y)

    def cnn(self, layers: Any, x: Any, y: Any) -> Any:
        """The loss of four convolutions and a dense layer."""
        xp, window = self.xp, (1, 2, 2, 1)
        convolutions, out = layers
        x = x.reshape(-1, 28, 28, 1)
        for i, (w, b) in enumerate(convolutions):
            x = self.nn.relu(self.conv(x, w, "VALID") + b)
            if i % 2:
                x = self.lax.reduce_window(x, -xp.inf, self.lax.max, window, window, "VALID")
        return self.cross_entropy(x.reshape(x.shape[0], -1) @ out[0] + out[1], y)

    def gpt(self, p: Any, tokens: Any) -> Any:
        """The loss of a transformer on the next words."""
        xp = self.xp
        tokens, following = tokens[:, :-1], tokens[:, 1:]
        texts, length = tokens.shape
        x = p["words"][tokens] + p["places"][:length]
        mask = xp.tril(xp.ones((length, length), dtype=bool))
        width = x.shape[-1]
        for block in p["blocks"]:
            parts = xp.split(self.norm(x, *block["norm1"]) @ block["qkv"], 3, axis=-1)
            q, k, v = (
                u.reshape(texts, length, HEADS, width // HEADS).transpose(0, 2, 1, 3) for u in parts
            )
            scores = q @ k.transpose(0, 1, 3, 2) * (width // HEADS) ** -0.5
            weights = self.nn.softmax(xp.where(mask, scores, -1e9), axis=-1)
            mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(texts, length, width)
            x = x + mixed @ block["out"]
            x = x + self.gelu(self.norm(x, *block["norm2"]) @ block["up"]) @ block["down"]
        return self.cross_entropy(self.norm(x, *p["norm"]) @ p["out"], following)

    def lstm(self, wx: Any, wh: Any, b: Any, x: Any) -> Any:
        """The mean square of what a long short-term memory says."""
        xp, nn = self.xp, self.nn

        def cell(state: Any, given: Any) -> Any:
            h, c = state
            i, f, g, o = xp.split(given + h @ wh, 4, axis=-1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * xp.tanh(g)
            h = nn.sigmoid(o) * xp.tanh(c)
            return (h, c), h

        zeros = xp.zeros((x.shape[1], wh.shape[0]), x.dtype)
        return xp.mean(self.lax.scan(cell, (zeros, zeros), x @ wx + b)[1] ** 2)

    def until(self, x: Any) -> Any:
        """A loop that looks at its value each time."""
        return self.lax.while_loop(
            lambda s: (s[0] < 10_000) & (s[1] < 1e9),
            lambda s: (s[0] + 1, s[1] + 1e-4 * (1 - s[1] * s[1])),
            (0, x),
        )[1]

    def each(self, layers: Any, x: Any, y: Any) -> Any:
        """A gradient for each example."""
        slope = self.library.grad(lambda p, x, y: self.mlp(p, x[None], y[None]))
        return self.library.vmap(slope, (None, 0, 0))(layers, x, y)

    def curvature(self, layers: Any, along: Any, x: Any, y: Any) -> Any:
        """The Hessian of the loss times a vector."""
        slope = self.library.grad(lambda p: self.mlp(p, x, y))
        return self.library.jvp(slope, (layers,), (along,))[1]

    def rosenbrock(self, x: Any) -> Any:
        """A valley."""
        return self.xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def programs(name: str) -> dict[str, Callable[[Inputs], Step]]:
    """What the library runs, by row."""
    f = Functional(name)
    xp, lax, p = f.xp, f.lax, f.program
    return {
        "disp_tiny": p(lambda x: x + 1),
        "disp_tree100": p(lambda tree: f.tree.map(lambda x: x * 2, tree)),
        "eager20": p(f.eager, jitted=False),
        "saxpy16M": p(lambda x, y: 2.5 * x + y),
        "gelu16M": p(f.gelu),
        "sum16M": p(lambda x: xp.sum(x)),
        "softmax4096": p(lambda x: f.nn.softmax(x, axis=-1)),
        "layernorm": p(f.norm),
        "layernorm_grad": f.gradient(f.norm, (0, 1, 2)),
        "cumsum4M": p(lambda x: xp.cumsum(x)),
        "argmax4096": p(lambda x: xp.argmax(x, axis=1)),
        "sort1M": p(lambda x: xp.sort(x)),
        "embed_fwd": p(lambda table, words: table[words]),
        "embed_grad": f.gradient(lambda table, words: table[words], 0),
        **dict.fromkeys(
            ("mm256", "mm512", "mm1024", "mm_odd", "bmm64", "matvec4096"),
            p(lambda a, b: xp.matmul(a, b)),
        ),
        "mm_tn1024": p(lambda a, b: a.T @ b),
        "mm_nt1024": p(lambda a, b: a @ b.T),
        "conv_fwd": p(f.conv),
        "conv_grad": f.gradient(f.conv, (0, 1)),
        "mlp_train": f.training(f.mlp),
        "cnn_train": f.training(f.cnn),
        "gpt_train": f.training(f.gpt),
        "lstm_grad": p(lambda *args: f.library.grad(f.lstm, (0, 1, 2))(*args)),
        "fori10k": p(lambda x: lax.fori_loop(0, 10_000, lambda i, x: x + 1e-4 * (1 - x * x), x)),
        "while10k": p(f.until),
        "perex_grad": p(f.each),
        "hvp_mlp": p(f.curvature),
        "hess_rosen50": p(lambda x: f.library.hessian(f.rosenbrock)(x)),
    }
