"""A program with its arguments and the answer that is known without running it."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_client import Builder, Op
from xla_client.programs.computation import Computation
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True)
class Case:
    """A program, what it is run on, and what it must give.

    `expected` has the arrays of the result in order. Floats may differ by `tolerance` absolutely
    and relatively; with 0 the arrays must be equal.
    """

    computation: Computation
    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]
    tolerance: float = 0.0

    def check(self, results: Sequence[Any]) -> None:
        """Compare what a run gave with what is expected."""
        assert len(results) == len(self.expected)
        for result, expected in zip(results, self.expected, strict=True):
            expected = np.asarray(expected)
            assert result.dtype == expected.dtype
            assert result.shape == expected.shape
            if self.tolerance:
                np.testing.assert_allclose(result, expected, self.tolerance, self.tolerance)
            else:
                # assert_allclose compares large integers as floats.
                np.testing.assert_array_equal(result, expected)


def parameters(builder: Builder, arguments: Sequence[Any]) -> list[Op]:
    """Parameters shaped like the arguments."""
    return [
        builder.parameter(number, shape_of(argument), f"p{number}")
        for number, argument in enumerate(arguments)
    ]


def shape_of(array: Any) -> Shape:
    """The shape of a numpy array."""
    array = np.asarray(array)
    return Shape.array(ElementType.from_dtype(array.dtype), array.shape)


def scalar_function(
    function: Callable[..., Op], kinds: Sequence[str], name: str = "function"
) -> Computation:
    """The computation of a function of scalars of these element types."""
    builder = Builder(name)
    return builder.build(
        function(*(builder.parameter(n, Shape.parse(f"{k}[]")) for n, k in enumerate(kinds)))
    )
