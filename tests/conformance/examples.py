"""Programs of the published texts: written with the client's builder, run by the evaluator."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tests.building import computation, shape_of
from tests.conformance.oracle import evaluated
from xla_client import Builder, Computation, Op, Shape, ops
from xla_contract.types.element_type import ElementType


class Example(Builder):
    """A builder whose parameters come with their arguments."""

    def __init__(self) -> None:
        super().__init__("example")
        self.arguments: list[Any] = []

    def __call__(self, value: Any, element_type: ElementType | None = None) -> Op:
        """A parameter; without a type a list holds f32, everything else what numpy makes of it."""
        natural = np.float32 if isinstance(value, list) else None
        array = np.asarray(value, natural if element_type is None else element_type.dtype)
        self.arguments.append(array)
        return self.parameter(len(self.arguments) - 1, shape_of(array))

    def start(self, *numbers: int) -> list[Op]:
        """One s32 scalar for each number, as slices take their start."""
        return [self(number, ElementType.S32) for number in numbers]


Program: TypeAlias = Callable[[Example], Op]


def result_of(program: Program) -> list[Any]:
    """Return the program's results for its arguments, as a list for a tuple."""
    example = Example()
    root = program(example)
    return evaluated(example.build(root).proto, example.arguments)


def assert_gives(program: Program, *wanted: Any) -> None:
    """The program gives these values, dimensions included."""
    for found, value in zip(result_of(program), wanted, strict=True):
        assert found.shape == np.shape(value)
        np.testing.assert_array_equal(found, value)


def scalar_function(
    function: Callable[..., Op], *types: str, name: str | None = None
) -> Computation:
    """A computation on scalars of these types, two of f32 when none are said."""
    name = name or getattr(function, "__name__", "function").strip("<>")
    shapes = [Shape.parse(f"{text}[]") for text in types or ("f32", "f32")]
    return computation(function, shapes, name)


ADD = scalar_function(ops.add)
MAX = scalar_function(ops.max)
MIN = scalar_function(ops.min)
GE = scalar_function(ops.ge)
