"""Functions with parameters given."""

from tfn.compat.linear_util import WrappedFun, wrap_init


def test_parameters_are_given_with_the_arguments():
    f = wrap_init(lambda x, by: x * by, {"by": 3}, debug_info="f")
    assert isinstance(f, WrappedFun) and f.call_wrapped(2) == 6
    assert wrap_init(max).call_wrapped(1, 2) == 2
