"""Functions of any floating type that are computed in f64.

Formulas whose terms cancel would leave a narrower type few digits.
"""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

from xla_client.ops.elementwise.conversion import convert_element_type
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType

P = ParamSpec("P")

_DOC = """{text}

Args:
{arguments}

Returns:
    The results, of the operand{plural} shape.

Raises:
{errors}

Example:
    >>> x = Builder("example").parameter(0, "f64[3]")
    >>> print({place}({operands}).shape)
    f64[3]

See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
"""
_ONE_ERROR = "    InvalidArgumentError: The element type is not floating."
_ERRORS = """    ShapeError: The operands have different dimensions.
    InvalidArgumentError: The operands are not of one floating type."""


def in_double_precision(
    note: str = "", **roles: str
) -> Callable[[Callable[P, Op]], Callable[P, Op]]:
    """Return a decorator that makes a function of f64 operands accept any floating type.

    The function's one-line docstring is completed by arguments, errors and an example.

    Args:
        note: A paragraph to follow that line.
        roles: Words for the operands of these names.
    """

    def decorate(function: Callable[P, Op]) -> Callable[P, Op]:
        signature = inspect.signature(function)
        first, *others = signature.parameters

        @functools.wraps(function)
        def call(*operands: P.args, **named: P.kwargs) -> Op:
            bound = signature.bind(*operands, **named)
            return computed_in_double(function.__name__, function, *bound.args)

        kinds = {first: "An array of a floating type"}
        kinds |= dict.fromkeys(others, "An array of the same shape")
        call.__doc__ = _DOC.format(
            text="\n\n".join(filter(None, (function.__doc__, note))),
            arguments="\n".join(
                f"    {name}: {kind}{f': {roles[name]}' if name in roles else ''}."
                for name, kind in kinds.items()
            ),
            plural="s'" if others else "'s",
            errors=_ERRORS if others else _ONE_ERROR,
            place=f"{function.__module__.removeprefix('xla_client.')}.{function.__name__}",
            operands=", ".join("x" for _ in kinds),
        )
        return checked(call)

    return decorate


def computed_in_double(function: str, compute: Callable[..., Op], *operands: Op) -> Op:
    """Return the result of `compute` on the operands in f64, converted to their type.

    Raises:
        InvalidArgumentError: The operands are not of one floating type; the error is `function`'s.
    """
    element_type = operands[0].shape.element_type
    if not all(
        each.shape.element_type is element_type and element_type.is_floating for each in operands
    ):
        shapes = ", ".join(str(each.shape) for each in operands)
        raise InvalidArgumentError(
            f"{function} needs operands of one floating type, got {shapes}", op=function
        )
    if element_type is ElementType.F64:
        return compute(*operands)
    wide = [convert_element_type(each, ElementType.F64) for each in operands]
    return convert_element_type(compute(*wide), element_type)
