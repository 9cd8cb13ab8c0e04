"""The record of an elementwise operation, which its row in `ops.elementwise.rows` makes."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode

Function: TypeAlias = Callable[..., Any]


class CostClass(enum.IntEnum):
    """Cost class of an operation for one element, in additions."""

    ARITHMETIC = 1
    ACCESS = 4
    """A load or a store, from and to the caches."""
    DIVISION = 6
    ROOT = 12
    TRANSCENDENTAL = 20
    """Worth a call instead of a copy of the code where its loop is short."""
    POWER = 80
    """A logarithm and an exponential of sums of two floats, four times as long as one of them."""


class KernelForm(enum.Enum):
    """The kernel functions of an operation on real numbers.

    One on complex numbers, `add_c64`, is a function for each type in every form.
    """

    INSTRUCTION = enum.auto()
    """`add`, of every real type."""

    BITS = enum.auto()
    """`popcnt` of integers of whole bytes; `popcnt_s4` and the like of narrower ones."""

    FUNCTION = enum.auto()
    """`exp_f32`, `exp_f64`: a function for each type that values are computed in."""


@dataclasses.dataclass(frozen=True, slots=True)
class ElementwiseOp:
    """One elementwise operation.

    numpy functions take arrays of the type that values are computed in. The form BITS adds the
    element type as the last argument.
    """

    function: Function
    """The numpy function of every kind of type that has none of its own below."""

    kernel: str
    """The name of the kernel function, without the type."""

    cost: CostClass = CostClass.ARITHMETIC
    form: KernelForm = KernelForm.INSTRUCTION
    ulps: tuple[float, float] | None = None
    """Bounds of the kernel functions' errors for F32 and F64, in ULP of the exact result; None if
    LLVM or the C library defines the result."""

    integer: Function | None = None
    floating: Function | None = None
    complex: Function | None = None
    pred: str | None = None
    """The kernel function of truth values, if it is another."""

    is_exact: bool = False
    """The result is a value of the operands' type without rounding."""

    widens_complex: bool = False
    """C64 is computed as C128 and rounded."""

    has_c64: bool = False
    """C64 has a kernel function of its own all the same, with F64 inside."""

    keeps_subnormals: bool = False
    """Subnormal operands and results are kept, not taken for zeros (`ops.subnormal_rule`)."""

    neutral: float | None = None
    """The second operand beside which the first, a float, is the result; either operand of an
    operation that is commutative."""

    workspace: float = 1
    """Bytes that the evaluator allocates in addition to its result for each byte of the largest
    array it reads or makes: measured by tracemalloc for f32 arrays of 4 MiB, rounded up."""

    def function_of(self, element_type: ElementType) -> Function:
        """Return the numpy function for operands of this type."""
        own = None
        if element_type.is_integer:
            own = self.integer
        elif element_type.is_floating:
            own = self.floating
        elif element_type.is_complex:
            own = self.complex
        return own or self.function

    def widens_to_c128(self, element_type: ElementType) -> bool:
        """Return whether kernels compute operands of this type as C128, and round the result."""
        return element_type is ElementType.C64 and self.widens_complex and not self.has_c64

    def kernel_function(self, element_type: ElementType, computed: str) -> str:
        """Return the name of the kernel function for operands of this type.

        `computed` is the type that those operands are computed in.
        """
        if element_type is ElementType.PRED and self.pred is not None:
            return self.pred
        if element_type.is_complex or self.form is KernelForm.FUNCTION:
            return f"{self.kernel}_{computed}"
        if self.form is KernelForm.BITS and element_type.bit_width < 8:
            return f"{self.kernel}_{element_type.text}"
        return self.kernel


Rows: TypeAlias = Mapping[Opcode, ElementwiseOp]
"""Rows by opcode."""


def function(
    numpy_function: Function,
    kernel: str,
    ulps: tuple[float, float],
    cost: CostClass = CostClass.TRANSCENDENTAL,
    **more: Any,
) -> ElementwiseOp:
    """Return the row of a function with a formula of its own for each computed type."""
    form = KernelForm.FUNCTION
    return ElementwiseOp(numpy_function, kernel, cost, form, ulps, widens_complex=True, **more)


def identity_near_zero(*row: Any, **more: Any) -> ElementwiseOp:
    """Return the row of a function that gives back small operands, subnormal ones too."""
    return function(*row, keeps_subnormals=True, **more)


def bits(function: Function, kernel: str) -> ElementwiseOp:
    """Return the row of an operation on the bits of integers."""
    return ElementwiseOp(function, kernel, form=KernelForm.BITS)


def part(function: Function, kernel: str) -> ElementwiseOp:
    """Return the row of an operation that makes or takes apart complex numbers."""
    return ElementwiseOp(
        function, kernel, form=KernelForm.FUNCTION, is_exact=True, keeps_subnormals=True
    )


def exact(function: Function, kernel: str, **more: Any) -> ElementwiseOp:
    """Return the row of an operation that does not round."""
    return ElementwiseOp(function, kernel, is_exact=True, **more)
