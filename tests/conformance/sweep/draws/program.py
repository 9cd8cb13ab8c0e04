"""One program through our evaluators and through XLA's CPU backend."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.conformance.oracle import evaluated, run_on_xla
from tests.conformance.sweep.draws.subnormal import agreed
from xla_client import Builder, Op
from xla_client.programs.computation import Computation
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


def built(function: Callable[..., Op], arguments: Sequence[Any]) -> Computation:
    """The program `function` states over parameters shaped like the arguments."""
    builder = Builder("sweep")
    parameters = []
    for number, argument in enumerate(arguments):
        array = np.asarray(argument)
        shape = Shape.array(ElementType.from_dtype(array.dtype), array.shape)
        parameters.append(builder.parameter(number, shape, f"p{number}"))
    return builder.build(function(*parameters))


def both(function: Callable[..., Op], arguments: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(ours, XLA's) for each result of the program on these arguments."""
    proto = built(function, arguments).proto
    given = list(map(agreed, arguments))
    return list(zip(evaluated(proto, given), run_on_xla(proto, given), strict=True))
