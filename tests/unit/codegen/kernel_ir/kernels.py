"""A small kernel, and parts to make others of."""

from collections.abc import Sequence

from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import (
    START,
    STOP,
    Apply,
    Buffer,
    Const,
    Expression,
    Index,
    Load,
    SharedArray,
    StackArray,
    Usage,
    Value,
    integer_op,
    plus,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    For,
    Order,
    ParallelFor,
    Statement,
    Store,
)
from xla_server.codegen.kernel_ir.types import Type

READ, WRITE = Buffer(0, Usage.READ), Buffer(1, Usage.WRITE)
WORD = Buffer(2, Usage.FLAG)
ROW = StackArray("row", 256)
SHARED = SharedArray("shared", 16)
ITEM = Value("t", Type.I64)
ZERO = Const(Type.F32, (0,))
_PLACE = Buffer(0, Usage.SCRATCH)
SUM = Kernel((_PLACE,), (), (Store(_PLACE, Type.I64, Index(0), plus(START, STOP)),))
"""The sum of start and stop goes to the first buffer."""


def parallel(*body: Statement, items: int = 4, axis: Value | None = ITEM) -> ParallelFor:
    """Work items that do these statements."""
    return ParallelFor(axis, items, body)


def kernel_of(*body: Statement, stack: Sequence[StackArray] = (ROW,)) -> Kernel:
    """A kernel of these statements."""
    return Kernel((READ, WRITE, WORD), tuple(stack), body)


def of_groups(*body: Statement, array: SharedArray = SHARED) -> Kernel:
    """A kernel of two groups of four work items, which share an array."""
    return Kernel((READ, WRITE), (), (ParallelFor(ITEM, 8, body, group=4),), shared=(array,))


def sums_of_rows() -> Kernel:
    """The sums of four rows of 50 elements."""
    body = Body()
    total = body.declare("a", ZERO)
    with Loop(body, "i", 50) as loop:
        element = Load(READ, Type.F32, Index(0, ((loop.axis, 1), (ITEM, 50))))
        value = loop.let("v", element, origin=0)
        square = Apply("mul", (value, value), Type.F32)
        loop.add(Accumulate(total, "add_in_any_order", square, Order.ANY, origin=1))
    body.store(WRITE, "f32", ITEM, total)
    return kernel_of(parallel(*body.statements), stack=())


def sums(columns: int, stride: int = 1, function: str = "add") -> For:
    """Return a loop over columns: sums of four products of a row with a column of a matrix."""
    body = Body()
    with Loop(body, "i", columns) as loop:
        total = loop.declare("s", ZERO)
        with Loop(loop, "k", 4) as inner:
            row = Load(READ, Type.F32, Index(0, ((inner.axis, 1), (ITEM, 4))))
            column = Load(READ, Type.F32, Index(0, ((loop.axis, stride), (inner.axis, 9))))
            product = Apply("mul", (row, column), Type.F32)
            inner.add(Accumulate(total, "add_in_any_order", product, Order.ANY))
        loop.store(WRITE, "f32", loop.axis, Apply(function, (total, ZERO), Type.F32))
    (found,) = body.statements
    assert isinstance(found, For)
    return found


def pools(features: int, stride: int = 1, function: str = "add", *, is_tested: bool = False) -> For:
    """Return a loop over features: the largest of four elements each, in a window of two by two."""
    body = Body()
    with Loop(body, "i", features) as loop:
        largest = loop.declare("s", ZERO)
        with Loop(loop, "k", 2) as rows, Loop(rows, "l", 2) as inner:
            terms = (loop.axis, stride), (inner.axis, 9), (rows.axis, 90), (ITEM, 18)
            index: Expression = Index(0, terms)
            if is_tested:
                index = inner.let("n", integer_op("minimum", index, 80))
            element = Load(READ, Type.F32, index)
            inner.add(Accumulate(largest, "maximum", element, Order.ANY))
        loop.store(WRITE, "f32", loop.axis, Apply(function, (largest, ZERO), Type.F32))
    (found,) = body.statements
    assert isinstance(found, For)
    return found
