"""The forms of a kernel."""

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
from xla_server.codegen.instructions.memory import COPY_BYTES
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Names, Repeat
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import (
    BUFFERS,
    STOP,
    Address,
    Apply,
    Cell,
    Const,
    Expression,
    Index,
    Load,
    Quotient,
    Region,
    Remainder,
    Usage,
    Value,
    condition,
    opaque,
    plus,
    times,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.numba_text import NumbaText
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import (
    Barrier,
    Break,
    Call,
    For,
    If,
    Let,
    ParallelFor,
    Set,
    Shuffle,
    Statement,
    Stop,
    Store,
    While,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import read_by, walk

AXIS = Value("i", Type.I64)
PAIR = Routine("f", (), (Type.I64, Type.I64))
TRUE = Const(Type.B1, (1,))

TEXT = """k0 = f32(0x0)
def kernel(buffers, start, stop):
    buffer0 = peek_i64(buffers, 0)
    buffer1 = peek_i64(buffers, 1)
    cancelled = peek_i64(buffers, 2)
    for t in range(start, stop):
        a = k0
        for i in range(50):
            v = load_f32(buffer0, add(i, mul(t, 50)))
            a = add_in_any_order(a, mul(v, v))
        store_f32(buffer1, t, a)
"""


def test_shared_arrays_are_declared() -> None:
    assert "    shared = shared_array(16)\n" in of_groups(Barrier()).text


def test_a_kernel_as_source() -> None:
    assert sums_of_rows().text == TEXT


@pytest.mark.parametrize(
    ("statement", "source"),
    [
        (Store(ROW, Type.U8, AXIS, TRUE), "keep_u8(row, i, k0)"),
        (Store(WRITE, Type.F32, AXIS, ZERO, guard=TRUE), "if k0:\n    store_f32(buffer1, i, k1)"),
        (Stop(WORD), "if watch_i64(cancelled) != 0:\n    return"),
        (Break(), "break"),
        (Barrier(), "barrier()"),
        (Store(SHARED, Type.F32, AXIS, ZERO), "share_f32(shared, i, k0)"),
        (Let(AXIS, Load(SHARED, Type.I64, Index(1))), "i = shared_i64(shared, 1)"),
        (Shuffle(AXIS, ITEM, 4), "i = exchange_i64(t, 4)"),
        (
            ParallelFor(AXIS, 64, (Break(),), group=32),
            "for i in range(start, stop):  # groups of 32\n    break",
        ),
        (
            If(TRUE, (Break(),), (Stop(WORD),)),
            "if k0:\n    break\nelse:\n    if watch_i64(cancelled) != 0:\n        return",
        ),
        (
            Let(AXIS, Load(Region(BUFFERS, Usage.SCRATCH), Type.I64, Index(2))),
            "i = peek_i64(buffers, 2)",
        ),
        (Store(Region(AXIS, Usage.WRITE), Type.U8, Index(2), TRUE), "store_u8(i, 2, k0)"),
        (Call(PAIR, (), (AXIS, ITEM)), "i, t = f()"),
        (ParallelFor(None, 9, (Break(),), is_range=True), "break"),
        (
            Call(COPY_BYTES, (Address(WRITE, AXIS, 4), Address(READ), Index(8))),
            "copy_bytes(\n    add(buffer1, mul(i, 4)),  # target\n    buffer0,  # source\n"
            "    8,  # count\n)",
        ),
        (Let(AXIS, Address(WRITE, Index(3), 4)), "i = add(buffer1, 12)"),
        (
            Let(AXIS, Load(WRITE, Type.I64, Index(2), TRUE)),
            "i = reload_i64(buffer1, select(k0, 2, 0))",
        ),
        (Let(AXIS, Load(ROW, Type.I64, AXIS)), "i = kept_i64(row, i)"),
        (
            Let(
                AXIS,
                Index(5, ((Quotient(Index(0, ((AXIS, 1),)), 3), 2), (Remainder(Index(7), 4), 1))),
            ),
            "i = add(add(5, mul(whole_div(i, 3), 2)), whole_mod(7, 4))",
        ),
        (Set(Cell("c", Type.I64), STOP), "c = stop"),
        (
            For(AXIS, Index(2), STOP, (), 1, step=4, unrolled=True),
            "for i in range(2, stop, 4):\n    pass",
        ),
        (While(TRUE, (Break(),), 1), "while k0:\n    break"),
        (If(TRUE, (Break(),)), "if k0:\n    break"),
        (ParallelFor(None, 1, (Break(),)), "if start < stop:\n    break"),
        (ParallelFor(AXIS, 6, (Break(),), step=2), "for i in range(start, stop, 2):\n    break"),
        (Let(AXIS, Const(Type.C64, (1 << 31, 0x3F800000))), "i = k0"),
    ],
)
def test_statements_as_source(statement: Statement, source: str) -> None:
    assert "\n".join(NumbaText().lines([statement])) == source


def test_constants_are_written_by_their_bits() -> None:
    text = NumbaText()
    for constant in (ZERO, TRUE, ZERO, Const(Type.F64, (1 << 63,)), Const(Type.I8, (-3,))):
        text.expression(constant)
    assert text.constants == [
        "k0 = f32(0x0)",
        "k1 = b1(1)",
        "k2 = f64(0x8000000000000000)",
        "k3 = i8(-3)",
    ]


def test_several_parts_divide_the_range() -> None:
    other = ParallelFor(Value("u", Type.I64), 2, (), first=3)
    text = kernel_of(parallel(items=3), other, ParallelFor(None, 1, (), first=5), stack=()).text
    assert "for t in range(maximum(start, 0), minimum(stop, 3)):" in text
    assert "for u in range(maximum(start, 3), minimum(stop, 5)):" in text
    assert "if maximum(start, 5) < minimum(stop, 6):" in text


def test_items_are_those_of_all_parts() -> None:
    parts = parallel(items=3), ParallelFor(None, 1, (), first=3)
    assert kernel_of(*parts).items == 4
    assert kernel_of().items == 1


def test_statements_are_walked_with_what_is_around_them() -> None:
    kernel = sums_of_rows()
    names = [(type(s).__name__, [type(p).__name__ for p in path]) for s, path in walk(kernel.body)]
    assert names == [
        ("ParallelFor", []),
        ("Declare", ["ParallelFor"]),
        ("For", ["ParallelFor"]),
        ("Let", ["ParallelFor", "For"]),
        ("Accumulate", ["ParallelFor", "For"]),
        ("Store", ["ParallelFor"]),
    ]
    (let,) = [s for s, _ in walk(kernel.body) if isinstance(s, Let)]
    assert [type(each).__name__ for each in read_by(let)] == ["Load", "Index", "Value", "Value"]


def test_a_loop_of_unknown_bounds_must_have_iterations() -> None:
    with pytest.raises(ValueError, match="a loop of unknown bounds must have iterations, got i"):
        Loop(Body(), "i", STOP)


def test_a_loop_up_to_an_opaque_number_is_not_unrolled() -> None:
    body = Body()
    Loop(body, "i", 3).close()
    Loop(body, "j", opaque(3), iterations=3).close()
    assert [each.unrolled for each in body.statements if isinstance(each, For)] == [True, False]


def test_blocks_stand_in_the_body_around_them() -> None:
    body = Body()
    with Items(body, 5) as items, Branch(items, TRUE) as branch:
        with Repeat(branch, TRUE, 2) as loop:
            loop.add(Break())
        branch.orelse.add(Stop(WORD))
    with Items(body, 7, None) as call:
        call.add(Stop(WORD))
    part, whole = body.statements
    assert isinstance(part, ParallelFor)
    assert (part.axis, part.items) == (items.axis, 5)
    assert part.body == (If(TRUE, (While(TRUE, (Break(),), 2),), (Stop(WORD),)),)
    assert whole == ParallelFor(None, 7, (Stop(WORD),), is_range=True)


def test_a_loop_that_fails_is_not_closed() -> None:
    body = Body()
    with pytest.raises(ZeroDivisionError), Loop(body, "i", 3):
        raise ZeroDivisionError
    assert body.statements == []


def test_names_are_given_once() -> None:
    names = Names("p")
    assert [names("a"), names("b"), names("a")] == ["pa1", "pb2", "pa3"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (plus(2, 3), Index(5)),
        (plus(AXIS, 0), AXIS),
        (plus(0, AXIS), AXIS),
        (plus(AXIS, 2), Apply("add", (AXIS, Index(2)), Type.I64)),
        (times(Index(3), 4), Index(12)),
        (times(AXIS, 1), AXIS),
        (times(AXIS, 2), Apply("mul", (AXIS, Index(2)), Type.I64)),
        (AXIS + 0, AXIS),
        (AXIS + ITEM, Apply("add", (AXIS, ITEM), Type.I64)),
        (AXIS - 0, AXIS),
        (AXIS - 2, Apply("sub", (AXIS, Index(2)), Type.I64)),
        (AXIS * 1, AXIS),
        (AXIS // 3, Apply("whole_div", (AXIS, Index(3)), Type.I64)),
        (AXIS % 3, Apply("whole_mod", (AXIS, Index(3)), Type.I64)),
        (condition("lt", AXIS, 2), Apply("lt", (AXIS, Index(2)), Type.B1)),
    ],
)
def test_integers_are_computed_as_far_as_they_are_known(
    made: Expression, expected: Expression
) -> None:
    assert made == expected


@pytest.mark.parametrize(("kind", "size"), [("b1", 1), ("i8", 1), ("f64", 8), ("c128", 16)])
def test_bytes_of_an_element(kind: str, size: int) -> None:
    assert Type(kind).byte_size == size


@pytest.mark.parametrize("effort", [Effort.UNOPTIMISED, Effort.PLAIN])
def test_effort_is_in_the_key(effort: Effort) -> None:
    assert Kernel((), (), (), effort).key.startswith(f"# {effort.name.lower()}, ")
