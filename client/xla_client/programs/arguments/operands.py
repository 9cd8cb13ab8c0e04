"""Ops, numbers that stand beside them, and computations, as callers write them."""

import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from xla_client.coercion.numbers import refusal
from xla_client.programs.arguments.scalars import SCALAR_TYPES, Scalar
from xla_client.programs.computation import Computation
from xla_client.programs.operators import Operators

ComputationLike: TypeAlias = Computation | Callable[..., Any]
"""A Computation, or a function of Ops that is called to write one."""

_HINT = "builder.constant makes an Op of a number or an array"


def op(parameter: str, value: Any) -> Any:
    """Return the Op; raises ArgumentTypeError for everything else."""
    if isinstance(value, Operators):
        return value
    raise refusal(parameter, "an Op", value, _HINT)


def value(parameter: str, value: Any) -> Any:
    """Return an Op or a number; raises ArgumentTypeError for everything else."""
    if isinstance(value, Operators):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return _scalar(value)
    if isinstance(value, SCALAR_TYPES):
        return value
    raise refusal(parameter, "an Op or a number", value, _HINT)


def ops(parameter: str, given: Any) -> list[Any]:
    """Return Ops as a list; raises ArgumentTypeError for everything else."""
    if isinstance(given, Operators):
        return [given]
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | dict | np.ndarray):
        each = list(given)
        for number, one in enumerate(each):
            op(f"{parameter}[{number}]", one)
        return each
    raise refusal(parameter, "an Op or a sequence of Ops", given, _HINT)


def values(parameter: str, given: Any) -> list[Any]:
    """Return Ops and numbers as a list; raises ArgumentTypeError for everything else."""
    if isinstance(given, (Operators, *SCALAR_TYPES)):
        return [value(parameter, given)]
    if isinstance(given, np.ndarray) and given.ndim == 0:
        return [_scalar(given)]
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | dict | np.ndarray):
        return [value(f"{parameter}[{number}]", one) for number, one in enumerate(given)]
    raise refusal(parameter, "an Op, a number or a sequence of them", given, _HINT)


def index(parameter: str, value: Any) -> Any:
    """Return an Op or an int; raises ArgumentTypeError for everything else."""
    if isinstance(value, Operators):
        return value
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise refusal(parameter, "an Op or an int", value, _HINT)


def computation(parameter: str, value: Any) -> Computation:
    """Return the Computation; raises ArgumentTypeError for everything else."""
    if isinstance(value, Computation):
        return value
    raise refusal(parameter, "a Computation", value, _hint_for_computation(value))


def computation_or_function(parameter: str, value: Any) -> ComputationLike:
    """Return a Computation or a function of Ops; raises ArgumentTypeError for everything else."""
    if isinstance(value, Computation):
        return value
    if callable(value) and not hasattr(value, "program_shape") and not isinstance(value, type):
        function: Callable[..., Any] = value
        return function
    raise refusal(
        parameter, "a Computation or a function of Ops", value, _hint_for_computation(value)
    )


def computations(parameter: str, value: Any) -> ComputationLike | list[ComputationLike]:
    """Return one Computation or function, or a list of several; raises ArgumentTypeError."""
    if isinstance(value, list | tuple):
        return [
            computation_or_function(f"{parameter}[{number}]", one)
            for number, one in enumerate(value)
        ]
    return computation_or_function(parameter, value)


def branch_or_values(parameter: str, given: Any) -> Any:
    """Return a Computation or a function, one Op or number, or a list of these; raises."""
    if isinstance(given, Computation) or callable(given):
        return computation_or_function(parameter, given)
    if isinstance(given, (Operators, *SCALAR_TYPES)):
        return value(parameter, given)
    return values(parameter, given)


def _hint_for_computation(value: Any) -> str:
    if isinstance(value, Operators):
        return "a function gives the Op of its arguments, as in lambda a, b: a + b"
    if hasattr(value, "build"):
        return "builder.build() makes a Computation of a Builder"
    return ""


def _scalar(value: Any) -> Scalar:
    number: Scalar = value[()]
    return number
