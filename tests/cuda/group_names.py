"""The names of groups of checks, in the order in which they begin. Nothing heavy is imported."""

NAMES = (
    "facts",
    "driver",
    "plans",
    "libraries",
    "kernels",
    "faults",
    "elements 0",
    "elements 1",
    "elements 2",
    "elements 3",
    "jax",
    "hlo",
    "golden",
    "random 0",
    "random 1",
    "again",
    "conformance",
)
