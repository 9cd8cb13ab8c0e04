"""Translation of scalar graph nodes to statements of the loop IR.

Each node is evaluated in the innermost open loop among those it varies with, so a value that is
constant along a row is computed once per row.
"""

import abc
from collections.abc import Iterable, Sequence, Set
from typing import cast

from xla_server.codegen.functions.called_functions import called
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Names
from xla_server.codegen.kernel_ir.statements import Store as StoreStatement
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.row_buffers import NO_ROW_BUFFERS
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.trace import graph
from xla_server.ir.analysis.affine import Affine, Atom, Computed, Quotient, Variable, variable
from xla_server.ir.explicit_stack import Deep, result_of


class GraphBuilder(abc.ABC):
    """Builds the statements of one kernel; subclasses open its loops."""

    _calls_functions = False
    """Functions of values that depend on no loop are called: inlined, they take longer to compile.
    """

    def __init__(self, stores: Sequence[graph.Store], written: Set[int] = frozenset()) -> None:
        """`written` are arguments that the kernel writes besides the targets of `stores`."""
        self._names = Names()
        self._top = Body()
        self._values: dict[graph.Node, ir.Expression] = {}
        self._indices: dict[Variable, ir.Expression] = {}
        self._bodies: dict[Variable, Body] = {}
        self._stack: list[ir.StackArray] = []
        self._shared: list[ir.SharedArray] = []
        self._origins: list[graph.Node | graph.Reduction] = []
        self._shared_rows = NO_ROW_BUFFERS
        self._row_buffers: dict[int, ir.StackArray] = {}
        self._invariants: Body | None = None
        """The level at which loop-invariant values are evaluated, if it is not the outermost."""
        self._has_narrow_indices = False
        """Indices have 32 bits, so that LLVM divides vectors of them by multiplication."""
        self._stored: dict[graph.Node, ir.Expression] = {}
        stored = {store.argument for store in stores}
        read = {node.argument for node in all_nodes(stores) if isinstance(node, graph.Load)}
        self._written = stored | written
        self._buffers = {number: self._buffer(number) for number in sorted(stored | read)}

    def _buffer(self, number: int) -> ir.Buffer:
        return ir.Buffer(number, ir.Usage.WRITE if number in self._written else ir.Usage.READ)

    def _stack_array(self, name: str, byte_size: int) -> ir.StackArray:
        self._stack.append(ir.StackArray(name, byte_size))
        return self._stack[-1]

    def _shared_array(self, byte_size: int) -> ir.SharedArray:
        self._shared.append(ir.SharedArray(f"shared{len(self._shared)}", byte_size))
        return self._shared[-1]

    @property
    def shared_bytes(self) -> int:
        """Bytes of the shared arrays of a group."""
        return sum(array.byte_size for array in self._shared)

    def _origin(self, what: graph.Node | graph.Reduction) -> int | None:
        """Return the number of a node for its statement's `origin`; None if it is not counted."""
        self._origins.append(what)
        return len(self._origins) - 1

    def _body_of(self, variables: Iterable[Variable]) -> Body:
        """Return the body of the innermost loop over these variables, else the outermost level."""
        body = self._invariants or self._top
        for loop in variables:
            candidate = self._bodies[loop]
            if candidate.depth > body.depth:
                body = candidate
        return body

    def _store(self, stores: Sequence[graph.Store], outermost: Body) -> None:
        # A result may alias an operand, so all values are read before the first store.
        values = [self._narrowed(store) for store in stores]
        for store, value in zip(stores, values, strict=True):
            body = self._body_of(graph.variables_of(store.offset) | store.value.variables)
            body = outermost if body is self._top else body
            body.add(self._store_statement(store, value))

    def _store_statement(self, store: graph.Store, value: ir.Expression) -> StoreStatement:
        index, kind = self._index(store.offset), Type(store.kernel_type.storage)
        return StoreStatement(self._buffers[store.argument], kind, index, value)

    def _narrowed(self, store: graph.Store) -> ir.Expression:
        """Return the value to store; a value that is only copied is not converted.

        Rounding and conversion of a computed value are one function.
        """
        kernel_type, node = store.kernel_type, store.value
        if isinstance(node, graph.Apply) and node.function == kernel_type.rounded:
            if not self._shared_rows.has(node):
                value = self._value(node.operands[0])
                return applied(kernel_type.code, value, kernel_type.storage)
        elif isinstance(node, graph.Apply) and node.function == kernel_type.widen:
            return self._value(node.operands[0])
        value = self._value(node)
        if isinstance(node, graph.Load) and node.kernel_type == kernel_type:
            return self._stored[node]
        return applied(kernel_type.narrow, value, kernel_type.storage)

    def _value(self, node: graph.Node) -> ir.Expression:
        """Return a node's value; evaluate it in its body on first use."""
        return result_of(self._evaluated(node))

    def _evaluated(self, node: graph.Node) -> Deep[ir.Expression]:
        """Return a node's value; a generator, as graphs may be deeper than the call stack."""
        node = self._shared_rows.same.get(node, node)
        value = self._values.get(node)
        if value is None:
            value = self._values[node] = cast(ir.Expression, (yield self._evaluate(node)))
        return value

    def _all_evaluated(self, nodes: Iterable[graph.Node]) -> Deep[list[ir.Expression]]:
        values = []
        for node in nodes:
            value: ir.Expression = yield self._evaluated(node)
            values.append(value)
        return values

    def _evaluate(self, node: graph.Node) -> Deep[ir.Expression]:
        match node:
            case graph.Immediate():
                return node.constant
            case graph.Position():
                position: ir.Expression = yield self._index_of(node.index)
                return position
            case graph.ReductionResult():
                results: Sequence[ir.Expression] = yield self._reduced(node.reduction)
                return results[node.number]
            case graph.Load() | graph.Apply():
                value: ir.Expression = yield self._operation(node)
                return value
            case graph.Accumulator():
                raise AssertionError("an accumulator is a cell of its reduction")
            case _:
                raise AssertionError(f"no statement for {type(node).__name__}")

    def _operation(self, node: graph.Load | graph.Apply) -> Deep[ir.Expression]:
        body = self._body_of(node.variables)
        if node in self._shared_rows.read:
            name = self._names("v")
            row, loop = self._shared_rows.read[node]
            # The loop that fills the row buffer must precede this one, which is still open.
            yield self._reduced(row.maker)
            load = ir.Load(self._row_buffers[row.number], Type(row.type), self._indices[loop])
            return body.let(name, load)
        origin = self._origin(node)
        name = self._names("v")
        if isinstance(node, graph.Load):
            index, guard = yield self._guarded(node)
            kind = node.kernel_type
            load = ir.Load(self._buffers[node.argument], Type(kind.storage), index, guard)
            if kind.widen is None:
                self._stored[node] = value = body.let(name, load, origin)
                return value
            self._stored[node] = stored = body.let(self._names("v"), load, origin)
            return body.let(name, applied(kind.widen, stored, kind.computed))
        operands: list[ir.Expression] = yield self._all_evaluated(node.operands)
        is_once = self._calls_functions and not node.variables
        function = called(node.function) if is_once else node.function
        value = body.let(name, ir.Apply(function, tuple(operands), Type(node.type)), origin)
        if node in self._shared_rows.written:
            row, loop = self._shared_rows.written[node]
            body.store(self._row_buffers[row.number], row.type, self._indices[loop], value)
        return value

    def _guarded(self, node: graph.Load) -> Deep[tuple[ir.Expression, ir.Expression | None]]:
        """Return the index of a load, and its guard if the load itself has to test it.

        A guard that is constant along a row selects the row's start instead: the row's elements
        stay contiguous with either outcome, so the loop can be vectorised.
        """
        guard, loops = node.guard, (v for v in reversed(self._bodies) if v in node.variables)
        # Outer variables of a work item share one body: of these, the last one is the row.
        loop = max(loops, key=lambda loop: self._bodies[loop].depth, default=None)
        rest = None if guard is None or loop is None else _row_start(node, guard, loop)
        if guard is None or loop is None or rest is None:
            index: ir.Expression = yield self._index_of(node.offset)
            return index, None if guard is None else (yield self._evaluated(guard))
        test: ir.Expression = yield self._evaluated(guard)
        start: ir.Expression = yield self._index_of(rest)
        body = self._body_of(guard.variables | graph.variables_of(rest))
        begin = body.let(self._names("v"), ir.integer_op("select", test, start, 0))
        return ir.Index(0, ((begin, 1), (self._indices[loop], 1))), None

    @abc.abstractmethod
    def _reduced(self, reduction: graph.Reduction) -> Deep[Sequence[ir.Expression]]:
        """Return the results of a reduction; evaluate it in its body on first use."""

    def _index(self, index: Affine) -> ir.Expression:
        return result_of(self._index_of(index))

    def _index_of(self, index: Affine) -> Deep[ir.Expression]:
        terms = []
        for atom, factor in index.terms:
            term: ir.Expression = yield self._term(atom)
            terms.append((term, factor))
        return ir.Index(index.constant, tuple(terms))

    def _term(self, atom: Atom) -> Deep[ir.Expression]:
        if isinstance(atom, Variable):
            return self._indices[atom]
        if isinstance(atom, Computed):
            assert isinstance(atom.node, graph.Node)
            value: ir.Expression = yield self._evaluated(atom.node)
            return value
        inner: ir.Index = yield self._index_of(atom.operand)
        if self._has_narrow_indices:
            function = "narrow_div" if isinstance(atom, Quotient) else "narrow_mod"
            return ir.integer_op(function, inner, atom.divisor)
        kind = ir.Quotient if isinstance(atom, Quotient) else ir.Remainder
        return kind(inner, atom.divisor)


def applied(function: str | None, value: ir.Expression, kind: str) -> ir.Expression:
    """Return `function` applied to a value; the value itself if there is no function."""
    return value if function is None else ir.Apply(function, (value,), Type(kind))


def _row_start(node: graph.Load, guard: graph.Node, loop: Variable) -> Affine | None:
    """Return the offset of the first element of a contiguous row read by `loop`.

    The result is None if the elements are not contiguous, if the guard varies with the loop, or
    if the row may be longer than the buffer.
    """
    rest = node.offset + variable(loop) * -1
    is_row = (loop, 1) in node.offset.terms and loop.size <= node.size
    return rest if is_row and loop not in guard.variables | graph.variables_of(rest) else None
