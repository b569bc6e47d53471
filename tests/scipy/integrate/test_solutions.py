"""Polynomials between steps, and rows that are cut off."""

import numpy as np

import tfn
from tfn.scipy.integrate.solutions import OdeSolution, cut, polynomial

ROWS = np.float64([[[1], [2]], [[3], [4]]])  # 1 + 2 x, then 3 + 4 x, of parts x of steps
SOLUTION = OdeSolution(np.float64([0, 1, 3]), ROWS, np.array(1.0))


def test_each_time_has_the_polynomial_of_its_step():
    assert SOLUTION(np.float64([0, 0.5, 1, 2, 3])).tolist() == [[1, 2, 3, 5, 7]]
    assert SOLUTION(np.array(2.0)).tolist() == [5]
    assert SOLUTION(np.float64([-1, 4])).tolist() == [[-1, 9]]  # beyond the ends


def test_steps_behind_the_last_one_are_no_steps():
    ts = np.float64([0, 1, np.inf, np.inf])
    rows = np.concatenate([ROWS, np.full((1, 2, 1), np.nan)])
    assert OdeSolution(ts, rows, np.array(1.0))(np.float64([0.5, 5])).tolist() == [[2, 11]]
    back = OdeSolution(np.float64([3, 1, 0]), ROWS, np.array(-1.0))
    assert back(np.float64([3, 2, 0.5])).tolist() == [[1, 2, 5]]


def test_rows_are_cut_off_where_their_number_is_known():
    (few,) = cut(2, np.arange(4.0))
    assert few.tolist() == [0, 1]
    (all_of_them,) = tfn.jit(lambda n: cut(n, np.arange(4.0)))(2)
    np.testing.assert_array_equal(all_of_them, [0, 1, np.nan, np.nan])
    assert polynomial(np.float64([[1], [2], [3]]), np.array(2.0)).tolist() == [17]
