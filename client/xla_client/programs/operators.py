"""Python's operators on values of a program that is being written.

Each calls a function of `xla_client.ops`, which registers them here by `provide`: the modules of
operations import Op, and not the other way round.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, Never, NoReturn, Self, SupportsIndex, TypeAlias

import numpy as np

from xla_client.coercion.numbers import RunValue, described
from xla_client.programs.arguments.familiar_names import FAMILIAR_NAMES
from xla_client.programs.arguments.scalars import SCALAR_TYPES, Scalar
from xla_contract.errors import ArgumentTypeError
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.shape import Shape

_OneIndex: TypeAlias = "SupportsIndex | slice | EllipsisType | Operators | Sequence[int] | None"
Index: TypeAlias = "_OneIndex | tuple[_OneIndex, ...]"
"""Types of an index between the brackets of `x[...]`."""

Axes: TypeAlias = int | Sequence[int] | None
"""Dimension numbers, which count from the end where they are negative; None is all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Functions:
    """The functions behind operators and methods."""

    operations: Mapping[str, Callable[..., Any]]
    """Functions of `xla_client.ops` by name."""
    reductions: Mapping[str, Callable[..., Any]]
    """Functions of an Op and dimensions, by the name of the method."""
    subscript: Callable[[Any, Any], Any]
    """The part of an Op that an index describes."""


_provided: list[Functions] = []


def provide(functions: Functions) -> None:
    """Let operators call these functions from now on."""
    _provided[:] = [functions]


class Operators(RunValue):
    """Operators and methods of an Op, which has a name and a shape."""

    __slots__ = ("name", "shape")

    name: str
    shape: Shape

    @property
    def element_type(self) -> ElementType:
        """The element type; TUPLE for a tuple."""
        return self.shape.element_type

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """The numpy type of an element; raises InvalidArgumentError for a tuple or a token."""
        return self.shape.element_type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.shape.rank

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.shape.element_count

    @property
    def T(self) -> Self:  # noqa: N802 (numpy's name)
        """The dimensions in opposite order: `ops.transpose`."""
        return self.transpose()

    def __add__(self, other: Self | Scalar) -> Self:
        return self._binary("add", self, other, "+")

    def __radd__(self, other: Scalar) -> Self:
        return self._binary("add", other, self, "+")

    def __sub__(self, other: Self | Scalar) -> Self:
        return self._binary("sub", self, other, "-")

    def __rsub__(self, other: Scalar) -> Self:
        return self._binary("sub", other, self, "-")

    def __mul__(self, other: Self | Scalar) -> Self:
        return self._binary("mul", self, other, "*")

    def __rmul__(self, other: Scalar) -> Self:
        return self._binary("mul", other, self, "*")

    def __truediv__(self, other: Self | Scalar) -> Self:
        return self._binary("div", self, other, "/")

    def __rtruediv__(self, other: Scalar) -> Self:
        return self._binary("div", other, self, "/")

    def __floordiv__(self, other: Self | Scalar) -> Self:
        return self._binary("floor_div", self, other, "//")

    def __rfloordiv__(self, other: Scalar) -> Self:
        return self._binary("floor_div", other, self, "//")

    def __mod__(self, other: Self | Scalar) -> Self:
        return self._binary("floor_mod", self, other, "%")

    def __rmod__(self, other: Scalar) -> Self:
        return self._binary("floor_mod", other, self, "%")

    def __divmod__(self, other: Self | Scalar) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Scalar) -> tuple[Self, Self]:
        return other // self, other % self

    def __pow__(self, other: Self | Scalar) -> Self:
        return self._binary("pow", self, other, "**")

    def __rpow__(self, other: Scalar) -> Self:
        return self._binary("pow", other, self, "**")

    def __and__(self, other: Self | Scalar) -> Self:
        return self._binary("and_", self, other, "&")

    def __rand__(self, other: Scalar) -> Self:
        return self._binary("and_", other, self, "&")

    def __or__(self, other: Self | Scalar) -> Self:
        return self._binary("or_", self, other, "|")

    def __ror__(self, other: Scalar) -> Self:
        return self._binary("or_", other, self, "|")

    def __xor__(self, other: Self | Scalar) -> Self:
        return self._binary("xor", self, other, "^")

    def __rxor__(self, other: Scalar) -> Self:
        return self._binary("xor", other, self, "^")

    def __lshift__(self, other: Self | Scalar) -> Self:
        return self._binary("shift_left", self, other, "<<")

    def __rlshift__(self, other: Scalar) -> Self:
        return self._binary("shift_left", other, self, "<<")

    def __rshift__(self, other: Self | Scalar) -> Self:
        return self._binary(_shift_right(self), self, other, ">>")

    def __rrshift__(self, other: Scalar) -> Self:
        return self._binary(_shift_right(self), other, self, ">>")

    def __matmul__(self, other: Self) -> Self:
        return self._binary("matmul", self, other, "@")

    def __rmatmul__(self, other: object) -> NoReturn:
        _refuse(self, other, "@")

    def __neg__(self) -> Self:
        return self._call("neg", self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self._call("abs", self)

    def __invert__(self) -> Self:
        return self._call("not_", self)

    def __round__(self, digits: None = None) -> Self:
        if digits is not None:
            raise ArgumentTypeError(f"round of an Op takes no digits, got {digits!r:.80}")
        return self._call("round_nearest_even", self)

    def eq(self, other: Self | Scalar) -> Self:
        """`ops.eq`: where the elements are equal."""
        return self._call("eq", self, other)

    def ne(self, other: Self | Scalar) -> Self:
        """`ops.ne`: where the elements differ."""
        return self._call("ne", self, other)

    def lt(self, other: Self | Scalar) -> Self:
        """`ops.lt`: where the elements are less than the other's."""
        return self._call("lt", self, other)

    def le(self, other: Self | Scalar) -> Self:
        """`ops.le`: where the elements are at most the other's."""
        return self._call("le", self, other)

    def gt(self, other: Self | Scalar) -> Self:
        """`ops.gt`: where the elements are greater than the other's."""
        return self._call("gt", self, other)

    def ge(self, other: Self | Scalar) -> Self:
        """`ops.ge`: where the elements are at least the other's."""
        return self._call("ge", self, other)

    def sum(self, dimensions: Axes = None, **unknown: Never) -> Self:
        """`lib.arithmetic.sum`: the sum over these dimensions, by default all; `any` for preds."""
        return self._reduced("sum", dimensions, unknown)

    def prod(self, dimensions: Axes = None, **unknown: Never) -> Self:
        """`lib.arithmetic.prod`: the product over these dimensions, by default all."""
        return self._reduced("prod", dimensions, unknown)

    def max(self, dimensions: Axes = None, **unknown: Never) -> Self:
        """`lib.arithmetic.max`: the largest over these dimensions, by default all."""
        return self._reduced("max", dimensions, unknown)

    def min(self, dimensions: Axes = None, **unknown: Never) -> Self:
        """`lib.arithmetic.min`: the smallest over these dimensions, by default all."""
        return self._reduced("min", dimensions, unknown)

    def mean(self, dimensions: Axes = None, **unknown: Never) -> Self:
        """`lib.arithmetic.mean`: the mean over these dimensions, by default all."""
        return self._reduced("mean", dimensions, unknown)

    def any(self, dimensions: Axes = None, **unknown: Never) -> Self:
        """`lib.arithmetic.any`: whether one of the preds holds."""
        return self._reduced("any", dimensions, unknown)

    def all(self, dimensions: Axes = None, **unknown: Never) -> Self:
        """`lib.arithmetic.all`: whether all of the preds hold."""
        return self._reduced("all", dimensions, unknown)

    def reshape(self, *sizes: int | Sequence[int]) -> Self:
        """`ops.reshape`: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
        return self._call("reshape", self, _sequence(sizes))

    def transpose(self, *permutation: int | Sequence[int]) -> Self:
        """`ops.transpose`; without a permutation in opposite order."""
        order = _sequence(permutation) if permutation else range(self.ndim)[::-1]
        return self._call("transpose", self, order)

    def astype(self, element_type: ElementTypeLike) -> Self:
        """`ops.convert_element_type`."""
        return self._call("convert_element_type", self, element_type)

    def __getitem__(self, index: Index) -> Self:
        part: Self = _functions().subscript(self, index)
        return part

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise ArgumentTypeError(
            f"an Op cannot be changed, got %{self.name}[...] = ...; ops.dynamic_update_slice and "
            "lib.slicing.update_slice give a new one"
        )

    def __len__(self) -> int:
        if self.shape.is_tuple:
            return len(self.shape.tuple_shapes)
        raise ArgumentTypeError(
            f"only a tuple has a length, got {self!r}; its sizes are op.shape.dimensions"
        )

    def __iter__(self) -> Iterator[Self]:
        if self.shape.is_tuple:
            return (self[number] for number in range(len(self)))
        raise ArgumentTypeError(
            f"only a tuple can be iterated over, got {self!r}; loops over elements are written "
            "with lib.loops, ops.map or ops.scan"
        )

    def __contains__(self, value: object) -> NoReturn:
        raise ArgumentTypeError(
            f"`in` cannot be answered while the program is written, got {self!r}; "
            "ops.eq and lib.arithmetic.any find an element"
        )

    def __eq__(self, other: object) -> NoReturn:
        self._refuse_comparison("==", "eq")

    def __ne__(self, other: object) -> NoReturn:
        self._refuse_comparison("!=", "ne")

    def __lt__(self, other: object) -> NoReturn:
        self._refuse_comparison("<", "lt", " (and ops.min, ops.max)")

    def __le__(self, other: object) -> NoReturn:
        self._refuse_comparison("<=", "le")

    def __gt__(self, other: object) -> NoReturn:
        self._refuse_comparison(">", "gt", " (and ops.min, ops.max)")

    def __ge__(self, other: object) -> NoReturn:
        self._refuse_comparison(">=", "ge")

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise ArgumentTypeError(
            f"%{self.name} has no truth value while the program is written; use "
            "ops.conditional, ops.select or ops.while_"
        )

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        self._refuse_value("a numpy array")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Self:
        # numpy's scalars and arrays come here with `scalar + op`, and numpy's own functions.
        found = _OF_UFUNC.get(ufunc.__name__)
        if found is None or method != "__call__" or options:
            known = _function_named(ufunc.__name__) if method == "__call__" else ""
            advice = f"the function of Ops is {known or 'in xla_client.ops or lib'}"
            self._refuse_value(f"numpy's {ufunc.__name__} ({advice})")
        sign, function = found
        if not function:
            self._refuse_comparison(sign, _COMPARISONS[sign])
        if function == "shift_right":
            function = _shift_right(self)
        lhs, rhs = inputs
        return self._binary(function, lhs, rhs, sign)

    def __float__(self) -> NoReturn:
        self._refuse_value("a float")

    def __int__(self) -> NoReturn:
        self._refuse_value("an int")

    def __index__(self) -> NoReturn:
        self._refuse_value("an int, which sizes and dimension numbers are")

    def __complex__(self) -> NoReturn:
        self._refuse_value("a complex number")

    def __getattr__(self, name: str) -> NoReturn:
        advice = "operations are functions of xla_client.ops and xla_client.lib"
        if known := _function_named(name):
            advice = f"the operation is {known}"
        raise AttributeError(f"an Op has no attribute {name!r}; {advice}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.shape}"

    def _call(self, name: str, *operands: Any) -> Self:
        result: Self = _functions().operations[name](*operands)
        return result

    def _binary(self, name: str, lhs: Any, rhs: Any, sign: str) -> Self:
        for side, other in ((lhs, rhs), (rhs, lhs)):
            if not isinstance(side, (Operators, *SCALAR_TYPES)) and not _is_scalar_array(side):
                _refuse(other, side, sign)
        return self._call(name, lhs, rhs)

    def _reduced(self, name: str, dimensions: Axes, unknown: dict[str, Never]) -> Self:
        for other in unknown:
            raise ArgumentTypeError(
                f"{name} of an Op takes dimensions, got the unknown parameter {other!r}; "
                f"x.{name}(0) and x.{name}((0, 1)) say them"
            )
        result: Self = _functions().reductions[name](self, dimensions)
        return result

    def _refuse_comparison(self, sign: str, name: str, more: str = "") -> NoReturn:
        raise ArgumentTypeError(
            f"`{sign}` cannot be answered while the program is written, got %{self.name}; "
            f"ops.{name}(x, y) or x.{name}(y) compares elements when it runs{more}"
        )

    def _refuse_value(self, kind: str) -> NoReturn:
        raise ArgumentTypeError(
            f"an Op has no value before its program runs, got {self!r} for {kind}; "
            "client.compile(builder.build(op)).run(...) gives the value"
        )


_OF_UFUNC: dict[str, tuple[str, str]] = {
    "add": ("+", "add"),
    "subtract": ("-", "sub"),
    "multiply": ("*", "mul"),
    "divide": ("/", "div"),
    "floor_divide": ("//", "floor_div"),
    "remainder": ("%", "floor_mod"),
    "power": ("**", "pow"),
    "bitwise_and": ("&", "and_"),
    "bitwise_or": ("|", "or_"),
    "bitwise_xor": ("^", "xor"),
    "left_shift": ("<<", "shift_left"),
    "right_shift": (">>", "shift_right"),
    "matmul": ("@", "matmul"),
    "equal": ("==", ""),
    "not_equal": ("!=", ""),
    "less": ("<", ""),
    "less_equal": ("<=", ""),
    "greater": (">", ""),
    "greater_equal": (">=", ""),
}
"""The operators behind numpy's functions, with functions of `ops`; comparisons have none."""

_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def _functions() -> Functions:
    return _provided[0]


def _function_named(name: str) -> str:
    """Return where the function of Ops of this name is, or of its name in numpy; empty if none."""
    return f"ops.{name}" if name in _functions().operations else FAMILIAR_NAMES.get(name, "")


def _is_scalar_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 0


def _refuse(op: Any, other: object, sign: str) -> NoReturn:
    raise ArgumentTypeError(
        f"`{sign}` takes Ops and numbers, got {op!r} and {described(other)}; "
        "builder.constant makes an Op of an array"
    )


def _sequence(numbers: tuple[Any, ...]) -> Any:
    """The sequence that stands alone, or the numbers themselves."""
    return numbers[0] if len(numbers) == 1 else numbers


def _shift_right(operand: Operators) -> str:
    is_signed = operand.shape.element_type.is_signed_integer
    return "shift_right_arithmetic" if is_signed else "shift_right_logical"
