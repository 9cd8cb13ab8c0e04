"""Elementary functions of complex numbers, which are computed in double precision.

Semantics: XLA's CPU backend, as the evaluators have it: the same special values, and errors of a
few ulp of the larger part, or of 1 if both are smaller.
"""
