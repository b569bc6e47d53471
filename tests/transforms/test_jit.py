"""jit: what it accepts, what it keeps, when it traces again, and what is refused."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tfn import lax
from tfn._support import cache
from tfn.config import config
from tfn.eager import registry, run
from tfn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DeletedArrayError,
    StaticArgumentError,
    TfnError,
    UnexpectedTracerError,
)
from tfn.trace.runtime import CompileStats

pytestmark = pytest.mark.usefixtures("compiled")


class Counted:
    """A function that counts how often Python runs it."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.function, self.count = function, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self.function(*args, **kwargs)


def test_trees_keywords_and_kinds_of_numbers() -> None:
    @tfn.jit
    def f(p: dict[str, Any], x: Any, *rest: Any, scale: Any = 1.0) -> Any:
        return {"y": p["w"] * x * scale, "rest": rest, "none": None}

    found = f({"w": np.ones(3, np.float32)}, 2, 3.0, True, scale=tnp.float32(4.0))
    assert found["y"].tolist() == [8, 8, 8] and found["none"] is None
    assert isinstance(found["rest"], tuple) and found["rest"][1].dtype == bool
    assert isinstance(found["rest"][0], tfn.Array)


def test_one_trace_for_each_kind_of_arguments() -> None:
    f = Counted(lambda x: x * 2)
    g = tfn.jit(f)
    for x in (tnp.ones(3), tnp.zeros(3), np.ones(3, np.float32)):
        g(x)
    assert f.count == 1
    g(tnp.ones(4))
    g(tnp.ones(3, "int32"))
    g(1.0)  # weak
    g(tnp.float32(1.0))
    g([tnp.ones(3)][0])
    assert f.count == 5
    assert g.cache_info()[:3] == (5, 5, "x: f32[] instead of f32[] (weak)")
    g.clear_cache()
    g(tnp.ones(3))
    assert f.count == 6 and g.cache_info()[:3] == (1, 1, "the first call")


def test_cache_info_has_compile_statistics() -> None:
    f = tfn.jit(lambda x: tnp.exp(x @ x).sum() + 0.734375)
    assert f.cache_info()[1:] == (0, "", CompileStats(), CompileStats())
    f.trace(tnp.ones((3, 3)))
    traced = f.cache_info().last
    assert traced.trace_ns > 0 and traced._replace(trace_ns=0) == CompileStats()
    f(tnp.ones((3, 3)))
    first = f.cache_info()
    assert first.last == first.total and first.last.trace_ns == traced.trace_ns
    assert min(first.last.lower_ns, first.last.compile_ns) > 0 and first.last.kernels == 2
    f(tnp.ones((4, 4)))
    second = f.cache_info()
    assert second.total.trace_ns == first.last.trace_ns + second.last.trace_ns
    assert second.total.kernels == 4


def test_objects_come_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "device", "cpu")
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(config, "disk_cache", True)

    def new() -> CompileStats:
        monkeypatch.setattr(registry, "DEVICES", {})
        run.clear_caches()
        f = tfn.jit(lambda x: tnp.sin(x) * 1.3984375)
        f(np.ones(1021, np.float32))
        return f.cache_info().last

    first, second = new(), new()
    assert first.compiled > 0 and first.from_disk == 0
    assert second.compiled == 0 and second.from_disk == first.compiled


def test_why_it_traced_again() -> None:
    @functools.partial(tfn.jit, static_argnames="n")
    def f(p: Any, n: int = 0) -> Any:
        return p

    f({"w": 1.0}, 3)
    f({"w": tnp.ones((2, 3))}, 3)
    assert f.cache_info().last_miss == "p['w']: f32[2,3] instead of f32[] (weak)"
    f({"w": tnp.ones((2, 3))}, 4)
    assert f.cache_info().last_miss == "static argument n: 4 instead of 3"
    f({"v": tnp.ones((2, 3))}, 4)
    assert "{'v': *}" in f.cache_info().last_miss


def test_static_arguments() -> None:
    f = Counted(lambda x, n, flag=False, *, mode="a": x * n if flag else (x, n, mode)[0])
    g = tfn.jit(f, static_argnums=(1,), static_argnames=("flag", "mode"))
    assert float(g(2.0, 3, flag=True)) == 6 and float(g(2.0, 3, True)) == 6
    g(5.0, 3, True)
    assert f.count == 2  # by position and by keyword
    g(2.0, 3.0, True)  # 3 == 3.0, but they are not the same
    g(2.0, n=3, flag=True, mode="b")
    assert f.count == 4
    assert float(tfn.jit(lambda n, x: x * n, static_argnums=-2)(3, 2.0)) == 6
    assert float(tfn.jit(lambda *args: args[1] * args[0], static_argnums=0)(3, 2.0)) == 6


def test_decorator_forms_and_methods() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @functools.partial(tfn.jit, static_argnums=0)
        def by_identity(self, x: Any) -> Any:
            return x * self.scale

        @tfn.jit(static_argnames=("self",))
        def by_name(self, x: Any) -> Any:
            """Documented."""
            return x * self.scale

    model = Model(3.0)
    assert float(model.by_identity(2.0)) == 6 and float(model.by_name(x=2.0)) == 6
    assert model.by_name.__doc__ == "Documented." and model.by_name.cache_info().entries == 1
    assert repr(Model.by_name) == "<jit of by_name>"
    assert float(tfn.jit(functools.partial(lambda a, b: a - b, b=1.0))(3.0)) == 2


def test_closures() -> None:
    weights = tnp.arange(3.0)
    f = tfn.jit(lambda x: x * weights)
    assert f(2.0).tolist() == [0, 2, 4]
    jaxpr = f.trace(2.0).jaxpr
    assert len(jaxpr.params) == 2  # the array is an operand, not a constant
    assert tfn.jit(lambda x: x * (weights + 1))(1.0).tolist() == [1, 2, 3]

    def outer(x: Any) -> Any:
        inner = tfn.jit(lambda y: x * y)
        first = inner(2.0)
        assert inner.cache_info().entries == 0  # it closed over a value of this trace
        return first

    assert float(tfn.grad(outer)(3.0)) == 2 and float(tfn.jit(outer)(3.0)) == 6
    assert tfn.vmap(outer)(tnp.arange(3.0)).tolist() == [0, 2, 4]


def test_nested_is_inlined_and_traced_once() -> None:
    inner = Counted(lambda x: tnp.sin(x))
    jitted = tfn.jit(inner)

    @tfn.jit
    def outer(x: Any) -> Any:
        return jitted(x) + jitted(x + 1)

    np.testing.assert_allclose(float(outer(0.5)), np.sin(0.5) + np.sin(1.5), rtol=1e-6)
    jitted(0.5), tfn.grad(jitted)(0.5)
    assert inner.count == 1
    assert "sin" in str(outer.trace(0.5).jaxpr)


def test_results_that_were_not_traced() -> None:
    constant = tnp.ones(2)
    f = tfn.jit(lambda x: (x, 1, 2.5, np.arange(2), constant, True, None))
    x, one, half, numbers, same, true, none = f(tnp.float32(3.0))
    assert all(isinstance(v, tfn.Array) for v in (x, one, half, numbers, same, true))
    assert one.weak_type and half.weak_type and not same.weak_type and not true.weak_type
    assert numbers.dtype == np.int64 and same.tolist() == [1, 1] and none is None
    assert float(x) == 3


def test_weak_types_are_kept() -> None:
    assert tfn.jit(lambda x: x * 2)(3.0).weak_type
    assert not tfn.jit(lambda x: x * 2)(tnp.float32(3.0)).weak_type
    assert tfn.jit(lambda x: x * 2)(3).dtype == np.int32


def test_donation() -> None:
    f = tfn.jit(lambda state, x: {"a": state["a"] + x}, donate_argnums=0)
    state, x = {"a": tnp.ones(3)}, tnp.ones(3)
    for _ in range(2):  # traced, then from the cache
        old, state = state, f(state, x)
        with pytest.raises(DeletedArrayError, match=r"deleted: f32\[3\]"):
            old["a"] + 1
    assert state["a"].tolist() == [3, 3, 3] and x.tolist() == [1, 1, 1]
    by_name = tfn.jit(lambda x, y: x + y, donate_argnames="y")
    by_name(x, y=state["a"])
    assert state["a"].is_deleted() and not x.is_deleted()
    kept = tnp.ones(3)
    assert tfn.grad(lambda s: f({"a": kept * s}, x)["a"].sum())(2.0) == 3
    assert tfn.jit(lambda s: f({"a": kept}, s)["a"])(x).tolist() == [2, 2, 2]
    assert not kept.is_deleted()  # inside a trace nothing is given away


def test_donated_arguments_that_no_result_can_replace_are_named() -> None:
    add = tfn.jit(lambda x, y: (x + y["w"].sum(), x * 2), donate_argnums=(0, 1))
    with pytest.warns(UserWarning, match=r"not usable: y\['w'\], f32\[3\]; z, ") as seen:
        tfn.jit(lambda x, y, z: x + y["w"].sum() + z, donate_argnums=(0, 1, 2))(
            tnp.ones(()), {"w": tnp.ones(3)}, tnp.ones(())
        )
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: y\['w'\]"):
        add(tnp.ones(()), {"w": tnp.ones(3)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add(tnp.ones(()), {"w": tnp.ones(3)})  # once for each trace
        inner = tfn.jit(lambda x: x.sum(), donate_argnums=0)
        assert tfn.jit(lambda x: inner(x))(tnp.ones(3)) == 3  # inside nothing is given away


def test_a_donated_cache_is_written_in_place() -> None:
    """Only the new rows are; a copy of what goes on is not made, unless somebody looks at it."""
    f = tfn.jit(lambda c, x, i: lax.dynamic_update_slice(c, x, (0, i, 0)), donate_argnums=0)
    c, x = tnp.zeros((4, 300, 64)), tnp.ones((4, 1, 64))
    want = np.zeros((4, 300, 64), np.float32)
    for i in (0, 7, 299):
        c, want[:, i] = f(c, x, i), 1
    np.testing.assert_array_equal(c, want)
    seen = np.asarray(c)
    new = f(c, x * 2, 7)
    assert seen[0, 7, 0] == 1 and new[0, 7, 0] == 2


def test_a_deleted_argument_is_refused() -> None:
    f = tfn.jit(lambda x: x, donate_argnums=0)
    x = tnp.ones(2)
    f(x)
    with pytest.raises(DeletedArrayError):
        f(x)


def test_shapes_without_data() -> None:
    f = (
        tfn.jit(lambda x, n: (x @ x.T, n), static_argnums=1)
        if False
        else tfn.jit(lambda x: x @ x.T)
    )
    found = f.eval_shape(tfn.ShapeDtypeStruct((3, 4), "float32"))
    assert found == tfn.ShapeDtypeStruct((3, 3), np.dtype("float32"))
    traced = f.trace(tnp.ones((3, 4)))
    assert traced.out_info == found and f.cache_info().entries == 1


def test_an_error_keeps_nothing() -> None:
    @tfn.jit
    def f(x: Any) -> Any:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        f(1.0)
    assert f.cache_info().entries == 0 and not tfn.trace.traces.running()


def test_leaks_are_found() -> None:
    kept: list[Any] = []
    tfn.jit(lambda x: kept.append(x))(1.0)
    with pytest.raises(UnexpectedTracerError, match="<lambda> had returned"):
        tfn.jit(lambda x: x)(kept[0])
    with pytest.raises(UnexpectedTracerError):
        tfn.jit(lambda: kept[0] + 1)()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: tfn.jit(lambda x, sizes: x, static_argnums=1)(1.0, [1, 2]),
            StaticArgumentError,
            "the static argument sizes of <lambda> cannot be hashed\n  got: list [1, 2]",
        ),
        (
            lambda: tfn.jit(lambda x, *, sizes: x, static_argnames="sizes")(1.0, sizes={}),
            StaticArgumentError,
            "the static argument sizes of <lambda> cannot be hashed\n  got: dict {}",
        ),
        (
            lambda: tfn.jit(lambda x: x, static_argnames="y"),
            ArgumentError,
            "<lambda> has no argument 'y'",
        ),
        (
            lambda: tfn.jit(lambda x: x, static_argnums=3),
            ArgumentError,
            "<lambda> has no argument 3",
        ),
        (
            lambda: tfn.jit(lambda x, config: x)(1.0, {"name": ["tanh"]}),
            ArgumentError,
            "config['name'][0] is not an array or a number\n  got: str 'tanh'",
        ),
        (
            lambda: tfn.jit(lambda x: {"out": [x, "text"]})(1.0),
            ArgumentError,
            "the result['out'][1] of <lambda> is not an array or a number\n  got: str 'text'",
        ),
        (
            lambda: tfn.jit(lambda n: tnp.zeros(3)[: int(n)])(2),
            ConcretizationTypeError,
            "int() is needed, but while <lambda> is being traced",
        ),
        (lambda: tfn.jit(3), ArgumentError, "jit needs a function\n  got: function=3"),
    ],
)
def test_errors(call: Any, error: type[TfnError], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_kinds_of_arguments_in_turn() -> None:
    """Whatever was called before, numbers, NumPy's arrays and trees find their own program."""
    f = tfn.jit(lambda x, y: x * y)
    x, n = tnp.arange(3.0), np.full(3, 2, np.float32)
    calls: list[tuple[Any, Any, list[float], bool]] = [
        (x, 0.5, [0, 0.5, 1], False),
        (x, n, [0, 2, 4], False),
        (0.5, True, [0.5] * 1, True),
        (x, 3, [0, 3, 6], False),
        (x, x, [0, 1, 4], False),
        (2.5, 2, [5.0], True),
        (n, tnp.int32(2), [4, 4, 4], False),
        (x, np.float64(2), [0, 2, 4], False),
    ]
    for _ in range(3):
        for a, b, expected, weak in calls:
            found = f(a, b)
            assert np.ravel(found).tolist() == expected and found.weak_type is weak
    g = tfn.jit(lambda p, s: (p["w"] * s, p), static_argnums=1)
    for _ in range(3):
        for s in (2, 3.5, 2):
            found, same = g({"w": x}, s)
            assert found.tolist() == [0, s, 2 * s] and same["w"].tolist() == x.tolist()
    with pytest.raises(ArgumentError, match="y is not an array"):
        f(x, "text")


# Memory.


def test_jit_keeps_arrays_only_while_it_lives() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1
        f = tfn.jit(lambda y: tnp.einsum("ij,kj->ik", y, c))
        f(x), f(x), f.lower(x).compile()(x)

    assert growth(step) == NONE


def test_the_cache_of_traces_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run.clear_caches()
    monkeypatch.setattr(config, "cache_limit_bytes", 1 << 20)
    f = tfn.jit(lambda x: x + 1)
    often = tnp.zeros(1)
    for n in range(2, 42):
        assert f(tnp.full(n, 2.0)).tolist() == [3.0] * n
        for _ in range(2):
            assert f(often).tolist() == [1.0]
    info = f.cache_info()
    assert info.misses == 41 and info.entries < 20
    assert 0 < info.last.size_bytes <= info.total.size_bytes <= 1 << 20
    assert run.cache_info().entries["traces"] >= info.entries
    f(tnp.zeros(2))
    assert f.cache_info().misses == 42


def test_direct_entries_are_restored_after_eviction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "device", "cpu")
    f, x = tfn.jit(lambda x: x - 1), tnp.ones(3)
    for _ in range(5):
        assert f(x).tolist() == [0, 0, 0] and len(f._direct) == 1
        cache.turn()
        assert not f._direct
    assert f.cache_info()[:2] == (1, 1)
    for _ in range(2):
        cache.turn()
    assert f(x).tolist() == [0, 0, 0]
    assert f.cache_info()[:3] == (1, 2, "it had not been used for long, and was dropped")


def test_static_and_named_arguments_have_direct_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each static value has its own; a call by any order of names finds it."""
    monkeypatch.setattr(config, "device", "cpu")
    f = tfn.jit(lambda x, n, y=1.0, *, scale=1: x * n + y * scale, static_argnames=("n", "scale"))
    x, y = tnp.full(3, 2.0, "float32"), tnp.full(3, 5.0, "float32")
    calls: list[tuple[tuple[Any, ...], dict[str, Any], float]] = [
        ((x, 3), {}, 7.0),
        ((x, 4), {}, 9.0),
        ((x, 3, y), {}, 11.0),
        ((x, 3), {"y": y, "scale": 2}, 16.0),
        ((x,), {"scale": 2, "y": y, "n": 3}, 16.0),
        ((), {"y": y, "n": 4, "x": x}, 13.0),
        ((x, True), {"y": y}, 7.0),
        ((x, 1), {"y": y}, 7.0),
    ]
    for _ in range(3):
        for args, kwargs, want in calls:
            assert f(*args, **kwargs).tolist() == [want] * 3
    assert f.cache_info().misses == len(calls)
    assert len(f._direct_by) == len(calls) and not f._direct
    with monkeypatch.context() as patched:
        patched.setattr(f, "_call", None)  # all of these are found without the general call
        for args, kwargs, want in calls:
            assert f(*args, **kwargs).tolist() == [want] * 3
        assert f(x, 3, np.full(3, 5.0, np.float32)).tolist() == [11.0] * 3
        assert f(x, n=3, y=y, scale=2).tolist() == [16.0] * 3
        assert f(x=x, n=4, y=y).tolist() == [13.0] * 3
    cache.turn()
    assert not f._direct_by
    assert f(x, 3).tolist() == [7.0] * 3 and len(f._direct_by) == 1


def test_numbers_and_arrays_of_numpy_have_direct_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a batch too: with many parameters the general call takes a millisecond."""
    monkeypatch.setattr(config, "device", "cpu")
    f = tfn.jit(lambda w, batch, rate: w["a"] * batch["x"][0] * batch["n"] + rate)
    w, x = {"a": tnp.full(3, 2.0, "float32")}, np.full(3, 5.0, np.float32)
    calls = [
        (w, {"x": (x, x), "n": 3}, np.float32(1)),
        (w, {"x": (x, x), "n": np.int8(3)}, 1.0),
        (w, {"x": (tnp.array(x), x), "n": tnp.int32(3)}, np.array(1.0, np.float32)),
    ]
    for args in calls:
        assert f(*args).tolist() == [31.0] * 3
    monkeypatch.setattr(f, "_call", None)
    for args in calls:
        assert f(*args).tolist() == [31.0] * 3


def test_donated_named_arguments_are_donated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "device", "cpu")
    f = tfn.jit(lambda x, y: x + y, donate_argnames="y")
    x = tnp.ones(3)
    for _ in range(3):
        y = tnp.full(3, 2.0)
        assert f(x, y=y).tolist() == [3.0] * 3
        assert y.is_deleted() and not x.is_deleted()
