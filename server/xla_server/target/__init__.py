"""The machine that programs are compiled for.

`Machine` has the processor's features, caches and cores; for GPUs it has a `Gpu` record, too.
`Tuning` and the other `*_tuning.py` have the tuning parameters, each with unit, reason and
measurement, derived from the machine if possible. `Capability` tells which operations have kernels.
`Target` is one record of the three, which passes, fusion and lowering take as an argument.
`available` has the memory and the cores of the host that this process may use. No other module
reads the host's processor.
"""
