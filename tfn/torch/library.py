"""PyTorch, which is imported at its first use."""

from __future__ import annotations

from functools import cache
from typing import Any

from tfn.errors import NotAvailableError


@cache
def pytorch() -> Any:
    """The package torch.

    Raises:
        NotAvailableError: if it is not installed.
    """
    try:
        import torch
        import torch._decomp
        import torch._dynamo.backends.common
        import torch._functorch.aot_autograd
        import torch._functorch.partitioners
    except ImportError as error:
        raise NotAvailableError(
            "tfn.torch needs PyTorch", got=str(error), hint="pip install 'tfn[torch]'"
        ) from None
    return torch
