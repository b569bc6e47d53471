"""Residuals: the arrays between forward and backward pass, with their origins."""

import tfn
import tfn.numpy as tnp
from tfn.inspect.residuals import print_saved_residuals, saved_residuals


def layer(p, x):
    return tnp.exp(tnp.sin(p["w"] @ x)).sum()


P = {"w": tnp.ones((3, 3))}


def test_residuals_are_named_by_argument_operation_and_line():
    found = dict.fromkeys(saved_residuals(layer, P, tnp.ones(3)))
    origins = [origin for _, origin in found]
    assert "from the argument p['w']" in origins and "from the argument x" in origins
    assert any(o.startswith("output of cos, test_residuals.py:") for o in origins)


def test_checkpoint_keeps_arguments_alone():
    found = saved_residuals(tfn.checkpoint(layer), P, tfn.ShapeDtypeStruct((3,), "float32"))
    assert sorted(found) == [
        ("f32[3,3]", "from the argument p['w']"),
        ("f32[3]", "from the argument x"),
    ]


def test_they_are_printed_a_line_each(capsys):
    print_saved_residuals(lambda *xs: (xs[0] * xs[1]).sum(), tnp.ones(2), tnp.ones(2))
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [f"f32[2] from the argument args[{i}]" for i in (0, 1)]
