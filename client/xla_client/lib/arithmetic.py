"""Reducers as computations, and arrays folded by them.

The computations are made once per element type and shared, so that a program that folds often
holds each of them once.
"""

from xla_client.coercion.checked import checked
from xla_client.coercion.shapes import as_element_type
from xla_client.computation import Computation
from xla_client.ops.folds import all, any, max, mean, min, prod, scalar_computation, sum
from xla_contract.element_type import ElementTypeLike

__all__ = [
    "all",
    "any",
    "create_scalar_add_computation",
    "create_scalar_and_computation",
    "create_scalar_ge_computation",
    "create_scalar_max_computation",
    "create_scalar_min_computation",
    "create_scalar_multiply_computation",
    "create_scalar_or_computation",
    "max",
    "mean",
    "min",
    "prod",
    "sum",
]


@checked
def create_scalar_add_computation(element_type: ElementTypeLike) -> Computation:
    """`(x, y) -> x + y` on scalars of this type."""
    return scalar_computation("add", as_element_type(element_type))


@checked
def create_scalar_multiply_computation(element_type: ElementTypeLike) -> Computation:
    """`(x, y) -> x * y` on scalars of this type."""
    return scalar_computation("multiply", as_element_type(element_type))


@checked
def create_scalar_max_computation(element_type: ElementTypeLike) -> Computation:
    """`(x, y) -> max(x, y)` on scalars of this type, NaN where either is."""
    return scalar_computation("max", as_element_type(element_type))


@checked
def create_scalar_min_computation(element_type: ElementTypeLike) -> Computation:
    """`(x, y) -> min(x, y)` on scalars of this type, NaN where either is."""
    return scalar_computation("min", as_element_type(element_type))


@checked
def create_scalar_ge_computation(element_type: ElementTypeLike) -> Computation:
    """`(x, y) -> x >= y` on scalars of this type: what selects in a maximum pool."""
    return scalar_computation("ge", as_element_type(element_type))


@checked
def create_scalar_and_computation(element_type: ElementTypeLike) -> Computation:
    """`(x, y) -> x and y` on scalars of pred or of an integer type."""
    return scalar_computation("and", as_element_type(element_type))


@checked
def create_scalar_or_computation(element_type: ElementTypeLike) -> Computation:
    """`(x, y) -> x or y` on scalars of pred or of an integer type."""
    return scalar_computation("or", as_element_type(element_type))
