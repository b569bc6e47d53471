"""One vocabulary for tfn, JAX, PyTorch and NumPy: what the cases of the sweep are written in.

A case is one function of a facade and arrays.  `xp` has NumPy's names; loops, derivatives and
batching are methods, each in the way of its library: compiled, recorded, or a loop in Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

TRACING = ("tfn", "jax")
"""The libraries that trace and compile a function whole."""


class Facade:
    """One library; `own` is its root module, `xp` its module of NumPy's functions.

    A method that a library has no way for raises NotImplementedError: it is then no peer there.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.own: Any = importlib.import_module(name)
        self.traces = name in TRACING
        if self.traces:
            self.xp: Any = importlib.import_module(f"{name}.numpy")
            self.lax, self.nn, self.random = self.own.lax, self.own.nn, self.own.random
        elif name == "torch":
            self.xp = TorchNames(self.own)
        else:
            self.xp = np

    def array(self, value: np.ndarray[Any, Any]) -> Any:
        """An array of the library."""
        if self.traces:
            return self.xp.asarray(value)
        if self.name == "torch":
            if value.dtype == ml_dtypes.bfloat16:
                return self.own.from_numpy(value.view(np.int16).copy()).view(self.own.bfloat16)
            return self.own.from_numpy(np.array(value))
        return value

    def compiled(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """The function as users of the library run it."""
        if self.traces:
            run, wait = self.own.jit(f), self.own.block_until_ready
            return lambda *args: wait(run(*args))
        if self.name == "torch":
            return self.own.no_grad()(f)  # type: ignore[no-any-return]
        return f

    def only(self, *names: str) -> None:
        """Leave the case to the libraries of these names."""
        if self.name not in names:
            raise NotImplementedError

    def grad(self, f: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
        """The gradients of a number to the first arguments."""
        if self.traces:
            return self.own.grad(f, tuple(range(count)))  # type: ignore[no-any-return]
        self.only("torch")

        def slopes(*args: Any) -> Any:
            with self.own.enable_grad():
                wanted = [x.detach().requires_grad_() for x in args[:count]]
                return self.own.autograd.grad(f(*wanted, *args[count:]), wanted)

        return slopes

    def vmap(self, f: Callable[..., Any], axes: Any = 0) -> Callable[..., Any]:
        """The function of stacks."""
        if self.name == "torch":
            return self.own.func.vmap(f, axes)  # type: ignore[no-any-return]
        self.only(*TRACING)
        return self.own.vmap(f, axes)  # type: ignore[no-any-return]

    def repeat(self, count: int, step: Callable[[Any], Any], state: Any) -> Any:
        """A state after so many steps."""
        if self.traces:
            return self.lax.fori_loop(0, count, lambda i, s: step(s), state)
        for _ in range(count):
            state = step(state)
        return state

    def scan(self, step: Callable[[Any, Any], Any], state: Any, xs: Any) -> Any:
        """The last state, and what the steps gave, stacked."""
        if self.traces:
            return self.lax.scan(step, state, xs)
        given = []
        for x in xs:
            state, y = step(state, x)
            given.append(y)
        return state, self.xp.stack(given)

    def until(self, more: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
        """The state when there is no more to do."""
        if self.traces:
            return self.lax.while_loop(more, step, state)
        while more(state):
            state = step(state)
        return state

    def cast(self, x: Any, dtype: str) -> Any:
        """The numbers in another dtype."""
        if self.name == "torch":
            return x.to(getattr(self.own, {"bool": "bool"}.get(dtype, dtype)))
        return x.astype(dtype)

    def add_at(self, x: Any, index: Any, values: Any) -> Any:
        """The array with values added where an index says, also several to one place."""
        if self.traces:
            return x.at[index].add(values)
        if self.name == "torch":
            return x.index_add(0, index.long(), values)
        x = x.copy()
        np.add.at(x, index, values)
        return x

    def take(self, x: Any, index: Any, axis: int = 0) -> Any:
        """Parts of an array."""
        if self.name == "torch":
            return x.index_select(axis, index)
        return self.xp.take(x, index, axis)


class TorchNames:
    """PyTorch's functions under NumPy's names, where those differ."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.float32, self.int32, self.linalg, self.fft = (
            torch.float32,
            torch.int32,
            torch.linalg,
            torch.fft,
        )
        self.max, self.min, self.power, self.transpose = (
            torch.amax,
            torch.amin,
            torch.pow,
            torch.permute,
        )
        self.array, self.asarray, self.abs = torch.as_tensor, torch.as_tensor, torch.abs
        self.pi, self.repeat, self.left_shift = (
            torch.pi,
            torch.repeat_interleave,
            torch.bitwise_left_shift,
        )
        self.argmax, self.argmin, self.concat = torch.argmax, torch.argmin, torch.cat

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def var(self, x: Any, axis: Any = None) -> Any:
        """With the mean of squares, as NumPy has it."""
        return self.torch.var(x, axis, correction=0)

    def sort(self, x: Any, axis: int = -1) -> Any:
        """The values alone."""
        return self.torch.sort(x, axis)[0]

    def take_along_axis(self, x: Any, index: Any, axis: int) -> Any:
        """At whole indices of 64 bits."""
        return self.torch.take_along_dim(x, index.long(), axis)

    def pad(self, x: Any, widths: Any) -> Any:
        """With zeros; the last axis comes first."""
        flat = [w for pair in reversed(widths) for w in pair]
        return self.torch.nn.functional.pad(x, flat)

    def maximum(self, a: Any, b: Any) -> Any:
        """Of arrays, or of an array and a number."""
        return self.torch.maximum(a, b) if hasattr(b, "shape") else a.clamp(min=b)

    def minimum(self, a: Any, b: Any) -> Any:
        """Of arrays, or of an array and a number."""
        return self.torch.minimum(a, b) if hasattr(b, "shape") else a.clamp(max=b)

    def searchsorted(self, a: Any, v: Any) -> Any:
        """Places in a sorted array."""
        return self.torch.searchsorted(a, v)

    def append(self, a: Any, b: Any, axis: int) -> Any:
        """One after the other."""
        return self.torch.cat([a, b], axis)

    def cumsum(self, x: Any, axis: int) -> Any:
        """In the dtype of the summands."""
        return self.torch.cumsum(x, axis, dtype=x.dtype)

    def expand_dims(self, x: Any, axis: int) -> Any:
        """One more axis."""
        return x.unsqueeze(axis)
