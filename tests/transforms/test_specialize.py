"""Values that are known when a function is exported: constants, operands, parameters that go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.trace import oracle
from tfn.trace.jaxpr import Jaxpr, param
from tfn.trace.op import Op
from tfn.trace.uop import walk
from tfn.transforms.specialize import specialised

CHANNELS = np.array([33, 40, 45], np.int32)


def with_values(function: Callable[..., Any], *args: Any, known: int) -> tuple[Jaxpr, list[int]]:
    """A function for the value of one argument; it has the same results."""
    whole = tfn.make_jaxpr(function)(*args)
    arrays = [np.asarray(x) for x in args]
    made, kept = specialised(whole, {known: arrays[known].tobytes()})
    want = oracle.evaluate(whole.outputs, {param(p): x for p, x in zip(whole.params, arrays)})
    left = {param(p): arrays[at] for p, at in zip(made.params, kept, strict=True)}
    for got, value in zip(oracle.evaluate(made.outputs, left), want, strict=True):
        np.testing.assert_array_equal(got, value, strict=True)
    return made, kept


def ops(made: Jaxpr) -> set[Op]:
    """The operations of a function."""
    return {u.op for u in walk(made.outputs)}


def test_a_number_becomes_a_constant_and_its_parameter_goes() -> None:
    """The other parameter moves up."""
    made, kept = with_values(
        lambda least, x: tnp.maximum(x, least), np.int32(-128), CHANNELS, known=0
    )
    assert kept == [1]
    assert [p.index for p in made.params] == [0]


def test_what_is_equal_at_all_elements_is_a_constant() -> None:
    """All channels need the same case of a rounding."""
    made, _ = with_values(
        lambda x, shift: tnp.where(shift < 33, x, x + 1), CHANNELS, CHANNELS, known=1
    )
    assert Op.LT not in ops(made)


def test_an_operation_that_changes_no_element_goes() -> None:
    """The larger of 33 and what is larger in any case."""
    made, kept = with_values(lambda x, s: x * tnp.maximum(s, 33), CHANNELS, CHANNELS, known=1)
    assert Op.MAX not in ops(made)
    assert kept == [0, 1]


def test_shifts_by_known_counts_have_one_case() -> None:
    """Counts within the width are masked, which decides the case."""
    made, _ = with_values(lambda x, s: lax.shift_left(x, s - 33), CHANNELS, CHANNELS, known=1)
    assert Op.AND in ops(made)
    made, _ = with_values(lambda x, s: lax.shift_left(x, s), CHANNELS, CHANNELS, known=1)
    assert Op.AND not in ops(made)  # 40 is beyond 32 bits


def test_floats_are_left_to_the_machine_that_runs() -> None:
    """An exponential may be rounded otherwise there; a single number stays what it is."""
    half = np.full(4, 0.5, np.float32)
    made, _ = with_values(lambda x, y: x + tnp.exp2(y - 0.5), half, half, known=1)
    assert Op.SUB in ops(made) or Op.ADD in ops(made)
    made, kept = with_values(lambda x, y: x * y, half, np.float32(0.25), known=1)
    assert kept == [0]


def test_a_captured_array_that_nothing_reads_takes_no_memory(tmp_path: Any) -> None:
    """Neither in the text nor among the arguments."""
    unused = tnp.zeros(1000, "int32")
    made = tfn.export(
        lambda x: x + unused[0] * 0, tfn.ShapeDtypeStruct((3,), "int32"), path=tmp_path / "made.c"
    )
    assert [field.name for field in made.signature.inputs] == ["x"]
    assert "constant0[1000]" not in (tmp_path / "made.c").read_text()
