"""Programs: Builder, Op and Computation, and what makes computations of functions and HLO.

No module here has a connection. `arguments.checked` holds public functions to their annotations.
"""
