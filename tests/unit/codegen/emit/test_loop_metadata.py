"""Requests to vectorise short loops."""

import pytest

from tests.processors import MACHINES, assembles
from tests.unit.codegen.assembled import assembly_of, optimised
from tests.unit.codegen.kernel_ir.kernels import (
    ITEM,
    READ,
    WRITE,
    ZERO,
    kernel_of,
    parallel,
    sums,
)
from xla_server.codegen.emit.llvm import kernel_module
from xla_server.codegen.emit.loop_metadata import (
    MASKED,
    SCALAR,
    VECTORISED,
    Request,
    item_request,
    vector_request,
)
from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import (
    STOP,
    Apply,
    Buffer,
    Cell,
    Expression,
    Index,
    Load,
    Usage,
    Value,
    integer_op,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    Break,
    Declare,
    For,
    If,
    Let,
    Order,
    ParallelFor,
    Set,
    Statement,
    Store,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.namespace import vocabulary
from xla_server.target.machine import Machine

AXIS = Value("i", Type.I64)
ELEMENT = Load(READ, Type.F32, AXIS)
LOOKUP = Load(READ, Type.F32, Load(READ, Type.I64, AXIS))
PAIR = Load(READ, Type.C64, AXIS)
APART = Load(READ, Type.F32, Index(0, ((AXIS, 203),)))


def quotient(element: Load) -> Apply:
    return Apply("div", (element, element), element.type)


def of_stores(iterations: int | None) -> For:
    high = STOP if iterations is None else Index(iterations)
    return For(AXIS, Index(0), high, (Store(WRITE, Type.F32, AXIS, quotient(ELEMENT)),), 1)


@pytest.mark.parametrize(
    ("iterations", "avx2", "avx512"),
    [
        (7, VECTORISED, MASKED),
        (8, VECTORISED, VECTORISED),
        (9, VECTORISED, MASKED),
        (15, VECTORISED, MASKED),
        (16, None, None),
        (17, None, MASKED),
        (48, None, None),
        (63, None, MASKED),
        (65, None, None),
        (72, None, None),
        (73, None, MASKED),
        (127, None, MASKED),
        (137, None, None),
        (None, None, None),
    ],
)
def test_the_request_follows_iterations_and_processor(
    iterations: int | None, avx2: Request | None, avx512: Request | None
) -> None:
    assert vector_request(of_stores(iterations), MACHINES["avx2"]) == avx2
    assert vector_request(of_stores(iterations), MACHINES["avx512"]) == avx512


@pytest.mark.parametrize(
    ("iterations", "expected"), [(3, VECTORISED), (15, VECTORISED), (16, None), (17, None)]
)
@pytest.mark.parametrize(
    "element", [quotient(LOOKUP), quotient(PAIR), quotient(APART), ELEMENT, ZERO]
)
def test_lookups_complex_and_strided_elements_and_short_operations_have_no_masks(
    iterations: int, expected: Request | None, element: Expression
) -> None:
    store = Store(WRITE, Type.F32, AXIS, element)
    loop = For(AXIS, Index(0), Index(iterations), (store,), 1)
    for machine in (MACHINES["avx2"], MACHINES["avx512"]):
        assert vector_request(loop, machine) == expected


@pytest.mark.parametrize(("kind", "expected"), [(Type.I32, MASKED), (Type.F64, None)])
def test_longer_rows_of_wide_elements_have_no_masks(kind: Type, expected: Request | None) -> None:
    store = Store(WRITE, kind, AXIS, quotient(Load(READ, kind, AXIS)))
    loop = For(AXIS, Index(0), Index(127), (store,), 1)
    assert vector_request(loop, MACHINES["avx512"]) == expected


@pytest.mark.parametrize("iterations", [73, 127])
def test_longer_columns_have_no_request(iterations: int) -> None:
    store = Store(WRITE, Type.F32, Index(0, ((AXIS, 400),)), ELEMENT)
    column = For(AXIS, Index(0), Index(iterations), (store,), 1)
    assert vector_request(column, MACHINES["avx512"]) is None


@pytest.mark.parametrize(("statements", "expected"), [(6, VECTORISED), (7, SCALAR)])
def test_long_columns_are_not_vectorised(statements: int, expected: Request) -> None:
    store = Store(WRITE, Type.F32, Index(0, ((AXIS, 400),)), ELEMENT)
    column = For(AXIS, Index(0), Index(10), (store,) * statements, 1)
    assert vector_request(column, MACHINES["avx512"]) == expected


def test_loops_without_stores_have_none() -> None:
    loop = For(AXIS, Index(0), Index(15), (Let(ITEM, AXIS),), 15)
    assert vector_request(loop, MACHINES["avx2"]) is None


@pytest.mark.parametrize(
    ("iterations", "expected"),
    [(8, "llvm.loop.unroll.full"), (9, "llvm.loop.vectorize.enable"), (16, None)],
)
def test_the_code_of_a_loop_has_its_request(iterations: int, expected: str | None) -> None:
    body = Body()
    with Loop(body, "i", iterations) as loop:
        loop.store(WRITE, "f32", loop.axis, ZERO)
    kernel = kernel_of(*body.statements, stack=())
    machine = MACHINES["avx2"]
    text = str(kernel_module(kernel, vocabulary(machine).names, "kernel", machine))
    assert ("!llvm.loop " in text) is (expected is not None)
    assert expected is None or f'!"{expected}"' in text


def items(
    count: int, stride: int, function: str = "add", first: int = 0, apart: int = 1
) -> ParallelFor:
    """Work items from number `first` on, which store an element each, `stride` further on.

    Each loads an element, `apart` further on.
    """
    axis, number = Value("t", Type.I64), Value("n", Type.I64)
    shift = Let(number, Apply("sub", (axis, Index(first)), Type.I64))
    element = Load(READ, Type.F32, Index(0, ((number, apart),)))
    value = Apply(function, (element, ZERO), Type.F32)
    store = Store(WRITE, Type.F32, Index(0, ((number, stride),)), value)
    return ParallelFor(axis, count, (shift, store), first)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (items(15, 2), SCALAR),
        (items(15, 1), None),
        (items(16, 8), None),
        (items(16, 9), SCALAR),
        (items(16, -9), SCALAR),
        (items(4000, 64), SCALAR),
        (items(60, 64, first=4000), SCALAR),
        (items(4000, 64, "pow_f32"), None),
        (items(4000, 2, apart=8), None),
        (items(4000, 2, apart=9), SCALAR),
        (items(4000, 1, apart=9), None),
    ],
)
def test_items_at_a_stride_are_not_vectorised_without_groups(
    part: ParallelFor, expected: Request | None
) -> None:
    machine = MACHINES["avx512"]
    assert item_request(part, machine) == expected
    text = str(kernel_module(kernel_of(part, stack=()), vocabulary(machine).names, "k", machine))
    assert ('!"llvm.loop.vectorize.enable", i1 0' in text) is (expected is SCALAR)


def gathering(
    loads: int,
    stride: int,
    function: str = "add",
    *,
    copies: int = 1,
    is_looked_up: bool = False,
    is_scattered: bool = False,
) -> ParallelFor:
    """Items that add up so many loads at quotients of their number, or at loaded numbers.

    They store `copies` sums, by an unrolled loop, at a stride or at a remainder of their number.
    """
    body = Body()
    found: list[Expression] = []
    for number in range(loads):
        index: Expression = integer_op("whole_div", ITEM, 3 + number)
        if is_looked_up:
            index = Load(READ, Type.I64, Index(number, ((ITEM, 4),)))
        found.append(body.let(f"n{number}", index))
    place = body.let("m", integer_op("whole_mod", ITEM, 40)) if is_scattered else ITEM
    with Loop(body, "i", copies, unrolled=True) as loop:
        total: Expression = ZERO
        for number, at in enumerate(found):
            element = Load(READ, Type.F32, Index(number, ((at, 7), (loop.axis, 1))))
            # The second load at an index is no other one.
            for _ in range(2):
                total = Apply(function, (total, element), Type.F32)
        loop.store(WRITE, "f32", Index(0, ((place, stride), (loop.axis, 90))), total)
    return parallel(*body.statements, items=4000)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (gathering(8, 2), None),
        (gathering(9, 2), SCALAR),
        (gathering(9, 1), None),
        (gathering(9, 1, is_scattered=True), SCALAR),
        (gathering(8, 1, is_scattered=True), None),
        (gathering(9, 2, is_looked_up=True), None),
        (gathering(9, 2, "pow_f32"), None),
        # Copies share the computation of an index.
        (gathering(3, 2, copies=3), None),
        (gathering(8, 2, copies=3), None),
        (gathering(9, 2, copies=3), SCALAR),
        (gathering(8, 1, copies=3, is_scattered=True), None),
        (gathering(9, 1, copies=3, is_scattered=True), SCALAR),
    ],
)
def test_items_at_many_computed_indices_are_not_vectorised(
    part: ParallelFor, expected: Request | None
) -> None:
    assert item_request(part, MACHINES["avx512"]) == expected


@assembles
@pytest.mark.parametrize(("count", "expected"), [(1, (0, 0)), (7, (0, 1)), (16, (1, 1))])
def test_few_items_fill_no_vectors(count: int, expected: tuple[int, int]) -> None:
    machine = MACHINES["avx512"]
    kernel = kernel_of(items(count, 1), stack=())
    text = optimised(str(kernel_module(kernel, vocabulary(machine).names, "k", machine)), machine)
    assert ("<16 x float>" in text, " phi " in text) == expected


TOTAL, OTHER = Cell("s", Type.F32), Cell("t", Type.F32)


def sum_of_runs(
    step: int, *statements: Statement, order: Order = Order.ANY, iterations: int = 128
) -> For:
    """A loop that adds four elements to a sum in each iteration, `step` further on."""
    function = "add_in_any_order" if order is Order.ANY else "add"
    body = Body()
    with Loop(body, "i", iterations, unrolled=False) as loop:
        loop.add(*statements)
        number = loop.let("n", integer_op("add", ITEM, loop.axis))
        with Loop(loop, "j", 4) as inner:
            position = Index(0, ((number, step), (inner.axis, 8 - step)))
            element = Load(READ, Type.F32, position)
            inner.add(Accumulate(TOTAL, function, element, order))
    (found,) = body.statements
    assert isinstance(found, For)
    return found


def test_sums_of_runs_that_are_apart_have_narrow_vectors_one_at_once() -> None:
    narrow = {"llvm.loop.vectorize.width": 8, "llvm.loop.interleave.count": 1}
    assert vector_request(sum_of_runs(7), MACHINES["avx2"]) == narrow
    # The elements of neighbouring iterations are neighbours.
    assert vector_request(sum_of_runs(1), MACHINES["avx2"]) is None
    assert vector_request(sum_of_runs(7, iterations=8), MACHINES["avx2"]) == narrow


def test_sums_of_runs_that_fill_no_vector_have_none_unless_they_are_of_neighbours() -> None:
    narrow = {"llvm.loop.vectorize.width": 8, "llvm.loop.interleave.count": 1}
    assert vector_request(sum_of_runs(7, iterations=7), MACHINES["avx2"]) == SCALAR
    assert vector_request(sums(7), MACHINES["avx2"]) == narrow


@pytest.mark.parametrize(
    "statement",
    [
        If(Apply("lt", (TOTAL, ZERO), Type.B1), (Break(),)),
        Set(OTHER, Apply("neg", (TOTAL,), Type.F32)),
    ],
    ids=["left early", "value carried"],
)
def test_nothing_is_said_of_sums_of_runs_in_sequence(
    statement: Statement, capfd: pytest.CaptureFixture[str]
) -> None:
    sums = parallel(
        Declare(TOTAL, ZERO),
        Declare(OTHER, ZERO),
        sum_of_runs(7, statement),
        *(
            Store(WRITE, Type.F32, Index(by, ((ITEM, 2),)), each)
            for by, each in enumerate((TOTAL, OTHER))
        ),
    )
    machine = MACHINES["avx2"]
    module = kernel_module(kernel_of(sums, stack=()), vocabulary(machine).names, "kernel", machine)
    optimised(str(module), machine)
    assert capfd.readouterr().err == ""


@assembles
def test_ordered_sums_of_runs_stay_in_order(machine: Machine) -> None:
    loop = sum_of_runs(7, order=Order.SEQUENTIAL)
    assert vector_request(loop, machine) is None
    sums = parallel(Declare(TOTAL, ZERO), loop, Store(WRITE, Type.F32, ITEM, TOTAL))
    module = kernel_module(kernel_of(sums, stack=()), vocabulary(machine).names, "kernel", machine)
    text = optimised(str(module), machine)
    # A sum in vectors starts with one, and ends with the sum of its elements.
    assert "fadd float" in text
    assert "x float>" not in text


@assembles
def test_sums_of_runs_load_each_element_of_a_narrow_vector(machine: Machine) -> None:
    store = Store(WRITE, Type.F32, ITEM, TOTAL)
    sums = parallel(Declare(TOTAL, ZERO), sum_of_runs(7), store, items=1 << 16)
    kernel = kernel_of(sums, stack=())
    module = kernel_module(kernel, vocabulary(machine).names, "kernel", machine)
    assert optimised(str(module), machine).count("load float") == 8 * 4


@assembles
def test_rows_of_15_with_two_results_are_vectors(machine: Machine) -> None:
    results = [Buffer(number, Usage.WRITE) for number in (1, 2)]
    body = Body()
    with Loop(body, "i", 15) as loop:
        position = Index(0, ((loop.axis, 1), (ITEM, 15)))
        value = loop.let("a", Load(READ, Type.F32, position))
        square = loop.let("b", Apply("mul", (value, value), Type.F32))
        loop.store(results[0], "f32", position, square)
        loop.store(results[1], "f32", position, Apply("div", (square, value), Type.F32))
    kernel = Kernel((READ, *results), (), (parallel(*body.statements),))
    module = kernel_module(kernel, vocabulary(machine).names, "kernel", machine)
    lines = assembly_of(str(module), machine).splitlines()
    divisions = [line for line in lines if line.strip().startswith("vdivps")]
    assert divisions
    assert not machine.has_masks or all("zmm" in line for line in divisions)
    assert not machine.has_masks or any("zmm" in line and "{%k1}" in line for line in lines)


@assembles
@pytest.mark.parametrize("divisor", [7, 8])
def test_lookups_at_remainders_are_vectors(divisor: int, machine: Machine) -> None:
    lookup = Load(READ, Type.F32, integer_op("narrow_mod", ITEM, divisor))
    value = Apply("div", (Load(READ, Type.F32, ITEM), lookup), Type.F32)
    kernel = kernel_of(parallel(Store(WRITE, Type.F32, ITEM, value), items=1 << 16), stack=())
    module = kernel_module(kernel, vocabulary(machine).names, "kernel", machine)
    text = optimised(str(module), machine)
    assert "vector.body" in text
    # LLVM's test whether the remainder ever wraps, behind which the vectors would be.
    assert "vector.scevcheck" not in text
