"""Networks of the kinds that people train with PyTorch, small enough for steps of milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions beside a shortcut, as in resnet18."""

    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = convolved(i, o, 3, stride), convolved(o, o, 3)
        self.short = convolved(i, o, 1, stride) if stride != 1 or i != o else nn.Identity()

    def forward(self, x: Any) -> Any:
        """The sum, where it is positive."""
        return F.relu(self.second(F.relu(self.first(x))) + self.short(x))


def convolved(i: int, o: int, size: int, stride: int = 1, groups: int = 1) -> Any:
    """A convolution and a batch normalization."""
    conv = nn.Conv2d(i, o, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(o))


def resnet18() -> Any:
    """The 18-layer residual network, with ten classes."""
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [Residual(i, o, 2 if o > i else 1) for i, o in pairwise(widths)]
    stem = convolved(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Inverted(nn.Module):  # type: ignore[misc]
    """A wide depthwise convolution between narrow ones, with squeeze and excitation."""

    def __init__(
        self, i: int, wide: int, o: int, size: int, stride: int, squeeze: bool, hard: bool
    ) -> None:
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        inner = max(8, (wide // 4 + 4) // 8 * 8)
        self.expand = nn.Sequential(convolved(i, wide, 1), act()) if wide != i else nn.Identity()
        self.depthwise = nn.Sequential(convolved(wide, wide, size, stride, wide), act())
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, inner, 1), nn.ReLU(),
            nn.Conv2d(inner, wide, 1), nn.Hardsigmoid(),
        ) if squeeze else None  # fmt: skip
        self.project, self.beside = convolved(wide, o, 1), stride == 1 and i == o

    def forward(self, x: Any) -> Any:
        """The narrow result, beside its input where the shapes allow."""
        y = self.depthwise(self.expand(x))
        y = y if self.squeeze is None else y * self.squeeze(y)
        y = self.project(y)
        return x + y if self.beside else y


def mobilenet_v3() -> Any:
    """The small one."""
    rows = [
        (16, 16, 16, 3, 2, True, False), (16, 72, 24, 3, 2, False, False),
        (24, 88, 24, 3, 1, False, False), (24, 96, 40, 5, 2, True, True),
        (40, 240, 40, 5, 1, True, True), (40, 240, 40, 5, 1, True, True),
        (40, 120, 48, 5, 1, True, True), (48, 144, 48, 5, 1, True, True),
        (48, 288, 96, 5, 2, True, True), (96, 576, 96, 5, 1, True, True),
        (96, 576, 96, 5, 1, True, True),
    ]  # fmt: skip
    return nn.Sequential(
        convolved(3, 16, 3, 2), nn.Hardswish(), *(Inverted(*row) for row in rows),
        convolved(96, 576, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 10),
    )  # fmt: skip


def encoder(width: int, heads: int, hidden: int, layers: int, **options: Any) -> Any:
    """Layers of PyTorch's own transformer."""
    layer = nn.TransformerEncoderLayer(width, heads, hidden, 0.0, batch_first=True, **options)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


class Vit(nn.Module):  # type: ignore[misc]
    """Patches of 8 x 8 as tokens, and a token for the class."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 128, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 128))
        self.places = nn.Parameter(torch.randn(1, 65, 128) * 0.02)
        self.body = encoder(128, 4, 512, 4, norm_first=True, activation="gelu")
        self.head = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 10))

    def forward(self, x: Any) -> Any:
        """Logits of classes."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.body(x)[:, 0])


class Gpt(nn.Module):  # type: ignore[misc]
    """A causal language model, as nanoGPT's."""

    def __init__(self, tokens: int = 256, width: int = 192, places: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(places, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, x: Any) -> Any:
        """Logits of the next tokens."""
        h = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)).flatten(0, 1)


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a layer of 4 times the width, each normalized before."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        hidden = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.hidden = nn.Sequential(*hidden)

    def forward(self, x: Any) -> Any:
        """The input with what both parts add."""
        n, t, width = x.shape
        parts = self.qkv(self.first(x)).split(width, -1)
        q, k, v = (p.view(n, t, self.heads, -1).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
        return x + self.hidden(self.second(x))


class Lstm(nn.Module):  # type: ignore[misc]
    """A language model of two recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(128, 96), nn.Linear(128, 128)
        self.body = nn.LSTM(96, 128, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        """Logits of the next tokens."""
        return self.head(self.body(self.tokens(x))[0]).flatten(0, 1)


def pair(i: int, o: int) -> Any:
    """Two convolutions with normalization of groups."""
    first = nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU()
    return nn.Sequential(*first, nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU())


class Unet(nn.Module):  # type: ignore[misc]
    """Three resolutions, down and up, with shortcuts."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([pair(3, 16), pair(16, 32), pair(32, 64)])
        self.wider = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in (32, 16))
        self.up = nn.ModuleList([pair(64, 32), pair(32, 16)])
        self.end = nn.Conv2d(16, 3, 1)

    def forward(self, x: Any) -> Any:
        """An image of the same size."""
        seen = []
        for i, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if i else x)
            seen.append(x)
        for wider, up, beside in zip(self.wider, self.up, seen[-2::-1], strict=True):
            x = up(torch.cat([wider(x), beside], 1))
        return self.end(x)


class Detector(nn.Module):  # type: ignore[misc]
    """A pyramid of three levels, and shared towers for classes and boxes, as RetinaNet's."""

    def __init__(self, width: int = 48, classes: int = 8, anchors: int = 3) -> None:
        super().__init__()
        self.classes = classes
        stages = [(3, 24, 4), (24, width, 2), (width, 2 * width, 2)]
        self.stages = nn.ModuleList(
            nn.Sequential(convolved(i, o, 2 * s - 1, s), nn.ReLU()) for i, o, s in stages
        )
        self.across = nn.ModuleList(nn.Conv2d(o, width, 1) for _, o, _ in stages)
        self.tower = nn.ModuleList(
            nn.Sequential(pair(width, width), nn.Conv2d(width, anchors * n, 3, padding=1))
            for n in (classes, 4)
        )

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Logits of classes and offsets of boxes, of all places and anchors."""
        levels: list[Any] = []
        for stage, across in zip(self.stages, self.across, strict=True):
            x = stage(x)
            levels.append(across(x))
        for i in (1, 0):
            levels[i] = levels[i] + F.interpolate(levels[i + 1], scale_factor=2.0)
        scores, boxes = (
            torch.cat([tower(v).permute(0, 2, 3, 1).reshape(x.shape[0], -1, n) for v in levels], 1)
            for tower, n in zip(self.tower, (self.classes, 4), strict=True)
        )
        return scores, boxes


def focal(outputs: Any, wanted: Any, boxes: Any) -> Any:
    """The focal loss of classes, and a smooth distance of the boxes that have one."""
    scores, found = outputs
    entropy = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
    apart = (wanted - scores.sigmoid()).abs()
    seen = wanted.amax(-1, keepdim=True)
    near = F.smooth_l1_loss(found, boxes, reduction="none") * seen
    return ((apart**2 * entropy).sum() + near.sum()) / seen.sum()


class Step(nn.Module):  # type: ignore[misc]
    """The loss of a network."""

    def __init__(self, network: Any, loss: Callable[..., Any]) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, x: Any, *wanted: Any) -> Any:
        """The loss of an input."""
        return self.loss(self.network(x), *wanted)


def classified(network: Any, *shape: int, tokens: int = 0) -> tuple[Step, tuple[Any, ...]]:
    """A network whose outputs are logits, with an input and classes."""
    if tokens:
        x, y = torch.randint(tokens, shape), torch.randint(tokens, (prod(shape),))
    else:
        x, y = torch.randn(shape), torch.randint(10, shape[:1])
    return Step(network, F.cross_entropy), (x, y)


def detects() -> tuple[Step, tuple[Any, ...]]:
    """The detector, with a hundredth of its places of a class."""
    places = 3 * (32 * 32 + 16 * 16 + 8 * 8)
    wanted = (torch.rand(2, places, 8) < 0.01).float()
    return Step(Detector(), focal), (torch.randn(2, 3, 128, 128), wanted, torch.randn(2, places, 4))


def regressed(network: Any, *shape: int) -> tuple[Step, tuple[Any, ...]]:
    """A network whose output has the shape of its input."""
    return Step(network, F.mse_loss), (torch.randn(shape), torch.randn(shape))


NETWORKS: dict[str, Callable[[], tuple[Step, tuple[Any, ...]]]] = {
    "resnet18": lambda: classified(resnet18(), 4, 3, 64, 64),
    "mobilenet_v3": lambda: classified(mobilenet_v3(), 4, 3, 64, 64),
    "vit": lambda: classified(Vit(), 4, 3, 64, 64),
    "encoder": lambda: regressed(encoder(128, 4, 256, 3), 4, 64, 128),
    "lstm": lambda: classified(Lstm(), 8, 32, tokens=128),
    "gpt": lambda: classified(Gpt(), 4, 64, tokens=256),
    "unet": lambda: regressed(Unet(), 2, 3, 64, 64),
    "detector": detects,
}


def made(name: str) -> tuple[Step, tuple[Any, ...]]:
    """A network by its name, always with the same numbers."""
    torch.manual_seed(0)
    return NETWORKS[name]()
