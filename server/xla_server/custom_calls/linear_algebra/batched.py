"""Functions of matrices as custom calls, applied to each matrix of a batch."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.signature import listed
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.custom_calls.attributes import AttributeValue, integer, parse_attributes
from xla_server.custom_calls.target import CustomCallTarget, require_result, static_operands
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value

Matrices: TypeAlias = Sequence[Any]
"""Arrays of one element of the batch; scipy's routines are not typed."""

ELEMENTS = (ElementType.F32, ElementType.F64, ElementType.C64, ElementType.C128)
"""Element types of LAPACK's routines."""

STATUS = Shape.scalar(ElementType.S32)
"""LAPACK's info: 0, or what went wrong."""


@dataclasses.dataclass(frozen=True, slots=True)
class BatchedCall:
    """One call: the matrices' element type, and the shapes of operands and result without batch."""

    element: ElementType
    attributes: Mapping[str, AttributeValue]
    operands: tuple[Shape, ...]
    declared: Shape

    @property
    def rows(self) -> int:
        """Rows of the first operand."""
        return self.operands[0].dimensions[0]

    @property
    def columns(self) -> int:
        """Columns of the first operand."""
        return self.operands[0].dimensions[1]

    @property
    def smaller(self) -> int:
        """The smaller of rows and columns."""
        return min(self.rows, self.columns)

    def array(self, *dimensions: int) -> Shape:
        """Arrays of the matrices' type."""
        return Shape.array(self.element, dimensions)

    def real(self, *dimensions: int) -> Shape:
        """Arrays of the real type with the same precision."""
        return Shape.array(self.element.real_component, dimensions)

    def square(self) -> int:
        """The size of the first operand; raises ShapeError if it is not square."""
        self.require(self.rows == self.columns, "the matrices must be square")
        return self.rows

    def require(self, is_true: bool, rule: str) -> None:
        """Raise ShapeError with the rule and the operands."""
        if not is_true:
            raise ShapeError(f"{rule}, got matrices {listed(self.operands)}")

    def letter(self, name: str, letters: str) -> str:
        """An attribute that is the code of one of these letters."""
        code = self.attributes.get(name)
        wanted = {ord(letter): letter for letter in letters}
        if type(code) is not int or code not in wanted:
            codes = " or ".join(f"{code} ({letter})" for code, letter in wanted.items())
            raise InvalidArgumentError(f"attribute {name} must be {codes}, got {code!r:.40}")
        return wanted[code]

    def integer(self, name: str) -> int:
        """An attribute that is an integer."""
        return integer(self.attributes, name)

    def flag(self, name: str) -> bool:
        """An attribute that is true or false."""
        flag = self.attributes.get(name)
        if type(flag) is not bool:
            raise InvalidArgumentError(f"attribute {name} must be a boolean, got {flag!r:.40}")
        return flag


Operand: TypeAlias = tuple[int, ElementType | None]
MATRIX: Operand = (2, None)
VECTOR: Operand = (1, None)
PIVOTS: Operand = (1, ElementType.S32)
"""An operand without batch dimensions: its rank, and its element type if it is not that of the
matrices."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixFunction:
    """A function of matrices, applied to each matrix of a batch.

    `results` returns the shapes without batch, as one array or a tuple of them, and raises if the
    operands do not fit; `compute` returns as many arrays. Matrices without elements are passed to
    `empty` instead of `compute`. `element` is the element type of the matrices; None accepts any of
    ELEMENTS.
    """

    operands: tuple[Operand, ...]
    results: Callable[[BatchedCall], Shape]
    compute: Callable[[BatchedCall, Matrices], Matrices]
    element: ElementType | None = None
    read: Callable[[bytes], Mapping[str, AttributeValue]] = parse_attributes
    empty: Callable[[BatchedCall, Matrices], Matrices] | None = None

    def target(self, name: str) -> CustomCallTarget:
        """Return the custom-call target of this name, over any number of batch dimensions."""
        return CustomCallTarget(name, self._evaluate, self._check)

    def _check(self, instruction: HloInstruction) -> None:
        batch, call = self._call(instruction)
        cores = self.results(call)
        parts = [
            Shape.array(part.element_type, (*batch, *part.dimensions)) for part in cores.leaves()
        ]
        require_result(instruction, Shape.tuple_of(parts) if cores.is_tuple else parts[0])

    def _evaluate(
        self, instruction: HloInstruction, operands: Sequence[Value], frame: Frame
    ) -> Value:
        batch, call = self._call(instruction)
        cores = list(self.results(call).leaves())
        results = [np.empty((*batch, *core.dimensions), core.element_type.dtype) for core in cores]
        compute = self.compute
        if not all(operand.element_count for operand in call.operands):
            compute = self.empty or _empty
        for position in np.ndindex(batch):
            frame.check_cancelled()
            matrices: list[Any] = [operand[position] for operand in operands]  # type: ignore[index,call-overload]
            for result, value in zip(results, compute(call, matrices), strict=True):
                result[position] = value
        return tuple(results) if instruction.shape.is_tuple else results[0]

    def _call(self, instruction: HloInstruction) -> tuple[tuple[int, ...], BatchedCall]:
        shapes = static_operands(instruction)
        inside = listed(shapes)
        if len(shapes) != len(self.operands) or not all(shape.is_array for shape in shapes):
            raise ShapeError(f"the target takes {len(self.operands)} arrays, got {inside}")
        element = self.element or shapes[0].element_type
        if element not in ELEMENTS:
            raise ShapeError(f"the matrices must be of f32, f64, c64 or c128, got {inside}")
        batch = shapes[0].dimensions[: max(0, shapes[0].rank - self.operands[0][0])]
        cores = []
        for shape, (rank, kind) in zip(shapes, self.operands, strict=True):
            wanted = kind or element
            core = shape.dimensions[len(batch) :]
            if shape.element_type is not wanted or len(core) != rank:
                raise ShapeError(
                    f"the target takes {wanted.text} of {rank} dimensions after those of the "
                    f"batch, got {shape} of {inside}"
                )
            if shape.dimensions[: len(batch)] != batch:
                raise ShapeError(f"the operands must have the same batch, got {inside}")
            cores.append(Shape.array(wanted, core))
        attributes = self.read(instruction.attributes.opaque)
        declared = instruction.shape.without_layout()
        return batch, BatchedCall(element, attributes, tuple(cores), declared)


def _empty(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Results of nothing are zeros."""
    return [0] * len(list(call.declared.leaves()))
