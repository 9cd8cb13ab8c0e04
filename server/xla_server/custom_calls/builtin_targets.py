"""The targets every server has."""

from collections.abc import Iterator

from xla_server.custom_calls import (
    approximate_topk,
    factorizations,
    markers,
    perturbed,
    portable,
    random_state,
    solvers,
    spectral,
)
from xla_server.custom_calls.batched import ELEMENTS
from xla_server.custom_calls.lapack import PREFIX
from xla_server.custom_calls.registry import Registry
from xla_server.custom_calls.target import CustomCallTarget


def builtin_targets() -> Iterator[CustomCallTarget]:
    """LAPACK under the names JAX's lowering for CPUs calls, portable targets, markers, and ours."""
    for element in ELEMENTS:
        for family in (factorizations, solvers, spectral):
            for name, kernel in family.kernels(element).items():
                yield kernel.target(f"lapack_{PREFIX[element]}{name}_ffi")
    yield perturbed.TARGET
    yield approximate_topk.TARGET
    yield from portable.TARGETS
    yield from markers.TARGETS
    yield random_state.TARGET


def builtin_registry() -> Registry:
    """A new registry of them, to which an operator's may be added."""
    return Registry(builtin_targets())


BUILTIN = builtin_registry()
"""What evaluations without a server use; nothing is added to it."""
