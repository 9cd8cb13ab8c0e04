"""The machine that programs are compiled for.

`Machine` has the processor's features, caches and cores, and a `Gpu` for what processors lack.
`Tuning` and the other `*_tuning.py` have the numbers that code is tuned by, each with unit, reason
and measurement, derived from the machine where possible; `Capability` what there are kernels for.
`Target` is one record of the three, which passes, fusion and lowering take as an argument. No other
module reads the host's processor.
"""
