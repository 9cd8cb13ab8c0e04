"""Values of a program that is being written, and Python's operators on them."""

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Never, NoReturn, SupportsIndex, TypeAlias

import numpy as np

from xla_client.coercion.numbers import RunValue, described
from xla_client.programs.scalars import SCALAR_TYPES, Scalar
from xla_contract.errors import ArgumentTypeError
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.shape import Shape

if TYPE_CHECKING:
    from xla_client.programs.builder import Builder

_Place: TypeAlias = "SupportsIndex | slice | EllipsisType | Op | Sequence[int] | None"
Index: TypeAlias = "_Place | tuple[_Place, ...]"
"""The types of an index between the brackets of `x[...]`."""

Axes: TypeAlias = int | Sequence[int] | None
"""Dimension numbers, which count from the end where they are negative; None is all."""


class Op(RunValue):
    """One instruction of a builder, standing for the value it will have.

    Operators work between Ops and between an Op and a Python or numpy scalar, which becomes a
    constant of the Op's element type. Each is a function of `xla_client.ops`: operands of different
    rank are refused unless one is a scalar, and `/` of integers truncates. `//` and `%` follow
    Python and numpy: they round towards minus infinity and take the sign of the divisor (`ops.div`
    and `ops.rem` are XLA's own). `@` is `ops.matmul`, `~ & | ^ << >>` work on integers and, but for
    shifts, on pred.

    Comparisons are `x.eq(y)`, `x.lt(y)` ... or `ops.eq`, `ops.lt` ...: Python takes `==` and `<`
    for questions that it can answer at once, so these operators raise. `x[i, 1:3, None, ...]`
    slices as numpy does, with Ops as indices that the run finds. A tuple has a length, elements by
    number, and can be unpacked.
    """

    __slots__ = ("builder", "id", "name", "shape")

    def __init__(self, builder: "Builder", id: int, name: str, shape: Shape) -> None:
        self.builder = builder
        self.id = id
        self.name = name
        self.shape = shape

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
    def T(self) -> "Op":  # noqa: N802 (numpy's name)
        """The dimensions in opposite order: `ops.transpose`."""
        return self.transpose()

    def __add__(self, other: "Op | Scalar") -> "Op":
        return _binary("add", self, other, "+")

    def __radd__(self, other: Scalar) -> "Op":
        return _binary("add", other, self, "+")

    def __sub__(self, other: "Op | Scalar") -> "Op":
        return _binary("sub", self, other, "-")

    def __rsub__(self, other: Scalar) -> "Op":
        return _binary("sub", other, self, "-")

    def __mul__(self, other: "Op | Scalar") -> "Op":
        return _binary("mul", self, other, "*")

    def __rmul__(self, other: Scalar) -> "Op":
        return _binary("mul", other, self, "*")

    def __truediv__(self, other: "Op | Scalar") -> "Op":
        return _binary("div", self, other, "/")

    def __rtruediv__(self, other: Scalar) -> "Op":
        return _binary("div", other, self, "/")

    def __floordiv__(self, other: "Op | Scalar") -> "Op":
        return _binary("floor_div", self, other, "//")

    def __rfloordiv__(self, other: Scalar) -> "Op":
        return _binary("floor_div", other, self, "//")

    def __mod__(self, other: "Op | Scalar") -> "Op":
        return _binary("floor_mod", self, other, "%")

    def __rmod__(self, other: Scalar) -> "Op":
        return _binary("floor_mod", other, self, "%")

    def __divmod__(self, other: "Op | Scalar") -> "tuple[Op, Op]":
        return self // other, self % other

    def __rdivmod__(self, other: Scalar) -> "tuple[Op, Op]":
        return other // self, other % self

    def __pow__(self, other: "Op | Scalar") -> "Op":
        return _binary("pow", self, other, "**")

    def __rpow__(self, other: Scalar) -> "Op":
        return _binary("pow", other, self, "**")

    def __and__(self, other: "Op | Scalar") -> "Op":
        return _binary("and_", self, other, "&")

    def __rand__(self, other: Scalar) -> "Op":
        return _binary("and_", other, self, "&")

    def __or__(self, other: "Op | Scalar") -> "Op":
        return _binary("or_", self, other, "|")

    def __ror__(self, other: Scalar) -> "Op":
        return _binary("or_", other, self, "|")

    def __xor__(self, other: "Op | Scalar") -> "Op":
        return _binary("xor", self, other, "^")

    def __rxor__(self, other: Scalar) -> "Op":
        return _binary("xor", other, self, "^")

    def __lshift__(self, other: "Op | Scalar") -> "Op":
        return _binary("shift_left", self, other, "<<")

    def __rlshift__(self, other: Scalar) -> "Op":
        return _binary("shift_left", other, self, "<<")

    def __rshift__(self, other: "Op | Scalar") -> "Op":
        return _binary(_shift_right(self), self, other, ">>")

    def __rrshift__(self, other: Scalar) -> "Op":
        return _binary(_shift_right(self), other, self, ">>")

    def __matmul__(self, other: "Op") -> "Op":
        return _binary("matmul", self, other, "@")

    def __rmatmul__(self, other: object) -> NoReturn:
        _refuse(self, other, "@")

    def __neg__(self) -> "Op":
        return _call("neg", self)

    def __pos__(self) -> "Op":
        return self

    def __abs__(self) -> "Op":
        return _call("abs", self)

    def __invert__(self) -> "Op":
        return _call("not_", self)

    def __round__(self, digits: None = None) -> "Op":
        if digits is not None:
            raise ArgumentTypeError(f"round of an Op takes no digits, got {digits!r:.80}")
        return _call("round_nearest_even", self)

    def eq(self, other: "Op | Scalar") -> "Op":
        """`ops.eq`: where the elements are equal."""
        return _call("eq", self, other)

    def ne(self, other: "Op | Scalar") -> "Op":
        """`ops.ne`: where the elements differ."""
        return _call("ne", self, other)

    def lt(self, other: "Op | Scalar") -> "Op":
        """`ops.lt`: where the elements are less than the other's."""
        return _call("lt", self, other)

    def le(self, other: "Op | Scalar") -> "Op":
        """`ops.le`: where the elements are at most the other's."""
        return _call("le", self, other)

    def gt(self, other: "Op | Scalar") -> "Op":
        """`ops.gt`: where the elements are greater than the other's."""
        return _call("gt", self, other)

    def ge(self, other: "Op | Scalar") -> "Op":
        """`ops.ge`: where the elements are at least the other's."""
        return _call("ge", self, other)

    def sum(self, dimensions: Axes = None, **unknown: Never) -> "Op":
        """`lib.arithmetic.sum`: the sum over these dimensions, by default all."""
        return _fold("sum", self, dimensions, unknown)

    def prod(self, dimensions: Axes = None, **unknown: Never) -> "Op":
        """`lib.arithmetic.prod`: the product over these dimensions, by default all."""
        return _fold("prod", self, dimensions, unknown)

    def max(self, dimensions: Axes = None, **unknown: Never) -> "Op":
        """`lib.arithmetic.max`: the largest over these dimensions, by default all."""
        return _fold("max", self, dimensions, unknown)

    def min(self, dimensions: Axes = None, **unknown: Never) -> "Op":
        """`lib.arithmetic.min`: the smallest over these dimensions, by default all."""
        return _fold("min", self, dimensions, unknown)

    def mean(self, dimensions: Axes = None, **unknown: Never) -> "Op":
        """`lib.arithmetic.mean`: the mean over these dimensions, by default all."""
        return _fold("mean", self, dimensions, unknown)

    def any(self, dimensions: Axes = None, **unknown: Never) -> "Op":
        """`lib.arithmetic.any`: whether one of the preds holds."""
        return _fold("any", self, dimensions, unknown)

    def all(self, dimensions: Axes = None, **unknown: Never) -> "Op":
        """`lib.arithmetic.all`: whether all of the preds hold."""
        return _fold("all", self, dimensions, unknown)

    def reshape(self, *sizes: int | Sequence[int]) -> "Op":
        """`ops.reshape`: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
        return _call("reshape", self, _sequence(sizes))

    def transpose(self, *permutation: int | Sequence[int]) -> "Op":
        """`ops.transpose`; without a permutation in opposite order."""
        order = _sequence(permutation) if permutation else range(self.ndim)[::-1]
        return _call("transpose", self, order)

    def astype(self, element_type: ElementTypeLike) -> "Op":
        """`ops.convert_element_type`."""
        return _call("convert_element_type", self, element_type)

    def __getitem__(self, index: Index) -> "Op":
        from xla_client.ops.subscript import subscript

        return subscript(self, index)

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

    def __iter__(self) -> Iterator["Op"]:
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

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> "Op":
        # numpy's scalars and arrays come here with `scalar + op`, and numpy's own functions.
        found = _OF_UFUNC.get(ufunc.__name__)
        if found is None or method != "__call__" or options:
            self._refuse_value(
                f"numpy's {ufunc.__name__} (functions of Ops are in xla_client.ops and lib)"
            )
        sign, function = found
        if not function:
            self._refuse_comparison(sign, _COMPARISONS[sign])
        if function == "shift_right":
            function = _shift_right(self)
        lhs, rhs = inputs
        return _binary(function, lhs, rhs, sign)

    def __float__(self) -> NoReturn:
        self._refuse_value("a float")

    def __int__(self) -> NoReturn:
        self._refuse_value("an int")

    def __index__(self) -> NoReturn:
        self._refuse_value("an int, which sizes and dimension numbers are")

    def __complex__(self) -> NoReturn:
        self._refuse_value("a complex number")

    def __getattr__(self, name: str) -> NoReturn:
        from xla_client import ops

        told = "operations are functions of xla_client.ops and xla_client.lib"
        if name in ops.__all__:
            told = f"the operation is ops.{name}"
        raise AttributeError(f"an Op has no attribute {name!r}; {told}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.shape}"

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


def _call(name: str, *operands: Any) -> Op:
    from xla_client import ops

    result: Op = getattr(ops, name)(*operands)
    return result


def _binary(name: str, lhs: Any, rhs: Any, sign: str) -> Op:
    for side, other in ((lhs, rhs), (rhs, lhs)):
        if not isinstance(side, (Op, *SCALAR_TYPES)) and not _is_scalar_array(side):
            _refuse(other, side, sign)
    return _call(name, lhs, rhs)


def _is_scalar_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 0


def _refuse(op: Op, other: object, sign: str) -> NoReturn:
    raise ArgumentTypeError(
        f"`{sign}` takes Ops and numbers, got {op!r} and {described(other)}; "
        "builder.constant makes an Op of an array"
    )


def _fold(name: str, operand: Op, dimensions: Axes, unknown: dict[str, Never]) -> Op:
    from xla_client.ops import folds

    for other in unknown:
        raise ArgumentTypeError(
            f"{name} of an Op takes dimensions, got the unknown parameter {other!r}; "
            f"x.{name}(0) and x.{name}((0, 1)) say them"
        )

    result: Op = getattr(folds, name)(operand, dimensions)
    return result


def _sequence(numbers: tuple[Any, ...]) -> Any:
    """The sequence that stands alone, or the numbers themselves."""
    return numbers[0] if len(numbers) == 1 else numbers


def _shift_right(operand: Op) -> str:
    is_signed = operand.shape.element_type.is_signed_integer
    return "shift_right_arithmetic" if is_signed else "shift_right_logical"
