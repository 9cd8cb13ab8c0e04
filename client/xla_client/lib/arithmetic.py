"""Reducers as computations, and reductions of arrays by them.

The computations are made once per element type and shared, so that a program with many reductions
holds each of them once.
"""

from typing import Protocol

from xla_client.coercion.shapes import as_element_type
from xla_client.ops.reduction.standard_reductions import (
    all,
    any,
    max,
    mean,
    min,
    prod,
    scalar_computation,
    sum,
)
from xla_client.programs.arguments.checked import checked
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


_DOC = """The computation `(x, y) -> {text}` on scalars{note}.

Args:
    element_type: The type of the scalars.

Returns:
    The computation, the same one for the same type.

Raises:
    {refusal}InvalidArgumentError: The name of the element type is unknown.

Example:
    >>> lib.arithmetic.create_scalar_{name}_computation("{example}").name
    '{name}_{example}'

See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
"""


class _MakesReducer(Protocol):
    def __call__(self, element_type: ElementTypeLike) -> Computation: ...


def _reducer(
    name: str, text: str, note: str = "", refusal: str = "", example: str = "f32"
) -> _MakesReducer:
    """Return a function that makes a reducer; `refusal` documents its error for other types."""

    def function(element_type: ElementTypeLike) -> Computation:
        return scalar_computation(name, as_element_type(element_type))

    function.__name__ = function.__qualname__ = f"create_scalar_{name}_computation"
    refusal = refusal and f"ShapeError: {refusal}\n    "
    function.__doc__ = _DOC.format(
        text=text, note=note, refusal=refusal, name=name, example=example
    )
    return checked(function)


_EXTREME = "; NaN where either is NaN"
_BITWISE = ", bitwise for integers"
_NO_BITS = "The type is neither pred nor an integer type."

create_scalar_add_computation = _reducer("add", "x + y")
create_scalar_multiply_computation = _reducer("multiply", "x * y")
create_scalar_max_computation = _reducer("max", "max(x, y)", _EXTREME)
create_scalar_min_computation = _reducer("min", "min(x, y)", _EXTREME)
create_scalar_ge_computation = _reducer(
    "ge", "x >= y", ": the selection of a maximum pool", "The type is complex: it has no order."
)
create_scalar_and_computation = _reducer("and", "x and y", _BITWISE, _NO_BITS, "pred")
create_scalar_or_computation = _reducer("or", "x or y", _BITWISE, _NO_BITS, "pred")
