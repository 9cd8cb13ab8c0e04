"""A compiled platform whose kernels are run by Python: the executable definition of the loop IR."""
