"""Each rule of the loop IR, by a kernel that breaks it alone."""

import pytest

from tests.unit.codegen.kernel_ir.kernels import (
    ITEM,
    READ,
    ROW,
    SHARED,
    WORD,
    WRITE,
    ZERO,
    kernel_of,
    of_groups,
    parallel,
    sums_of_rows,
)
from xla_server.codegen.kernel_ir.analysis.verify import MAX_STACK_BYTES, InvalidKernelError, verify
from xla_server.codegen.kernel_ir.analysis.verify import rules as rules_of
from xla_server.codegen.kernel_ir.expressions import (
    START,
    STOP,
    Address,
    Apply,
    Buffer,
    Cell,
    Const,
    Expression,
    Index,
    Load,
    Quotient,
    Region,
    Remainder,
    SharedArray,
    StackArray,
    Usage,
    Value,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    Barrier,
    Break,
    Call,
    Declare,
    For,
    If,
    Let,
    Order,
    ParallelFor,
    Set,
    Shuffle,
    Statement,
    Stop,
    Store,
    While,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.target.gpu.properties import STATIC_SHARED_BYTES

F32, I64, B1 = Type.F32, Type.I64, Type.B1
V, AXIS, ONE = Value("v", F32), Value("i", I64), Const(I64, (1,))
A, N = Cell("a", F32), Cell("n", I64)
TRUE = Const(B1, (1,))
ITEM_ADDRESS = Address(WRITE, Index(3), 8)
LET = Let(V, ZERO)
COPY = Routine("copy", (*parameters(Unit.WRITE, "to"), *parameters(Unit.COUNT, "count")))
POLLING = Routine("poll", parameters(Unit.CANCELLED, "cancelled"))
VALUE = Routine("value", (), (F32,))
OF_ITEM_NUMBER = Routine("of_item", parameters(Unit.COUNT, "item"), (F32,))
FILLING = Routine("fill", parameters(Unit.WRITE, "to"))


def _loop(*body: object, high: object = Index(64), iterations: float = 64, step: int = 1) -> For:
    return For(AXIS, Index(0), high, body, iterations, step)  # type: ignore[arg-type]


def _store(index: object = ITEM, value: object = ZERO, memory: object = WRITE) -> Store:
    return Store(memory, F32, index, value)  # type: ignore[arg-type]


K = Value("k", I64)
IS_FIRST = Apply("lt", (ITEM, ONE), B1)
OF_ITEM = Load(READ, F32, ITEM)
OF_OTHERS = Load(WRITE, F32, Index(100, ((AXIS, 1),)))
IN_ROW = Load(ROW, F32, AXIS)
EXPONENTIAL = Let(V, Apply("exp_f32", (OF_ITEM,), F32))
IN_SHARED = Load(SHARED, F32, Index(3))
IN_REGION = Load(Region(Address(ROW), Usage.READ), F32, AXIS)
REGION = Region(Address(ROW), Usage.SCRATCH)
SUMMED = Accumulate(A, "add", Load(READ, F32, AXIS), Order.ANY)


def _number_of(group: int) -> Quotient:
    return Quotient(Index(0, ((ITEM, 1),)), group)


def _is_none(number: Expression) -> Apply:
    return Apply("eq", (number, Index(0)), B1)


def _group(*body: Statement) -> ParallelFor:
    return ParallelFor(ITEM, 8, body, group=4)


def _outer(*body: Statement) -> For:
    return For(K, Index(0), Index(8), body, 8)


def _summed(operand: Expression) -> Accumulate:
    return Accumulate(A, "add", operand, Order.ANY)


BROKEN: tuple[tuple[Kernel, str], ...] = (
    (kernel_of(_store(Index(0), V), LET), "bound before it is used"),
    (kernel_of(Set(A, ZERO)), "bound before it is used, got a"),
    (kernel_of(_loop(LET), _store(Index(0), V)), "used inside of the block that binds it, got v"),
    (
        kernel_of(_loop(), Let(V, Load(READ, F32, AXIS))),
        "used inside of the block that binds it, got i",
    ),
    (
        kernel_of(If(TRUE, (LET,), (_store(Index(0), V),))),
        "used inside of the block that binds it, got v",
    ),
    (kernel_of(Let(V, ONE)), "let must be f32, got i64"),
    (kernel_of(Declare(A, ONE)), "declare must be f32, got i64"),
    (kernel_of(Declare(A, ZERO), Set(A, ONE)), "set must be f32, got i64"),
    (
        kernel_of(Declare(A, ZERO), Accumulate(A, "add", ONE, Order.ANY)),
        "accumulate must be f32, got i64",
    ),
    (kernel_of(_store(Index(0), ONE)), "store must be f32, got i64"),
    (kernel_of(_store(ZERO)), "store must be i64, got f32"),
    (kernel_of(Store(WRITE, F32, Index(0), ZERO, guard=ONE)), "store must be b1, got i64"),
    (kernel_of(Let(V, Load(READ, F32, ZERO))), "let must be i64, got f32"),
    (kernel_of(Let(V, Load(READ, F32, Index(0), ONE))), "let must be b1, got i64"),
    (kernel_of(_store(Index(0, ((ZERO, 2),)))), "store must be i64, got f32"),
    (kernel_of(_store(Index(0), memory=Region(ZERO, Usage.WRITE))), "store must be i64, got f32"),
    (kernel_of(Let(V, Load(Region(ZERO, Usage.READ), F32, Index(0)))), "let must be i64, got f32"),
    (kernel_of(_loop(high=ZERO)), "for must be i64, got f32"),
    (kernel_of(If(ONE, ())), "if must be b1, got i64"),
    (kernel_of(While(ONE, (), 1)), "while must be b1, got i64"),
    (
        kernel_of(_loop(_store(Index(1, ((AXIS, 1),)), memory=ROW))),
        "row must be inside of its 256 bytes, got f32 at byte 256",
    ),
    (
        kernel_of(_loop(Let(V, Load(ROW, F32, Index(0, ((AXIS, -1),)))))),
        "row must be inside of its 256 bytes, got f32 at byte -252",
    ),
    (
        kernel_of(_loop(_store(Apply("add", (AXIS, Index(1)), I64), memory=ROW))),
        "got f32 at byte 256",
    ),
    (
        kernel_of(_store(Index(0), memory=READ)),
        "a store must be to memory that is written, got buffer0",
    ),
    (
        kernel_of(_store(Index(0), memory=Region(ITEM_ADDRESS, Usage.READ))),
        "a store must be to memory that is written, got memory at",
    ),
    (kernel_of(Stop(READ)), "a stop must test the cancellation flag, got buffer0"),
    (
        kernel_of(_store(Index(0), memory=Buffer(7, Usage.WRITE))),
        "memory must be declared by its kernel, got buffer7",
    ),
    (
        kernel_of(Let(V, Load(StackArray("x", 64), F32, Index(0)))),
        "memory must be declared by its kernel, got x",
    ),
    (
        kernel_of(Let(AXIS, Address(READ)), Call(COPY, (AXIS + 8, ONE))),
        "to of copy must be memory that is written, got buffer0",
    ),
    (
        kernel_of(Call(POLLING, (Address(READ),))),
        "cancelled of poll must be the address of the cancellation flag, got that of ['buffer0']",
    ),
    (
        kernel_of(Call(POLLING, (Index(0),))),
        "cancelled of poll must be the address of the cancellation flag, got that of []",
    ),
    (
        kernel_of(parallel(), ParallelFor(Value("u", I64), 3, (), first=5)),
        "must begin behind the one before, at 4, got 5",
    ),
    (
        kernel_of(parallel(axis=None)),
        "a parallel loop without a variable must have one item, got 4",
    ),
    (
        kernel_of(parallel(), ParallelFor(None, 3, (), first=4, is_range=True)),
        "goes through the range itself must be alone, got 3 items",
    ),
    (
        kernel_of(ParallelFor(ITEM, 3, (), is_range=True)),
        "goes through the range itself must be alone, got 3 items",
    ),
    (kernel_of(If(TRUE, (parallel(),))), "a parallel loop must be at the outermost level"),
    (
        kernel_of(Declare(A, ZERO), parallel(Set(A, ZERO))),
        "a work item must change cells of its own, got a",
    ),
    (
        kernel_of(parallel(_store(Quotient(Index(3), 2)))),
        "the index of a store must vary with the work item",
    ),
    (
        kernel_of(parallel(_store(Index(0), memory=Region(Address(WRITE), Usage.SCRATCH)))),
        "the index of a store must vary with the work item, got memory at",
    ),
    (
        kernel_of(ParallelFor(None, 3, (_store(Index(0)),), is_range=True)),
        "the index of a store must vary with the work item",
    ),
    (
        kernel_of(parallel(If(TRUE, (_store(Index(0)),)))),
        "the index of a store must vary with the work item",
    ),
    (
        kernel_of(parallel(_store(Quotient(Index(0, ((ITEM, 1),)), 2)))),
        "must not store an element that another one stores, got byte 0 of buffer1 in items 0 and 1",
    ),
    (
        kernel_of(parallel(_loop(_store(Index(0, ((ITEM, 63), (AXIS, 1))))))),
        "must not store an element that another one stores, got byte 252 of buffer1 in items 0",
    ),
    (
        kernel_of(parallel(Let(V, Load(WRITE, F32, Index(0))), _store(ITEM))),
        "must not load an element that another one stores, got byte 0 of buffer1 in items 0 and 1",
    ),
    (
        kernel_of(stack=(StackArray("x", MAX_STACK_BYTES + 64),)),
        f"stack arrays must have at most {MAX_STACK_BYTES} bytes, got {MAX_STACK_BYTES + 64}",
    ),
    (kernel_of(_loop(step=0)), "the step of a loop must be at least 1, got 0"),
    (kernel_of(_loop(iterations=-1)), "a loop must have a number of iterations, got -1"),
    (kernel_of(While(TRUE, (), -2)), "a loop must have a number of iterations, got -2"),
    (kernel_of(_group(Shuffle(V, ITEM, 1))), "shuffle must be f32, got i64"),
    (
        kernel_of(Shuffle(V, ZERO, 1)),
        "a shuffle or a barrier must be inside of a parallel loop, got v",
    ),
    (
        kernel_of(parallel(Shuffle(V, ZERO, 1))),
        "a power of two below 1, the size of a group, got 1",
    ),
    (kernel_of(_group(Shuffle(V, ZERO, 3))), "a power of two below 4, the size of a group, got 3"),
    (
        kernel_of(_group(If(IS_FIRST, (Shuffle(V, ZERO, 1),)))),
        "in no branch or loop that varies with the work item, got v in if",
    ),
    (
        kernel_of(_group(Let(K, Load(READ, I64, ITEM)), _loop(Shuffle(V, ZERO, 1), high=K))),
        "in no branch or loop that varies with the work item, got v in for",
    ),
    (kernel_of(parallel(Barrier())), "a barrier must be for a group of several items, got 1"),
    (kernel_of(Barrier()), "must be inside of a parallel loop, got a barrier"),
    (of_groups(If(IS_FIRST, (Barrier(),))), "varies with the work item, got a barrier in if"),
    (
        of_groups(Let(K, _number_of(2)), If(_is_none(K), (Barrier(),))),
        "varies with the work item, got a barrier in if",
    ),
    (
        of_groups(array=SharedArray("s", STATIC_SHARED_BYTES + 1)),
        f"shared arrays must have at most {STATIC_SHARED_BYTES} bytes, got 49153",
    ),
    (
        Kernel((), (), (parallel(_store(memory=SHARED)),), shared=(SHARED,)),
        "a shared array must be accessed by a group, got shared",
    ),
    (
        Kernel((), (), (Let(V, Load(SHARED, F32, Index(0))),), shared=(SHARED,)),
        "a shared array must be accessed by a group, got shared",
    ),
    (
        of_groups(_store(memory=SHARED)),
        "an access of shared must be inside of its 16 bytes, got f32 at byte 28",
    ),
    (
        of_groups(_store(Index(0), memory=SHARED)),
        "the index of a store must vary with the work item, got shared element",
    ),
    (kernel_of(ParallelFor(ITEM, 6, (LET,), group=4)), "must have whole groups of 4, got 6 items"),
    (kernel_of(If(TRUE, (Break(),))), "a break must be inside of a loop"),
    (
        kernel_of(parallel(Declare(A, ZERO), _loop(SUMMED), _store(ITEM, A))),
        "a reduction must stand in front of a loop that does not vary it, got a",
    ),
    (
        kernel_of(parallel(_outer(Declare(A, OF_ITEM), _loop(SUMMED)))),
        "a reduction must stand in front of a loop that does not vary it, got a",
    ),
    (
        kernel_of(parallel(_loop(EXPONENTIAL, _store(AXIS, V, ROW)))),
        "a function must stand in front of a loop that does not vary it, got v",
    ),
    (
        kernel_of(parallel(Declare(A, ZERO), _loop(LET, _summed(V)), _store(ITEM, A))),
        "a reduction must stand in front of a loop that does not vary it, got a",
    ),
)

MISNAMED: tuple[tuple[Kernel, str], ...] = (
    (kernel_of(LET, Call(VALUE, (), (V,))), "a name must be bound once, got v twice"),
    (kernel_of(LET, LET), "a name must be bound once, got v twice"),
    (
        kernel_of(parallel(_loop(), For(Value("i", I64), Index(0), Index(4), (), 4))),
        "a name must be bound once, got i twice",
    ),
    (kernel_of(Let(Value("buffer1", F32), ZERO)), "a name must be bound once, got buffer1 twice"),
    (kernel_of(Let(Value("start", F32), ZERO)), "a name must be bound once, got start twice"),
    (kernel_of(stack=(ROW, StackArray("row", 64))), "a name must be bound once, got row twice"),
    (
        kernel_of(Let(Value("k12", F32), ZERO)),
        "a name must be none of a function or constant, got k12",
    ),
    (
        kernel_of(Let(Value("value", F32), ZERO), Call(VALUE, (), (V,))),
        "a name must be none of a function or constant, got value",
    ),
    (
        kernel_of(Declare(A, ZERO), Accumulate(A, "a", ZERO, Order.ANY)),
        "a name must be none of a function or constant, got a",
    ),
    (
        kernel_of(parallel(Let(Value("lt", B1), IS_FIRST))),
        "a name must be none of a function or constant, got lt",
    ),
)
"""Kernels whose source would mean something else than they do."""


def test_exchanges_that_all_items_of_a_group_come_to_pass() -> None:
    again = _loop(Shuffle(Value("w", F32), V, 1), If(TRUE, (Shuffle(Value("x", F32), V, 2),)))
    verify(kernel_of(_group(Let(V, OF_ITEM), again, _store(ITEM, V))))


def test_barriers_that_all_items_of_a_group_come_to_pass() -> None:
    lane = Remainder(Index(0, ((ITEM, 1),)), 4)
    store = _store(lane, Load(READ, F32, ITEM), SHARED)
    for groups in (4, 8):
        number = Let(K, _number_of(groups))
        verify(of_groups(number, store, If(_is_none(K), (Barrier(),)), Let(V, IN_SHARED)))


@pytest.mark.parametrize(
    "body",
    [
        # Not every item computes it.
        (If(IS_FIRST, (Declare(A, ZERO), _loop(SUMMED), _store(ITEM, A))),),
        # The loop, or a routine that it calls, stores the elements.
        (Declare(A, ZERO), _loop(_summed(OF_OTHERS)), _store(ITEM, A)),
        (Call(FILLING, (Address(ROW),)), Declare(A, ZERO), _loop(_summed(IN_ROW)), _store(ITEM, A)),
        (Declare(A, ZERO), _loop(_summed(IN_REGION)), _store(ITEM, A)),
        (_store(ITEM, memory=REGION), Declare(A, ZERO), _loop(_summed(IN_ROW)), _store(ITEM, A)),
        # It varies by its start, bounds, a value, a result, or another change of its cell.
        (Declare(A, OF_ITEM), _loop(SUMMED), _store(ITEM, A)),
        (Declare(A, ZERO), _loop(SUMMED, high=ITEM), _store(ITEM, A)),
        (Declare(A, ZERO), _loop(Let(V, OF_ITEM), _summed(V)), _store(ITEM, A)),
        (Call(OF_ITEM_NUMBER, (ITEM,), (V,)), Declare(A, ZERO), _loop(_summed(V)), _store(ITEM, A)),
        (Declare(A, ZERO), _loop(SUMMED, Set(A, OF_ITEM)), _store(ITEM, A)),
        (Declare(A, ZERO), _loop(SUMMED, If(IS_FIRST, (Break(),))), _store(ITEM, A)),
        # A function that varies, and one that work items repeat.
        (_loop(Let(V, Apply("exp_f32", (IN_ROW,), F32)), _store(AXIS, V, ROW)),),
        (Let(V, Apply("exp_f32", (ZERO,), F32)), _store(ITEM, V)),
        # It is no reduction: a sum of its own loop.
        (_loop(Declare(A, ZERO), _summed(OF_ITEM), _store(AXIS, A, ROW)),),
    ],
)
def test_what_varies_stands_where_it_does(body: tuple[Statement, ...]) -> None:
    verify(kernel_of(parallel(*body)))


def test_a_reduction_of_what_an_item_stored_is_its_own() -> None:
    reduction = For(K, Index(0), Index(64), (_summed(Load(ROW, F32, K)),), 64)
    stored = _loop(_store(AXIS, OF_ITEM, ROW))
    verify(kernel_of(parallel(stored, Declare(A, ZERO), reduction, _store(ITEM, A))))


@pytest.mark.parametrize(("kernel", "complaint"), [*BROKEN, *MISNAMED])
def test_what_breaks_a_rule_is_refused(kernel: Kernel, complaint: str) -> None:
    with pytest.raises(InvalidKernelError) as error:
        verify(kernel)
    assert complaint in str(error.value)


def test_each_rule_has_a_kernel_that_breaks_it() -> None:
    rules = rules_of({})
    broken = {
        next(number for number, rule in enumerate(rules) if list(rule(kernel)))
        for kernel, _ in (*BROKEN, *MISNAMED)
    }
    assert broken == set(range(len(rules)))


@pytest.mark.parametrize(
    ("index", "byte"), [(Index(-1, ((ITEM, 1),)), -4), (Index(0, ((ITEM, 2),)), 24)]
)
def test_accesses_are_inside_of_buffers_of_known_size(index: Index, byte: int) -> None:
    kernel = kernel_of(parallel(_store(index)))
    verify(kernel)
    verify(kernel_of(parallel(_store())), {1: 16})
    rule = f"an access of buffer1 must be inside of its 16 bytes, got f32 at byte {byte}"
    with pytest.raises(InvalidKernelError, match=rule):
        verify(kernel, {1: 16})


def test_what_obeys_all_rules_passes() -> None:
    verify(sums_of_rows())
    index = Value("j", I64)
    verify(
        kernel_of(
            LET,
            parallel(
                Declare(A, V),
                _loop(_store(AXIS, V, ROW), Stop(WORD), If(TRUE, (Break(),))),
                Let(index, Quotient(Index(1, ((ITEM, 2),)), 2)),
                _store(index, A),
            ),
            ParallelFor(None, 1, (_store(Index(4)),), first=4),
        )
    )


@pytest.mark.parametrize(
    "body",
    [
        (_loop(_store(Index(0, ((AXIS, 1), (START, 1))))),),
        (For(AXIS, START, STOP, (_store(AXIS),), 3),),
        (If(Apply("eq", (START, Index(0)), B1), (_store(Index(0)),)),),
        (Declare(N, START), _store(N)),
        (_store(Index(0), memory=Region(Address(WRITE, START, 8), Usage.SCRATCH)),),
    ],
)
def test_ranges_store_where_they_are(body: tuple[Statement, ...]) -> None:
    verify(kernel_of(ParallelFor(None, 3, body, is_range=True)))


def test_a_cell_that_varies_is_an_index_of_ones_own() -> None:
    verify(kernel_of(parallel(Declare(N, Index(0)), Set(N, ITEM), _store(N))))
