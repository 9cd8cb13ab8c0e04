"""LLVM of the loop IR against that of its numba source, and what the emitter refuses."""

from collections.abc import Callable

import pytest

from tests.processors import HOST, assembles
from tests.sources import source_module, without_requests
from tests.unit.codegen.assembled import assembly_of
from tests.unit.codegen.kernel_ir.kernels import (
    ITEM,
    READ,
    ROW,
    WORD,
    WRITE,
    ZERO,
    kernel_of,
    parallel,
    sums_of_rows,
)
from xla_server.codegen.emit.llvm import kernel_module
from xla_server.codegen.instructions.memory import COPY_BYTES
from xla_server.codegen.instructions.random_words import PHILOX
from xla_server.codegen.kernel import module_of
from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import (
    BUFFERS,
    START,
    STOP,
    Address,
    Apply,
    Cell,
    Const,
    Index,
    Load,
    Quotient,
    Region,
    Remainder,
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
    Stop,
    Store,
    While,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.routines.linear_algebra.matrix_blocks import matrix_routine
from xla_server.target.machine import Machine

TRUE = Const(Type.B1, (1,))
GOING = Cell("going", Type.B1)
OTHER = Value("u", Type.I64)
SEED = Const(Type.U64, (7,))
XOR = Routine("bit_xor", parameters(Unit.BITS, "x", "y"), (Type.U64,))
LOW, HIGH, BOTH = (Value(name, Type.U64) for name in ("low", "high", "both"))
_STORE = Store(WRITE, Type.I64, OTHER, OTHER)


def _loop(count: int, *, is_carried: bool = False) -> Kernel:
    """A loop of stores, which may carry a value to its next iteration."""
    body = Body()
    total = body.declare("a", ZERO) if is_carried else None
    with Loop(body, "i", count) as loop:
        value = loop.let("v", Load(READ, Type.F32, Index(0, ((loop.axis, 1), (ITEM, count)))))
        if total is not None:
            loop.add(Accumulate(total, "add", value, Order.SEQUENTIAL))
        loop.store(WRITE, "f32", Index(0, ((loop.axis, 1), (ITEM, count))), value)
    return kernel_of(parallel(*body.statements), stack=())


def _endless() -> Kernel:
    leave = (Set(GOING, Apply("bit_not", (GOING,), Type.B1)), Break())
    body = Body()
    with Loop(body, "i", 100) as loop:
        test = Apply("lt", (loop.axis, Index(3)), Type.B1)
        loop.add(If(test, leave))
        loop.store(ROW, "i64", Index(0), loop.axis)
    return kernel_of(Declare(GOING, TRUE), While(GOING, (Stop(WORD), *body.statements), 1))


KERNELS: dict[str, Callable[[], Kernel]] = {
    "sums": sums_of_rows,
    "unrolled": lambda: _loop(5),
    "vectors of a rest": lambda: _loop(15),
    "carried": lambda: _loop(15, is_carried=True),
    "long": lambda: _loop(1000),
    "endless": _endless,
    "two parts": lambda: kernel_of(
        parallel(Store(WRITE, Type.I64, ITEM, STOP)),
        ParallelFor(OTHER, 3, (Store(WRITE, Type.I64, OTHER, OTHER),), first=4),
    ),
    "one item": lambda: kernel_of(ParallelFor(None, 1, (Store(WRITE, Type.F32, Index(3), ZERO),))),
    "one item behind others": lambda: kernel_of(
        parallel(Store(WRITE, Type.I64, ITEM, STOP)),
        ParallelFor(None, 1, (Store(WRITE, Type.F32, Index(3), ZERO),), first=4),
    ),
    "steps": lambda: kernel_of(ParallelFor(ITEM, 9, (Store(WRITE, Type.I64, ITEM, ITEM),), step=4)),
    "guards": lambda: kernel_of(
        parallel(
            Let(OTHER, Load(WRITE, Type.I64, ITEM, Apply("lt", (ITEM, Index(2)), Type.B1))),
            Store(WRITE, Type.I64, ITEM, OTHER, Apply("lt", (OTHER, ITEM), Type.B1)),
        )
    ),
    "known guards": lambda: kernel_of(parallel(Store(WRITE, Type.I64, ITEM, ITEM, TRUE))),
    "indices": lambda: kernel_of(
        parallel(
            Store(
                WRITE,
                Type.I64,
                Index(7, ((Quotient(Index(0, ((ITEM, 4),)), 3), 5), (Remainder(Index(9), 4), 1))),
                Load(ROW, Type.I64, Index(1)),
            ),
        )
    ),
    "addresses": lambda: kernel_of(
        Call(COPY_BYTES, (Address(WRITE), Address(READ, Index(3), 4), Index(8))),
        parallel(Call(COPY_BYTES, (Address(WRITE, ITEM, 8), Address(ROW, ITEM), Index(8)))),
    ),
    "regions": lambda: kernel_of(
        parallel(
            Let(OTHER, Load(Region(BUFFERS, Usage.READ), Type.I64, Index(1))),
            Store(
                Region(Address(WRITE, ITEM, 8), Usage.SCRATCH),
                Type.I64,
                Index(0),
                Load(Region(OTHER, Usage.SCRATCH), Type.I64, ITEM),
            ),
            Call(COPY_BYTES, (Address(Region(OTHER, Usage.WRITE), ITEM, 4), OTHER, Index(8))),
        )
    ),
    "either way": lambda: kernel_of(
        parallel(
            If(
                Apply("lt", (ITEM, Index(3)), Type.B1),
                (Store(WRITE, Type.I64, ITEM, ITEM),),
                (Store(WRITE, Type.I64, ITEM, Index(7)),),
            )
        )
    ),
    "results": lambda: kernel_of(
        parallel(
            Call(PHILOX, (SEED, SEED, SEED), (LOW, HIGH)),
            Call(XOR, (LOW, HIGH), (BOTH,)),
            Store(WRITE, Type.U64, ITEM, BOTH),
        )
    ),
    "a function of Python": lambda: kernel_of(
        Call(
            matrix_routine("cholesky", "f32"),
            (Address(WRITE), Index(600), TRUE, Address(ROW), Address(WORD)),
        )
    ),
    "a range": lambda: kernel_of(
        ParallelFor(None, 9, (For(OTHER, START, STOP, (_STORE,), 9),), is_range=True)
    ),
    "complex": lambda: kernel_of(
        Store(WRITE, Type.C64, Index(0), Const(Type.C64, (1 << 31, 0x3F800000)))
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_source_of_a_kernel_means_the_same(name: str, machine: Machine) -> None:
    kernel = KERNELS[name]()
    expected = source_module(kernel.text, None, machine)
    with without_requests():
        assert str(module_of(kernel, "kernel", machine)) == str(expected)


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        (Let(OTHER, ZERO), "u must be i64, got float32"),
        (Declare(GOING, ZERO), "going must be b1, got float32"),
        (Let(OTHER, Apply("no_such", (), Type.I64)), "must call instructions, got no_such"),
        (Let(OTHER, Apply("f32", (), Type.F32)), "must call instructions, got f32"),
        (Let(Value("x", Type.I32), Apply("add", (ZERO, ZERO), Type.I32)), "must be i32, got float"),
    ],
)
def test_what_a_kernel_cannot_mean_is_refused(statement: Let | Declare, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        kernel_module(kernel_of(statement), vocabulary(HOST).names, "kernel", HOST)


@assembles
def test_every_other_element_is_loaded_by_vectors(machine: Machine) -> None:
    body = Body()
    with Loop(body, "i", 4096) as loop:
        found = Load(READ, Type.F32, Index(0, ((loop.axis, 2),)))
        loop.store(WRITE, "f32", loop.axis, found)
    module = kernel_module(
        kernel_of(parallel(*body.statements)), vocabulary(machine).names, "kernel", machine
    )
    lines = [line.split() for line in assembly_of(str(module), machine).splitlines()]
    opcodes = {words[0] for words in lines if words}
    assert not [name for name in opcodes if name.startswith(("vgather", "vpgather"))]
    assert opcodes & {"vshufps", "vpermt2ps"}


def test_work_items_of_a_processor_exchange_nothing() -> None:
    exchange = Shuffle(Value("v", Type.F32), ZERO, 1)
    kernel = kernel_of(ParallelFor(ITEM, 8, (exchange,), group=2))
    with pytest.raises(ValueError, match="must exchange nothing, got v"):
        kernel_module(kernel, vocabulary(Machine.avx2()).names, "k", Machine.avx2())
    kernel = kernel_of(ParallelFor(ITEM, 8, (Barrier(),), group=2))
    with pytest.raises(ValueError, match="must not wait for others"):
        kernel_module(kernel, vocabulary(Machine.avx2()).names, "k", Machine.avx2())
