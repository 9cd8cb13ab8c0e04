"""Search for reductions and costly values that are invariant in a loop around them.

LLVM moves single instructions out of loops, but no reduction. Values of a few instructions are left
to LLVM. Values invariant in the loop over work items are allowed: no level is outside of it.
"""

from collections.abc import Iterator, Sequence

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.walk import read_by, walk
from xla_server.ops.elementwise.elementwise_op import CostClass


def repeated(statements: Sequence[stmt.Statement]) -> Iterator[ir.Cell | ir.Value]:
    """Yield each reduction and costly value that is invariant in a loop.

    Those under a condition are left out: not each iteration executes them.
    """
    for statement, _ in walk(statements):
        match statement:
            case (
                stmt.For(axis=axis, body=body)
                | stmt.ParallelFor(axis=ir.Value() as axis, body=body)
            ):
                varying = _Varying(axis, body)
                is_part = isinstance(statement, stmt.ParallelFor)
                for inside in body:
                    match inside:
                        case stmt.Declare(cell=cell) if _is_repeated(cell, varying, body):
                            yield cell
                        case stmt.Let(value=value) if not is_part and value not in varying:
                            if _is_costly(inside):
                                yield value


def _is_costly(let: stmt.Let) -> bool:
    """Return whether a let takes longer than the slowest single instruction, a division."""
    applied = (each for each in read_by(let) if isinstance(each, ir.Apply))
    return any(cost_of(each.function) > CostClass.DIVISION for each in applied)


def _is_repeated(cell: ir.Cell, varying: "_Varying", body: Sequence[stmt.Statement]) -> bool:
    is_reduction = any(
        isinstance(each, stmt.Accumulate) and each.cell is cell and path
        for each, path in walk(body)
    )
    return is_reduction and cell not in varying


class _Varying:
    """The names and the memory that vary from one iteration of a loop to the next."""

    def __init__(self, axis: ir.Value, body: Sequence[stmt.Statement]) -> None:
        inside = [statement for statement, _ in walk(body)]
        self._memory = {each.memory for each in inside if isinstance(each, stmt.Store)}
        self._has_unknown_memory = any(isinstance(each, ir.Region) for each in self._memory) or any(
            isinstance(each, stmt.Call) for each in inside
        )
        declared = {each.cell for each in inside if isinstance(each, stmt.Declare)}
        changed = {each.cell for each in inside if isinstance(each, stmt.Set | stmt.Accumulate)}
        # The number of iterations of a loop with an exit depends on the exit's test.
        is_left = any(isinstance(each, stmt.Break) for each in inside)
        self._names: set[ir.Value | ir.Cell] = {axis, *(changed if is_left else changed - declared)}
        known = -1
        while known < len(self._names):
            known = len(self._names)
            for statement in body:
                self._note(statement, is_under_varying=False)

    def _note(self, statement: stmt.Statement, *, is_under_varying: bool) -> None:
        """Add the names that a statement binds or changes, if it varies or is inside of one."""
        varies = is_under_varying or any(map(self._reads, read_by(statement)))
        if varies:
            match statement:
                case stmt.Let(value=name) | stmt.Shuffle(value=name):
                    self._names.add(name)
                case stmt.Declare(cell=cell) | stmt.Set(cell=cell) | stmt.Accumulate(cell=cell):
                    self._names.add(cell)
        if isinstance(statement, stmt.Call):
            self._names.update(statement.results)
        for inside in stmt.blocks_of(statement):
            self._note(inside, is_under_varying=varies)

    def __contains__(self, name: ir.Cell | ir.Value) -> bool:
        return name in self._names

    def _reads(self, part: ir.Expression) -> bool:
        match part:
            case ir.Value() | ir.Cell():
                return part in self._names
            case ir.Load(memory=memory):
                is_unknown = self._has_unknown_memory or isinstance(memory, ir.Region)
                return is_unknown or memory in self._memory
        return False
