"""Initial value problems: Hairer's beside SciPy, events, times, derivatives, failures."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.integrate

import tfn
import tfn.numpy as tnp
from tests.covering import covering, in_turn
from tfn.errors import TfnError
from tfn.scipy.integrate import solve_ivp
from tfn.scipy.integrate.initial_value import METHODS


def van_der_pol(y):
    return [y[1], 1e3 * (1 - y[0] ** 2) * y[1] - y[0]]


def robertson(y):
    a, b, c = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return [b - a, a - b - c, c]


def hires(y):
    a = 280 * y[5] * y[7]
    return [
        -1.71 * y[0] + 0.43 * y[1] + 8.32 * y[2] + 0.0007,
        1.71 * y[0] - 8.75 * y[1],
        -10.03 * y[2] + 0.43 * y[3] + 0.035 * y[4],
        8.32 * y[1] + 1.71 * y[2] - 1.12 * y[3],
        -1.745 * y[4] + 0.43 * y[5] + 0.43 * y[6],
        -a + 0.69 * y[3] + 1.71 * y[4] - 0.43 * y[5] + 0.69 * y[6],
        a - 1.81 * y[6],
        1.81 * y[6] - a,
    ]


def oregonator(y):
    return [
        77.27 * (y[1] + y[0] * (1 - 8.375e-6 * y[0] - y[1])),
        (y[2] - (1 + y[0]) * y[1]) / 77.27,
        0.161 * (y[0] - y[2]),
    ]


def brusselator(y):
    return [1 + y[0] ** 2 * y[1] - 4 * y[0], 3 * y[0] - y[0] ** 2 * y[1]]


def hunters(y):
    return [1.5 * y[0] - y[0] * y[1], y[0] * y[1] - 3 * y[1]]


TOLERANCES = {"rtol": 1e-5, "atol": 1e-8}


class Problem(NamedTuple):
    """An equation, its start and its end; what SciPy 1.17 has, by its own evaluations.

    `last` is the solution at the end, by Radau with a tolerance of 1e-12; `theirs` are the error
    with `TOLERANCES`, in units of what they allow, and the number of evaluations.
    """

    fun: Any
    start: Any
    end: float
    last: Any
    theirs: Any


# Source: E. Hairer, G. Wanner, Solving ordinary differential equations II, section IV.10, and I,
# section II.4 for the Brusselator.
# fmt: off
PROBLEMS = {
    "van der pol": Problem(
        van_der_pol, [2, 0], 1000, [-1.86364625481, 0.000753543086544],
        {"Radau": (0.0041, 2373), "BDF": (1.5, 1342)},
    ),
    "robertson": Problem(
        robertson, [1, 0, 0], 1e4, [0.107300428538, 4.80016697258e-07, 0.892699091445],
        {"Radau": (0.044, 681), "BDF": (4.2, 523)},
    ),
    "hires": Problem(
        hires, [1, 0, 0, 0, 0, 0, 0, 0.0057], 321.8122,
        [0.000737131257333, 0.000144248572632, 5.88872974097e-05, 0.00117565134328,
         0.00238635619883, 0.00623896825274, 0.00284999839518, 0.00285000160482],
        {"Radau": (0.033, 1121), "BDF": (19.0, 568)},
    ),
    "oregonator": Problem(
        oregonator, [1, 2, 3], 100, [1.00244996617, 409.165130437, 1.13416611916],
        {"Radau": (0.0087, 2978), "BDF": (3.6, 1539)},
    ),
    "brusselator": Problem(
        brusselator, [1.5, 3], 20, [0.498637071268, 4.59678034945],
        {"Radau": (0.011, 1668), "BDF": (19.0, 911), "RK23": (16.0, 1106),
         "RK45": (2.8, 698), "DOP853": (0.15, 725)},
    ),
    "hunters": Problem(
        hunters, [10, 5], 10, [0.287212964202, 0.449777463506],
        {"Radau": (0.17, 2003), "BDF": (47.0, 962), "RK23": (56.0, 1673),
         "RK45": (29.0, 662), "DOP853": (1.4, 653)},
    ),
}
# fmt: on
STIFF = list(PROBLEMS)[:4]


def check(name, method):
    problem = PROBLEMS[name]
    times = np.array([problem.end / 2, problem.end])
    slope = lambda t, y: tnp.stack(problem.fun(y))
    ends = (0.0, problem.end)
    solve = tfn.jit(lambda y: solve_ivp(slope, ends, y, method, times, **TOLERANCES))
    ours = solve(np.float64(problem.start))
    last = np.array(problem.last)
    allowed = TOLERANCES["atol"] + TOLERANCES["rtol"] * abs(last)
    error = (abs(np.asarray(ours.y)[:, -1] - last) / allowed).max()
    theirs, calls = problem.theirs[method]
    assert ours.success and ours.status == 0 and ours.y.dtype == np.float64
    assert error <= 10 * max(theirs, 1) and ours.nfev < 1.3 * calls
    if method in ("RK23", "RK45"):  # the same steps
        assert ours.nfev == calls
        np.testing.assert_allclose(error, theirs, rtol=0.05)


@pytest.mark.usefixtures("compiled")
@covering("name, method", in_turn(2, STIFF), ["Radau", "BDF"])
def test_stiff_problems_beside_scipy(name, method):
    check(name, method)


@pytest.mark.usefixtures("compiled")
@covering("name, method", in_turn(2, ["brusselator", "hunters"]), in_turn(2, METHODS))
def test_all_methods_beside_scipy(name, method):
    check(name, method)


@pytest.mark.parametrize("method", METHODS)
def test_the_steps_and_the_solution_between_them(method):
    end = np.array(-3.0)
    ours = solve_ivp(lambda t, y: -y + t, (0.0, end), np.float64([1]), method, dense_output=True)
    theirs = scipy.integrate.solve_ivp(lambda t, y: -y + t, (0, -3), [1], method, dense_output=True)
    assert ours.t[0] == 0 and ours.t[-1] == -3 and (np.diff(ours.t) < 0).all()
    assert abs(ours.t.size - theirs.t.size) <= 0.2 * theirs.t.size + 1
    np.testing.assert_allclose(ours.sol(ours.t), ours.y, rtol=1e-6)
    times = np.linspace(0, -3, 11)
    np.testing.assert_allclose(ours.sol(times), theirs.sol(times), rtol=0.02)
    assert ours.sol(times[3]).shape == (1,) and ours.y.shape == (1, ours.t.size)


def fall(t, y):
    return tnp.stack([y[1], -9.81 + 0 * y[1]])


def ground(t, y):
    return y[0]


def apex(t, y):
    return y[1]


ground.terminal, ground.direction = True, -1


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_events_are_found_and_end_the_solution(method):
    found = solve_ivp(fall, (0.0, 100.0), np.float64([0.0, 10.0]), method, events=[ground, apex])
    assert found.status == 1 and found.success
    np.testing.assert_allclose(found.t_events[0], [20 / 9.81], rtol=1e-9)
    np.testing.assert_allclose(found.t_events[1], [10 / 9.81], rtol=1e-9)
    np.testing.assert_allclose(found.y_events[0], [[0, -10]], atol=1e-6)
    np.testing.assert_allclose([found.t[-1], found.y[1, -1]], [20 / 9.81, -10], rtol=1e-6)


def test_each_crossing_counts_in_its_direction():
    wave = lambda t, y: tnp.stack([y[1], -y[0]])
    up, third = (lambda t, y: y[0] - 0.5), (lambda t, y: y[0] - 0.5)
    up.direction, third.terminal = 1, 3
    start = np.float64([0.0, 1.0])
    found = solve_ivp(wave, (0.0, 20.0), start, events=(up, third), rtol=1e-6, atol=1e-9)
    turns = np.pi * np.float64([1, 5, 13]) / 6
    np.testing.assert_allclose(found.t_events[0], turns[::2], rtol=1e-4)
    np.testing.assert_allclose(found.t_events[1], turns, rtol=1e-4)
    assert found.status == 1
    none = solve_ivp(wave, (0.0, 1.0), np.float64([1.0, 0.0]), events=up)
    assert none.status == 0 and none.t_events[0].size == 0 and none.y_events[0].shape == (0, 2)


def test_the_time_of_an_event_has_a_derivative():
    def flight(speed):
        start = tnp.stack([0 * speed, speed])
        return solve_ivp(fall, (0.0, 100.0), start, events=ground, max_steps=32).t_events[0][0]

    for derivative in (tfn.jacfwd, tfn.jacrev):
        slope = derivative(tfn.jit(flight))(np.array(10.0))
        np.testing.assert_allclose(slope, 2 / 9.81, rtol=1e-6)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("method", in_turn(4, METHODS))
def test_derivatives_by_starts_arguments_and_times(method):
    def last(y0, k, begin, end):
        found = solve_ivp(
            lambda t, y, k: -k * y + tnp.sin(t), (begin, end), y0[None], method,
            tnp.stack([(begin + end) / 2, end]), args=(k,), rtol=1e-6, atol=1e-8, max_steps=256,
        )  # fmt: skip
        return found.y[0, -1]

    point = [np.array(x) for x in (1.5, 0.7, 0.3, 2.0)]

    def exact(y0, k, begin, end):
        rest = lambda t: (k * np.sin(t) - np.cos(t)) / (1 + k * k)
        return (y0 - rest(begin)) * np.exp(-k * (end - begin)) + rest(end)

    np.testing.assert_allclose(last(*point), exact(*point), rtol=1e-5)
    steps = np.eye(4) * 1e-6
    wanted = [(exact(*(point + d)) - exact(*(point - d))) / 2e-6 for d in steps]
    derivatives = [tfn.jacfwd] if method in ("RK23", "DOP853", "BDF") else [tfn.jacrev]
    for derivative in derivatives:
        found = tfn.jit(derivative(last, (0, 1, 2, 3)))(*point)
        np.testing.assert_allclose(np.stack(found), wanted, rtol=3e-4)


def test_starts_are_batched():
    slope = lambda t, y: tnp.stack(hunters(y))
    solve = lambda y0: solve_ivp(slope, (0.0, 0.2), y0, t_eval=np.float64([0.2])).y
    starts = np.float64([[10, 5], [1, 1], [3, 20]])
    found = tfn.jit(tfn.vmap(solve))(starts)
    for one, start in zip(found, starts, strict=True):
        np.testing.assert_allclose(one, solve(start), rtol=1e-6)


def test_sizes_within_jit_are_those_of_the_bounds():
    def solve(y0):
        options = {"max_steps": 50, "max_events": 4, "dense_output": True}
        return solve_ivp(fall, (0.0, 9.0), y0, events=[ground, apex], **options)

    known, found = solve(np.float64([0, 10])), tfn.jit(solve)(np.float64([0, 10]))
    assert found.t.shape == (51,) and found.y.shape == (2, 51)
    assert found.t_events[1].shape == (4,)
    n = known.t.size
    np.testing.assert_allclose(found.t[:n], known.t)
    assert np.isnan(found.t[n:]).all() and np.isnan(found.t_events[0][1:]).all()
    np.testing.assert_allclose(found.sol(1.0), known.sol(1.0))


def test_complex_solutions_turn():
    found = solve_ivp(lambda t, y: 1j * y, (0.0, np.pi), np.array([1 + 0j]), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.y[0, -1], -1, atol=1e-5)


def test_failures_are_told():
    steep = solve_ivp(lambda t, y: y * y, (0.0, 2.0), np.float64([1.0]))
    assert steep.status == -1 and not steep.success and abs(steep.t[-1] - 1) < 1e-2
    few = solve_ivp(fall, (0.0, 9.0), np.float64([0, 10]), max_steps=3, max_step=0.01)
    assert few.status == -1 and few.t.size == 4
    late = solve_ivp(
        lambda t, y: y * y, (0.0, 2.0), np.float64([1.0]), t_eval=np.float64([0.5, 1.5])
    )
    assert late.t.tolist() == [0.5] and late.y.shape == (1, 1)


def test_a_span_of_no_length_is_the_start():
    found = solve_ivp(fall, (1.0, 1.0), np.float64([0, 10]))
    assert found.success and found.t.tolist() == [1] and found.y[:, 0].tolist() == [0, 10]


def test_options_of_steps_and_jacobian_matrices():
    matrix = np.float64([[-1, 0], [0, -1e4]])
    for jac in (matrix, lambda t, y: matrix):
        found = solve_ivp(
            lambda t, y: matrix @ y, (0.0, 1.0), np.ones(2), "BDF", jac=jac, max_step=0.2,
            first_step=1e-6, atol=np.float64([1e-6, 1e-3]),
        )  # fmt: skip
        assert found.success and abs(np.diff(found.t)).max() <= 0.2 + 1e-12
        np.testing.assert_allclose(found.t[1], 1e-6, rtol=1e-6)


WRONG = [
    lambda: solve_ivp(fall, (0.0, 1.0), np.ones(2), "LSODA"),
    lambda: solve_ivp(fall, (0.0, 1.0), np.ones((2, 1))),
    lambda: solve_ivp(fall, (0.0, 1.0), np.ones(2, int)),
    lambda: solve_ivp(fall, (0.0, 1.0), np.ones(2, complex), "BDF"),
    lambda: solve_ivp(lambda t, y: y[:1], (0.0, 1.0), np.ones(2)),
    lambda: solve_ivp(fall, (0.0, 1.0), np.ones(2), t_eval=np.ones((2, 2))),
]


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls(call):
    with pytest.raises(TfnError):
        call()
