"""The rows for PyTorch, as its users write them, not compiled; and for NumPy, where it has them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from rows import HEADS, Inputs, Step, leaves


class Imperative:
    """Programs of PyTorch."""

    def __init__(self, name: str) -> None:
        self.torch: Any = importlib.import_module(name)
        self.func: Any = importlib.import_module(f"{name}.func")
        self.f: Any = self.torch.nn.functional
        self.torch.set_num_threads(1)

    def tensors(self, value: Any) -> Any:
        """The same lists, tuples and dicts of tensors."""
        if isinstance(value, dict):
            return {key: self.tensors(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.tensors(part) for part in value]
        return self.torch.tensor(np.asarray(value))

    def program(self, f: Callable[..., Any]) -> Callable[[Inputs], Step]:
        """A function, on inputs by name."""

        def build(inputs: Inputs) -> Step:
            arrays = [self.tensors(x) for x in inputs.values()]

            def once() -> Any:
                with self.torch.no_grad():
                    return f(*arrays)

            return once

        return build

    def gradient(self, f: Callable[..., Any], count: int) -> Callable[[Inputs], Step]:
        """The gradient to the first inputs; the last one is the cotangent, if f is no number."""

        def build(inputs: Inputs) -> Step:
            arrays = [self.tensors(x) for x in inputs.values()]
            wanted = [x.requires_grad_() for x in arrays[:count]]

            def once() -> Any:
                value = f(*arrays)
                ct = arrays[-1] if value.ndim else None
                return self.torch.autograd.grad(value, wanted, ct)

            return once

        return build

    def training(self, loss: Callable[..., Any]) -> Callable[[Inputs], Step]:
        """One Adam step after the other."""

        def build(inputs: Inputs) -> Step:
            p, *batch = (self.tensors(x) for x in inputs.values())
            optimizer = self.torch.optim.Adam([u.requires_grad_() for u in leaves(p)], lr=1e-3)

            def once() -> Any:
                optimizer.zero_grad()
                value = loss(p, *batch)
                value.backward()
                optimizer.step()
                return value.detach()

            return once

        return build

    def eager(self, x: Any) -> Any:
        """Twenty operations."""
        for _ in range(5):
            x = self.torch.tanh(x * 1.01 + 0.1) - 0.2
        return x

    def conv(self, x: Any, w: Any) -> Any:
        """A convolution of images with channels last, which PyTorch calls a memory format."""
        x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
        return self.f.conv2d(x, w, padding=1).permute(0, 2, 3, 1)

    def embed(self, table: Any, words: Any) -> Any:
        """Rows of a table."""
        return self.f.embedding(words, table)

    def norm(self, x: Any, g: Any, b: Any) -> Any:
        """Rows with mean 0 and variance 1, scaled and shifted."""
        return self.f.layer_norm(x, (x.shape[-1],), g, b, 1e-5)

    def mlp(self, layers: Any, x: Any, y: Any) -> Any:
        """The loss of dense layers."""
        for w, b in layers[:-1]:
            x = self.f.relu(x @ w + b)
        return self.f.cross_entropy(x @ layers[-1][0] + layers[-1][1], y.long())

    def cnn(self, layers: Any, x: Any, y: Any) -> Any:
        """The loss of four convolutions and a dense layer."""
        convolutions, out = layers
        x = x.reshape(-1, 1, 28, 28)
        for i, (w, b) in enumerate(convolutions):
            x = self.f.relu(self.f.conv2d(x, w, b))
            x = self.f.max_pool2d(x, 2) if i % 2 else x
        x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
        return self.f.cross_entropy(x @ out[0] + out[1], y.long())

    def cnn_training(self, inputs: Inputs) -> Step:
        """The same with windows in PyTorch's order."""
        convolutions, out = inputs["layers"]
        moved = [(np.ascontiguousarray(w.transpose(3, 2, 0, 1)), b) for w, b in convolutions]
        return self.training(self.cnn)({**inputs, "layers": (moved, out)})

    def gpt(self, p: Any, tokens: Any) -> Any:
        """The loss of a transformer on the next words, with PyTorch's own attention."""
        tokens, following = tokens[:, :-1].long(), tokens[:, 1:].long()
        texts, length = tokens.shape
        x = p["words"][tokens] + p["places"][:length]
        width = x.shape[-1]
        for block in p["blocks"]:
            parts = (self.norm(x, *block["norm1"]) @ block["qkv"]).split(width, dim=-1)
            q, k, v = (
                u.reshape(texts, length, HEADS, width // HEADS).transpose(1, 2) for u in parts
            )
            mixed = self.f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + mixed.transpose(1, 2).reshape(texts, length, width) @ block["out"]
            up = self.norm(x, *block["norm2"]) @ block["up"]
            x = x + self.f.gelu(up, approximate="tanh") @ block["down"]
        logits = self.norm(x, *p["norm"]) @ p["out"]
        return self.f.cross_entropy(logits.flatten(0, 1), following.flatten())

    def lstm(self, wx: Any, wh: Any, b: Any, x: Any) -> Any:
        """The mean square of what a long short-term memory says, by PyTorch's own layer."""
        zeros = self.torch.zeros(1, x.shape[1], wh.shape[0])
        weights = [wx.T, wh.T, b, self.torch.zeros_like(b)]
        flags = (True, 1, 0.0, True, False, False)
        return (self.torch.lstm(x, (zeros, zeros), weights, *flags)[0] ** 2).mean()

    def each(self, layers: Any, x: Any, y: Any) -> Any:
        """A gradient for each example."""
        slope = self.func.grad(lambda p, x, y: self.mlp(p, x[None], y[None]))
        return self.func.vmap(slope, (None, 0, 0))(layers, x, y)

    def curvature(self, layers: Any, along: Any, x: Any, y: Any) -> Any:
        """The Hessian of the loss times a vector."""
        slope = self.func.grad(lambda p: self.mlp(p, x, y))
        return self.func.jvp(slope, (layers,), (along,))[1]

    def rosenbrock(self, x: Any) -> Any:
        """A valley."""
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def pytorch(name: str) -> dict[str, Callable[[Inputs], Step]]:
    """What PyTorch runs, by row; it has no loops that are compiled."""
    f = Imperative(name)
    torch, p = f.torch, f.program
    return {
        "disp_tiny": p(lambda x: x + 1),
        "disp_tree100": p(lambda tree: torch._foreach_mul(tree, 2)),
        "eager20": p(f.eager),
        "saxpy16M": p(lambda x, y: torch.add(y, x, alpha=2.5)),
        "gelu16M": p(lambda x: f.f.gelu(x, approximate="tanh")),
        "sum16M": p(torch.sum),
        "softmax4096": p(lambda x: torch.softmax(x, -1)),
        "layernorm": p(f.norm),
        "layernorm_grad": f.gradient(lambda x, g, b, ct: f.norm(x, g, b), 3),
        "cumsum4M": p(lambda x: torch.cumsum(x, 0)),
        "argmax4096": p(lambda x: torch.argmax(x, 1)),
        "sort1M": p(lambda x: torch.sort(x)[0]),
        "embed_fwd": p(f.embed),
        "embed_grad": f.gradient(lambda table, words, ct: f.embed(table, words), 1),
        **dict.fromkeys(
            ("mm256", "mm512", "mm1024", "mm_odd", "bmm64", "matvec4096"), p(torch.matmul)
        ),
        "mm_tn1024": p(lambda a, b: a.T @ b),
        "mm_nt1024": p(lambda a, b: a @ b.T),
        "conv_fwd": p(f.conv),
        "conv_grad": f.gradient(lambda x, w, ct: f.conv(x, w), 2),
        "mlp_train": f.training(f.mlp),
        "cnn_train": f.cnn_training,
        "gpt_train": f.training(f.gpt),
        "lstm_grad": f.gradient(f.lstm, 3),
        "perex_grad": p(f.each),
        "hvp_mlp": p(f.curvature),
        "hess_rosen50": p(lambda x: f.func.hessian(f.rosenbrock)(x)),
    }


def numpy(name: str) -> dict[str, Callable[[Inputs], Step]]:
    """What NumPy runs, by row."""

    def program(f: Callable[..., Any]) -> Callable[[Inputs], Step]:
        return lambda inputs: lambda: f(*inputs.values())

    def eager(x: Any) -> Any:
        for _ in range(5):
            x = np.tanh(x * 1.01 + 0.1) - 0.2
        return x

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def norm(x: Any, g: Any, b: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * g + b

    return {
        "disp_tiny": program(lambda x: x + 1),
        "disp_tree100": program(lambda tree: [x * 2 for x in tree]),
        "eager20": program(eager),
        "saxpy16M": program(lambda x, y: np.float32(2.5) * x + y),
        "gelu16M": program(gelu),
        "sum16M": program(np.sum),
        "softmax4096": program(softmax),
        "layernorm": program(norm),
        "cumsum4M": program(np.cumsum),
        "argmax4096": program(lambda x: np.argmax(x, axis=1)),
        "sort1M": program(np.sort),
        "embed_fwd": program(lambda table, words: table[words]),
        **dict.fromkeys(
            ("mm256", "mm512", "mm1024", "mm_odd", "bmm64", "matvec4096"), program(np.matmul)
        ),
        "mm_tn1024": program(lambda a, b: a.T @ b),
        "mm_nt1024": program(lambda a, b: a @ b.T),
    }
