"""Running sums, products and extremes along a dimension, each one ReduceWindow."""

from collections.abc import Callable
from typing import Protocol

from xla_client import ops
from xla_client.lib import constants
from xla_client.ops.reduction.standard_reductions import scalar_computation
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Builder, Op
from xla_contract.types.element_type import ElementType

_DOC = """{text}

Args:
    operand: An array of {kind}.
    dimension: The dimension; a negative number counts from the end.
    reverse: Whether to {verb} from the last element to the first.

Returns:
    The {results}, of the operand's shape.

Raises:
    ShapeError: The array has no such dimension.
    InvalidArgumentError: {refusal}

Example:
    >>> x = Builder("example").parameter(0, "f32[2,3]")
    >>> lib.cumulative.{name}(x, 1)
    %reduce-window.3: f32[2,3]

See https://openxla.org/xla/operation_semantics#reducewindow
"""


class _Running(Protocol):
    """A running reduction: each element combined with those before it along a dimension."""

    def __call__(self, operand: Op, dimension: int, *, reverse: bool = False) -> Op:
        """Emit the operation; raises ShapeError for a dimension that the array lacks."""


def _running(
    name: str, function: str, start: Callable[[Builder, ElementType], Op], **parts: str
) -> _Running:
    """Return the running reduction by a function of `scalar_computation`, from `start` on.

    `parts` complete its docstring.
    """

    def running(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
        element_type = operand.shape.element_type
        initial = start(operand.builder, element_type)
        number = operand.shape.dimension_number(dimension)
        size = operand.shape.dimensions[number]
        if not size:
            return operand
        sizes, strides = [1] * operand.shape.rank, [1] * operand.shape.rank
        padding = [(0, 0)] * operand.shape.rank
        sizes[number] = size
        padding[number] = (0, size - 1) if reverse else (size - 1, 0)
        reducer = scalar_computation(function, element_type)
        return ops.reduce_window_with_general_padding(
            operand, initial, reducer, sizes, strides, padding=padding
        )

    running.__name__ = running.__qualname__ = name
    running.__doc__ = _DOC.format(name=name, **parts)
    return checked(running)


_ORDERED = {
    "kind": "a type that has an order",
    "verb": "go",
    "refusal": "The operand is complex.",
}

cumsum = _running(
    "cumsum",
    "add",
    constants.zero,
    text="The running sum along a dimension.",
    kind="numbers",
    verb="sum",
    results="sums",
    refusal="The element type has no zero, as f8e8m0fnu.",
)
cumprod = _running(
    "cumprod",
    "multiply",
    constants.one,
    text="The running product along a dimension.",
    kind="numbers",
    verb="multiply",
    results="products",
    refusal="The element type does not have 1, as s1.",
)
cummax = _running(
    "cummax",
    "max",
    constants.min_value,
    text="The running maximum along a dimension; NaN from the first NaN on.",
    results="maxima",
    **_ORDERED,
)
cummin = _running(
    "cummin",
    "min",
    constants.max_value,
    text="The running minimum along a dimension; NaN from the first NaN on.",
    results="minima",
    **_ORDERED,
)
