"""Functions that other libraries call experimental; these are tested like all others.

sparse     sparse arrays: `BCOO` and functions of it, derivatives by its elements
taylor     coefficients of Taylor series through graphs
jet        `jet`: all derivatives along a curve
ode        `odeint`: ordinary differential equations
pallas     kernels over blocks of arrays: `pallas_call`
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.experimental import jet as jet
    from tfn.experimental import ode as ode
    from tfn.experimental import pallas as pallas
    from tfn.experimental import sparse as sparse
