"""`einsum` by a product of the user's own."""

import numpy as np
import pytest

import tfn
from tfn.compat.contraction import einsum
from tfn.errors import NotAvailableError


@pytest.mark.parametrize(
    "text", ["ij,jk->ik", "bij,bkj->kbi", "ij,j->i", "bhqd,bkhd->bhqk", "ijm,kj->i"]
)
def test_it_is_einsum_with_one_product(text: str) -> None:
    draw = np.random.RandomState(0)
    sizes = dict(zip("bhijkqdm", range(2, 10), strict=True))
    x, y = (draw.randn(*(sizes[a] for a in term)) for term in text.split("->")[0].split(","))
    calls = []

    def product(*args: object, **options: object) -> tfn.Array:
        calls.append(args)
        return tfn.lax.dot_general(*args, **options)

    np.testing.assert_allclose(
        einsum(text, x, y, _dot_general=product), np.einsum(text, x, y), rtol=1e-12
    )
    assert len(calls) == 1


def test_other_forms_are_refused() -> None:
    x = np.ones((2, 2))
    with pytest.raises(NotAvailableError, match="two operands"):
        einsum("ii,ij->j", x, x, _dot_general=lambda *args: None)
    assert einsum("ii->i", x, _dot_general=tfn.lax.dot_general).tolist() == [1.0, 1.0]
