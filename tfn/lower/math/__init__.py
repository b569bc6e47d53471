"""Elementary functions, in terms of the operations that every target has.

Files in reading order:
    decompose              decomposition: the table of ops that become others
    floats                 building blocks: Horner's scheme, sums in two parts, bits of a float
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
    words                  functions without numbers of 64 bits
    missing_instructions   emulated instructions: rounding, ldexp and FMA
    complex_functions      complex elementary functions, by real and imaginary parts
"""
