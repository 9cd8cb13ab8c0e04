"""One instruction as a module of its own: the arrays in its operands are parameters."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.conformance.sweep.draws.bounds_reductions import magnitudes
from tests.fuzz.answers.steps.graph import with_all_results
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloComputation, HloInstruction, HloModule


class _Entry:
    """The entry computation while it is written."""

    def __init__(self) -> None:
        self.instructions: list[HloInstruction] = []
        self.parameters: list[HloInstruction] = []
        self._ids = itertools.count()

    def add(
        self,
        opcode: Opcode,
        shape: Shape,
        operands: Sequence[HloInstruction] = (),
        attributes: Any = NO_ATTRIBUTES,
        called: tuple[HloComputation, ...] = (),
    ) -> HloInstruction:
        """Add an instruction."""
        number = next(self._ids)
        shape = shape.with_default_layout()
        name = f"alone-{opcode}.{number}"
        new = HloInstruction(name, number, opcode, shape, tuple(operands), attributes, called)
        self.instructions.append(new)
        return new

    def operand(self, shape: Shape) -> HloInstruction:
        """Add parameters for the arrays of a value, and the tuples and tokens they are in."""
        if shape.is_token:
            return self.add(Opcode.AFTER_ALL, shape)
        if shape.is_tuple:
            parts = [self.operand(part) for part in shape.tuple_shapes]
            return self.add(Opcode.TUPLE, shape, parts)
        attributes = ParameterAttributes(len(self.parameters), shape.without_layout())
        parameter = self.add(Opcode.PARAMETER, shape, (), attributes)
        self.parameters.append(parameter)
        return parameter

    def elements(self, value: HloInstruction) -> None:
        """Take a tuple apart."""
        for number, part in enumerate(value.shape.tuple_shapes if value.shape.is_tuple else ()):
            attributes = GetTupleElementAttributes(number)
            self.elements(self.add(Opcode.GET_TUPLE_ELEMENT, part, [value], attributes))


def alone(instruction: HloInstruction) -> hlo_pb2.HloModuleProto:
    """Return the module of one instruction, with all results; `leaves` gives its arguments."""
    entry = _Entry()
    operands = [entry.operand(operand.shape) for operand in instruction.operands]
    root = entry.add(
        instruction.opcode,
        instruction.shape,
        operands,
        instruction.attributes,
        instruction.called,
    )
    entry.elements(root)
    called = list(_reached(instruction))
    number = max((computation.id for computation in called), default=0) + 1
    # The root is the last one until it becomes the tuple of all.
    last = entry.instructions[-1]
    computation = HloComputation("alone", number, entry.instructions, last, tuple(entry.parameters))
    signature = ProgramShape(
        tuple(part.shape for part in entry.parameters),
        last.shape,
        tuple(part.name for part in entry.parameters),
    )
    module = HloModule("alone", 0, [*called, computation], computation, signature)
    return with_all_results(export_module(module))


def leaves(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the arrays in values."""
    for value in values:
        if isinstance(value, tuple):
            yield from leaves(value)
        elif isinstance(value, np.ndarray | np.generic):
            yield np.asarray(value)


def _reached(instruction: HloInstruction) -> dict[HloComputation, None]:
    found: dict[HloComputation, None] = {}
    for computation in instruction.called:
        for part in computation.instructions:
            found.update(_reached(part))
        found[computation] = None
    return found


def scale_of(instruction: HloInstruction, operands: Sequence[Any], element: int = 0) -> Any:
    """Return sums of the magnitudes of the terms: the instruction in f64 on magnitudes.

    Operands of integers, which are indices and sizes, stay as they are.
    """
    if instruction.called and not _is_plain_sum(instruction):
        # Other steps give something else for magnitudes: at most all is added up.
        with np.errstate(all="ignore"):
            return sum(magnitudes(o).sum() for o in leaves(operands) if is_inexact(o))
    wide = alone(instruction)
    for shape in shapes_of(wide):
        kind = E(shape.element_type)
        if kind.is_floating or kind.is_complex:
            shape.element_type = E.F64
    arguments = [magnitudes(o) if is_inexact(o) else o for o in leaves(operands)]
    result: Any = evaluate(import_module(wide), arguments)
    return result[element]


def _is_plain_sum(instruction: HloInstruction) -> bool:
    plain = (Opcode.REDUCE, Opcode.REDUCE_WINDOW, Opcode.SCATTER)
    step = instruction.called[-1]
    return instruction.opcode in plain and step.root.opcode is Opcode.ADD


def is_inexact(array: Any) -> bool:
    """Return whether an array has floats or complex numbers."""
    kind = E.from_dtype(array.dtype)
    return kind.is_floating or kind.is_complex


def shapes_of(module: hlo_pb2.HloModuleProto) -> Iterator[Any]:
    """Yield every shape of a module that an instruction or a signature has, and their parts."""
    for signature in (module.host_program_shape, *(c.program_shape for c in module.computations)):
        for shape in (*signature.parameters, signature.result):
            yield from _parts(shape)
    for computation in module.computations:
        for instruction in computation.instructions:
            yield from _parts(instruction.shape)


def _parts(shape: Any) -> Iterator[Any]:
    yield shape
    for part in shape.tuple_shapes:
        yield from _parts(part)
