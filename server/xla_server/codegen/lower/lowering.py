"""Lowering: the code of a program, one row after the other over values, from optimised HLO."""

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from xla_contract.errors import UnimplementedError, XlaError
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Code, CopyThunk, KernelThunk, Row, Value
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS, is_fault
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.evaluator.cost_analysis import Cost
from xla_server.evaluator.plan import in_order
from xla_server.execution.compiling import checkpoint
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.simplify.cse import EqualComputations
from xla_server.target.target import Target

Tree: TypeAlias = "Value | tuple[Tree, ...] | None"
"""The values of an instruction: one for an array, None for a token, a tuple for a tuple."""

Lower: TypeAlias = Callable[["Lowering", HloInstruction], "Tree | Deep[Tree]"]
"""Adds the rows of an instruction, whose operands have their values, and gives its own.

Those that lower computations which run instruction by instruction are deep functions.
"""


T = TypeVar("T")


@dataclasses.dataclass(eq=False)
class Lowering:
    """The code of one program while it is written.

    Without `fuses`, the instructions inside of fusions are lowered one by one. `carried` are the
    values that loops hand from one iteration to the next, `area_bytes` the bytes of what
    participants gather at a time, of all meetings. `kernels` of loop nests, and epilogues, are kept
    by what they compute: one for `equal` ones. `numbers` say which participant runs, by the opcodes
    that ask.
    """

    table: Mapping[Opcode, Lower]
    target: Target
    custom_calls: CustomCallRegistry = BUILTIN
    fuses: bool = True
    grid: DeviceGrid = ALONE
    equal: EqualComputations = dataclasses.field(default_factory=EqualComputations)
    area_bytes: int = 0
    loop_depth: int = 0
    rows: list[Row] = dataclasses.field(default_factory=list)
    constants: dict[Value, Any] = dataclasses.field(default_factory=dict)
    origins: dict[Row, HloInstruction] = dataclasses.field(default_factory=dict)
    costs: dict[HloInstruction, Cost] = dataclasses.field(default_factory=dict)
    carried: set[Value] = dataclasses.field(default_factory=set)
    kernels: dict[object, Any] = dataclasses.field(default_factory=dict)
    numbers: dict[Opcode, Value] = dataclasses.field(default_factory=dict)
    _scope: dict[HloInstruction, Tree] = dataclasses.field(default_factory=dict)
    _current: HloInstruction | None = None

    def of(self, instruction: HloInstruction) -> Tree:
        """The values of an instruction that was lowered."""
        return self._scope[instruction]

    def array(self, instruction: HloInstruction) -> Value:
        """The value of an instruction that gives an array; a reshape has that of its operand."""
        value = self._scope[instruction]
        assert isinstance(value, Value), instruction
        return value

    def new(self, shape: Shape, name: str) -> Value:
        """A value that a row to come writes."""
        return Value(shape.without_layout(), name)

    def add(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        if self._current is not None:
            self.origins[row] = self._current

    def take_back(self, start: int) -> list[Row]:
        """Forget the rows from this number on, and return them."""
        taken = self.rows[start:]
        del self.rows[start:]
        for row in taken:
            self.origins.pop(row, None)
        return taken

    def give(self, instruction: HloInstruction, tree: Tree) -> None:
        """Let an instruction that is not lowered have these values."""
        self._scope[instruction] = tree

    def copy(self, target: Tree, source: Tree) -> None:
        """Rows that copy all arrays of a tree into another of the same structure."""
        for to, origin in zip(leaves(target), leaves(source), strict=True):
            if to is not origin:
                self.add(CopyThunk(to, origin))

    def fresh(self, shape: Shape, name: str) -> Tree:
        """New values for everything in a shape."""
        if shape.is_tuple:
            return tuple(
                self.fresh(part, f"{name}.{n}") for n, part in enumerate(shape.tuple_shapes)
            )
        return self.new(shape, name) if shape.is_array else None

    def results(self, i: HloInstruction) -> tuple[Value, ...]:
        """New values for a result that is an array, or for the arrays of a flat tuple."""
        shapes = i.shape.tuple_shapes if i.shape.is_tuple else (i.shape,)
        return tuple(self.new(shape, f"{i.name}.{n}") for n, shape in enumerate(shapes))

    def call(self, computation: HloComputation, arguments: Sequence[Tree]) -> Deep[Tree]:
        """Add the rows of a computation and return its root's values, as a deep function."""
        outer, self._scope = self._scope, {}
        try:
            self._scope.update(zip(computation.parameters, arguments, strict=True))
            # The order of the interpreter: instructions that wait for a recv come last.
            for instruction in in_order(computation.instructions):
                if instruction not in self._scope:
                    checkpoint()
                    self._scope[instruction] = yield self._lowered(instruction)
            return self._scope[computation.root]
        finally:
            self._scope = outer

    def _lowered(self, instruction: HloInstruction) -> Deep[Tree]:
        lower = self.table.get(instruction.opcode)
        outer, self._current = self._current, instruction
        try:
            if lower is None:
                raise UnimplementedError(
                    f"this platform must have a kernel, got opcode {instruction.opcode}"
                )
            tree: Tree
            if instruction.opcode is Opcode.FUSION:
                tree = cast(Tree, self.attempt(instruction, lambda: lower(self, instruction)))
                if tree is None:
                    operands = [self.of(operand) for operand in instruction.operands]
                    tree = yield self.call(instruction.called[0], operands)
                return tree
            made = lower(self, instruction)
            tree = (yield made) if isinstance(made, Generator) else made
            return tree
        except XlaError as error:
            raise error.at(instruction.opcode, instruction.name) from error.__cause__
        finally:
            self._current = outer

    def attempt(self, i: HloInstruction, lower: Callable[[], T | None]) -> T | None:
        """Return what lowers an instruction to fused code; None if that fails or is not wanted."""
        if not self.fuses:
            return None
        tables: tuple[dict[Any, Any], ...] = self.constants, self.costs
        before, lengths = len(self.rows), list(map(len, tables))
        try:
            return lower()
        except Exception as error:
            if not is_fault(error):
                raise
            FUSION_FAULTS.record(error, i)
        self.take_back(before)
        for table, length in zip(tables, lengths, strict=True):
            for key in list(table)[length:]:
                del table[key]
        return None


def leaves(tree: Tree) -> list[Value]:
    """The arrays of a tree, in order."""
    if isinstance(tree, tuple):
        return [value for part in tree for value in leaves(part)]
    return [] if tree is None else [tree]


def lower(
    module: HloModule,
    table: Mapping[Opcode, Lower],
    target: Target,
    custom_calls: CustomCallRegistry = BUILTIN,
    *,
    fuses: bool = True,
) -> Code:
    """The code of a module for a target; raises UnimplementedError for an opcode without lowering.

    Without `fuses`, the instructions inside of fusions are lowered one by one.
    """
    equal = EqualComputations.of_elements(module)
    lowering = Lowering(table, target, custom_calls, fuses, module.grid, equal)
    arguments = [
        lowering.fresh(parameter.shape, parameter.name) for parameter in module.entry.parameters
    ]
    result = result_of(lowering.call(module.entry, arguments))
    parameters = [value for tree in arguments for value in leaves(tree)]
    parameters += lowering.numbers.values()
    return Code(
        lowering.rows,
        parameters,
        dict(lowering.constants),
        leaves(result),
        lowering.origins,
        lowering.costs,
        target.tuning.loops.chunks,
        numbers=tuple(lowering.numbers),
    )


def kernels_of(code: Code) -> list[KernelThunk]:
    """The rows that call kernels."""
    return [row for row in code.rows if isinstance(row, KernelThunk)]
