"""Docstrings of operations and of the library name the errors that their functions raise.

Each function is called as in its example with one argument replaced, by operands of other shapes
and types, by numbers out of range, by other texts. The errors of these calls are all in the
docstring, and each error of the docstring is that of a call.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.client.documented import DOCUMENTED, ExampleCall, part
from xla_client import Builder
from xla_client.programs.builder import Op
from xla_contract.errors import XlaError
from xla_contract.types.element_type import ElementType

FUNCTIONS = [name for name, value in DOCUMENTED.items() if not inspect.isclass(value)]

TYPES = ["c64", "s32", "f32", "pred", "f8e8m0fnu", "s1"]
"""Element types that have no order, no fractions, no sum, no zero or no one."""

SHAPES = [
    "f32[]", "f32[0]", "s32[2]", "f32[2,3,4,5]", "f32[1,1]", "pred[7,7]", "c64[2,3]",
    "(f32[2], s32[])", "token[]",
]  # fmt: skip

MORE_THAN_64_BITS = 1 << 70


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_errors_of_wrong_arguments_are_those_of_the_docstring(name: str) -> None:
    call = ExampleCall(name)
    raised = set()
    for args, named in mistakes(call):
        try:
            call.function(*args, **named)
        except XlaError as error:
            raised.add(type(error).__name__)
    assert raised == set(part(inspect.getdoc(call.function) or "", "Raises"))


def mistakes(call: ExampleCall) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The example's arguments, each time with another value of one, or with operands retyped."""
    args, named = call.arguments()
    given: dict[int | str, Any] = {**dict(enumerate(args)), **named}
    parameters = list(inspect.signature(call.function).parameters.values())
    for parameter in parameters[len(args) :]:
        if parameter.default is not parameter.empty:
            given.setdefault(parameter.name, parameter.default)
    for key, value in given.items():
        for other in [*others(value), object()]:
            args, named = call.arguments()
            replaced: Any = args if isinstance(key, int) else named
            replaced[key] = in_program(other, value, builder_of(args, named))
            yield args, named
    for element_type in TYPES:
        args, named = call.arguments()
        builder = builder_of(args, named)
        if builder is not None:
            yield [retyped(each, element_type, builder) for each in args], named


def others(value: Any) -> Iterator[Any]:
    """Values to replace an argument by: texts of shapes for operands."""
    if isinstance(value, Op):
        yield from SHAPES
        yield 1j
        if value.shape.is_array:
            sizes = value.shape.dimensions
            yield from (shape_text(each, sizes) for each in TYPES)
            yield shape_text(value.shape.element_type.text, (7, 7))
            yield shape_text(value.shape.element_type.text, (*sizes, 7))
    elif value is None:
        yield from (["f32[7]{0}"], [99])
    elif isinstance(value, ElementType):
        yield from others(value.text)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from (-1, 99, MORE_THAN_64_BITS)
    elif isinstance(value, str):
        yield "nonsense"
        if re.fullmatch(r"[a-z]+\d+|pred", value):
            yield from (*TYPES, "s8")
        elif re.fullmatch(r"[a-z]+\d+\[.*\]", value):
            yield from (*(shape_text(each, (2,)) for each in TYPES), "token[]")
    elif isinstance(value, list | tuple) and value:
        if all(isinstance(each, int) for each in value):
            yield from ([], [0] * len(value), [-1] * len(value), [99] * len(value), [*value, 1])
        elif isinstance(value[0], Op):
            yield []
            yield from ([other] * len(value) for other in others(value[0]) if other != 1j)


def in_program(other: Any, value: Any, builder: Builder | None) -> Any:
    """The other value, as new parameters of the program where operands are replaced."""
    if isinstance(value, Op) and isinstance(other, str) and builder is not None:
        return builder.parameter(90, other)
    several = isinstance(value, list | tuple) and value and isinstance(value[0], Op)
    if several and isinstance(other, list) and builder is not None:
        return [builder.parameter(90 + n, each) for n, each in enumerate(other)]
    return other


def builder_of(args: list[Any], named: dict[str, Any]) -> Builder | None:
    """The builder of the first operand, or the builder that is an argument itself."""
    for value in [*args, *named.values()]:
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, Op):
                return each.builder
            if isinstance(each, Builder):
                return each
    return None


def retyped(value: Any, element_type: str, builder: Builder) -> Any:
    """Parameters of another element type for arrays, other values as they are."""
    if isinstance(value, list | tuple):
        return [retyped(each, element_type, builder) for each in value]
    if not isinstance(value, Op) or not value.shape.is_array:
        return value
    number = 100 + len(builder._ops)
    return builder.parameter(number, shape_text(element_type, value.shape.dimensions))


def shape_text(element_type: str, sizes: tuple[int, ...]) -> str:
    return f"{element_type}[{','.join(map(str, sizes))}]"
