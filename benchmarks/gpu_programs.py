"""The programs of the rows of `gpu_rows.py`: for libraries with JAX's names, and for PyTorch.

A program is made of its inputs and gives a step, which enqueues a call and returns its results.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from functional import Functional
from gpu_rows import GPT2, GPT2_SMALL, ROWS, Row
from imperative import Imperative
from rows import Inputs, Step, leaves

TOP, BINS, LINKS = 50, 1024, 20
RATE, BETA1, BETA2, TINY = 1e-3, 0.9, 0.999, 1e-8

Program = Callable[[Row, Inputs], Step]


def heads_of(width: int) -> int:
    """The heads of a model of this width."""
    return next(s["heads"] for s in (GPT2, GPT2_SMALL) if s["width"] == width)


class Compiled:
    """Programs in the terms of a library with JAX's names.

    Attributes:
        fused: the library's own attention.
    """

    def __init__(self, name: str, **options: str) -> None:
        self.f = Functional(name)
        self.library, self.xp, self.lax, self.nn = self.f.library, self.f.xp, self.f.lax, self.f.nn
        self.fused = partial(self.nn.dot_product_attention, **options)

    def program(self, function: Callable[..., Any]) -> Program:
        """Of a function; results that are carried replace the first inputs."""
        library, xp = self.library, self.xp

        def build(row: Row, inputs: Inputs) -> Step:
            def array(x: Any) -> Any:
                x = xp.asarray(x)
                return x.astype(row.dtype) if x.dtype == np.float32 else x

            given = [library.tree.map(array, x) for x in inputs.values()]
            run = library.jit(function, donate_argnums=tuple(range(row.carried)))

            def step() -> Any:
                results = run(*given)
                if not row.carried:
                    return results
                given[: row.carried] = results[: row.carried]
                return results[row.carried :]

            return step

        return build

    def gradient(self, function: Callable[..., Any], argnums: tuple[int, ...]) -> Program:
        """To some arguments, of the results times the last input."""
        xp, grad = self.xp, self.library.grad

        def value(*args: Any) -> Any:
            return xp.sum((function(*args[:-1]) * args[-1]).astype("float32"))

        return self.program(lambda *args: grad(value, argnums)(*args))

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        """Plain operations: nothing says that this is attention."""
        scores = self.xp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1])
        return self.xp.einsum("hqk,hkd->hqd", self.nn.softmax(scores, axis=-1), v)

    def fused_attention(self, q: Any, k: Any, v: Any) -> Any:
        """By the library's own function, whose heads stand behind the tokens."""
        turned = [x.transpose(1, 0, 2)[None] for x in (q, k, v)]
        return self.fused(*turned)[0].transpose(1, 0, 2)

    def chain(self, x: Any) -> Any:
        """Normalisations: no kernel can fuse a sum with what follows it."""
        for _ in range(LINKS):
            x = x * self.lax.rsqrt(self.xp.mean(x * x) + 1e-6) + 0.1
        return x

    def adam(self, loss: Callable[..., Any]) -> Callable[..., Any]:
        """A step of training: state and batch to state and loss."""
        xp, tree = self.xp, self.f.tree

        def step(state: Any, *batch: Any) -> Any:
            p, m, v, t = state
            value, g = self.library.value_and_grad(loss)(p, *batch)
            t = t + 1.0
            m = tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, g)
            v = tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, g)
            c, d = 1 - BETA1**t, 1 - BETA2**t
            p = tree.map(lambda p, m, v: p - RATE * (m / c) / (xp.sqrt(v / d) + TINY), p, m, v)
            return (p, m, v, t), value

        return step

    def epoch(self, state: Any, xs: Any, ys: Any) -> Any:
        """A step for each batch, in one program."""
        step = self.adam(self.f.mlp)
        state, losses = self.lax.scan(lambda s, b: step(s, *b), state, (xs, ys))
        return state, losses[-1]

    def norm(self, x: Any, g: Any, b: Any) -> Any:
        """Computed in float32."""
        return self.f.norm(x.astype("float32"), g, b).astype(x.dtype)

    def gpt2(self, p: Any, tokens: Any) -> Any:
        """The loss on the next words: computed in bfloat16, with weights in float32."""
        xp, half = self.xp, lambda w: w.astype("bfloat16")
        tokens, following = tokens[:, :-1], tokens[:, 1:]
        texts, length = tokens.shape
        x = half(p["words"][tokens] + p["places"][:length])
        width = x.shape[-1]
        heads = heads_of(width)
        mask = xp.tril(xp.ones((length, length), dtype=bool))
        for w in p["blocks"]:
            qkv = self.norm(x, *w["norm1"]) @ half(w["qkv"])
            q, k, v = (
                u.reshape(texts, length, heads, width // heads).transpose(0, 2, 1, 3)
                for u in xp.split(qkv, 3, axis=-1)
            )
            scores = (q @ k.transpose(0, 1, 3, 2)).astype("float32") * (width // heads) ** -0.5
            shares = half(self.nn.softmax(xp.where(mask, scores, -1e30), axis=-1))
            x = x + (shares @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ half(w["out"])
            x = x + self.f.gelu(self.norm(x, *w["norm2"]) @ half(w["up"])) @ half(w["down"])
        logits = self.norm(x, *p["norm"]) @ half(p["words"]).T
        return self.f.cross_entropy(logits.astype("float32"), following)

    def token(self, state: Any, p: Any) -> Any:
        """The next token; it stays on the device, as its place does."""
        xp, (memory, token, at) = self.xp, state
        x = p["words"][token] + p["places"][at]
        width, length = x.shape[-1], memory.shape[3]
        heads, kept = heads_of(width), []
        for keys_values, w in zip(memory, p["blocks"]):
            qkv = self.norm(x, *w["norm1"]) @ w["qkv"]
            q, k, v = (u.reshape(heads, 1, -1) for u in xp.split(qkv, 3))
            put = xp.stack([k, v])
            keys_values = self.lax.dynamic_update_slice(keys_values, put, (0, 0, at, 0))
            scores = (q @ keys_values[0].transpose(0, 2, 1)).astype("float32")
            scores = xp.where(xp.arange(length) <= at, scores * (width // heads) ** -0.5, -1e30)
            shares = self.nn.softmax(scores, axis=-1).astype(x.dtype)
            x = x + (shares @ keys_values[1]).reshape(width) @ w["out"]
            x = x + self.f.gelu(self.norm(x, *w["norm2"]) @ w["up"]) @ w["down"]
            kept.append(keys_values)
        logits = (p["words"] @ self.norm(x, *p["norm"])).astype("float32")
        half = length // 2
        state = xp.stack(kept), xp.argmax(logits).astype("int32"), half + (at + 1 - half) % half
        return state, xp.max(logits)

    def nbody(self, x: Any, v: Any, m: Any) -> Any:
        """A step of all pairs."""
        xp = self.xp
        apart = x[None] - x[:, None]
        weights = m[None] * (xp.sum(apart * apart, -1) + 1e-2) ** -1.5
        v = v + 1e-3 * xp.sum(apart * weights[..., None], 1)
        return x + 1e-3 * v, v


def functional(name: str, **options: str) -> dict[str, Program]:
    """The programs of a library with JAX's names, by row.

    Args:
        options: of its own attention, as which implementation it takes.
    """
    c = Compiled(name, **options)
    p, xp, nn, f = c.program, c.xp, c.nn, c.f

    def matmul(precision: str | None) -> Program:
        return p(lambda a, b: xp.matmul(a, b, precision=precision))

    def softmax(x: Any) -> Any:
        return nn.softmax(x, axis=-1)

    return {
        "copy": p(lambda x: -x),
        "axpy": p(lambda x, y: 2.5 * x + y),
        "gelu": p(f.gelu),
        "sum": p(xp.sum),
        "column_sums": p(lambda x: xp.sum(x, 0)),
        "transpose": p(lambda x: x.T + 0),
        "softmax": p(softmax),
        "softmax_grad": c.gradient(softmax, (0,)),
        "layernorm": p(f.norm),
        "layernorm_grad": c.gradient(f.norm, (0, 1, 2)),
        "matmul_f32_4096": matmul("highest"),
        **{name: matmul("tensorfloat32") for name in ROWS if name.startswith("matmul_tf32")},
        **{name: matmul(None) for name in ROWS if name.startswith("matmul_bf16")},
        "matmul_bias_gelu": p(lambda x, w, b: f.gelu(x @ w + b)),
        "conv": p(f.conv),
        "conv_grad": c.gradient(f.conv, (0, 1)),
        **{
            f"attention_{how}_{width}{end}": make(function)
            for how, function in (("plain", c.attention), ("nn", c.fused_attention))
            for width in (64, 128)
            for end, make in (("", p), ("_grad", lambda g: c.gradient(g, (0, 1, 2))))
        },
        "tiny": p(lambda x: x + 1),
        "chain20": p(c.chain),
        "mlp_step": p(c.adam(f.mlp)),
        "mlp_scan100": p(c.epoch),
        "gpt2_step": p(c.adam(c.gpt2)),
        "gpt2_decode": p(c.token),
        "sort": p(lambda x: xp.sort(x)),
        "histogram": p(lambda ids: xp.zeros(BINS, "int32").at[ids].add(1)),
        "topk": p(lambda x: c.lax.top_k(x, min(TOP, x.shape[-1]))[0]),
        "scatter_add": p(lambda table, updates, ids: table.at[ids].add(updates)),
        "cumsum": p(lambda x: xp.cumsum(x)),
        "embed_grad": p(
            lambda table, ct, ids: c.library.grad(lambda t: xp.sum(t[ids] * ct))(table)
        ),
        "nbody": p(c.nbody),
    }


class Torch:
    """Programs of PyTorch, by its library calls; compiled if `compiled`.

    Attributes:
        device: the GPU, or "cpu" to compare values without one.
    """

    def __init__(self, device: str, compiled: bool) -> None:
        self.p = Imperative("torch")
        self.torch, self.f, self.device = self.p.torch, self.p.f, device
        self.compiled = compiled
        # Float32 outside of the row that says so may use tf32, as the others do.
        self.torch.backends.cudnn.allow_tf32 = True
        self.torch.backends.cudnn.benchmark = True

    def wait(self) -> None:
        """Until all that was enqueued has run."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def tensors(self, value: Any, dtype: str) -> Any:
        """On the device, integers as indices have them."""
        if isinstance(value, dict):
            return {key: self.tensors(part, dtype) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.tensors(part, dtype) for part in value]
        x = self.torch.tensor(np.asarray(value)).to(self.device)
        return x.to(getattr(self.torch, dtype)) if x.is_floating_point() else x.long()

    def quick(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """By torch.compile, if that is who is measured."""
        return self.torch.compile(function, dynamic=False) if self.compiled else function

    def program(self, function: Callable[..., Any], precision: str = "high") -> Program:
        """Of a function without derivatives."""

        def build(row: Row, inputs: Inputs) -> Step:
            given = [self.tensors(x, row.dtype) for x in inputs.values()]
            run = self.quick(function)

            def step() -> Any:
                self.torch.set_float32_matmul_precision(precision)
                with self.torch.no_grad():
                    return run(*given)

            return step

        return build

    def gradient(self, function: Callable[..., Any], count: int) -> Program:
        """To the first inputs; one of the name "ct" or "c" is the cotangent."""

        def build(row: Row, inputs: Inputs) -> Step:
            given = {k: self.tensors(x, row.dtype) for k, x in inputs.items()}
            ct = given.pop("ct") if "ct" in given else given.pop("c")
            args, run = list(given.values()), self.quick(function)
            wanted = [x.requires_grad_() for x in args[:count]]
            return lambda: self.torch.autograd.grad(run(*args), wanted, ct)

        return build

    def training(self, loss: Callable[..., Any], loops: bool = False) -> Program:
        """By the library's Adam, as one kernel; a batch after the other if it loops."""

        def build(row: Row, inputs: Inputs) -> Step:
            state, *batch = (self.tensors(x, row.dtype) for x in inputs.values())
            parameters = [x.requires_grad_() for x in leaves(state[0])]
            on_gpu = self.device == "cuda"
            optimizer = self.torch.optim.Adam(
                parameters, RATE, (BETA1, BETA2), TINY, fused=on_gpu, capturable=on_gpu
            )
            run = self.quick(loss)

            def once(*batch: Any) -> Any:
                optimizer.zero_grad(set_to_none=True)
                value = run(state[0], *batch)
                value.backward()
                optimizer.step()
                return value.detach()

            def every() -> Any:
                for one in zip(*batch):
                    value = once(*one)
                return value

            return every if loops else lambda: once(*batch)

        return build

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        """By cuDNN where it can, else by what the library chooses."""
        kernel = self.torch.nn.attention
        chosen: Any = contextlib.nullcontext()
        if self.device == "cuda":
            order = [kernel.SDPBackend.CUDNN_ATTENTION, kernel.SDPBackend.FLASH_ATTENTION]
            chosen = kernel.sdpa_kernel(order, set_priority=True)
        with chosen:
            return self.f.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    def chain(self, x: Any) -> Any:
        """Normalisations."""
        for _ in range(LINKS):
            x = x * self.torch.rsqrt(self.torch.mean(x * x) + 1e-6) + 0.1
        return x

    def gelu(self, x: Any) -> Any:
        """By tanh."""
        return self.f.gelu(x, approximate="tanh")

    def gpt2(self, p: Any, tokens: Any) -> Any:
        """The loss on the next words, with the library's attention."""
        half: Callable[[Any], Any] = lambda w: w.bfloat16()
        tokens, following = tokens[:, :-1], tokens[:, 1:]
        texts, length = tokens.shape
        x = half(self.f.embedding(tokens, p["words"]) + p["places"][:length])
        width = x.shape[-1]
        heads, norm = heads_of(width), lambda x, g, b: self.p.norm(x, half(g), half(b))
        for w in p["blocks"]:
            parts = (norm(x, *w["norm1"]) @ half(w["qkv"])).split(width, dim=-1)
            q, k, v = (u.view(texts, length, heads, -1).transpose(1, 2) for u in parts)
            mixed = self.f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + mixed.transpose(1, 2).reshape(x.shape) @ half(w["out"])
            x = x + self.gelu(norm(x, *w["norm2"]) @ half(w["up"])) @ half(w["down"])
        logits = norm(x, *p["norm"]) @ half(p["words"]).T
        return self.f.cross_entropy(logits.flatten(0, 1).float(), following.flatten())

    def decode(self, row: Row, inputs: Inputs) -> Step:
        """A token after the other, in place."""
        torch = self.torch
        (memory, token, at), p = (self.tensors(x, row.dtype) for x in inputs.values())
        length = memory.shape[3]
        places = torch.arange(length, device=self.device)

        def follow(memory: Any, token: Any, at: Any) -> Any:
            x = self.f.embedding(token, p["words"]) + self.f.embedding(at, p["places"])
            width = x.shape[-1]
            heads, mask = heads_of(width), (places <= at)[None]
            for layer, w in enumerate(p["blocks"]):
                parts = (self.p.norm(x, *w["norm1"]) @ w["qkv"]).split(width)
                q, k, v = (u.view(heads, 1, -1) for u in parts)
                memory[layer, 0].index_copy_(1, at[None], k)
                memory[layer, 1].index_copy_(1, at[None], v)
                keys, values = memory[layer]
                mixed = self.f.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
                x = x + mixed.reshape(width) @ w["out"]
                x = x + self.gelu(self.p.norm(x, *w["norm2"]) @ w["up"]) @ w["down"]
            logits = (p["words"] @ self.p.norm(x, *p["norm"])).float()
            half = length // 2
            return logits.argmax(), half + (at + 1 - half) % half, logits.max()

        run = self.quick(follow)

        def step() -> Any:
            with torch.no_grad():
                following, place, best = run(memory, token, at)
                token.copy_(following)
                at.copy_(place)
                return best

        return step

    def nbody(self, x: Any, v: Any, m: Any) -> Any:
        """A step of all pairs."""
        apart = x[None] - x[:, None]
        weights = m[None] * ((apart * apart).sum(-1) + 1e-2) ** -1.5
        v = v + 1e-3 * (apart * weights[..., None]).sum(1)
        return x + 1e-3 * v, v

    def biased(self, x: Any, w: Any, b: Any) -> Any:
        """A product with its epilogue; a GPU has one kernel for it."""
        if self.device == "cuda" and not self.compiled:
            return self.torch._addmm_activation(b, x, w, use_gelu=True)
        return self.gelu(self.torch.addmm(b, x, w))


def pytorch(device: str, compiled: bool = False) -> dict[str, Program]:
    """The programs of PyTorch, by row; two rows have no loop that it compiles."""
    t = Torch(device, compiled)
    p, torch, f = t.program, t.torch, t.f
    products = [name for name in ROWS if name.startswith(("matmul_tf32", "matmul_bf16"))]

    def softmax(x: Any) -> Any:
        return f.softmax(x, -1)

    found: dict[str, Program] = {
        "copy": p(lambda x: -x),
        "axpy": p(lambda x, y: torch.add(y, x, alpha=2.5)),
        "gelu": p(t.gelu),
        "sum": p(lambda x: x.sum()),
        "column_sums": p(lambda x: x.sum(0)),
        "transpose": p(lambda x: x.T.contiguous()),
        "softmax": p(softmax),
        "softmax_grad": t.gradient(softmax, 1),
        "layernorm": p(t.p.norm),
        "layernorm_grad": t.gradient(t.p.norm, 3),
        "matmul_f32_4096": p(torch.matmul, "highest"),
        **{name: p(torch.matmul) for name in products},
        "matmul_bias_gelu": p(t.biased),
        "conv": p(t.p.conv),
        "conv_grad": t.gradient(t.p.conv, 2),
        **{
            f"attention_{how}_{width}{end}": program
            for how in ("plain", "nn")
            for width in (64, 128)
            for end, program in (("", p(t.attention)), ("_grad", t.gradient(t.attention, 3)))
        },
        "tiny": p(lambda x: x + 1),
        "chain20": p(t.chain),
        "mlp_step": t.training(t.p.mlp),
        "mlp_scan100": t.training(t.p.mlp, loops=True),
        "gpt2_step": t.training(t.gpt2),
        "gpt2_decode": t.decode,
        "sort": p(lambda x: torch.sort(x)[0]),
        "histogram": p(lambda ids: torch.bincount(ids, minlength=BINS)),
        "topk": p(lambda x: torch.topk(x, min(TOP, x.shape[-1]))[0]),
        "scatter_add": p(lambda table, updates, ids: table.index_add(0, ids, updates)),
        "cumsum": p(lambda x: torch.cumsum(x, 0)),
        "embed_grad": t.gradient(lambda table, ids: f.embedding(ids, table), 1),
        "nbody": p(t.nbody),
    }
    return found
