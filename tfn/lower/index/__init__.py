"""Integer analysis of index arithmetic.

Files in reading order:
    dependence  which ranges a value depends on
    intervals   interval analysis: bounds of integers
    affine      an index as a sum of coefficients times terms
    laws        algebraic laws of indices, predicates and values, each proved by z3
    divmod      laws and folds of division and remainder by constants
    solver      questions that intervals leave open, asked of z3
"""
