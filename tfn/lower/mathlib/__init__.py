"""Elementary functions from the operations that every processor has; in reading order:

floats         constants, chains of FMA, the bits of a float
exponential    exp, exp2, expm1
logarithm      log, log2, log1p
hyperbolic     sinh, cosh, tanh, logistic, asinh, acosh, atanh
reduction      an angle as a multiple of pi / 2 and a rest
trigonometric  sin, cos, tan
inverse        asin, acos, atan, atan2
power          pow, cbrt
remainder      modulo of floats
erf            erf, erfc, erf_inv
gamma          lgamma, digamma
lacking        floor, ceil, round and fma, for processors without

Every function takes float32 or float64 nodes of any shape and gives nodes over NEG, ABS, FLOOR,
ROUND, SQRT, ADD, SUB, MUL, DIV, FMA, MAX, MIN, bit operations, comparisons, WHERE, CAST, BITCAST
and constants: no branches, no tables, no calls.  The whole range is covered: signed zeros,
denormal numbers, infinities, NaN.
"""
