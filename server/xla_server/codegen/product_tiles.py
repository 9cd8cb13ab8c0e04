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

from xla_server.codegen.instruction import instruction

LEVELS = 4
"""Loops of a sum."""

_WORD, _NUMBER = ir.IntType(64), ir.IntType(32)
_FORM = {"f32": ir.FloatType(), "f64": ir.DoubleType()}
_BYTES = {"f32": 4, "f64": 8}
_ARGUMENTS = 7 + 3 * LEVELS


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


def tile_name(kind: str, rows: int, vectors: int) -> str:
    """What kernels call the function of a tile.

    Its operands are int64: addresses of the left side, the right side and the result; bytes from
    row to row on the left side and in the result; columns to be done, as many as the vectors have
    or fewer; whether to add to the result (1) or set it (0); then for each loop, outermost first,
    its trips and the bytes of a step on the left and on the right.
    """
    return f"product_tile_{kind}_{rows}x{vectors}"


def _tile(kind: str, rows: int, vectors: int) -> Any:
    symbol = f"xla_{tile_name(kind, rows, vectors)}"

    def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
        function = b.module.globals.get(symbol)
        if function is None:
            form = ir.FunctionType(ir.VoidType(), [_WORD] * _ARGUMENTS)
            function = ir.Function(b.module, form, symbol)
            function.linkage = "internal"
            function.attributes.add("noinline")
            _Tile(function, kind, rows, vectors).define()
        b.call(function, args)
        return context.get_dummy_value()

    def tile(typing_context, *operands):  # type: ignore[no-untyped-def]
        return types.void(*[types.int64] * _ARGUMENTS), generate

    tile.__name__ = tile_name(kind, rows, vectors)
    return instruction(tile)


class _Tile:
    """The function of a tile while it is written."""

    def __init__(self, function: Any, kind: str, rows: int, vectors: int) -> None:
        self._function = function
        self._element = _FORM[kind]
        self._lanes = lanes(kind)
        self._vector = ir.VectorType(self._element, self._lanes)
        self._bytes = _BYTES[kind]
        self._rows, self._vectors = rows, vectors
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))

    def define(self) -> None:
        """Write it."""
        b = self._builder
        left, right, result, row_step, result_step, columns, adds, *loops = self._function.args
        sums = [b.alloca(self._vector) for _ in range(self._rows * self._vectors)]
        masks = [self._mask(columns, number) for number in range(self._vectors)]
        is_added = b.icmp_unsigned("!=", adds, ir.Constant(_WORD, 0))
        start, old, new = (
            self._function.append_basic_block(name) for name in ("start", "old", "new")
        )
        b.cbranch(is_added, old, new)
        b.position_at_end(old)
        for place, address, mask in self._results(sums, result, result_step, masks):
            b.store(self._read(address, mask), place)
        b.branch(start)
        b.position_at_end(new)
        for place in sums:
            b.store(ir.Constant(self._vector, None), place)
        b.branch(start)
        b.position_at_end(start)

        def add_products(left: Any, right: Any) -> None:
            self._add_products(left, right, row_step, masks, sums)

        self._nest(loops, left, right, add_products)
        for place, address, mask in self._results(sums, result, result_step, masks):
            self._write(b.load(place), address, mask)
        b.ret_void()

    def _mask(self, columns: Any, number: int) -> Any:
        """Which lanes of a vector are columns."""
        b = self._builder
        form = ir.VectorType(_WORD, self._lanes)
        first = number * self._lanes
        places = ir.Constant(form, list(range(first, first + self._lanes)))
        return b.icmp_signed("<", places, self._splat(columns, form))

    def _splat(self, value: Any, form: Any) -> Any:
        b = self._builder
        single = b.insert_element(ir.Constant(form, ir.Undefined), value, ir.Constant(_NUMBER, 0))
        zeros = ir.Constant(ir.VectorType(_NUMBER, self._lanes), None)
        return b.shuffle_vector(single, ir.Constant(form, ir.Undefined), zeros)

    def _results(
        self, sums: Sequence[Any], result: Any, step: Any, masks: Sequence[Any]
    ) -> list[tuple[Any, Any, Any]]:
        """(place of a sum, its address in the result, its mask) for each."""
        b = self._builder
        found = []
        for row in range(self._rows):
            start = b.add(result, b.mul(step, ir.Constant(_WORD, row)))
            for number, mask in enumerate(masks):
                address = b.add(start, ir.Constant(_WORD, number * self._lanes * self._bytes))
                found.append((sums[row * self._vectors + number], address, mask))
        return found

    def _called(self, name: str, kind: Any, *args: Any) -> Any:
        """The result of an LLVM intrinsic on vectors."""
        b = self._builder
        full = name.format(f"v{self._lanes}f{8 * self._bytes}")
        function = b.module.globals.get(full)
        if function is None:
            form = ir.FunctionType(kind, [arg.type for arg in args])
            function = ir.Function(b.module, form, full)
        return b.call(function, args)

    def _pointer(self, address: Any) -> Any:
        return self._builder.inttoptr(address, ir.PointerType(self._vector))

    def _read(self, address: Any, mask: Any) -> Any:
        align, nothing = ir.Constant(_NUMBER, self._bytes), ir.Constant(self._vector, None)
        args = (self._pointer(address), align, mask, nothing)
        return self._called("llvm.masked.load.{}.p0", self._vector, *args)

    def _write(self, value: Any, address: Any, mask: Any) -> None:
        align = ir.Constant(_NUMBER, self._bytes)
        args = (value, self._pointer(address), align, mask)
        self._called("llvm.masked.store.{}.p0", ir.VoidType(), *args)

    def _nest(
        self, loops: Sequence[Any], left: Any, right: Any, body: Callable[[Any, Any], None]
    ) -> None:
        """Loops around `body`, which gets the addresses on both sides."""
        if not loops:
            body(left, right)
            return
        b = self._builder
        trips, left_step, right_step, *inner = loops
        before = b.block
        test, inside, after = (
            self._function.append_basic_block(name) for name in ("test", "inside", "after")
        )
        b.branch(test)
        b.position_at_end(test)
        number, on_left, on_right = (b.phi(_WORD) for _ in range(3))
        b.cbranch(b.icmp_signed("<", number, trips), inside, after)
        b.position_at_end(inside)
        self._nest(inner, on_left, on_right, body)
        following = (
            b.add(number, ir.Constant(_WORD, 1)),
            b.add(on_left, left_step),
            b.add(on_right, right_step),
        )
        start = (ir.Constant(_WORD, 0), left, right)
        for phi, first, next_ in zip((number, on_left, on_right), start, following, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(next_, b.block)
        b.branch(test)
        b.position_at_end(after)

    def _add_products(
        self, left: Any, right: Any, row_step: Any, masks: Sequence[Any], sums: Sequence[Any]
    ) -> None:
        b = self._builder
        size = self._lanes * self._bytes
        factors = [
            self._read(b.add(right, ir.Constant(_WORD, number * size)), mask)
            for number, mask in enumerate(masks)
        ]
        for row in range(self._rows):
            address = b.add(left, b.mul(row_step, ir.Constant(_WORD, row)))
            single = b.load(b.inttoptr(address, ir.PointerType(self._element)))
            factor = self._splat(single, self._vector)
            for number, other in enumerate(factors):
                place = sums[row * self._vectors + number]
                args = (factor, other, b.load(place))
                b.store(self._called("llvm.fma.{}", self._vector, *args), place)


PRODUCT_TILES: dict[str, Any] = {
    tile_name(kind, rows, vectors): _tile(kind, rows, vectors)
    for kind in _FORM
    for rows in range(1, tallest() + 1)
    for vectors in range(1, VECTORS + 1)
}
"""Every function of this module by its name in kernels."""
