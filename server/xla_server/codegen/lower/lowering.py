"""Lowering of optimised HLO to the code of a program: a sequence of thunks over values."""

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from xla_contract.errors import UnimplementedError, XlaError
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Code, CopyThunk, KernelThunk, Thunk, Value
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS, is_fault
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.evaluator.cost_analysis import Cost
from xla_server.evaluator.plan import in_order
from xla_server.ir import traversal
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.simplify.cse import EqualComputations
from xla_server.target.target import Target

Tree: TypeAlias = "Value | tuple[Tree, ...] | None"
"""The values of an instruction: one for an array, None for a token, a tuple for a tuple."""

Lower: TypeAlias = Callable[["Lowering", HloInstruction], "Tree | Deep[Tree]"]
"""Adds the thunks of an instruction, whose operands were lowered, and returns its values.

Lowerings of instructions that call whole computations are deep functions.
"""


T = TypeVar("T")


@dataclasses.dataclass(eq=False)
class Lowering:
    """Builder of one program's code.

    Without `fuses`, the instructions inside of fusions are lowered one by one. `carried` are the
    values that loops pass from one iteration to the next, `area_bytes` the bytes that participants
    gather at a time, for all collectives. `kernels` of loop nests, and epilogues, are cached by
    their computation: one for `equal` ones. `numbers` has the values of replica and partition id,
    by opcode.
    """

    table: Mapping[Opcode, Lower]
    target: Target
    custom_calls: CustomCallRegistry = BUILTIN
    fuses: bool = True
    grid: DeviceGrid = ALONE
    equal: EqualComputations = dataclasses.field(default_factory=EqualComputations)
    area_bytes: int = 0
    loop_depth: int = 0
    thunks: list[Thunk] = dataclasses.field(default_factory=list)
    constants: dict[Value, Any] = dataclasses.field(default_factory=dict)
    origins: dict[Thunk, HloInstruction] = dataclasses.field(default_factory=dict)
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
        """The value of an instruction with an array result; a reshape shares its operand's."""
        value = self._scope[instruction]
        assert isinstance(value, Value), instruction
        return value

    def new(self, shape: Shape, name: str) -> Value:
        """Make a value that a later thunk writes."""
        return Value(shape.without_layout(), name)

    def add(self, thunk: Thunk) -> None:
        """Append a thunk."""
        self.thunks.append(thunk)
        if self._current is not None:
            self.origins[thunk] = self._current

    def pop_thunks(self, start: int) -> list[Thunk]:
        """Remove the thunks from this number on, and return them."""
        removed = self.thunks[start:]
        del self.thunks[start:]
        for thunk in removed:
            self.origins.pop(thunk, None)
        return removed

    def bind(self, instruction: HloInstruction, tree: Tree) -> None:
        """Set the values of an instruction that is not lowered."""
        self._scope[instruction] = tree

    def copy(self, target: Tree, source: Tree) -> None:
        """Append copies of all arrays of a tree into another of the same structure."""
        for to, origin in zip(leaves(target), leaves(source), strict=True):
            if to is not origin:
                self.add(CopyThunk(to, origin))

    def new_tree(self, shape: Shape, name: str) -> Tree:
        """Make new values for all arrays of a shape."""
        if shape.is_tuple:
            return tuple(
                self.new_tree(part, f"{name}.{n}") for n, part in enumerate(shape.tuple_shapes)
            )
        return self.new(shape, name) if shape.is_array else None

    def results(self, i: HloInstruction) -> tuple[Value, ...]:
        """Make new values for a result that is an array, or for the arrays of a flat tuple."""
        return tuple(self.new(shape, f"{i.name}.{n}") for n, shape in enumerate(i.shape.leaves()))

    def call(self, computation: HloComputation, arguments: Sequence[Tree]) -> Deep[Tree]:
        """Add the thunks of a computation and return its root's values, as a deep function."""
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
        """Run a lowering to fused code and return its result; None if it fails or fusion is off."""
        if not self.fuses:
            return None
        tables: tuple[dict[Any, Any], ...] = self.constants, self.costs
        before, lengths = len(self.thunks), list(map(len, tables))
        try:
            return lower()
        except Exception as error:
            if not is_fault(error):
                raise
            FUSION_FAULTS.record(error, i)
        self.pop_thunks(before)
        for table, length in zip(tables, lengths, strict=True):
            for key in list(table)[length:]:
                del table[key]
        return None


def leaves(tree: Tree) -> list[Value]:
    """The arrays of a tree, in order."""
    return list(traversal.leaves(tree))


def lower(
    module: HloModule,
    table: Mapping[Opcode, Lower],
    target: Target,
    custom_calls: CustomCallRegistry = BUILTIN,
    *,
    fuses: bool = True,
) -> Code:
    """Return a module's code for a target; raises UnimplementedError for opcodes without lowering.

    Without `fuses`, the instructions inside of fusions are lowered one by one.
    """
    equal = EqualComputations.of_elements(module)
    lowering = Lowering(table, target, custom_calls, fuses, module.grid, equal)
    arguments = [
        lowering.new_tree(parameter.shape, parameter.name) for parameter in module.entry.parameters
    ]
    result = result_of(lowering.call(module.entry, arguments))
    parameters = [value for tree in arguments for value in leaves(tree)]
    parameters += lowering.numbers.values()
    return Code(
        lowering.thunks,
        parameters,
        dict(lowering.constants),
        leaves(result),
        lowering.origins,
        lowering.costs,
        target.tuning.loops.chunks,
        numbers=tuple(lowering.numbers),
    )


def kernels_of(code: Code) -> list[KernelThunk]:
    """The thunks that call kernels."""
    return [thunk for thunk in code.thunks if isinstance(thunk, KernelThunk)]
