"""Public functions whose arguments are converted and checked by their annotations.

`checked` passes every argument of a call through the entry of `CONVERTERS` for the annotation of
its parameter. The entry converts all that callers may write to the type that the function works
with; anything else is an error that names function and parameter. So each kind of argument has
exactly one rule.
"""

import functools
import inspect
import re
import types
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar, get_args, get_origin

from xla_client.coercion import numbers, records
from xla_client.coercion.shapes import ShapeLike, as_element_type, as_shape
from xla_client.coercion.signatures import require_bound
from xla_client.programs.arguments import operands
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.arguments.windows import (
    Padding,
    PaddingLike,
    padding_name,
    padding_name_or_pairs,
)
from xla_client.programs.computation import Computation
from xla_contract.errors import XlaError
from xla_contract.ops.elementwise.compare import ComparisonDirection, ComparisonType
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.ops.linear_algebra.triangular_solve import Transpose
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm
from xla_contract.types.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from xla_contract.types.element_type import ElementTypeLike

P = ParamSpec("P")
R = TypeVar("R")

Converter: TypeAlias = Callable[[str, Any], Any]
"""Converts an argument, given the parameter's name, to the type that the function works with;
raises XlaError."""

Choice: TypeAlias = str | int
"""The name or number of a member, in annotations beside its enumeration."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with its arguments taken as their annotations say.

    The function returned raises ArgumentTypeError for arguments of other types, too many, too few
    or unknown ones, and the errors of CONVERTERS, with the names of function and parameter. Its
    docstring has ArgumentTypeError among the errors, and ShapeError if it is an operation,
    unless that of `function` does.
    """
    signature = inspect.signature(function)
    place = _place_of(function)
    converters = {
        name: _converter_of(each.annotation) for name, each in signature.parameters.items()
    }
    names = [
        name
        for name, each in signature.parameters.items()
        if each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    rest = next((n for n, p in signature.parameters.items() if p.kind is p.VAR_POSITIONAL), "")
    needed = sum(signature.parameters[name].default is inspect.Parameter.empty for name in names)
    is_method = names[:1] == ["self"]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if kwargs or len(args) < needed or (len(args) > len(names) and not rest):
                require_bound(function, args[is_method:], kwargs, is_method=is_method)
            given: Any = [
                converters[name](name, arg) for name, arg in zip(names, args, strict=False)
            ]
            given += [converters[rest](rest, arg) for arg in args[len(names) :]]
            named: Any = {name: converters[name](name, arg) for name, arg in kwargs.items()}
        except XlaError as error:
            raise error.at(place) from None
        return function(*given, **named)

    gives_op = getattr(signature.return_annotation, "__name__", "") == "Op"
    has_rule = gives_op and place.startswith("ops.") and place not in _WITHOUT_RULES
    errors = ("ArgumentTypeError", "ShapeError")[: 1 + has_rule]
    call.__doc__ = _with_errors(function.__doc__, *errors)
    return call


def renamed(function: Callable[P, R], name: str) -> Callable[P, R]:
    """Return a function of `checked` under another name, which its errors and its example have."""
    inner: Callable[P, R] = inspect.unwrap(function)

    @functools.wraps(inner)
    def other(*args: P.args, **kwargs: P.kwargs) -> R:
        return inner(*args, **kwargs)

    other.__name__ = other.__qualname__ = name
    other.__doc__ = (inner.__doc__ or "").replace(f".{inner.__name__}(", f".{name}(")
    return checked(other)


_WITHOUT_RULES = frozenset({"ops.copy", "ops.optimization_barrier"})
"""Operations that have no rule about their operands."""

_ERRORS = {
    "ArgumentTypeError": "An argument has a type that its parameter does not take.",
    "ShapeError": "The operands do not fit the operation.",
}


def _with_errors(text: str | None, *names: str) -> str | None:
    """Return a docstring that has these of _ERRORS among the errors."""
    missing = [f"{name}: {_ERRORS[name]}" for name in names if text and f"{name}:" not in text]
    if text is None or not missing:
        return text
    if "Raises:" in text:
        listed = r"\1".join(missing)
        return re.sub(r"\bRaises:(\n +)", rf"\g<0>{listed}\1", text)
    raises = "".join(rf"\n\1    {each}" for each in missing)
    return re.sub(r"\n( *)Example:", rf"\n\1Raises:{raises}\n\n\1Example:", text)


def _place_of(function: Callable[..., Any]) -> str:
    """Return the caller's name of the function, such as `ops.reduce` or `Builder.iota`."""
    if "." in function.__qualname__:
        return function.__qualname__.removesuffix(".__init__")
    package, _, module = function.__module__.removeprefix("xla_client.").partition(".")
    return (
        f"{package}.{function.__name__}"
        if package == "ops"
        else (f"{package}.{module}.{function.__name__}")
    )


def _anything(_: str, value: Any) -> Any:
    return value


def _converter_of(annotation: Any) -> Converter:
    if getattr(annotation, "__name__", "") == "Builder":
        return functools.partial(_builder, annotation)
    if get_origin(annotation) is Callable:
        return _function
    converter = CONVERTERS.get(annotation)
    if converter is None:
        kinds = [kind for kind in get_args(annotation) if kind is not types.NoneType]
        if len(kinds) == len(get_args(annotation)):
            return _anything
        converter = _converter_of(functools.reduce(lambda a, b: a | b, kinds))
    return (
        functools.partial(_optional, converter)
        if types.NoneType in get_args(annotation)
        else converter
    )


def _optional(converter: Converter, parameter: str, value: Any) -> Any:
    return None if value is None else converter(parameter, value)


def _choice(kind: Any) -> Converter:
    return functools.partial(records.choice, kind)


def _builder(kind: type, parameter: str, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    raise numbers.refusal(parameter, "a Builder", value)


def _dimensions(parameter: str, value: Any) -> tuple[int, ...]:
    return numbers.integers(value, parameter)


def _shapes(parameter: str, value: Any) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise numbers.refusal(parameter, "a sequence of shapes", value)
    return [as_shape(each, f"{parameter}[{number}]") for number, each in enumerate(value)]


def _function(parameter: str, value: Any) -> Callable[..., Any]:
    if callable(value):
        function: Callable[..., Any] = value
        return function
    raise numbers.refusal(parameter, "a function", value)


CONVERTERS: dict[Any, Converter] = {
    operands.ComputationLike: operands.computation_or_function,
    Computation: operands.computation,
    operands.ComputationLike | Sequence[operands.ComputationLike]: operands.computations,
    Callable[..., Any]: _function,
    Scalar: operands.value,
    ShapeLike: lambda name, value: as_shape(value, name),
    Sequence[ShapeLike]: _shapes,
    ElementTypeLike: lambda name, value: as_element_type(value, name),
    int: numbers.integer,
    float: numbers.real,
    bool: numbers.flag,
    str: numbers.text,
    bytes | str: numbers.data,
    numbers.Dimensions: _dimensions,
    Sequence[float]: numbers.reals,
    bool | Sequence[bool]: numbers.flags,
    Sequence[Sequence[int]]: numbers.groups,
    Sequence[tuple[int, int]]: numbers.pairs,
    Padding: padding_name,
    PaddingLike: padding_name_or_pairs,
    records.ConvolutionNumbers: records.convolution_numbers,
    records.DotNumbers: records.dot_numbers,
    GatherDimensionNumbers: records.gather_numbers,
    ScatterDimensionNumbers: records.scatter_numbers,
    records.PaddingAmounts: records.padding_config,
    records.Precision: records.precisions,
    ComparisonDirection | Choice: _choice(ComparisonDirection),
    ComparisonType | Choice: _choice(ComparisonType),
    FftType | Choice: _choice(FftType),
    RandomAlgorithm | Choice: _choice(RandomAlgorithm),
    Transpose | Choice: _choice(Transpose),
}
"""The rule of each annotation; `builder` enters those of Ops.

Parameters with other annotations are passed on as they are.
"""
