"""Integrals and differential equations, in the manner of `scipy.integrate`.

Files in reading order:

samples        integrals of samples
quadrature     `quad`, with ends that may be infinite or singular, and `cubature`
step_control   lengths of steps by estimates of their errors
dormand_prince_8  coefficients of a method of order 8
runge_kutta    explicit steps by tables of coefficients
implicit       steps for stiff equations: Radau IIA, differences backwards
solutions      records of solutions, and polynomials between steps
initial_value  `solve_ivp`: one loop over steps of any method, with events
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.integrate.initial_value import solve_ivp as solve_ivp
    from tfn.scipy.integrate.quadrature import CubatureResult as CubatureResult
    from tfn.scipy.integrate.quadrature import cubature as cubature
    from tfn.scipy.integrate.quadrature import quad as quad
    from tfn.scipy.integrate.samples import trapezoid as trapezoid
    from tfn.scipy.integrate.solutions import OdeResult as OdeResult
    from tfn.scipy.integrate.solutions import OdeSolution as OdeSolution
