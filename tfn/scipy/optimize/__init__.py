"""Minima, roots and fits, in the manner of `scipy.optimize`.  Files in reading order:

minimization     `minimize` by BFGS and by L-BFGS
trust_region     the steps of `least_squares`, by singular values, reflected at bounds
residuals        `least_squares` and `curve_fit`
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.optimize.minimization import METHODS as METHODS
    from tfn.scipy.optimize.minimization import OptimizeResults as OptimizeResults
    from tfn.scipy.optimize.minimization import minimize as minimize
    from tfn.scipy.optimize.residuals import LeastSquaresResults as LeastSquaresResults
    from tfn.scipy.optimize.residuals import curve_fit as curve_fit
    from tfn.scipy.optimize.residuals import least_squares as least_squares
