"""User-defined derivatives: `custom_jvp`, `custom_vjp` and their parts, under JAX's names.

custom_jvp, custom_vjp, custom_gradient    functions that bring their derivatives
closure_convert                            what a function closes over, as arguments
linear_call                                a linear function and its transpose
SymbolicZero, CustomVJPPrimal              what rules get with ``symbolic_zeros=True``
"""

from tfn.transforms.closure import closure_convert as closure_convert
from tfn.transforms.closure import custom_gradient as custom_gradient
from tfn.transforms.closure import linear_call as linear_call
from tfn.transforms.custom_jvp import custom_jvp as custom_jvp
from tfn.transforms.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from tfn.transforms.custom_vjp import custom_vjp as custom_vjp
from tfn.transforms.tangents import SymbolicZero as SymbolicZero
