"""Small networks of the kinds that people train."""

from __future__ import annotations

from typing import Any

from tests.torch.beside import HERE
from tfn.torch.library import pytorch

torch: Any = pytorch() if HERE else None
nn: Any = torch.nn if HERE else None
Module: Any = nn.Module if HERE else object


class Residual(Module):
    """Two convolutions beside a shortcut, as in ResNet."""

    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(i, o, 3, stride, 1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(),
            nn.Conv2d(o, o, 3, 1, 1, bias=False),
            nn.BatchNorm2d(o),
        )
        self.short = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.short(x))


class Attends(Module):
    """A causal language model of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Embedding(8, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.first, self.second = nn.LayerNorm(16), nn.LayerNorm(16)
        self.hidden = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: Any) -> Any:
        n, t = x.shape
        h = self.tokens(x) + self.places(torch.arange(t))
        q, k, v = (p.view(n, t, 2, 8).transpose(1, 2) for p in self.qkv(self.first(h)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(y.transpose(1, 2).reshape(n, t, 16))
        return (h + self.hidden(self.second(h))) @ self.tokens.weight.T


class Recurrent(Module):
    """A bidirectional LSTM of two layers and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(12, 5, batch_first=True)

    def forward(self, x: Any) -> Any:
        y, (h, c) = self.lstm(x)
        return self.gru(y)[0], h, c


class Unet(Module):
    """Down, up, and a shortcut between."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.end = nn.Conv2d(8, 1, 1)

    def forward(self, x: Any) -> Any:
        fine = self.down(x)
        wide = nn.functional.interpolate(self.deep(fine), scale_factor=2, mode="bilinear")
        return self.end(torch.cat([fine, self.up(self.deep(fine)) + wide[:, :4]], 1))


def made() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Networks by name, each with inputs."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    return {
        "residual": (
            nn.Sequential(
                nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
            ),
            (torch.randn(2, 3, 21, 18),),
        ),
        "mobile": (
            nn.Sequential(
                nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), nn.Conv2d(8, 8, 5, 1, 2, groups=8),
                nn.BatchNorm2d(8), nn.Hardsigmoid(), nn.Conv2d(8, 4, 1), nn.Flatten(),
                nn.LogSoftmax(-1),
            ),
            (torch.randn(2, 3, 9, 8),),
        ),
        "encoder": (nn.TransformerEncoder(encoder, 2), (torch.randn(2, 5, 16),)),
        "language": (Attends(), (torch.randint(0, 11, (2, 6)),)),
        "recurrent": (Recurrent(), (torch.randn(2, 5, 4),)),
        "unet": (Unet(), (torch.randn(2, 2, 8, 8),)),
    }  # fmt: skip


NAMES = ("residual", "mobile", "encoder", "language", "recurrent", "unet")
