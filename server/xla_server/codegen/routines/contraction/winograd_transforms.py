"""Winograd's transforms M X M' of squares of features, as functions that kernels share.

M takes a column of the square to its values at the points, or products at the points to results.
A square lies in memory as rows of columns of features, all so many bytes apart; features are done
by vectors.
"""

import functools
import struct
from collections.abc import Sequence
from fractions import Fraction

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop, suffix_of
from xla_server.codegen.compiler.shared_functions import SharedFunction, TextFunction
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.routines.contraction.product_tiles import lanes
from xla_server.target.machine import Machine

POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2))
"""Points at which polynomials are evaluated: small numbers and their inverses lose least."""

TAPS, RESULTS = 3, 4
SIDE = TAPS + RESULTS - 1

Rows = Sequence[Sequence[Fraction]]

_EXPONENTS = f"splat (i32 {0x7F800000})"
"""The bits of f32 that are all set in what is infinite or no number."""


def matrices() -> tuple[Rows, Rows, Rows]:
    """Return the transforms of the input, of the kernel and of the result, by Cook and Toom."""
    result = [[p**k for p in POINTS] + [Fraction(int(k == RESULTS - 1))] for k in range(RESULTS)]
    kernel = []
    for p in POINTS:
        scale = Fraction(1)
        for q in POINTS:
            scale *= p - q if p != q else 1
        kernel.append([p**k / scale for k in range(TAPS)])
    kernel.append([Fraction(int(k == TAPS - 1)) for k in range(TAPS)])
    inputs = [_product_without(n) for n in range(len(POINTS))]
    inputs.append(_product_without(None))
    return inputs, kernel, result


def _product_without(left_out: int | None) -> list[Fraction]:
    """The coefficients of the product of (x - point) over all points but one."""
    product = [Fraction(1)]
    for number, point in enumerate(POINTS):
        if number != left_out:
            shifted = [Fraction(0), *product]
            product = [a - point * b for a, b in zip(shifted, [*product, Fraction(0)], strict=True)]
    return product + [Fraction(0)] * (SIDE - len(product))


TRANSFORM_WEIGHTS = Routine(
    "winograd_kernel",
    (
        # `down` is from row to row, `across` from column to column.
        *parameters(Unit.READ, "source"),
        *parameters(Unit.OFFSET, "down", "across"),
        *parameters(Unit.WRITE, "target"),
        *parameters(Unit.OFFSET, "target_down", "target_across"),
        # Features: for inputs and results at least a vector.
        *parameters(Unit.COUNT, "count"),
    ),
    cost=lambda n: 100 * n["count"],
)
"""Transforms weights. Transforms of inputs and results have the same parameters."""


class _Transform:
    """A transform while it is written.

    One that `is_partial` is of any count of features, others of a vector of them at least. One
    that `looks` returns whether a result is not finite.
    """

    def __init__(
        self, symbol: str, machine: Machine, matrix: Rows, *, is_partial: bool, looks: bool
    ) -> None:
        self._f = FunctionText(symbol, TRANSFORM_WEIGHTS.names)
        self._matrix = matrix
        self._is_partial, self._looks = is_partial, looks
        self._lanes = lanes(machine, "f32")
        self._vector, self._bits = f"<{self._lanes} x float>", f"<{self._lanes} x i32>"
        self._mask = ""

    def text(self) -> str:
        """All of it: each vector of features one way, onto the stack, and from there the other."""
        f, size = self._f, 4 * self._lanes
        high, wide = len(self._matrix), len(self._matrix[0])
        room = f.let(f"alloca [{high * wide} x {self._vector}], align {size}")
        half = f.let(f"ptrtoint ptr {room} to i64")
        seen = f.let(f"alloca {self._bits}, align {size}")
        f.write(self._bits, "zeroinitializer", seen, size)
        latest = f.minus("%count", str(self._lanes))
        vector = TextLoop(f, "0", "%count", self._lanes, [])
        feature = vector.number
        if self._is_partial:
            self._mask = f.mask(self._lanes, 0, f.minus("%count", feature))
        else:
            # The last vector begins earlier, and does some features once more.
            feature = f.smaller(feature, latest)
        at = f.let(f"mul i64 {feature}, 4")
        # Where elements are, and how far from each other along a line and from line to line; the
        # same of the target; lines.
        first = [f.plus("%source", at), "%down", "%across", half, wide * size, size, wide]
        then = [half, size, wide * size, f.plus("%target", at), "%target_across", "%target_down"]
        way = TextLoop(f, "0", "2", 1, [("i64", str(value)) for value in first])
        source, step, ahead, target, target_step, target_ahead, lines = way.values
        line = TextLoop(f, "0", lines, 1, [("i64", source), ("i64", target)])
        read, written = line.values
        values = [
            f.read(self._vector, pointer, 4, self._mask)
            for pointer in self._pointers(read, step, wide)
        ]
        sums = [self._sum(row, values) for row in self._matrix]
        for value, pointer in zip(sums, self._pointers(written, target_step, high), strict=True):
            f.write(self._vector, value, pointer, 4, self._mask)
        if self._looks:
            self._look_at(sums, seen, way.number)
        line.end([f.plus(read, ahead), f.plus(written, target_ahead)])
        way.end([*map(str, then), str(high)])
        vector.end()
        return f.text(self._is_spoilt(seen) if self._looks else "")

    def _pointers(self, start: str, step: str, count: int) -> list[str]:
        """Addresses one step after the other, which LLVM would think about for long."""
        f = self._f
        pointers = [f.opaque(start)]
        while len(pointers) < count:
            pointers.append(f.plus(pointers[-1], step))
        return [f.pointer(pointer) for pointer in pointers]

    def _sum(self, row: Sequence[Fraction], values: Sequence[str]) -> str:
        """A row of the matrix times a column of vectors."""
        f, vector, total = self._f, self._vector, ""
        for factor, value in zip(row, values, strict=True):
            if not factor:
                continue
            numbers = f"splat (float {_constant(factor)})"
            if not total:
                total = value if factor == 1 else f.let(f"fmul {vector} {value}, {numbers}")
            elif abs(factor) == 1:
                total = f.let(f"{'fadd' if factor == 1 else 'fsub'} {vector} {total}, {value}")
            else:
                total = f.fma(vector, value, numbers, total)
        return total

    def _look_at(self, values: Sequence[str], seen: str, way: str) -> None:
        """Note the largest exponents of results, which come the second way."""
        f, bits = self._f, self._bits
        with f.when(f.let(f"icmp eq i64 {way}, 1")):
            largest = f.read(bits, seen, 4 * self._lanes)
            for value in values:
                number = f.let(f"bitcast {self._vector} {value} to {bits}")
                exponent = f.let(f"and {bits} {number}, {_EXPONENTS}")
                given = [f"{bits} {exponent}", f"{bits} {largest}"]
                largest = f.call(bits, f"llvm.umax.{suffix_of(bits)}", given)
            f.write(bits, largest, seen, 4 * self._lanes)

    def _is_spoilt(self, seen: str) -> str:
        f = self._f
        largest = f.read(self._bits, seen, 4 * self._lanes)
        found = f.let(f"icmp eq {self._bits} {largest}, {_EXPONENTS}")
        number = f.let(f"bitcast <{self._lanes} x i1> {found} to i{self._lanes}")
        return f.let(f"zext i1 {f.let(f'icmp ne i{self._lanes} {number}, 0')} to i64")


def _constant(factor: Fraction) -> str:
    """A number as f32, in the form that LLVM takes as it is."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", float(factor)))
    (bits,) = struct.unpack("<Q", struct.pack("<d", rounded))
    return f"{bits:#018x}"


def transform_text(
    symbol: str, machine: Machine, matrix: Rows, *, is_partial: bool, looks: bool
) -> str:
    """The module of a transform."""
    return _Transform(symbol, machine, matrix, is_partial=is_partial, looks=looks).text()


def _transform(
    machine: Machine, name: str, matrix: Rows, *, is_partial: bool = False, looks: bool = False
) -> SharedFunction:
    text = functools.partial(
        transform_text, machine=machine, matrix=matrix, is_partial=is_partial, looks=looks
    )
    results = (Type.I64,) if looks else ()
    return TextFunction(Routine(name, TRANSFORM_WEIGHTS.parameters, results), text)


def winograd_transforms(machine: Machine) -> dict[str, SharedFunction]:
    """Return every function of this module by its name in kernels.

    `winograd_result` returns 1 where a result is not finite, else 0.
    """
    inputs, kernel, result = matrices()
    functions = (
        _transform(machine, "winograd_input", inputs),
        _transform(machine, TRANSFORM_WEIGHTS.name, kernel, is_partial=True),
        _transform(machine, "winograd_result", result, looks=True),
    )
    return {function.__name__: function for function in functions}
