"""Sums, products and extremes: the reductions behind the methods of Ops and `lib.arithmetic`.

The computations are made once per element type and shared, so that a program with many reductions
holds each of them once.
"""

import functools
import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from xla_client.ops.elementwise import comparison, elementwise
from xla_client.ops.elementwise.conversion import convert_element_type
from xla_client.ops.elementwise.special_values import extreme_array, number_array
from xla_client.ops.reduction.reduction import reduce
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Builder, Dimensions, Op, integers
from xla_client.programs.computation import Computation
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array
from xla_contract.types.shape import Shape

_FUNCTIONS: dict[str, Callable[[Op, Op], Op]] = {
    "add": elementwise.add,
    "multiply": elementwise.mul,
    "max": elementwise.max,
    "min": elementwise.min,
    "ge": comparison.ge,
    "and": elementwise.and_,
    "or": elementwise.or_,
}


@functools.cache
def scalar_computation(name: str, element_type: ElementType) -> Computation:
    """A binary function on scalars as a computation.

    Args:
        name: "add", "multiply", "max", "min", "ge", "and" or "or".
        element_type: The type of the scalars.

    Returns:
        The computation, the same one for the same name and type.
    """
    builder = Builder(f"{name}_{element_type.text}")
    shape = Shape.scalar(element_type)
    terms = builder.parameter(0, shape, "x"), builder.parameter(1, shape, "y")
    return builder.build(_FUNCTIONS[name](*terms))


class Reduction(Protocol):
    """A reduction by one function, over some dimensions of an array."""

    def __call__(self, operand: Op, dimensions: Dimensions | None = None) -> Op:
        """Reduce; raises ShapeError for a dimension that the array lacks."""


_DOC = """{text}

Args:
    operand: An array of {kind}.
    dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

Returns:
    The {results}, without those dimensions.

Raises:
    ShapeError: The array has no such dimension.
    InvalidArgumentError: {refusal}

Example:
    >>> x = Builder("example").parameter(0, "{element}[2,3]")
    >>> lib.arithmetic.{name}(x, 1)
    %reduce.3: {element}[2]

See {page}
"""
_PAGE = "https://openxla.org/xla/operation_semantics#reduce"
_HEADER = "https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h"


def _standard(
    name: str, function: str, start: Callable[[ElementType], Array], **parts: str
) -> Reduction:
    """Return the reduction by a function of `scalar_computation`; `parts` complete its docstring.

    `start` returns the result for no elements, by element type.
    """
    is_logical = parts["kind"] == "preds"

    def reduction(operand: Op, dimensions: Dimensions | None = None) -> Op:
        element_type = operand.shape.element_type
        if is_logical and element_type is not ElementType.PRED:
            raise InvalidArgumentError(
                f"{name} needs pred elements, got {operand.shape}",
                op=name,
                hint="compare first, as in ops.ne(x, 0)",
            )
        initial = operand.builder.constant(start(element_type))
        computation = scalar_computation(function, element_type)
        return reduce(operand, initial, computation, _numbers(operand, dimensions))

    reduction.__name__ = reduction.__qualname__ = name
    details = {"element": "pred" if is_logical else "f32", "page": _PAGE}
    reduction.__doc__ = _DOC.format_map(details | parts | {"name": name})
    return checked(reduction)


sum = _standard(
    "sum",
    "add",
    functools.partial(number_array, 0),
    text="The sum over dimensions; for preds, whether any is true.\n\n"
    "To count preds, convert them first: `x.astype('s32').sum()`.",
    kind="numbers",
    results="sums",
    refusal="The element type has no zero, as f8e8m0fnu.",
)
prod = _standard(
    "prod",
    "multiply",
    functools.partial(number_array, 1),
    text="The product over dimensions; for preds, whether all are true.",
    kind="numbers",
    results="products",
    refusal="The element type does not have 1, as s1.",
)
max = _standard(
    "max",
    "max",
    functools.partial(extreme_array, sign=-1, finite=False),
    text="The largest element over dimensions; NaN where there is one.\n\n"
    "The result for no elements is `lib.constants.min_value`.",
    kind="a type that has an order",
    results="largest elements",
    refusal="The operand is complex.",
)
min = _standard(
    "min",
    "min",
    functools.partial(extreme_array, sign=1, finite=False),
    text="The smallest element over dimensions; NaN where there is one.\n\n"
    "The result for no elements is `lib.constants.max_value`.",
    kind="a type that has an order",
    results="smallest elements",
    refusal="The operand is complex.",
)
any = _standard(
    "any",
    "or",
    lambda _: np.asarray(False),
    text="The logical or over dimensions; False of no elements.",
    kind="preds",
    results="preds",
    refusal="The element type is not pred.",
    page=_HEADER,
)
all = _standard(
    "all",
    "and",
    lambda _: np.asarray(True),
    text="The logical and over dimensions; True of no elements.",
    kind="preds",
    results="preds",
    refusal="The element type is not pred.",
)


@checked
def mean(operand: Op, dimensions: Dimensions | None = None) -> Op:
    """The mean over dimensions; NaN of no elements.

    Types narrower than f32 are summed in f32.

    Args:
        operand: An array of a floating or complex type.
        dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

    Returns:
        The means, without those dimensions.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The element type is neither floating nor complex: its mean would have
            another type.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.arithmetic.mean(x, 1)
        %divide.6: f32[2]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    element_type = operand.shape.element_type
    if not (element_type.is_floating or element_type.is_complex):
        raise InvalidArgumentError(
            f"a mean needs a floating or complex type, got {operand.shape}",
            op="mean",
            hint="convert first, as in x.astype('f32').mean()",
        )
    numbers = _numbers(operand, dimensions)
    wide = ElementType.F32 if element_type.bit_width < 32 else element_type
    count = float(math.prod(operand.shape.dimensions[number] for number in numbers))
    total = sum(_converted(operand, wide), numbers)
    return _converted(total / count, element_type)


def _numbers(operand: Op, dimensions: Dimensions | None) -> tuple[int, ...]:
    if dimensions is None:
        return tuple(range(operand.shape.rank))
    return tuple(operand.shape.dimension_number(number) for number in integers(dimensions))


def _converted(operand: Op, element_type: ElementType) -> Op:
    if operand.shape.element_type is element_type:
        return operand
    return convert_element_type(operand, element_type)
