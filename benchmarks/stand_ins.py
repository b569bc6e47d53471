"""Small modules in the place of those that published examples import for their data.

Images are scikit-learn's digits, enlarged; what only writes logs or reads files does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np


def digits(height: int = 28, width: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """The 1,797 digits of scikit-learn as bytes, enlarged by repeating, and their labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    small = (images.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    rows, columns = (np.arange(n) * 8 // n for n in (height, width))
    return small[:, rows][:, :, columns], labels.astype(np.int64)


def torchvision() -> dict[str, ModuleType]:
    """`torchvision`: MNIST and CIFAR10 whose images are digits, of the size that is asked for."""
    import torch

    torch.manual_seed(0)

    def images(channels: int, size: tuple[int, int], mean: float, deviation: float) -> Any:
        pixels, labels = digits(*size)
        x = (pixels / 255 - mean) / deviation
        x = np.repeat(x[:, None], channels, axis=1).astype(np.float32)
        return torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(labels))

    def dataset(channels: int, size: tuple[int, int]) -> Any:
        def make(*_: Any, transform: Any = None, **options: Any) -> Any:
            sizes = [step[1] for step in transform or () if step[0] == "Resize"]
            return images(channels, sizes[-1] if sizes else size, 0.5, 0.5)

        return make

    top, datasets = ModuleType("torchvision"), ModuleType("torchvision.datasets")
    transforms = ModuleType("torchvision.transforms")
    datasets.__dict__.update(MNIST=dataset(1, (28, 28)), CIFAR10=dataset(3, (32, 32)))
    transforms.__dict__["Compose"] = lambda steps: steps
    for name in ("ToTensor", "Normalize", "Resize", "RandomCrop", "RandomHorizontalFlip"):
        transforms.__dict__[name] = lambda *a, _name=name, **k: (_name, *a)
    top.__dict__.update(datasets=datasets, transforms=transforms)
    return {top.__name__: top, datasets.__name__: datasets, transforms.__name__: transforms}


def distrax() -> dict[str, ModuleType]:
    """`distrax`, which imports with no JAX from 0.5 on: its Categorical, on `jax.numpy`."""
    import jax
    import jax.numpy as jnp

    class Categorical:
        def __init__(self, logits: Any) -> None:
            self.logits = jax.nn.log_softmax(logits)

        def sample(self, seed: Any) -> Any:
            return jax.random.categorical(seed, self.logits)

        def log_prob(self, value: Any) -> Any:
            return jnp.take_along_axis(self.logits, value[..., None], axis=-1)[..., 0]

        def entropy(self) -> Any:
            return -jnp.sum(jnp.exp(self.logits) * self.logits, axis=-1)

    module = ModuleType("distrax")
    module.__dict__["Categorical"] = Categorical
    return {"distrax": module}


def nothing(*names: str) -> Any:
    """Modules whose every name may be called and does nothing."""

    def make() -> dict[str, Any]:
        modules = {name: MagicMock() for name in names}
        for name, module in modules.items():
            module.__spec__ = ModuleSpec(name, None)  # flax asks whether TensorFlow is there
        return modules

    return make


STAND_INS = {
    "torchvision": torchvision,
    "distrax": distrax,
    "brax": nothing("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training"),
    "navix": nothing("navix"),
    "orbax": nothing("orbax", "orbax.checkpoint"),
    "tensorflow": nothing(
        "tensorflow", "tensorflow.io", "tensorflow.python", "tensorflow_datasets",
        "tensorflow_text", "sentencepiece",
        "flax.metrics.tensorboard", "orbax.export", "clu", "sentencepiece.sentencepiece_model_pb2",
    ),
}  # fmt: skip


def install(names: list[str]) -> None:
    """Puts stand-ins where `import` finds them."""
    for name in names:
        sys.modules.update(STAND_INS[name]())


def batches(size: int, most: int) -> Any:
    """Digits as the batches of a tensorflow_datasets: `as_numpy_iterator` gives dicts."""
    pixels, labels = digits()
    images = (pixels / 255).astype(np.float32)[..., None]

    def iterate() -> Iterator[dict[str, np.ndarray]]:
        for start in range(0, min(len(labels) - size, size * most), size):
            part = slice(start, start + size)
            yield {"image": images[part], "label": labels[part].astype(np.int32)}

    return SimpleNamespace(as_numpy_iterator=iterate)
