"""The targets every server has."""

from collections.abc import Iterator

from xla_server.custom_calls.linear_algebra import (
    factorizations,
    perturbed_tridiagonal,
    solvers,
    spectral,
)
from xla_server.custom_calls.linear_algebra.batched import ELEMENTS
from xla_server.custom_calls.linear_algebra.lapack import PREFIX
from xla_server.custom_calls.target import CustomCallTarget
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.custom_calls.targets import (
    allocate_buffer,
    approximate_topk,
    dynamic_sizes,
    partitioning_markers,
    portable,
    random_state,
    sparse_product,
)


def builtin_targets() -> Iterator[CustomCallTarget]:
    """LAPACK and sparse products as JAX calls them for CPUs, portable targets, markers, ours."""
    for element in ELEMENTS:
        for family in (factorizations, solvers, spectral):
            for name, kernel in family.kernels(element).items():
                yield kernel.target(f"lapack_{PREFIX[element]}{name}_ffi")
    yield perturbed_tridiagonal.TARGET
    yield allocate_buffer.TARGET
    yield approximate_topk.TARGET
    yield from dynamic_sizes.TARGETS
    yield from portable.TARGETS
    yield from partitioning_markers.TARGETS
    yield random_state.TARGET
    yield sparse_product.TARGET


def builtin_registry() -> CustomCallRegistry:
    """A new registry of them, to which an operator's may be added."""
    return CustomCallRegistry(builtin_targets())


BUILTIN = builtin_registry()
"""The registry of evaluations without a server; it is read-only."""
