"""Drawn modules: steps in a row, some of which write in place or read through views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.torch.beside import HERE
from tfn.torch.library import pytorch

torch: Any = pytorch() if HERE else None
nn: Any = torch.nn if HERE else None
Module: Any = nn.Module if HERE else object

Step = Callable[..., Any]


def written(x: Any) -> Any:
    """A part is written in place, and read through a view that was made before."""
    y = x * 1.5
    seen = y.flatten()[:1] if not y.is_contiguous() else y.view(-1)
    y[..., 0] = 0.25
    y.mul_(2)
    return y + seen[:1]


def masked(x: Any) -> Any:
    y = x.clone()
    y.masked_fill_(x > 0.7, -0.5)
    return torch.where(y < -0.7, y.exp(), y)


def attended(x: Any) -> Any:
    q = x.reshape(x.shape[0], 1, -1, x.shape[-1])
    return nn.functional.scaled_dot_product_attention(q, q * 0.5, q).reshape(x.shape)


def doubled(x: Any) -> Any:
    return (x.double() ** 2).cumsum(-1).float()


STEPS: dict[str, Step] = {
    "tanh": lambda x: torch.tanh(x),
    "gelu": lambda x: nn.functional.gelu(x),
    "hardswish": lambda x: nn.functional.hardswish(x),
    "relu_": lambda x: nn.functional.relu(x + 0.1, inplace=True),
    "clamp": lambda x: x.clamp(-0.8, 0.6),
    "softmax": lambda x: x.softmax(-1),
    "logsumexp": lambda x: x - x.logsumexp(0, keepdim=True),
    "layer norm": lambda x: nn.functional.layer_norm(x, x.shape[-1:]),
    "moments": lambda x: (x - x.mean(0, keepdim=True)) / (x.std(0, keepdim=True) + 1),
    "transposed": lambda x: x.transpose(0, -1),
    "flattened": lambda x: x.flatten(1),
    "unflattened": lambda x: x.unsqueeze(1),
    "rolled": lambda x: torch.roll(x, 1, -1).flip(0),
    "strided": lambda x: x[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape) + x,
    "halves": lambda x: torch.cat(x.chunk(2, 0)[::-1], 0),
    "stacked": lambda x: torch.stack([x, x.sin()], 1).amax(1),
    "split": lambda x: sum(part.sum() for part in x.split(2, -1)) * 0.01 + x,
    "picked": lambda x: x.index_select(0, torch.arange(x.shape[0]).flip(0)),
    "indexed": lambda x: x[torch.tensor([0, -1, 0])],
    "gathered": lambda x: x.gather(-1, x.argsort(-1)),
    "sorted": lambda x: x.sort(0).values,
    "largest": lambda x: x.topk(min(2, x.shape[-1]), -1).values,
    "scattered": lambda x: torch.zeros_like(x).index_add(0, torch.zeros(len(x), dtype=int), x),
    "squared": lambda x: torch.einsum("...i,...j->...ij", x, x).mean(-1),
    "product": lambda x: x.flatten(1) @ x.flatten(1).T / x.numel() ** 0.5,
    "padded": lambda x: nn.functional.pad(x, (1, 2), value=0.5),
    "pooled": lambda x: nn.functional.avg_pool1d(x.flatten(1)[:, None], 3, 1, 1)[:, 0],
    "counted": lambda x: x * (x > 0).sum().float() / x.numel(),
    "rounded": lambda x: x + (x * 4).round().long().remainder(3).float(),
    "triangle": lambda x: x.flatten(1).tril(1),
    "norm": lambda x: x / (x.norm() + 1),
    "prod": lambda x: x + x.clamp(0.5, 1).prod(-1, keepdim=True),
    "written": written,
    "masked": masked,
    "attended": attended,
    "doubled": doubled,
}
"""Functions of a tensor of any shape with at least two axes, none of them empty."""
LARGEST = 400
"""Elements, above which a drawn module takes a mean first."""


class Drawn(Module):
    """Steps in a row, with products of parameters, a shortcut and a buffer between them."""

    def __init__(self, shape: tuple[int, ...], names: list[str], shortcut: int) -> None:
        super().__init__()
        self.names, self.shortcut = names, shortcut
        self.first = nn.Linear(shape[-1], 3)
        self.scale = nn.Parameter(torch.tensor(0.8))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        early = x = self.first(x)
        for i, name in enumerate(self.names):
            if x.numel() > LARGEST:
                x = x.flatten(1)[:, :5]
            x = STEPS[name](x) * self.scale
            if i == self.shortcut:
                x = x + early.mean()
        return x, x.sum() * self.calls


@st.composite
def modules(draw: Any) -> Any:
    """A module with the shape of its input and a seed."""
    shape = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4).map(tuple))
    names = draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6))
    return shape, names, draw(st.integers(0, 5)), draw(st.integers(0, 99))


def loss(outputs: Any) -> Any:
    return (outputs[0] ** 2).mean() + outputs[1] * 0.01


def made(drawn: Any) -> tuple[Any, Any]:
    shape, names, shortcut, seed = drawn
    torch.manual_seed(seed)
    return Drawn(shape, names, shortcut), torch.randn(shape)
