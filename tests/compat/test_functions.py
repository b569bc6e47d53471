"""Functions over flat lists of leaves, and partial evaluation."""

import pytest

import tfn
import tfn.numpy as tnp
from tfn import tree
from tfn.compat import functions
from tfn.compat.avals import ShapedArray
from tfn.compat.functions import PartialVal, flatten_fun, flatten_fun_nokwargs
from tfn.compat.jaxprs import eval_jaxpr
from tfn.compat.linear_util import wrap_init
from tfn.errors import ArgumentError, UnexpectedTracerError


def test_functions_are_flattened():
    leaves, structure = tree.flatten((({"a": 1}, 2), {"k": 3}))
    flat, out = flatten_fun(wrap_init(lambda x, y, k: {"sum": x["a"] + y + k}), structure)
    with pytest.raises(UnexpectedTracerError, match="before it is known"):
        out()
    assert flat.call_wrapped(*leaves) == [6] and out() == tree.structure({"sum": 0})
    structure = tree.structure((1,))
    flat, out = flatten_fun_nokwargs(wrap_init(lambda x, by: [x, by], {"by": 4}), structure)
    assert flat.call_wrapped(3) == [3, 4]
    assert functions.safe_map(int, ["1"]) == [1]
    with pytest.raises(ArgumentError, match="one length"):
        functions.safe_map(max, [1], [1, 2])


def test_known_results_are_known():
    unknown = PartialVal.unknown(ShapedArray((), "float32"))
    f = wrap_init(lambda x, y: [x + y, tnp.asarray(y) * 2])
    jaxpr, results, consts = functions.trace_to_jaxpr_nounits(f, [unknown, PartialVal.known(3.0)])
    assert [r.is_known() for r in results] == [False, True]
    assert float(results[1].get_known()) == 6.0 and results[0].get_aval().shape == ()
    assert float(eval_jaxpr(jaxpr, consts, 1.0)[0]) == 4.0
    jaxpr, types, _ = functions.trace_to_jaxpr_dynamic(f, [unknown.aval, unknown.aval])
    assert [str(t) for t in types] == ["float32[]", "float32[]"] and len(jaxpr.invars) == 2


def test_running_traces():
    states, tops = [functions.get_opaque_trace_state()], []
    assert functions.trace_state_clean()

    @tfn.jit
    def f(x):
        states.append(functions.get_opaque_trace_state())
        tops.append((functions.find_top_trace([x, 1.0]), x.owner))
        return x

    f(1.0)
    assert states[0] == functions.get_opaque_trace_state() != states[1]
    assert tops[0][0] is tops[0][1] and functions.find_top_trace([tnp.ones(2)]) is None


def test_a_type_is_its_own_type():
    kind = functions.shaped_abstractify(tfn.ShapeDtypeStruct((2,), "int8"))
    assert (kind.shape, kind.dtype) == ((2,), "int8")
