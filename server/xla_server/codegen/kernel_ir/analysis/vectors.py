"""Loops that are vectorised even if they are short, or with narrow vectors."""

from collections.abc import Collection, Iterable, Sequence

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    Break,
    Declare,
    For,
    Let,
    Order,
    ParallelFor,
    Set,
    Store,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import read_by, walk, within
from xla_server.ops.elementwise.elementwise_op import CostClass


def is_of_stores(loop: For) -> bool:
    """Return whether a loop stores to buffers, and carries no value to its next iteration."""
    changed = {each.cell for each in loop.body if isinstance(each, Set | Accumulate)}
    known: set[ir.Cell] = set()
    stores = 0
    for statement in loop.body:
        match statement:
            case Store(memory=ir.Buffer(), guard=None):
                stores += 1
            case Let() | Declare() | Set():
                pass
            case _:
                return False
        if any(
            isinstance(each, ir.Cell) and each in changed and each not in known
            for each in read_by(statement)
        ):
            return False
        if isinstance(statement, Declare | Set):
            known.add(statement.cell)
    return stores > 0


def is_of_lookups(loop: For) -> bool:
    """Return whether a loop stores elements loaded at positions computed from loaded ones."""
    if not is_of_stores(loop):
        return False
    loaded: set[ir.Value] = set()
    for statement in loop.body:
        loads = [each for each in read_by(statement) if isinstance(each, ir.Load)]
        if any(_is_loaded(each.index, loaded) for each in loads):
            return True
        if isinstance(statement, Let) and _is_loaded(statement.expression, loaded):
            loaded.add(statement.value)
    return False


def is_of_functions(loop: For) -> bool:
    """Return whether a loop stores results of functions that are at least as slow as divisions.

    It must load contiguous elements: for strided ones LLVM vectorises across the loop around it.
    Elements on the stack were just stored one by one, and loads of vectors would wait for them.
    """
    loads = _loads(_read_by(loop))
    is_on_stack = any(isinstance(each.memory, ir.StackArray) for each in loads)
    is_near = _steps(loads, loop) <= {0, 1}
    return is_of_stores(loop) and is_near and not is_on_stack and has_costly_functions(loop)


def is_of_sums(loop: For) -> bool:
    """Return whether a loop stores neighbouring sums or extremes, each by copies of loops inside.

    So are a row times a matrix, and the windows of a pool over neighbouring features. LLVM would
    make vectors across the loop around it, of copies of all sums of a row. Results of costly
    functions are left out, which take as long for a few elements as for a whole vector.
    """
    parts = [each for each, _ in walk(loop.body)]
    stores = [each for each in loop.body if isinstance(each, Store)]
    loads = [load for each in parts for load in _loads(list(read_by(each)))]
    accessed: list[ir.Load | Store] = [*loads, *stores]
    is_stored = all(isinstance(each.memory, ir.Buffer) for each in accessed)
    is_near = bool(stores) and 1 in _steps(loads, loop) and _steps(accessed, loop) <= {0, 1}
    return _has_own_sums(loop) and is_stored and is_near and not has_costly_functions(loop)


def _has_own_sums(loop: For) -> bool:
    """Return whether each iteration adds to sums of its own, by loops inside that are unrolled."""
    inside = [each for each, _ in walk(loop.body) if isinstance(each, For)]
    adds = any(isinstance(each, Set | Accumulate) for part in inside for each in part.body)
    return adds and all(each.unrolled for each in inside) and not _carries_in_order(loop)


def sums_elements_apart(loop: For) -> bool:
    """Return whether each iteration adds neighbours to a sum, by copies of a loop inside.

    LLVM makes vectors across the iterations, so it loads each element by itself. It makes none of
    loops that are left early or carry other values, and says so on standard error if asked to.
    Loops with ordered sums are left out: a requested width lets LLVM reorder them.
    """
    if _carries_in_order(loop):
        return False
    copies = [each for each in loop.body if isinstance(each, For) and each.unrolled]
    sums = [copy for copy in copies if any(isinstance(each, Accumulate) for each in copy.body)]
    return any(1 in _steps(_loads(_read_by(copy)), copy) for copy in sums)


def gains_by_masks(loop: For) -> bool:
    """Return whether the last iterations of a loop of stores save time under a mask.

    They do if a function takes as long as a division, or longer. Under a mask LLVM moves the pairs
    of complex elements one by one, like strided elements and those at loaded indices.
    """
    is_complex = not _accessed_types(loop).isdisjoint((Type.C64, Type.C128))
    is_near = _steps(_loads(_read_by(loop)), loop) <= {0, 1, None} and not is_of_lookups(loop)
    return has_costly_functions(loop) and not is_complex and is_near


def is_wide(loop: For) -> bool:
    """Return whether a loop loads or stores elements of more than 32 bits."""
    return any(each.byte_size > 4 for each in _accessed_types(loop))


def has_costly_functions(part: For | ParallelFor) -> bool:
    """Return whether a loop has functions for which vectors save more than their stores cost."""
    return any(_is_costly(each) for statement, _ in walk(part.body) for each in read_by(statement))


def stores_apart(part: For | ParallelFor, least: int = 2) -> bool:
    """Return whether successive iterations store elements that are `least` apart or further."""
    stores = [each.index for each, _ in walk(part.body) if isinstance(each, Store)]
    return any(stride >= least for stride in _strides(part, stores))


def accesses_apart(part: For | ParallelFor, least: int) -> bool:
    """Return whether successive iterations access elements that are `least` apart or further."""
    statements = [each for each, _ in walk(part.body)]
    loads = [load.index for each in statements for load in _loads(list(read_by(each)))]
    stores = [each.index for each in statements if isinstance(each, Store)]
    return any(stride >= least for stride in _strides(part, loads + stores))


def computed_accesses(part: ParallelFor) -> tuple[int, bool]:
    """Return the number of different loads at indices that each work item computes.

    The second result is whether there are stores at such indices. A vector of items computes each
    index in 64-bit lanes, once for all copies by unrolled loops, and loads or stores each element
    by itself. Loads at loaded indices are left out, whose rows take less time in vectors.
    """
    computed: set[ir.Value] = set()
    loaded: set[ir.Value] = set()
    found: set[ir.Load] = set()
    is_scattered = False
    for statement, _ in walk(part.body):
        for load in _loads(list(read_by(statement))):
            if _is_computed(load.index, computed) and not _is_loaded(load.index, loaded):
                found.add(load)
        if isinstance(statement, Store) and _is_computed(statement.index, computed):
            is_scattered = True
        if isinstance(statement, Let) and not _is_shifted(statement.expression, part.axis):
            of_load = _is_loaded(statement.expression, loaded)
            (loaded if of_load else computed).add(statement.value)
    return len(found), is_scattered


def _strides(part: For | ParallelFor, indices: Sequence[ir.Expression]) -> list[int]:
    """Return the strides, in elements, of the indices that are linear in a loop's axis."""
    lets = [each for each in part.body if isinstance(each, Let)]
    axes = {part.axis, *(let.value for let in lets if _is_shifted(let.expression, part.axis))}
    return [
        abs(sum(by for term, by in index.terms if term in axes))
        for index in indices
        if isinstance(index, ir.Index)
    ]


def _carries_in_order(loop: For) -> bool:
    """Return whether a loop is left early, or changes a cell of outside in order of iterations."""
    parts = [each for each, _ in walk(loop.body)]
    own = {each.cell for each in parts if isinstance(each, Declare)}
    ordered = {
        each.cell
        for each in parts
        if isinstance(each, Set)
        or (isinstance(each, Accumulate) and each.order is Order.SEQUENTIAL)
    }
    return not ordered <= own or any(isinstance(each, Break) for each in parts)


def _read_by(loop: For) -> list[ir.Expression]:
    return [each for statement in loop.body for each in read_by(statement)]


def _accessed_types(loop: For) -> set[Type]:
    stored = {each.type for each in loop.body if isinstance(each, Store)}
    return stored | {each.type for each in _loads(_read_by(loop))}


def _loads(found: Sequence[ir.Expression]) -> list[ir.Load]:
    return [each for each in found if isinstance(each, ir.Load)]


def _steps(accessed: Iterable[ir.Load | Store], loop: For) -> set[int | None]:
    """Return the strides of elements between iterations, None for those that are not constant."""
    inside = {loop.axis, *(each.value for each, _ in walk(loop.body) if isinstance(each, Let))}
    found = set[int | None]()
    for access in accessed:
        index = access.index
        terms = index.terms if isinstance(index, ir.Index) else ((index, 1),)
        others = [term for term, _ in terms if term != loop.axis]
        if any(isinstance(each, ir.Value) and each in inside for each in within(*others)):
            found.add(None)
        else:
            found.add(sum(by for term, by in terms if term == loop.axis))
    return found


def _is_shifted(made: ir.Expression, axis: ir.Value | None) -> bool:
    """Return whether an expression is the number of a work item from the part's first one on."""
    return isinstance(made, ir.Apply) and made.function == "sub" and made.operands[0] is axis


def _is_costly(expression: ir.Expression) -> bool:
    return isinstance(expression, ir.Apply) and cost_of(expression.function) >= CostClass.DIVISION


def _is_computed(index: ir.Expression, computed: Collection[ir.Value]) -> bool:
    """Return whether an index applies instructions, or has any of these values."""
    return any(isinstance(each, ir.Apply) or each in computed for each in within(index))


def _is_loaded(expression: ir.Expression, loaded: set[ir.Value]) -> bool:
    """Return whether an expression is computed from a load, or from any of these values."""
    return any(
        isinstance(each, ir.Load) or (isinstance(each, ir.Value) and each in loaded)
        for each in within(expression)
    )
