"""Minima, roots and fits, in the manner of `scipy.optimize`.  Files in reading order:

minimization     `minimize`, by BFGS and other methods
constraints      `minimize` within bounds and under constraints
trust_region     the steps of `least_squares`, by singular values, reflected at bounds
residuals        `least_squares` and `curve_fit`
nonnegative      `nnls`; `linear_sum_assignment`
systems          `root`, of as many equations as variables
scalar_roots     `root_scalar`, `brentq`, `bisect`, `newton`, of functions of one number
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.optimize.minimization import METHODS as METHODS
    from tfn.scipy.optimize.minimization import OptimizeResults as OptimizeResults
    from tfn.scipy.optimize.minimization import minimize as minimize
    from tfn.scipy.optimize.nonnegative import linear_sum_assignment as linear_sum_assignment
    from tfn.scipy.optimize.nonnegative import nnls as nnls
    from tfn.scipy.optimize.residuals import LeastSquaresResults as LeastSquaresResults
    from tfn.scipy.optimize.residuals import curve_fit as curve_fit
    from tfn.scipy.optimize.residuals import least_squares as least_squares
    from tfn.scipy.optimize.scalar_roots import RootResults as RootResults
    from tfn.scipy.optimize.scalar_roots import bisect as bisect
    from tfn.scipy.optimize.scalar_roots import brentq as brentq
    from tfn.scipy.optimize.scalar_roots import newton as newton
    from tfn.scipy.optimize.scalar_roots import root_scalar as root_scalar
    from tfn.scipy.optimize.systems import RootsResults as RootsResults
    from tfn.scipy.optimize.systems import root as root
