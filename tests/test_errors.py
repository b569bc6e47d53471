"""The four parts of a message, and what else its classes are."""

import re
import subprocess
import sys

import pytest

import tfn.errors as errors
import tfn.numpy as tnp
from tests.conftest import Golden
from tests.error_cases import CASES
from tests.wrong_calls import defects, error_of, groups, names


def test_a_message_has_four_parts():
    error = errors.ShapeError("a broke", got="b", hint="c", where="train.py:3  x @ w")
    assert str(error) == "a broke\n  got: b\n  at: train.py:3  x @ w\n  hint: c"
    assert (error.what, error.got, error.hint) == ("a broke", "b", "c")


def test_parts_that_are_empty_are_left_out():
    assert str(errors.TfnError("a broke", where="")) == "a broke"


def test_the_place_is_the_users_own_line():
    with pytest.raises(errors.ShapeError) as caught:
        tnp.ones((2, 3)) @ tnp.ones((2, 3))  # the line
    assert caught.value.where.startswith("test_errors.py:")
    assert caught.value.where.endswith("tnp.ones((2, 3)) @ tnp.ones((2, 3))  # the line")


@pytest.mark.parametrize(
    "error, also",
    [
        (errors.ShapeError, (TypeError, ValueError)),
        (errors.DTypeError, (TypeError, ValueError)),
        (errors.ArgumentError, (TypeError, ValueError)),
        (errors.AxisError, (TypeError, ValueError, IndexError)),
        (errors.AxisNameError, (errors.AxisError, NameError)),
        (errors.OutOfBoundsError, (ValueError, IndexError)),
        (errors.TreeError, ValueError),
        (errors.UnexpectedTracerError, TypeError),
        (errors.TracerBoolConversionError, errors.ConcretizationTypeError),
        (errors.NonConcreteBooleanIndexError, IndexError),
        (errors.DeviceError, (RuntimeError, ValueError)),
        (errors.OutOfMemoryError, MemoryError),
        (errors.ImmutableError, (TypeError, AttributeError)),
    ],
)
def test_classes_are_also_those_that_python_would_raise(error, also):
    for base in also if isinstance(also, tuple) else (also,):
        assert issubclass(error, base)
    assert issubclass(error, errors.TfnError)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_error_messages(case, golden: Golden):
    with pytest.raises(errors.TfnError) as caught:
        case()
    error = caught.value
    text = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    golden(f"errors/{case.__name__}.txt", re.sub(r"error_cases\.py:\d+", "error_cases.py", text))


def test_wrong_calls_are_told_what_where_and_what_to_do(golden: Golden):
    scope = names()
    text: list[str] = []
    wrong: list[str] = []
    calls = 0
    for head, rows in groups():
        text += ["", head]
        for call, expected in rows:
            error = error_of(call, scope)
            wrong += [f"{call}: {defect}" for defect in defects(call, expected, error)]
            lines = [line for line in str(error).splitlines() if not line.startswith("  at: ")]
            text += ["", call, f"  {type(error).__name__}: {lines[0]}", *lines[1:]]
            calls += 1
    assert not wrong, "\n".join(wrong)
    assert calls >= 400
    here = re.compile(r"(?<=machine of )[\d,]+|(?<=limit of )[\d,]+|(?<= at 0x)\w+")
    golden("wrong_calls.txt", here.sub("N", "\n".join(text).lstrip()))  # of this machine


def printed(code: str) -> str:
    """What Python prints when a program ends with an error."""
    command = [sys.executable, "-c", "import tfn, tfn.numpy as tnp\n" + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stderr


def test_only_frames_of_the_user_are_printed():
    text = printed("tfn.jit(tfn.grad(lambda x: (x @ x).sum()))(tnp.ones((2, 3)))")
    assert re.findall(r'File "(.*?)", line \d+, in (\S+)', text) == [
        ("<string>", "<module>"),
        ("<string>", "<lambda>"),
    ]
    assert "tfn.errors.ShapeError: matmul needs axis 1" in text and "while: jit traced" in text


def test_errors_of_others_within_a_traced_function_are_printed_so_too():
    text = printed("tfn.jit(lambda x: {}['a'])(1.0)")
    assert "KeyError: 'a'" in text and "jit.py" not in text


def test_our_own_mistakes_keep_all_frames():
    text = printed("tfn.lax.sin(None, None)\n")
    assert "TypeError" in text
    text = printed("from tfn.eager import registry\nx = tnp.ones(2)\nregistry.device = None\nx + x")
    assert "run.py" in text


def test_the_way_of_printing_can_be_undone():
    text = printed("import sys\nsys.excepthook = sys.__excepthook__\ntnp.ones(2) + tnp.ones(3)")
    assert "operands.py" in text


def test_a_leaked_value_tells_which_line_made_it():
    leaky = next(case for case in CASES if case.__name__ == "unexpected_tracer")
    with pytest.raises(errors.UnexpectedTracerError, match=r"made at .*kept\.append\(x \* 2\)"):
        leaky()
