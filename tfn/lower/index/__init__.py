"""Integer analysis and algebraic simplification of index arithmetic.

Files in reading order:
    dependence  dependence analysis: the ranges that a value depends on
    intervals   interval analysis: bounds of integers, and whether arithmetic wraps around
    affine      affine forms: an index as a sum of coefficients times terms
    divmod      division and remainder by constants, which reshapes leave behind
    laws        algebraic laws as a table, each proved by z3
    predicates  conjunctions of bounds, and the intervals that they imply
    folds       simplifications that compute something: constants, comparisons, casts
    simplify    the simplifier: folds and laws applied until none applies
    solver      SMT solver: conditions that intervals cannot decide, given to z3
"""
