"""Reducers as computations, and reductions of arrays by them.

The computations are made once per element type and shared, so that a program with many reductions
holds each of them once.
"""

from xla_client.coercion.shapes import as_element_type
from xla_client.ops.reduction.folds import all, any, max, mean, min, prod, scalar_computation, sum
from xla_client.programs.checked import checked
from xla_client.programs.computation import Computation
from xla_contract.types.element_type import ElementTypeLike

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
    """The computation `(x, y) -> x + y` on scalars.

    Args:
        element_type: The type of the scalars.

    Returns:
        The computation, the same one for the same type.

    Raises:
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> lib.arithmetic.create_scalar_add_computation("f32").name
        'add_f32'

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    return scalar_computation("add", as_element_type(element_type))


@checked
def create_scalar_multiply_computation(element_type: ElementTypeLike) -> Computation:
    """The computation `(x, y) -> x * y` on scalars.

    Args:
        element_type: The type of the scalars.

    Returns:
        The computation, the same one for the same type.

    Raises:
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> lib.arithmetic.create_scalar_multiply_computation("f32").name
        'multiply_f32'

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    return scalar_computation("multiply", as_element_type(element_type))


@checked
def create_scalar_max_computation(element_type: ElementTypeLike) -> Computation:
    """The computation `(x, y) -> max(x, y)` on scalars; NaN where either is NaN.

    Args:
        element_type: The type of the scalars.

    Returns:
        The computation, the same one for the same type.

    Raises:
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> lib.arithmetic.create_scalar_max_computation("f32").name
        'max_f32'

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    return scalar_computation("max", as_element_type(element_type))


@checked
def create_scalar_min_computation(element_type: ElementTypeLike) -> Computation:
    """The computation `(x, y) -> min(x, y)` on scalars; NaN where either is NaN.

    Args:
        element_type: The type of the scalars.

    Returns:
        The computation, the same one for the same type.

    Raises:
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> lib.arithmetic.create_scalar_min_computation("f32").name
        'min_f32'

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    return scalar_computation("min", as_element_type(element_type))


@checked
def create_scalar_ge_computation(element_type: ElementTypeLike) -> Computation:
    """The computation `(x, y) -> x >= y` on scalars: the selection of a maximum pool.

    Args:
        element_type: The type of the scalars.

    Returns:
        The computation, the same one for the same type.

    Raises:
        ShapeError: The type is complex, and so has no order.
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> lib.arithmetic.create_scalar_ge_computation("f32").name
        'ge_f32'

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    return scalar_computation("ge", as_element_type(element_type))


@checked
def create_scalar_and_computation(element_type: ElementTypeLike) -> Computation:
    """The computation `(x, y) -> x and y` on scalars, bitwise for integers.

    Args:
        element_type: The type of the scalars: pred or an integer type.

    Returns:
        The computation, the same one for the same type.

    Raises:
        ShapeError: The type is neither pred nor an integer type.
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> lib.arithmetic.create_scalar_and_computation("pred").name
        'and_pred'

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    return scalar_computation("and", as_element_type(element_type))


@checked
def create_scalar_or_computation(element_type: ElementTypeLike) -> Computation:
    """The computation `(x, y) -> x or y` on scalars, bitwise for integers.

    Args:
        element_type: The type of the scalars: pred or an integer type.

    Returns:
        The computation, the same one for the same type.

    Raises:
        ShapeError: The type is neither pred nor an integer type.
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> lib.arithmetic.create_scalar_or_computation("pred").name
        'or_pred'

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    return scalar_computation("or", as_element_type(element_type))
