"""Sums of products kept in registers: a tile of results, and all that is added to them.

A tile has some rows, one for each place of the left side, and some vectors of columns, which lie
side by side on the right side and in the result. What is summed over is up to four loops with
steps of their own on both sides, so that overlapping places of an array are never laid out.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types

from xla_server.codegen.instruction import Instruction, instruction
from xla_server.codegen.shared_functions import SharedFunction
from xla_server.codegen.vectors import Vectors

LEVELS = 4
"""Loops of a sum."""

_WORD = ir.IntType(64)
_BYTES = {"f32": 4, "f64": 8}
_ARGUMENTS = 7 + 3 * LEVELS
_ROWS_OF_A_POINTER = 7
"""Rows told from one pointer by 0 to 6 steps: those are 1, 3 or 5, times 1, 2 or 4 by itself."""


@functools.cache
def _is_wide() -> bool:
    """Whether there are 32 registers of 64 bytes, and not 16 of 32."""
    return bool(llvm.get_host_cpu_features().get("avx512f", False))


def tallest() -> int:
    """Rows of a tile whose sums, with the factors, fill the registers."""
    return 14 if _is_wide() else 6


def lanes(kind: str) -> int:
    """Columns of a vector."""
    return (64 if _is_wide() else 32) // _BYTES[kind]


VECTORS = 2
"""Vectors of a tile that is not narrower."""


def tile_name(kind: str, rows: int, columns: int) -> str:
    """What kernels call the function of a tile.

    Its operands are int64: addresses of the left side, the right side and the result; bytes from
    row to row on the left side and in the result; columns to be done; whether to add to the
    result (1) or set it (0); then for each loop, outermost first, its trips and the bytes of a
    step on the left and on the right.
    """
    vectors, rest = -(-columns // lanes(kind)), columns % lanes(kind)
    return _name(kind, rows, vectors, rest > 0)


def _name(kind: str, rows: int, vectors: int, is_partial: bool) -> str:
    return f"product_tile_{kind}_{rows}x{vectors}{'_partial' if is_partial else ''}"


def _tile(kind: str, rows: int, vectors: int, is_partial: bool) -> SharedFunction:
    def write(function: Any) -> None:
        _Tile(function, kind, rows, vectors, is_partial).define()

    name = _name(kind, rows, vectors, is_partial)
    return SharedFunction(name, _ARGUMENTS, write, is_long=True)


class _Tile:
    """The function of a tile while it is written.

    Of one that `is_partial` the last vector has fewer columns, which takes a mask.
    """

    def __init__(self, function: Any, kind: str, rows: int, vectors: int, is_partial: bool) -> None:
        self._function = function
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._do = Vectors(self._builder, kind, lanes(kind))
        self._bytes = lanes(kind) * _BYTES[kind]
        self._rows, self._vectors = rows, vectors
        self._is_partial = is_partial

    def define(self) -> None:
        """Write it."""
        b, do = self._builder, self._do
        left, right, result, row_step, result_step, columns, adds, *loops = self._function.args
        masks: list[Any] = [None] * self._vectors
        if self._is_partial:
            masks[-1] = do.mask(columns, (self._vectors - 1) * lanes(do.kind))
        start, old = (self._function.append_basic_block(name) for name in ("start", "old"))
        entry = b.block
        b.cbranch(b.icmp_unsigned("!=", adds, _word(0)), old, start)
        b.position_at_end(old)
        found = [do.load(*place) for place in self._results(result, result_step, masks)]
        b.branch(start)
        b.position_at_end(start)
        sums = []
        for value in found:
            phi = b.phi(do.form)
            phi.add_incoming(do.zero, entry)
            phi.add_incoming(value, old)
            sums.append(phi)

        def add_products(left: Any, right: Any, sums: Sequence[Any]) -> list[Any]:
            return self._add_products(left, right, row_step, masks, sums)

        sums = self._nest(loops, left, right, sums, add_products)
        places = self._results(result, result_step, masks)
        for value, place in zip(sums, places, strict=True):
            do.store(value, *place)
        b.ret_void()

    def _results(self, result: Any, step: Any, masks: Sequence[Any]) -> list[tuple[Any, Any]]:
        """(address, mask) of each vector of the result."""
        b = self._builder
        return [
            (b.add(start, _word(number * self._bytes)), mask)
            for start in self._row_starts(result, step)
            for number, mask in enumerate(masks)
        ]

    def _row_starts(self, start: Any, step: Any) -> list[Any]:
        """The addresses of rows, in terms that the processor adds up while it loads."""
        b = self._builder
        starts = []
        for row in range(self._rows):
            number = row % _ROWS_OF_A_POINTER
            if not number:
                if row:
                    start = b.add(start, b.mul(step, _word(_ROWS_OF_A_POINTER)))
                start = self._opaque(start)
            factor = number & -number
            moved = b.mul(b.mul(step, _word(number // factor)), _word(factor)) if number else None
            starts.append(start if moved is None else b.add(start, moved))
        return starts

    def _opaque(self, word: Any) -> Any:
        """The same number, of which LLVM does not know how it comes about.

        It would else find that each row is one step further than the one before, and add it.
        """
        form = ir.FunctionType(_WORD, [_WORD])
        return self._builder.asm(form, "", "=r,0", [word], False)

    def _nest(
        self,
        loops: Sequence[Any],
        left: Any,
        right: Any,
        sums: list[Any],
        body: Callable[[Any, Any, Sequence[Any]], list[Any]],
    ) -> list[Any]:
        """Loops around `body`, which gets the addresses on both sides and gives the new sums."""
        if not loops:
            return body(left, right, sums)
        b = self._builder
        trips, left_step, right_step, *inner = loops
        before = b.block
        test, inside, after = (
            self._function.append_basic_block(name) for name in ("test", "inside", "after")
        )
        b.branch(test)
        b.position_at_end(test)
        phis = [b.phi(value.type) for value in (trips, left, right, *sums)]
        number, on_left, on_right, *partial = phis
        b.cbranch(b.icmp_signed("<", number, trips), inside, after)
        b.position_at_end(inside)
        added = self._nest(inner, on_left, on_right, partial, body)
        following = (
            b.add(number, _word(1)),
            b.add(on_left, left_step),
            b.add(on_right, right_step),
            *added,
        )
        start = (_word(0), left, right, *sums)
        for phi, first, next_ in zip(phis, start, following, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(next_, b.block)
        b.branch(test)
        b.position_at_end(after)
        return partial

    def _add_products(
        self, left: Any, right: Any, row_step: Any, masks: Sequence[Any], sums: Sequence[Any]
    ) -> list[Any]:
        b, do = self._builder, self._do
        factors = [
            do.load(b.add(right, _word(number * self._bytes)), mask)
            for number, mask in enumerate(masks)
        ]
        added = []
        for row, address in enumerate(self._row_starts(left, row_step)):
            factor = do.splat(do.element(address))
            for number, other in enumerate(factors):
                added.append(do.fma(factor, other, sums[row * self._vectors + number]))
        return added


def _word(number: int) -> Any:
    return ir.Constant(_WORD, number)


@instruction
def product_tile_at(typing_context, address, *operands):  # type: ignore[no-untyped-def]
    """Call the function of a tile by its address; its operands follow."""

    def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
        form = ir.FunctionType(ir.VoidType(), [_WORD] * _ARGUMENTS)
        b.call(b.inttoptr(args[0], ir.PointerType(form)), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (1 + _ARGUMENTS)), generate


_TILES = [
    _tile(kind, rows, vectors, is_partial)
    for kind in _BYTES
    for rows in range(1, tallest() + 1)
    for vectors in range(1, VECTORS + 1)
    for is_partial in (False, True)
]
PRODUCT_TILES: dict[str, Instruction] = {
    **{tile.__name__: tile for tile in _TILES},
    **{address.__name__: address for address in (tile.address() for tile in _TILES)},
    "product_tile_at": product_tile_at,
}
"""Every function of this module by its name in kernels, and what gives their addresses."""
