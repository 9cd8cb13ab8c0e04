"""Winograd's transforms M X M' of squares of features, as functions that kernels share.

M takes a column of the square to its values at the points, or products at the points to results.
A square lies in memory as rows of columns of features, all so many bytes apart; features are done
by vectors.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from llvmlite import ir

from xla_server.codegen.product_tiles import lanes
from xla_server.codegen.shared_functions import SharedFunction
from xla_server.codegen.vectors import Vectors

POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2))
"""Where polynomials are evaluated: small numbers and their inverses lose least."""

TAPS, RESULTS = 3, 4
SIDE = TAPS + RESULTS - 1

Rows = Sequence[Sequence[Fraction]]

_WORD, _NUMBER = ir.IntType(64), ir.IntType(32)
_EXPONENT = 0x7F800000
"""The bits of f32 that are all set in what is infinite or no number."""


def matrices() -> tuple[Rows, Rows, Rows]:
    """(of the input, of the kernel, of the result) by Cook and Toom."""
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


class _Transform:
    """A transform while it is written."""

    def __init__(self, function: Any, matrix: Rows) -> None:
        self._function = function
        self._matrix = matrix
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._lanes = lanes("f32")
        self._do = Vectors(self._builder, "f32", self._lanes)

    def define(self, *, looks: bool) -> None:
        """Write it: each vector of features one way, onto the stack, and from there the other.

        A function that `looks` returns whether a result is not finite.
        """
        b, do = self._builder, self._do
        high, wide = len(self._matrix), len(self._matrix[0])
        source, down, across, target, target_down, target_across, count = self._function.args
        size = 4 * self._lanes
        half = b.ptrtoint(b.alloca(do.form, high * wide), _WORD)
        seen = b.alloca(self._bits)
        b.store(ir.Constant(self._bits, None), seen)

        def column(at: Any, mask: Any, number: Any) -> None:
            start = b.add(b.add(source, at), b.mul(number, across))
            sums = self._sums([do.load(place, mask) for place in self._places(start, down, wide)])
            into = b.add(half, b.mul(number, _word(size)))
            places = self._places(into, _word(wide * size), high)
            for value, place in zip(sums, places, strict=True):
                do.store(value, place)

        def row(at: Any, mask: Any, number: Any) -> None:
            start = b.add(half, b.mul(number, _word(wide * size)))
            sums = self._sums([do.load(place) for place in self._places(start, _word(size), wide)])
            into = b.add(b.add(target, at), b.mul(number, target_down))
            for value, place in zip(sums, self._places(into, target_across, high), strict=True):
                do.store(value, place, mask)
            if looks:
                self._look_at(sums, seen)

        def vector(number: Any) -> None:
            first = b.mul(number, _word(self._lanes))
            mask = do.mask(b.sub(count, first), 0)
            at = b.mul(first, _word(4))
            self._loop(_word(wide), lambda n: column(at, mask, n))
            self._loop(_word(high), lambda n: row(at, mask, n))

        self._loop(b.sdiv(b.add(count, _word(self._lanes - 1)), _word(self._lanes)), vector)
        if looks:
            b.ret(self._is_spoilt(b.load(seen)))
        else:
            b.ret_void()

    @property
    def _bits(self) -> Any:
        return ir.VectorType(_NUMBER, self._lanes)

    def _loop(self, trips: Any, body: Callable[[Any], None]) -> None:
        """A loop of at least one trip around `body`, which gets the number of the trip."""
        b = self._builder
        before = b.block
        inside, after = (self._function.append_basic_block(name) for name in ("inside", "after"))
        b.branch(inside)
        b.position_at_end(inside)
        number = b.phi(_WORD)
        body(number)
        following = b.add(number, _word(1))
        number.add_incoming(_word(0), before)
        number.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, trips), inside, after)
        b.position_at_end(after)

    def _places(self, start: Any, step: Any, count: int) -> list[Any]:
        places = [start]
        while len(places) < count:
            places.append(self._builder.add(places[-1], step))
        return places

    def _sums(self, values: Sequence[Any]) -> list[Any]:
        """The matrix times a column of vectors."""
        return [self._sum(row, values) for row in self._matrix]

    def _sum(self, row: Sequence[Fraction], values: Sequence[Any]) -> Any:
        b, do = self._builder, self._do
        total = None
        for factor, value in zip(row, values, strict=True):
            if not factor:
                continue
            if total is None:
                total = value if factor == 1 else b.fmul(value, do.constant(float(factor)))
            elif abs(factor) == 1:
                total = (b.fadd if factor == 1 else b.fsub)(total, value)
            else:
                total = do.fma(value, do.constant(float(factor)), total)
        return total

    def _look_at(self, values: Sequence[Any], seen: Any) -> None:
        """Note the largest exponents."""
        b = self._builder
        largest = b.load(seen)
        for value in values:
            exponent = b.and_(b.bitcast(value, self._bits), self._exponents)
            larger = b.icmp_unsigned(">", exponent, largest)
            largest = b.select(larger, exponent, largest)
        b.store(largest, seen)

    @property
    def _exponents(self) -> Any:
        return ir.Constant(self._bits, [_EXPONENT] * self._lanes)

    def _is_spoilt(self, largest: Any) -> Any:
        b = self._builder
        found = b.icmp_unsigned("==", largest, self._exponents)
        number = b.bitcast(found, ir.IntType(self._lanes))
        return b.zext(b.icmp_unsigned("!=", number, ir.Constant(number.type, 0)), _WORD)


def _word(number: int) -> Any:
    return ir.Constant(_WORD, number)


def _transform(name: str, matrix: Rows, *, looks: bool = False) -> SharedFunction:
    def write(function: Any) -> None:
        _Transform(function, matrix).define(looks=looks)

    return SharedFunction(name, 7, write, returns=looks)


_OF_INPUT, _OF_KERNEL, _OF_RESULT = matrices()
TRANSFORMATIONS: dict[str, SharedFunction] = {
    function.__name__: function
    for function in (
        _transform("winograd_input", _OF_INPUT),
        _transform("winograd_kernel", _OF_KERNEL),
        _transform("winograd_result", _OF_RESULT, looks=True),
    )
}
"""Every function of this module by its name in kernels.

Operands are int64: an address, bytes from row to row and from column to column of the source; the
same of the target; and how many features there are. `winograd_result` returns 1 where a result is
not finite, else 0.
"""
