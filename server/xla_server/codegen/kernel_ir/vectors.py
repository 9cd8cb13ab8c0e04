"""Loops that become vector code even where they are short."""

from xla_server.codegen.kernel_ir.expressions import Buffer, Cell
from xla_server.codegen.kernel_ir.statements import Accumulate, Declare, For, Let, Set, Store
from xla_server.codegen.kernel_ir.walk import read_by


def is_of_stores(loop: For) -> bool:
    """Return whether a loop stores to buffers, and carries no value to its next iteration."""
    changed = {each.cell for each in loop.body if isinstance(each, Set | Accumulate)}
    known: set[Cell] = set()
    stores = 0
    for statement in loop.body:
        match statement:
            case Store(memory=Buffer(), guard=None):
                stores += 1
            case Let() | Declare() | Set():
                pass
            case _:
                return False
        if any(isinstance(each, Cell) and each in changed - known for each in read_by(statement)):
            return False
        if isinstance(statement, Declare | Set):
            known.add(statement.cell)
    return stores > 0
