"""Validation of untrusted rows: every malformed part is refused before anything is built."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

import tfn
from tests.covering import in_turn
from tests.transforms.cases import CASES
from tfn.config import config
from tfn.dtypes import BOOL, COMPLEX64, FLOAT32, INT32
from tfn.errors import ExportError, TfnError
from tfn.exporting import wellformed
from tfn.exporting.codec import RECORDS, decode, encode
from tfn.exporting.container import opened, sealed
from tfn.exporting.portable import Portable
from tfn.exporting.serialize import deserialize, serialize
from tfn.exporting.symbolic_dims import Polynomial, Ratio
from tfn.trace.argument import Call, Cond, Const, FftType, Function, Iota, Param, Sort
from tfn.trace.jaxpr import close
from tfn.trace.op import Op
from tfn.trace.sharding import Axis, Collective, Exchange, Partition
from tfn.trace.uop import table_size

NAMES = (
    "threefry",
    "pad",
    "slice",
    "place of max 1",
    "matmul",
    "conv 2d",
    "gather windows",
    "scatter add batch",
    "sort",
    "scan",
    "cond 1",
    "call",
    "rfft (5,)",
    "complex dot",
    "while",
    "rev",
    "concat",
    "bitcast",
    "ldexp",
)
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2,
    7,
    2**40,
    2**63,
    "x",
    b"\2",
    (),
    (0,),
    (1, 1),
    (2**40,),
    INT32,
    COMPLEX64,
    Op.ADD,
    Op.FUNCTION,
    Op.DETACH,
    FftType.IRFFT,
    Const(BOOL, 1, ()),
)


MUTATIONS = 400  # of each program that are tried, evenly spread


def data_of(name: str) -> bytes:
    """A case as bytes."""
    case = next(case for case in CASES if case.name == name)
    leaves, _ = case.leaves()
    return serialize(close([case.graph(*leaves)], leaves)[0])


def changed(value: Any) -> Iterator[Any]:
    """A value with one part of it replaced, left out, twice there, or before its neighbour."""
    yield from STRANGE
    if type(value).__name__ in RECORDS and is_dataclass(value):
        names = [field.name for field in fields(value) if field.compare]
        for name in names:
            for new in changed(getattr(value, name)):
                parts = {n: getattr(value, n) for n in names} | {name: new}
                yield type(value)(**parts)  # type: ignore[operator]
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield value[:i] + value[i + 1 :]
            yield value[: i + 1] + value[i:]
            yield value[: max(i - 1, 0)] + value[max(i - 1, 0) : i + 1][::-1] + value[i + 1 :]
            yield from ((*value[:i], new, *value[i + 1 :]) for new in changed(item))


def small(value: Any) -> bool:
    """Whether no size in a value is large."""
    if isinstance(value, Const):
        return small(value.shape)
    if isinstance(value, int):
        return value < 1000
    parts = (
        value
        if isinstance(value, tuple)
        else [getattr(value, field.name) for field in fields(value)]
        if is_dataclass(value)
        else []
    )
    return all(map(small, parts))


def call(f: Any) -> None:
    """Run a function of arguments by position, on a device that computes each operation."""
    given = [(i.path, np.ones(i.shape, i.dtype)) for i in f.inputs]
    if [path for path, _ in given] == [(i,) for i in range(len(given))]:
        tfn.device_get(f(*(tfn.numpy.asarray(x) for _, x in given)))


@pytest.mark.parametrize("name", in_turn(2, NAMES))
def test_a_program_with_any_other_part_is_refused_or_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that is none of tfn's, when it is read or when it is called, fails the test."""
    monkeypatch.setattr(config, "device", "python")
    data = data_of(name)
    good = decode(opened(data))
    seen, accepted = {encode(good)}, 0
    every = list(changed(good))
    for other in every[:: len(every) // MUTATIONS + 1]:
        payload = encode(other)
        if payload in seen:
            continue
        seen.add(payload)
        try:
            f = deserialize(sealed(payload))
        except ExportError:
            continue
        accepted += 1
        if small(other) and name != "while":  # which may go on for ever
            call(f)
    assert len(seen) > MUTATIONS / 4
    assert accepted < len(seen) / 10


PARAM = (Op.PARAM, (), Param(0, (3,), FLOAT32))
END = Function((PARAM[2],))


def of(*rows: Any) -> Any:
    """What is wrong with rows."""
    with pytest.raises(ExportError, match="are not a function") as caught:
        wellformed.built(wellformed.rows(rows))
    return caught.value.got


def test_rows() -> None:
    wellformed.built(wellformed.rows((PARAM, (Op.NEG, (0,), None), (Op.FUNCTION, (1,), END))))
    assert of() == "no rows"
    assert of(PARAM) == of(PARAM, PARAM) == "the last row is no function of all others"
    assert "row 1" in of(PARAM, (Op.NEG, (1,), None), (Op.FUNCTION, (1,), END))  # reads itself
    assert "row 1" in of(PARAM, (Op.NEG, (True,), None), (Op.FUNCTION, (1,), END))
    assert "row 1" in of(PARAM, (Op.ADD, (0, 0, 0), None), (Op.FUNCTION, (1,), END))
    assert "row 1" in of(PARAM, (Op.NEG, (0,), 1), (Op.FUNCTION, (1,), END))
    assert "no function of all" in of(PARAM, (Op.NEG, (0,), None), (Op.FUNCTION, (0,), END))
    assert "row 2: add of f32[3], i32[3]" in of(
        PARAM, (Op.IOTA, (), Iota(3, INT32)), (Op.ADD, (0, 1), None), (Op.FUNCTION, (2,), END)
    )


def test_parameters_of_other_functions_are_refused() -> None:
    other = (Op.PARAM, (), Param(1, (3,), FLOAT32))
    inner = (Op.FUNCTION, (2,), END)
    rest = ((Op.CALL, (3, 0), Call("f")), (Op.GET, (4,), 0), (Op.FUNCTION, (5,), END))
    got = of(PARAM, other, (Op.ADD, (0, 1), None), inner, *rest)
    assert got == "row 3: a function with a parameter of another"
    wrong_type = (Op.PARAM, (), Param(0, (3,), INT32))
    assert "row 1" in of(wrong_type, (Op.FUNCTION, (0,), END))


def test_nothing_equal_to_another_argument_is_made() -> None:
    """True == 1, so a node with True would be taken for the node with 1 by all who come later."""
    before = table_size()
    for shape in ((True,), (np.int64(1),)):
        with pytest.raises(ExportError):
            wellformed.rows(((Op.CONST, (), Const(INT32, 0, shape)), (Op.FUNCTION, (0,), END)))
    assert table_size() == before


def test_sizes_that_no_array_has() -> None:
    for shape in ((2**40, 2**40), (2**62,) * 64):
        param = Param(0, shape, FLOAT32)
        assert "larger than an array" in of(
            (Op.PARAM, (), param), (Op.FUNCTION, (0,), Function((param,)))
        )
    for shape in ((2**63,), (-1,), (1,) * 65):
        assert "row 0" in of((Op.CONST, (), Const(INT32, 0, shape)), (Op.FUNCTION, (0,), END))


AXIS = Axis("x", 3)
EXCHANGE = Collective(Exchange.REDUCE, AXIS, groups=((0, 2, 1),), pairs=((0, 1), (1, 2)))
DIVIDED = Partition((AXIS, Axis("y", 2)), (("x",),), ("x",), (AXIS,))
ON_DEVICES = (
    PARAM,
    (Op.AXIS, (), AXIS),
    (Op.CONSTRAIN, (0,), DIVIDED),
    (Op.SHARD, (2,), DIVIDED),
    (Op.COLLECTIVE, (3, 1), EXCHANGE),
    (Op.UNSHARD, (4,), DIVIDED),
    (Op.FUNCTION, (5,), END),
)


def test_programs_of_many_devices() -> None:
    good = encode(ON_DEVICES)
    assert decode(good) == ON_DEVICES
    wellformed.built(wellformed.rows(decode(good)))
    refused, tried = 0, 0
    for other in list(changed(ON_DEVICES))[::3]:
        tried += 1
        try:
            wellformed.built(wellformed.rows(decode(encode(other))))
        except ExportError:
            refused += 1
    assert tried > 400 and refused > 0.9 * tried


@pytest.mark.parametrize(
    "arg",
    [
        replace(EXCHANGE, groups=((0, 1), (2,))),
        replace(EXCHANGE, groups=((0, 1, 1),)),
        replace(EXCHANGE, groups=()),
        replace(EXCHANGE, pairs=((0, 1), (0, 2))),
        replace(EXCHANGE, pairs=((0, 3),)),
        replace(EXCHANGE, axis=Axis("x", 0)),
        replace(EXCHANGE, axis=Axis(3, 3)),
        replace(EXCHANGE, op=Op.SUB),
        replace(EXCHANGE, kind=FftType.FFT),
        replace(EXCHANGE, kind=Exchange.SCATTER),  # of one element
    ],
)
def test_exchanges_that_no_devices_make(arg: Any) -> None:
    rows = (*ON_DEVICES[:4], (Op.COLLECTIVE, (3, 1), arg), *ON_DEVICES[5:])
    assert "row 4" in of(*rows)


@pytest.mark.parametrize(
    "arg",
    [
        replace(DIVIDED, spec=(("z",),)),
        replace(DIVIDED, spec=(("x", "x"),)),
        replace(DIVIDED, lanes=("z",)),
        replace(DIVIDED, spec=((), ())),
        replace(DIVIDED, mesh=(AXIS, AXIS)),
        replace(DIVIDED, mesh=(AXIS, Axis("y", 2**62))),
        replace(DIVIDED, manual=("z",)),
        replace(DIVIDED, unchecked=(Axis("x", 4),)),
    ],
)
def test_divisions_that_no_mesh_makes(arg: Any) -> None:
    assert "row 2" in of(*ON_DEVICES[:2], (Op.CONSTRAIN, (0,), arg), *ON_DEVICES[3:])


def test_polynomials() -> None:
    b = Polynomial(((("b",), 1),))
    known = frozenset({"b"})
    for p in (b, 2 * b + 1, b * b, (b * b - b) // 2):
        assert wellformed.shape((p, 3), known)
        assert not wellformed.shape((p, 3), frozenset())
    wrong: list[Any] = [
        Polynomial(((("c",), 1),)),
        Polynomial(((("b",), 1),), 0),
        Polynomial(((("b",), 0),)),
        Polynomial(((("b",), 2**70),)),
        Polynomial(((("b",) * 9, 1),)),
        Polynomial((("b", 1),)),  # type: ignore[arg-type]
        Polynomial(((("b",), 2),), 2),
        Polynomial(((("b",), 1),) * 2),
        "b",
        Ratio(b, 1),
    ]
    assert not any(wellformed.shape((p,), known) for p in wrong)


def seconds(rows: tuple[Any, ...], inputs: int = 1, results: int = 1) -> float:
    """The time that it takes to read a program, or to refuse it."""
    takes = tuple(((i,), (3,), FLOAT32, False) for i in range(inputs))
    outputs = ("tuple", (), tuple(range(results)))
    data = sealed(encode((rows, takes, (), outputs, (False,) * results, ())))
    start = time.process_time()
    try:
        deserialize(data)
    except ExportError as error:
        assert "share" in str(error)
    return time.process_time() - start


MANY = 8000


def test_many_results_take_no_quadratic_time() -> None:
    gets = tuple((Op.GET, (1,), i) for i in range(MANY))
    last = (Op.FUNCTION, tuple(range(2, MANY + 2)), END)
    assert seconds((PARAM, (Op.SORT, (0,) * MANY, Sort(1)), *gets, last), 1, MANY) < 2


def test_one_branch_many_times_takes_no_quadratic_time() -> None:
    params = tuple(Param(i, (3,), FLOAT32) for i in range(MANY))
    rows = (
        PARAM,
        (Op.FUNCTION, (0,), Function(params)),
        (Op.CONST, (), Const(INT32, 0, ())),
        (Op.COND, (2, *(1,) * MANY, *(0,) * MANY), Cond(MANY)),
        (Op.GET, (3,), 0),
        (Op.FUNCTION, (4,), END),
    )
    assert seconds(rows) < 2


def test_functions_that_share_rows_take_no_quadratic_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wellformed, "SHARED_LIMIT", 100_000)
    chain = tuple((Op.NEG, (i,), None) for i in range(MANY))
    functions = tuple((Op.FUNCTION, (MANY,) * (1 + i), END) for i in range(40))
    first = MANY + 1
    calls = tuple((Op.CALL, (first + i, 0), Call("")) for i in range(40))
    gets = tuple((Op.GET, (first + 40 + i,), 0) for i in range(40))
    last = (Op.FUNCTION, tuple(range(first + 80, first + 120)), END)
    assert seconds((PARAM, *chain, *functions, *calls, *gets, last), 1, 40) < 2


def test_calls_of_calls_are_read_without_following_them() -> None:
    """Run, it would be 2**300 operations."""
    rows: list[Any] = [PARAM]
    for _ in range(300):
        f = len(rows)
        rows += [
            (Op.FUNCTION, (f - 1,), END),
            (Op.CALL, (f, 0), Call("")),
            (Op.GET, (f + 1,), 0),
            (Op.CALL, (f, f + 2), Call("")),
            (Op.GET, (f + 3,), 0),
        ]
    assert seconds((*rows, (Op.FUNCTION, (len(rows) - 1,), END))) < 2


@pytest.mark.parametrize("part", range(1, 6))
def test_a_signature_with_any_other_part_is_refused(part: int) -> None:
    x = tfn.ShapeDtypeStruct((3,), "float32")
    w = np.ones(2, bool)
    f = serialize(lambda x, *, k: {"a": [x * 2, k], "b": w}, x, k=x)
    good = decode(opened(f))
    assert isinstance(deserialize(f), Portable)
    refused = 0
    for new in changed(good[part]):
        data = sealed(encode((*good[:part], new, *good[part + 1 :])))
        try:
            found = deserialize(data)
        except ExportError:
            refused += 1
        else:
            with pytest.raises(TfnError):  # with arguments of other names
                found()
    assert refused > 15
