"""Elementary functions, in terms of the operations that every target has.

Files in reading order:
    decompose              the table DECOMPOSE: ops that a target lacks, rewritten
    floats                 building blocks: constants, FMA chains, bits of a float
    exponential            exp, exp2, expm1
    logarithm              log, log2, log1p
    power                  pow, cbrt
    angle_reduction        argument reduction modulo pi / 2 (Payne-Hanek)
    trigonometric          sin, cos, tan
    inverse_trigonometric  asin, acos, atan, atan2
    hyperbolic             sinh, cosh, tanh, logistic and their inverses
    erf                    erf, erfc, erf_inv
    gamma                  lgamma, digamma
    remainder              exact floating-point remainder
    missing_instructions   rounding, ldexp and FMA for targets without the instruction
    complex_functions      functions of complex numbers, by their real and imaginary parts
"""
