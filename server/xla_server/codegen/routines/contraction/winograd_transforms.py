"""Winograd's transforms M X M' of squares of features, as functions that kernels share.

M maps a column of the square to its values at the points, or products at the points to results. A
square is stored as rows of columns of features, with strides in bytes; features are vectorised.
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

from xla_server.codegen.compiler.llvm_text import Declaration, TextLoop, VectorText, suffix_of
from xla_server.codegen.compiler.shared_functions import TextFunction, by_name
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.kernel_ir.types import Type

POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2))
"""Points at which polynomials are evaluated: small numbers and their inverses have small errors."""

TAPS, RESULTS = 3, 4
SIDE = TAPS + RESULTS - 1
"""Taps, results and elements of a tile along a dimension: F(4, 3), for POINTS and infinity."""

Rows = Sequence[Sequence[Fraction]]

_EXPONENTS = f"splat (i32 {0x7F800000})"
"""The exponent bits of f32, all of which are set in infinities and NaNs."""


def matrices() -> tuple[Rows, Rows, Rows]:
    """Return the transforms of the input, of the kernel and of the result, by Cook and Toom."""
    result = [[p**k for p in POINTS] + [Fraction(int(k == RESULTS - 1))] for k in range(RESULTS)]
    kernel = []
    for p in POINTS:
        scale = math.prod(p - q for q in POINTS if q != p)
        kernel.append([p**k / scale for k in range(TAPS)])
    kernel.append([Fraction(int(k == TAPS - 1)) for k in range(TAPS)])
    return [_product_without(n) for n in (*range(len(POINTS)), None)], kernel, result


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


class _Transform(VectorText):
    """Writer of a transform.

    If it `is_partial`, it takes any count of features, else at least a vector of them. If it
    `checks`, it returns whether a result is not finite.
    """

    def __init__(
        self, declared: Declaration, matrix: Rows, *, is_partial: bool, checks: bool
    ) -> None:
        super().__init__(declared, "float")
        self._matrix, self._is_partial, self._checks = matrix, is_partial, checks
        self._numbers = f"<{self.lanes} x i32>"
        self._mask = ""

    def transform(self) -> str | None:
        """Write all of it: vectors of features one way to the stack, and from there the other."""
        size = self.bytes
        high, wide = len(self._matrix), len(self._matrix[0])
        workspace = self.let(f"alloca [{high * wide} x {self.vector}], align {size}")
        half = self.let(f"ptrtoint ptr {workspace} to i64")
        seen = self.let(f"alloca {self._numbers}, align {size}")
        self.write(self._numbers, "zeroinitializer", seen, size)
        latest = self.minus("%count", str(self.lanes))
        vector = TextLoop(self, "0", "%count", self.lanes, [])
        feature = vector.number
        if self._is_partial:
            self._mask = self.mask(self.lanes, 0, self.minus("%count", feature))
        else:
            # The last vector begins earlier, and repeats some features.
            feature = self.smaller(feature, latest)
        at = self.offset(feature)
        # Where elements are, and how far from each other along a line and from line to line; the
        # same of the target; lines.
        first = [self.plus("%source", at), "%down", "%across", half, wide * size, size, wide]
        then = [half, size, wide * size, self.plus("%target", at), "%target_across", "%target_down"]
        way = TextLoop(self, "0", "2", 1, [("i64", str(value)) for value in first])
        source, step, ahead, target, target_step, target_ahead, lines = way.values
        line = TextLoop(self, "0", lines, 1, [("i64", source), ("i64", target)])
        read, written = line.values
        values = [self.load(each, self._mask) for each in self._pointers(read, step, wide)]
        sums = [self._sum(row, values) for row in self._matrix]
        for value, pointer in zip(sums, self._pointers(written, target_step, high), strict=True):
            self.store(value, pointer, self._mask)
        if self._checks:
            self._check(sums, seen, way.number)
        line.end([self.plus(read, ahead), self.plus(written, target_ahead)])
        way.end([*map(str, then), str(high)])
        vector.end()
        return self._is_not_finite(seen) if self._checks else None

    def _pointers(self, start: str, step: str, count: int) -> list[str]:
        """Return addresses at equal steps, opaque to LLVM, whose analysis of them takes long."""
        pointers = [self.opaque(start)]
        while len(pointers) < count:
            pointers.append(self.plus(pointers[-1], step))
        return [self.pointer(pointer) for pointer in pointers]

    def _sum(self, row: Sequence[Fraction], values: Sequence[str]) -> str:
        """A row of the matrix times a column of vectors."""
        total = ""
        for factor, value in zip(row, values, strict=True):
            if not factor:
                continue
            numbers = self.number(float(factor))
            if not total:
                total = value if factor == 1 else self.mul(value, numbers)
            elif abs(factor) == 1:
                total = (self.add if factor == 1 else self.sub)(total, value)
            else:
                total = self.multiply_add(value, numbers, total)
        return total

    def _check(self, values: Sequence[str], seen: str, way: str) -> None:
        """Update the largest exponents of results, which the second direction produces."""
        bits = self._numbers
        with self.when(self.let(f"icmp eq i64 {way}, 1")):
            largest = self.read(bits, seen, self.bytes)
            for value in values:
                number = self.let(f"bitcast {self.vector} {value} to {bits}")
                exponent = self.let(f"and {bits} {number}, {_EXPONENTS}")
                operands = [f"{bits} {exponent}", f"{bits} {largest}"]
                largest = self.call(bits, f"llvm.umax.{suffix_of(bits)}", operands)
            self.write(bits, largest, seen, self.bytes)

    def _is_not_finite(self, seen: str) -> str:
        largest = self.read(self._numbers, seen, self.bytes)
        found = self.let(f"icmp eq {self._numbers} {largest}, {_EXPONENTS}")
        number = self.let(f"bitcast <{self.lanes} x i1> {found} to i{self.lanes}")
        return self.let(f"zext i1 {self.let(f'icmp ne i{self.lanes} {number}, 0')} to i64")


def _transform(
    name: str, matrix: Rows, *, is_partial: bool = False, checks: bool = False
) -> TextFunction:
    routine = Routine(name, TRANSFORM_WEIGHTS.parameters, (Type.I64,) if checks else ())
    begin = functools.partial(_Transform, matrix=matrix, is_partial=is_partial, checks=checks)
    return TextFunction(routine, _Transform.transform, begin=begin)


_INPUTS, _KERNEL, _RESULT = matrices()
WINOGRAD_TRANSFORMS = by_name(
    (
        _transform("winograd_input", _INPUTS),
        _transform(TRANSFORM_WEIGHTS.name, _KERNEL, is_partial=True),
        _transform("winograd_result", _RESULT, checks=True),
    )
)
"""Every function of this module by its name in kernels.

`winograd_result` returns 1 where a result is not finite, else 0.
"""
