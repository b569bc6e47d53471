"""Data of the viewer: kernels with their lines, reasons, texts, and the arena."""

from __future__ import annotations

from typing import Any

import pytest

import tfn
from tests.inspect.viewer.programs import TARGET, floats, layer, layer_data, rnn_data, seen
from tfn import numpy as jnp
from tfn.inspect.show import View
from tfn.inspect.viewer.collect import collect
from tfn.lower import pipeline
from tfn.trace import source_lines


def kernels(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in data["kernels"] if "body" in row]


def test_kernels_are_those_of_the_program() -> None:
    data = layer_data().data
    view = View(tfn.jit(layer).trace(floats(64, 128), floats(128, 256)).jaxpr, TARGET)
    names = {kernel.name for kernel in view.program.kernels}
    assert {data["bodies"][row["body"]]["name"] for row in kernels(data)} == names
    assert data["totals"]["flops"] == view.cost["flops"]
    assert data["totals"]["ns"] == view.program.work_ns


def test_each_kernel_has_its_reasons_and_its_lines() -> None:
    collected = layer_data()
    data = collected.data
    text = {number: line for file in data["files"] for number, line in file["lines"]}
    lines = [text[number].strip() for _, number in data["lines"]]
    assert sorted(lines) == sorted(
        ["y = x @ w", "z = jnp.tanh(y)", "return z / z.sum(axis=1, keepdims=True)"]
    )
    for row in kernels(data):
        assert row["reasons"] and all(reason for _, _, reason, *_ in row["reasons"])
        assert sum(row["shares"]) == pytest.approx(1.0, abs=1e-3)
    product = next(row for row in kernels(data) if "dot_general" in row["title"])
    assert "y = x @ w" in {lines[i] for i in product["lines"]}


def test_each_boundary_has_both_costs() -> None:
    data = layer_data().data
    product = next(row for row in kernels(data) if "dot_general" in row["title"])
    (_, _, _, readers, stored_ns, recomputed_ns, times) = product["reasons"][0]
    assert readers == 1 and stored_ns > 0
    # The reader adds up rows of 256 numbers, and reads each number once more to divide it.
    assert times == 257
    assert recomputed_ns == round(256 * data["bodies"][product["body"]]["ns"])


def test_the_backward_pass_has_the_lines_of_the_forward_pass() -> None:
    def loss(ws: Any, x: Any) -> Any:
        for w in ws:
            x = tfn.nn.gelu(tfn.nn.softmax(x @ w))
        return (x**2).mean()

    def step(ws: Any, x: Any) -> Any:
        return tfn.value_and_grad(loss)(ws, x)

    data = seen(step, [floats(64, 64)] * 3, floats(128, 64)).data
    text = {number: line for file in data["files"] for number, line in file["lines"]}
    ns: dict[str, float] = {}
    for row in kernels(data):
        for line, share in zip(row["lines"], row["shares"], strict=True):
            where = text[data["lines"][line][1]].strip()
            ns[where] = ns.get(where, 0.0) + share * data["bodies"][row["body"]]["ns"]
    assert ns["x = tfn.nn.gelu(tfn.nn.softmax(x @ w))"] > 0.8 * sum(ns.values())


def test_the_line_of_a_product_has_most_of_its_kernel() -> None:
    data = layer_data().data
    product = next(row for row in kernels(data) if "dot_general" in row["title"])
    text = {number: line for file in data["files"] for number, line in file["lines"]}
    heaviest = product["lines"][product["shares"].index(max(product["shares"]))]
    assert text[data["lines"][heaviest][1]].strip() == "y = x @ w"


def test_long_texts_are_of_every_stage() -> None:
    collected = layer_data()
    for body, texts in zip(collected.data["bodies"], collected.texts):
        assert texts["llvm"].startswith("define void @" + body["name"])
        assert body["counts"]["machine"] > 10 and body["counts"]["llvm"] > 10
        assert body["name"] in texts["assembly"] and texts["linear"] and texts["splits"]
    assert "define void @p" in collected.texts[-1]["driver"]


def test_decisions_name_their_opt_ops_and_costs() -> None:
    decisions = [row for body in layer_data().data["bodies"] for row in body["decisions"]]
    rules = {row["rule"] for row in decisions}
    assert {"vector-axis", "register-tile", "parallelise"} <= rules
    axis = next(row for row in decisions if row["rule"] == "vector-axis")
    assert axis["costs"][-1][0] == "no vectors, ns"
    assert any("parallel" in opt for row in decisions for opt in row["opts"])


def test_loops_count_their_trips() -> None:
    data = rnn_data().data
    (loop,) = [row for row in data["kernels"] if "region" in row]
    assert loop["op"] == "scan" and loop["region"].startswith("scan")
    inside = [row for row in kernels(data) if row["depth"] == 1]
    assert inside and all(row["trips"] == 10 for row in inside)


def test_values_of_the_arena_do_not_overlap_while_they_live() -> None:
    (arena,) = layer_data().data["memory"]
    assert arena["values"] and 0 < arena["peak"]["bytes"] <= arena["bytes"]
    for i, (_, size, offset, first, last, *_) in enumerate(arena["values"]):
        assert offset + size <= arena["bytes"]
        for _, size2, offset2, first2, last2, *_ in arena["values"][:i]:
            together = first <= last2 and first2 <= last
            assert not together or offset + size <= offset2 or offset2 + size2 <= offset


def test_values_of_the_arena_have_their_maker_and_their_last_reader() -> None:
    data = layer_data().data
    (arena,) = data["memory"]
    labels = [row["label"] for row in kernels(data)]
    for value, *_, maker, reader in arena["values"]:
        made = next(row for row in kernels(data) if row["label"] == maker)
        assert value in made["writes"]
        assert value in next(row for row in kernels(data) if row["label"] == reader)["reads"]
        assert labels.index(maker) < labels.index(reader)


def test_arguments_and_results_have_their_maker_and_their_last_reader() -> None:
    data = layer_data().data
    first, *_, last = kernels(data)
    outside = {row[2]: row for row in data["outside"]}
    assert list(outside) == ["argument 0", "argument 1", "result 0"]
    assert outside["argument 1"][1:2] + outside["argument 1"][4:] == [
        4 * 128 * 256,
        "the caller",
        first["label"],
    ]
    assert outside["result 0"][4:] == [last["label"], "the caller"]
    line = data["lines"][outside["result 0"][3]][1]
    text = {number: line for file in data["files"] for number, line in file["lines"]}
    assert text[line].strip() == "return z / z.sum(axis=1, keepdims=True)"
    unchanged = seen(lambda x, y: (y, x + 1), floats(3), floats(5)).data["outside"]
    assert [row[4:] for row in unchanged] == [
        ["the caller", "0"],
        ["the caller", "none"],
        ["the caller", "the caller"],
        ["0", "the caller"],
    ]


def test_the_whole_program_is_there_after_each_pass() -> None:
    collected = layer_data()
    names = [row["name"] for row in collected.data["passes"]]
    assert names[:3] == ["complex_pairs", "boundaries", "ranges"]
    assert names[3:] == ["decompose", "split", "linearize", "prefetch"]
    assert "dot_general" in collected.texts[-1]["boundaries"]
    last = collected.data["bodies"].index(
        next(body for body in collected.data["bodies"] if "tanh" in body["loops"])
    )
    assert "tanh" not in collected.texts[last]["decompose"]
    assert "# " in collected.texts[last]["splits"] and "store" in collected.texts[last]["linear"]


def test_recording_leaves_the_kernels_as_they_are() -> None:
    function = tfn.jit(layer).trace(floats(64, 128), floats(128, 256)).jaxpr
    before = pipeline.lower(function, TARGET).name
    data = seen(layer, floats(64, 128), floats(128, 256)).data
    assert pipeline.lower(function, TARGET).name == before
    assert {body["name"] for body in data["bodies"]} == {
        kernel.name for kernel in pipeline.lower(function, TARGET).kernels
    }


def test_sorts_branches_and_host_calls_have_rows() -> None:
    def mixed(i: Any, x: Any) -> Any:
        y = tfn.lax.switch(i, [jnp.sort, lambda x: x * 2], x)
        tfn.debug.callback(print, y)
        return jnp.cumsum(y)

    data = seen(mixed, tfn.ShapeDtypeStruct((), "int32"), floats(100)).data
    assert {"cond", "host"} <= {row["op"] for row in data["kernels"] if "region" in row}
    assert any("sort" in row["title"] for row in kernels(data))


def test_a_scatter_is_a_copy_and_the_updates() -> None:
    def added(x: Any, i: Any, y: Any) -> Any:
        return x.at[i].add(y)

    indices = tfn.ShapeDtypeStruct((50,), "int32")
    first, second = kernels(seen(added, floats(100), indices, floats(50)).data)
    assert (first["title"], first["flops"]) == ("copy", 0) and second["flops"] == 50
    assert "scatter" in second["title"] and first["label"] == second["label"]


def test_functions_without_work_are_shown() -> None:
    for function in (lambda x: x, lambda x: jnp.zeros(0)):
        assert kernels(seen(function, floats(3)).data) == []


def test_kernels_have_the_scope_of_most_of_their_work() -> None:
    def scoped(x: Any, w: Any) -> Any:
        with tfn.named_scope("net"), tfn.named_scope("product"):
            return x @ w

    with source_lines.tracking():
        view = View(tfn.jit(scoped).trace(floats(64, 128), floats(128, 256)).jaxpr, TARGET)
        data = collect("scoped", view, None).data
    assert {row["scope"] for row in data["kernels"]} == {"net/product"}
    assert {row["dtype"] for row in data["kernels"]} == {"float32"}
