"""The names of groups of checks, in the order in which they begin."""

NAMES = (
    "facts",
    "driver",
    "elements 0",
    "elements 1",
    "elements 2",
    "elements 3",
    "kernels 0",
    "kernels 1",
    "graphs",
    "jax",
    "hlo",
    "golden",
    "random 0",
    "random 1",
    "faults",
    "cancel",
    "libraries",
    "plans",
    "again",
    "conformance",
)
