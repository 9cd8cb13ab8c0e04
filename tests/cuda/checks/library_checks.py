"""Checks of a driver's libraries: every kind of plan over types, forms and sizes.

The twin of the libraries says what is right.
"""

import dataclasses
import functools
import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.cuda.checks.outcomes import Check, assert_near
from tests.cuda_twin.device.driver import TwinDriver
from tests.cuda_twin.libraries.by_numpy import WRITTEN
from xla_contract.types.element_type import ElementType as E
from xla_server.backends.cuda.worker.device.driver import Driver, PreparedCall
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import (
    CholeskyPlan,
    FftPlan,
    GemmPlan,
    LibraryPlan,
    Matrix,
    TriangularSolvePlan,
)
from xla_server.codegen.gpu.plans.solver_plans import (
    EigenPlan,
    LuPlan,
    QrPlan,
    ReflectedPlan,
    ReflectorsPlan,
    SingularPlan,
    SolverPlan,
)
from xla_server.target.gpu.epilogue import Activation, Epilogue

SOLVED = (E.F32, E.F64, E.C64, E.C128)

GENERAL = ((1, 33, 17, 65), (1, 128, 64, 256), (7, 5, 9, 6), (3, 64, 48, 32), (1, 2, 3, 1000))
"""Batch, rows, columns and depth of products of floats."""

ROUNDED = 3e-3
"""Error of sums of products rounded to TF32, relative to the largest."""


@dataclasses.dataclass(frozen=True, slots=True)
class Buffers:
    """The arrays of a plan's buffers; those of the numbers `written` are results.

    A buffer behind them has the addresses of the matrices of `table`, of which each array has
    `batch`, if that is more than one.
    """

    arrays: tuple[Any, ...]
    written: tuple[int, ...]
    table: tuple[int, ...] = ()
    batch: int = 1


def plan_checks(driver: Driver) -> Iterator[Check]:
    """Yield the checks of a driver's libraries, in order."""
    driver.make_current()
    for plan in plans():
        yield plan.text, functools.partial(plan_check, driver, plan)
    yield "threads", functools.partial(_threads, driver)


def plans() -> Iterator[LibraryPlan]:
    """Yield plans of every kind."""
    yield from products()
    yield from epilogues()
    for element, batch, order in itertools.product(SOLVED, (1, 4), (1, 5, 64)):
        for forms in itertools.product((True, False), (True, False), (True, False), "NTC"):
            is_left, is_lower, is_unit, transpose = forms
            rows, columns = (order, 7) if is_left else (7, order)
            yield TriangularSolvePlan(
                element, batch, rows, columns, is_left, is_lower, is_unit, transpose
            )
    for element, batch, order in itertools.product(SOLVED, (1, 4), (1, 5, 100)):
        for is_lower in (True, False):
            yield CholeskyPlan(element, batch, order, is_lower)
    yield from solver_plans()
    for element, batch in itertools.product((E.C64, E.C128), (1, 3)):
        for sizes in ((1,), (2,), (8,), (30,), (97,), (2053,), (6, 5), (4, 3, 10)):
            for is_inverse in (False, True):
                yield FftPlan(element, batch, sizes, is_inverse)
                yield FftPlan(element, batch, sizes, is_inverse, inner=4)
            yield FftPlan(element, batch, sizes, is_inverse=False, is_real=True)
            if len(sizes) == 1:
                yield FftPlan(element, batch, sizes, is_inverse=True, is_real=True)


def solver_plans() -> Iterator[SolverPlan]:
    """Yield a plan of each of LAPACK's routines and of their forms."""
    for element, batch in itertools.product(SOLVED, (1, 3)):
        for rows, columns in ((1, 1), (7, 5), (5, 7), (70, 70)):
            yield LuPlan(element, batch, rows, columns)
            yield QrPlan(element, batch, rows, columns)
        for rows, columns, count in ((7, 5, 5), (7, 7, 3)):
            yield ReflectorsPlan(element, batch, rows, columns, count)
        for is_left, is_adjoint in itertools.product((True, False), repeat=2):
            yield ReflectedPlan(element, batch, 7, 6, 5, is_left, is_adjoint)
        for is_lower, has_vectors in itertools.product((True, False), repeat=2):
            for order in (6, 40):
                yield EigenPlan(element, batch, order, is_lower, has_vectors)
        for rows, columns, left in ((7, 5, 7), (7, 5, 5), (7, 5, 0), (6, 6, 6)):
            yield SingularPlan(element, batch, rows, columns, left)


def products() -> Iterator[GemmPlan]:
    """Yield products of all types and forms, with rows that lie apart too."""
    types = [(kind, kind) for kind in (*SOLVED, E.F16, E.BF16)]
    for (element, result), sizes in itertools.product(
        [*types, (E.F16, E.F32), (E.BF16, E.F32)], GENERAL
    ):
        for left, right in itertools.product((False, True), repeat=2):
            yield product(element, result, sizes, (left, right))
        if result is E.F32:
            yield product(element, result, sizes, (False, True), gap=3)
    for sizes, form in itertools.product(GENERAL, ((False, False), (False, True))):
        for element in (E.F32, E.C64):
            rounded = product(element, element, sizes, form)
            yield dataclasses.replace(rounded, rounds_operands=True)
    for sizes in ((1, 16, 8, 32), (1, 5, 12, 64), (3, 32, 32, 128)):
        yield product(E.S8, E.S32, sizes, (False, True))


def epilogues() -> Iterator[GemmPlan]:
    """Yield products with every epilogue, in every type that has it."""
    for element, sizes in itertools.product((E.F32, E.F16, E.BF16, E.F64), GENERAL[:3]):
        bare = product(element, element, sizes, (False, False))
        for weight, scale in itertools.product((0.0, 1.0, -1.0), (1.0, -0.1)):
            for has_bias, activation in itertools.product((False, True), Activation):
                last = Epilogue(scale, weight, has_bias, activation)
                plan = dataclasses.replace(bare, epilogue=last)
                if plan.problem is None:
                    yield plan


def product(
    element: E,
    result: E,
    sizes: tuple[int, int, int, int],
    transposed: tuple[bool, bool],
    gap: int = 0,
) -> GemmPlan:
    """Return a product, with so many elements between rows of operands."""
    batch, rows, columns, depth = sizes

    def matrix(tall: int, wide: int, is_transposed: bool) -> Matrix:
        tall, wide = (wide, tall) if is_transposed else (tall, wide)
        ahead = wide + gap
        return Matrix(element, ahead, tall * ahead if batch > 1 else 0, is_transposed)

    left, right = matrix(rows, depth, transposed[0]), matrix(depth, columns, transposed[1])
    made = Matrix(result, columns, rows * columns)
    return GemmPlan(batch, rows, columns, depth, left, right, made)


def _numbers(element: E, *sizes: int) -> Any:
    drawn = np.random.default_rng(math.prod(sizes))
    if element.is_complex:
        parts = drawn.standard_normal((2, *sizes))
        return (parts[0] + 1j * parts[1]).astype(element.dtype)
    if element.is_integer:
        return drawn.integers(-128, 128, sizes).astype(element.dtype)
    return drawn.standard_normal(sizes).astype(element.dtype)


def buffers_of(plan: LibraryPlan) -> Buffers:
    """Return arrays for a plan's buffers."""
    match plan:
        case GemmPlan():
            extents = (
                (plan.left, plan.depth if plan.left.is_transposed else plan.rows),
                (plan.right, plan.columns if plan.right.is_transposed else plan.depth),
            )
            operands = [_numbers(m.element, plan.batch, tall, m.ahead) for m, tall in extents]
            sizes = plan.batch, plan.rows, plan.columns
            made = np.zeros(sizes, plan.result.element.dtype)
            memory = np.zeros(plan.memory_bytes, np.uint8)
            last = plan.epilogue
            operands += [_numbers(plan.result.element, *sizes)] if last.weight else []
            operands += [_numbers(plan.result.element, plan.columns)] if last.has_bias else []
            return Buffers((*operands, made, memory), (len(operands),))
        case ConvolutionPlan():
            form = plan.convolution
            made = WRITTEN[form.direction]
            arrays = [_numbers(form.element, *sizes) for sizes in form.sizes]
            arrays = [*(a for n, a in enumerate(arrays) if n != made), np.zeros_like(arrays[made])]
            return Buffers((*arrays, np.zeros(plan.memory_bytes, np.uint8)), (2,))
        case TriangularSolvePlan():
            n = plan.order
            matrix = _numbers(plan.element, plan.batch, n, n) / n + 2 * np.eye(n)
            right = _numbers(plan.element, plan.batch, plan.rows, plan.columns)
            return Buffers((matrix.astype(right.dtype), right), (1,), (0, 1), plan.batch)
        case CholeskyPlan():
            half = _numbers(plan.element, plan.batch, plan.order, plan.order)
            positive = half @ half.conj().swapaxes(1, 2) + plan.order * np.eye(plan.order)
            positive[-1, -1, -1] -= 1e5 if plan.batch > 1 else 0
            status = np.full(plan.batch, -1, np.int32)
            return Buffers((positive.astype(half.dtype), status), (0, 1), (0,), plan.batch)
        case FftPlan():
            return _lines(plan)
        case SolverPlan():
            return _matrices(plan)
    raise AssertionError(plan)


def _lines(plan: FftPlan) -> Buffers:
    real = _numbers(plan.element.real_component, plan.batch, *plan.sizes, plan.inner)
    spectrum = _numbers(plan.element, plan.batch, *plan.complex_sizes, plan.inner)
    if not plan.is_real:
        return Buffers((spectrum, np.zeros_like(spectrum)), (1,))
    if not plan.is_inverse:
        return Buffers((real, np.zeros_like(spectrum)), (1,))
    ends = (0, plan.sizes[0] // 2) if plan.sizes[0] % 2 == 0 else (0,)
    spectrum.imag[:, ends] = 0
    return Buffers((spectrum, np.zeros_like(real)), (1,))


def _matrices(plan: SolverPlan) -> Buffers:
    """Return what a routine reads, which random numbers are good for, and memory for the rest."""
    arrays = [_numbers(element, plan.batch, count) for element, count in plan.parts[:-1]]
    if isinstance(plan, ReflectorsPlan | ReflectedPlan):
        arrays[1] /= 4
    if isinstance(plan, EigenPlan):
        diagonals = arrays[0][:, :: plan.order + 1]
        diagonals[:] = diagonals.real
    is_untouched = isinstance(plan, QrPlan) and plan.is_batched
    status = np.full((plan.batch, 1), 0 if is_untouched else -1, np.int32)
    written, tables = tuple(range(len(plan.parts))), tuple(range(plan.tables))
    return Buffers((*arrays, status), written, tables, plan.batch)


def run(driver: Driver, prepared: Any, given: Buffers) -> list[Any]:
    """Return what a driver's library makes of a plan, in a stream of its own."""
    return Call(driver, prepared, given).results()


class Call:
    """A prepared plan with memory on a device."""

    def __init__(self, driver: Driver, prepared: Any, given: Buffers) -> None:
        stream = driver.new_stream()
        self._driver, self._given, self._stream = driver, given, stream
        self._prepared = prepared
        self._places = [driver.allocate(array.nbytes, stream) for array in given.arrays]
        for place, array in zip(self._places, given.arrays, strict=True):
            driver.upload(place, _bytes(array), stream)
        if given.table and given.batch > 1:
            matrices = [
                self._places[number] + index * (given.arrays[number].nbytes // given.batch)
                for number in given.table
                for index in range(given.batch)
            ]
            self._table = np.array(matrices, np.int64)
            self._places.append(driver.allocate(self._table.nbytes, stream))
            driver.upload(self._places[-1], _bytes(self._table), stream)

    def results(self) -> list[Any]:
        """Compute the plan, and give the memory back."""
        driver, stream = self._driver, self._stream
        driver.enqueue(PreparedCall(self._prepared, self._places), stream)
        found = [np.empty_like(self._given.arrays[number]) for number in self._given.written]
        for number, array in zip(self._given.written, found, strict=True):
            driver.download(_bytes(array), self._places[number], stream)
        driver.synchronise(stream)
        for place in self._places:
            driver.free(place, stream)
        return found


def _bytes(array: Any) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def plan_check(driver: Driver, plan: LibraryPlan) -> None:
    """Check a plan's results by the twin's, and that they have the same bits in another stream."""
    prepared, given, twin = driver.prepare(plan), buffers_of(plan), TwinDriver()
    ours, again = (run(driver, prepared, given) for _ in range(2))
    assert_right(plan, ours, run(twin, twin.prepare(plan), given))
    for one, other in zip(ours, again, strict=True):
        assert one.tobytes() == other.tobytes(), "other bits in another stream"


def assert_right(plan: LibraryPlan, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Check results of a plan by the twin's, up to rounding."""
    if isinstance(plan, CholeskyPlan):
        _assert_factors(plan, ours, theirs)
    elif isinstance(plan, EigenPlan | SingularPlan):
        _assert_spectra(plan, ours, theirs)
    elif _rounds_operands(plan):
        gap = float(np.max(np.abs(ours[0] - theirs[0])) / np.max(np.abs(theirs[0])))
        assert gap <= ROUNDED, f"off by {gap:.1e} of the largest"
    else:
        assert_near(ours, theirs)


def _rounds_operands(plan: LibraryPlan) -> bool:
    if isinstance(plan, ConvolutionPlan):
        return plan.convolution.rounds_operands
    return isinstance(plan, GemmPlan) and plan.rounds_operands


def _assert_factors(plan: CholeskyPlan, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Check which matrices have factors, and the triangles of those."""
    (factors, status), (expected, failed) = ours, theirs
    assert np.array_equal(status != 0, failed != 0), f"{status} and {failed}"
    keep: Any = np.tril if plan.is_lower else np.triu
    good = failed == 0
    assert_near([keep(factors[good])], [keep(expected[good])])


def _assert_spectra(
    plan: EigenPlan | SingularPlan, ours: Sequence[Any], theirs: Sequence[Any]
) -> None:
    """Check values and status by the twin's, and vectors by the matrix that they make.

    Vectors have factors of their own, and those of nothing any basis.
    """
    assert_near([ours[1], ours[-1]], [theirs[1], theirs[-1]])
    found = [_recomposed(plan, side) for side in (ours, theirs)]
    assert_near(*found)


def _recomposed(plan: EigenPlan | SingularPlan, results: Sequence[Any]) -> list[Any]:
    """Return the matrices that values and vectors make, and the products of vectors."""
    matrices, values, *vectors, _ = results
    if isinstance(plan, EigenPlan):
        if not plan.has_vectors:
            return []
        left = matrices.reshape(plan.batch, plan.order, plan.order).swapaxes(1, 2)
        right = left.conj().swapaxes(1, 2)
    elif not vectors:
        return []
    else:
        left = vectors[0].reshape(plan.batch, plan.left, plan.rows).swapaxes(1, 2)
        right = vectors[1].reshape(plan.batch, plan.columns, plan.columns).swapaxes(1, 2)
        right = right.conj().swapaxes(1, 2) if plan.is_batched else right
    made = (left[:, :, : values.shape[1]] * values[:, None, :]) @ right
    return [made, left.conj().swapaxes(1, 2) @ left, right @ right.conj().swapaxes(1, 2)]


def _threads(driver: Driver) -> None:
    """Let threads compute prepared plans at the same time, each in a stream of its own."""
    chosen: list[LibraryPlan] = [
        product(E.F32, E.F32, (1, 128, 64, 256), (False, False)),
        FftPlan(E.C64, 3, (30,), is_inverse=False),
        CholeskyPlan(E.F64, 1, 100, is_lower=True),
        TriangularSolvePlan(E.F32, 4, 64, 7, True, True, False, "N"),
    ]
    twin, errors = TwinDriver(), list[BaseException]()

    def work(plan: LibraryPlan, prepared: Any, given: Buffers) -> None:
        try:
            driver.make_current()
            theirs = run(twin, twin.prepare(plan), given)
            for _ in range(3):
                assert_right(plan, run(driver, prepared, given), theirs)
        except BaseException as error:
            errors.append(error)

    works = [(plan, driver.prepare(plan), buffers_of(plan)) for plan in chosen]
    workers = [threading.Thread(target=work, args=each) for each in works * 2]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    if errors:
        raise errors[0]
