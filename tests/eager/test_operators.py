"""Operators that a device has learnt: they are those of Python, without a frame of it."""

from __future__ import annotations

import operator
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import cover
from tfn import profiler
from tfn._support import cache
from tfn.array import Array
from tfn.config import config
from tfn.dtypes import set_strict_promotion
from tfn.eager.operands import number_as
from tfn.errors import DeletedArrayError, DTypeError, NanError, NumberError
from tfn.hw.cpu.operators import MIN_ROWS
from tfn.trace.traces import tracing

COMPARISONS = ["lt", "le", "eq", "ne", "gt", "ge"]
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", *COMPARISONS]
BITS = ["and_", "or_", "xor", "lshift", "rshift"]


def frames(run: Any) -> int:
    """The number of functions of Python that run."""
    calls = []

    def profile(frame: Any, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len(calls) - 1  # less `run` itself


def same(x: Array, y: Array) -> None:
    assert (x.kind, x.weak_type) == (y.kind, y.weak_type)
    assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def method(name: str, x: Any, y: Any) -> Any:
    """An operator by its method, which no table serves."""
    name = name.strip("_")
    if isinstance(x, Array):
        return getattr(x, f"__{name}__")(y)
    mirror = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}.get(name)
    return getattr(y, f"__{mirror or 'r' + name}__")(x)


INTEGERS = ["int32", "int8", "uint8"]
DTYPES = ["float32", "float64", *INTEGERS, "bfloat16"]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*cover(BINARY, ["float32", "int32"]), *cover(BINARY, DTYPES), *cover(BITS, INTEGERS)],
)
def test_operators_of_arrays_and_numbers_are_their_methods(name: str, dtype: str) -> None:
    apply = getattr(operator, name)
    x, y = tnp.array([1, 2, 3, 4], dtype), tnp.array([2, 1, 1, 3], dtype)
    row = tnp.array([[3], [1]], dtype)
    pairs = [(x, y), (y, x), (x, x), (x, row), (row, x), (x, 2), (3, x), (x, 3)]
    if name not in BITS:
        pairs += [(x, 2.5), (1.5, x), (x, -0.0), (0.1, x), (x, tnp.array(2.0)), (x, np.float32(3))]
    for _ in range(2):  # learnt in the first round
        for left, right in pairs:
            same(apply(left, right), method(name, left, right))


@pytest.mark.parametrize("name", ["neg", "abs", "invert", "pos"])
def test_operators_of_one_operand(name: str) -> None:
    x = tnp.array([-1, 0, 5], "int32")
    for _ in range(3):
        same(getattr(operator, name)(x), getattr(x, f"__{name}__")())


def test_no_function_of_python_runs_when_an_operation_is_known() -> None:
    x, y = tnp.array([1.0, 2.0]), tnp.array([3.0, 4.0])

    def chain() -> None:
        z = -((((x + y) * 2.0 - 1) / y) ** 2) % 3.0
        assert z is not x and (z < 1.5) is not None and (z < 2) is not None

    chain()
    assert frames(chain) == 0


def test_operands_keep_their_sides() -> None:
    x, y = tnp.array([5.0]), tnp.array([3.0])
    assert (x - x).item() == 0 and (x - y).item() == 2 and (y - x).item() == -2
    assert (x - 1).item() == 4 and (1 - x).item() == -4 and (7 - x).item() == 2
    assert [bool(x > y), bool(y > x), bool(x > 4), bool(x < 4)] == [True, False, True, False]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_rounded_once(dtype: str) -> None:
    x = tnp.zeros(1, dtype)
    numbers = [1, 0.1, -0.0, float("inf"), float("nan"), 1e300, 5e-324, 1e-40, 16777217, 2**53 + 1]
    numbers += [-(2**53), 2**62 + 1, 2**70, 33554435, 0]
    for number in [1.0, *numbers, *numbers]:
        with np.errstate(over="ignore"):
            expected = np.asarray(number).astype(dtype)
        got = np.asarray(number * (x + 1))
        assert got.tobytes() == (np.ones(1, dtype) * expected).tobytes()
    assert not np.signbit(np.asarray(x * 0.0)[0]) and np.signbit(np.asarray(x * -0.0)[0])


def test_integers_that_a_dtype_has_not_are_refused_as_before() -> None:
    x = tnp.array([1, 2], "int8")
    assert (x + 1).tolist() == [2, 3] and (x + -128).tolist() == [-127, -126]
    for number in (128, -129, 1 << 70):
        with pytest.raises(NumberError, match="does not fit into int8"):
            x + number
    big = tnp.array([1], "uint64")
    assert (big + 1).tolist() == [2] and (big + ((1 << 64) - 2)).tolist() == [(1 << 64) - 1]


def test_exponents_are_told_apart() -> None:
    x = tnp.array([2.0, 3.0])
    for n in (2, 3, 2, 0, 1, -1, 5, -3, 40, 3):
        same(x**n, tnp.power(x, n))
    same(2**x, tnp.power(2, x))
    same(300**x, tnp.power(300, x))
    same(x**0.5, tnp.power(x, 0.5))
    with pytest.raises(TypeError):
        pow(x, 2, 3)  # type: ignore[misc]


def test_results_do_not_share_the_memory_of_a_number() -> None:
    x = tnp.array(3.0)
    results = [x * n for n in (1.0, 2.0, 3.0, 1.0)] + [x**1, x + 0]
    assert [y.item() for y in results] == [3, 6, 9, 3, 3, 3]


def test_other_types_answer_as_before() -> None:
    class Other:
        def __radd__(self, x: object) -> str:
            return "reflected"

        def __add__(self, x: object) -> str:
            return "own"

    x = tnp.array([1.0])
    assert x + Other() == "reflected" and Other() + x == "own"
    for bad in ([1.0], "a", None):
        with pytest.raises(TypeError):
            x + bad
        with pytest.raises(TypeError):
            bad - x  # type: ignore[operator]
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    assert isinstance(np.ones(1, np.float32) + x, Array) and (x + True).item() == 2


def test_transforms_record_what_is_known_outside() -> None:
    x, y = tnp.array([1.0, 2.0]), tnp.array([3.0, 4.0])
    for _ in range(2):
        assert (x * y + 1.0).tolist() == [4, 9]
    assert tfn.jit(lambda x: x * y + 1.0)(x).tolist() == [4, 9]
    assert tfn.grad(lambda x: (x * y + 1.0).sum())(x).tolist() == [3, 4]
    assert tfn.vmap(lambda a: a * 2.0)(x).tolist() == [2, 4]
    with tracing("f", apart=True):  # one that records operations on concrete arrays
        assert (x * y).owner is not None and (x + 1.0).owner is not None


def test_deleted_arrays_and_nans_are_errors(monkeypatch: Any) -> None:
    x, y = tnp.array([0.0]), tnp.array([0.0])
    assert np.isnan((x / y).item()) and np.isnan((x / y).item())
    with monkeypatch.context() as patch:
        patch.setattr(config, "debug_nans", True)
        with pytest.raises(NanError):
            x / y
    y.delete()
    with pytest.raises(DeletedArrayError):
        x / y


@pytest.mark.parametrize("swapped", [False, True])
def test_a_number_that_is_the_operand_itself_is_told_apart(swapped: bool) -> None:
    cache.clear()
    zero = number_as(0.0, np.dtype("float32"), None)  # the array of every 0 beside float32
    assert number_as(0, np.dtype("float32"), None) is zero
    for x, equal in ((zero, True), (tnp.asarray(3.0).astype("float32"), False)):
        assert bool(0 == x if swapped else x == 0) == equal  # noqa: SIM300


def test_rows_end_with_the_caches() -> None:
    x = tnp.array([[1.0, 2.0, 3.0]])

    def add() -> Any:
        return x + x

    for forget in (cache.turn, cache.clear):
        add()
        assert frames(add) == 0
        forget()
        assert frames(add) > 0
        assert frames(add) == 0


def test_other_rules_of_promotion_hold_at_once() -> None:
    x, n = tnp.array([1.0, 2.0]), tnp.array([1, 2])
    for _ in range(2):
        assert (x + n).tolist() == [2, 4] and (n * 0.5).dtype == np.float32
    set_strict_promotion(True)
    try:
        with pytest.raises(DTypeError, match="strict"):
            x + n
    finally:
        set_strict_promotion(False)
    tfn.config.x64 = True
    try:
        assert (n * 0.5).dtype == np.float64
    finally:
        tfn.config.x64 = False
    assert (x + n).tolist() == [2, 4] and (n * 0.5).dtype == np.float32


def test_a_table_grows() -> None:
    for n in range(1, MIN_ROWS // 2 + 10):  # two rows each: it doubles when half are taken
        x = tnp.ones(n, "int8")
        for _ in range(2):
            assert (x + 1).shape == (n,) and (x + x).tolist()[-1] == 2


def test_the_profiler_knows_operators(tmp_path: Any) -> None:
    x = tnp.array([1.0, 2.0])
    x * x
    with profiler.trace(str(tmp_path)):
        x * x
        x * 2.0
    assert "mul" in "".join(p.read_text() for p in tmp_path.rglob("*.json"))


def test_threads_share_a_table() -> None:
    large = tnp.ones((400, 400))
    wrong: list[Any] = []

    def work(number: float) -> None:
        for _ in range(30):
            y = large * number + 1.0
            if y[0, 0].item() != number + 1 or y[-1, -1].item() != number + 1:
                wrong.append(y)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
