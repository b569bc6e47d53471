"""Functions with parameters given."""

from tfn.compat.linear_util import WrappedFun, transformation, wrap_init


def test_parameters_are_given_with_the_arguments():
    f = wrap_init(lambda x, by: x * by, {"by": 3}, debug_info="f")
    assert isinstance(f, WrappedFun) and f.call_wrapped(2) == 6
    assert wrap_init(max).call_wrapped(1, 2) == 2


def test_a_generator_wraps_a_function():
    @transformation
    def shifted(by, x, **options):
        result = yield (x + by,), options
        yield result - by

    f = shifted(wrap_init(lambda x, scale: x * scale), 1)
    assert f.call_wrapped(2, scale=10) == 29
    assert shifted(f, 2).call_wrapped(0, scale=10) == 27
