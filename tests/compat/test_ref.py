"""`jax.ref`: functions of references."""

import tfn.numpy as tnp
from tfn import ShapeDtypeStruct, jit
from tfn.compat import ref as jax_ref
from tfn.compat.avals import AbstractRef, typeof


def test_functions_read_and_write() -> None:
    ref = jax_ref.new_ref(tnp.arange(3.0))
    jax_ref.set(ref, 0, 5.0)
    assert float(jax_ref.swap(ref, 1, 6.0)) == 1.0
    jit(lambda: jax_ref.addupdate(ref, tnp.array([2, 2]), 1.0))()
    assert jax_ref.get(ref).tolist() == [5, 6, 4] and float(jax_ref.get(ref, 2)) == 4
    assert jax_ref.freeze(ref).tolist() == [5, 6, 4]
    jax_ref.free_ref(ref)


def test_the_type_says_that_it_is_a_reference() -> None:
    kind = typeof(jax_ref.empty_ref(ShapeDtypeStruct((2, 3), "int32")))
    assert isinstance(kind, AbstractRef) and str(kind) == "Ref{int32[2,3]}"
    assert (kind.shape, kind.ndim, kind.size, kind.weak_type) == ((2, 3), 2, 6, False)
    assert kind == typeof(jax_ref.new_ref(tnp.zeros((2, 3), "int32"))) != typeof(tnp.zeros(2))
