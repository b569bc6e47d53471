"""Interpolation, in the manner of `scipy.interpolate`.  Files in reading order:

grids      functions on grids, linear or nearest
piecewise  piecewise polynomials of one number: cubic splines, PCHIP, Akima's
radial     functions of distances from scattered points
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.interpolate.grids import RegularGridInterpolator as RegularGridInterpolator
    from tfn.scipy.interpolate.piecewise import Akima1DInterpolator as Akima1DInterpolator
    from tfn.scipy.interpolate.piecewise import CubicHermiteSpline as CubicHermiteSpline
    from tfn.scipy.interpolate.piecewise import CubicSpline as CubicSpline
    from tfn.scipy.interpolate.piecewise import PchipInterpolator as PchipInterpolator
    from tfn.scipy.interpolate.piecewise import PPoly as PPoly
    from tfn.scipy.interpolate.radial import RBFInterpolator as RBFInterpolator
