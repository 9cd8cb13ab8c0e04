"""Sums of products kept in registers: a tile of results, and all that is added to them.

A tile has some rows, one for each position of the left side, and some vectors of columns, which are
contiguous on the right side and in the result. The sum runs over up to four loops with strides of
their own on both sides, so that overlapping windows are never copied (no im2col).

A depthwise tile has columns on the left side too: those of a row times those on the right.
All of these take any number of columns, as what they wait for is memory.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop
from xla_server.codegen.compiler.shared_functions import SharedFunction, TextFunction
from xla_server.codegen.instructions.instruction import Instruction, instruction_of
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit, parameters
from xla_server.codegen.routines.contraction.gemm_tiles import heights
from xla_server.target.machine import Machine

LEVELS = 4
"""Loops of a sum."""

_WORD = ir.IntType(64)
_BYTES = {"f32": 4, "f64": 8}
_FORMS = {"f32": "float", "f64": "double"}
TILE = Routine(
    "product_tile",
    (
        *parameters(Unit.READ, "left", "right"),
        *parameters(Unit.UPDATE, "result"),
        # Bytes between rows of the left side and of the result.
        *parameters(Unit.OFFSET, "row_step", "result_step"),
        *parameters(Unit.COUNT, "columns"),
        # For each loop, outermost first, its iterations and its strides on both sides.
        *(
            Parameter(f"{name}{level}", unit)
            for level in range(LEVELS)
            for name, unit in (
                ("iterations", Unit.COUNT),
                ("over", Unit.OFFSET),
                ("down", Unit.OFFSET),
            )
        ),
    ),
)
"""Sums products over nested loops. Each tile has these parameters."""

_ARGUMENTS = len(TILE.parameters)
_ROWS_OF_A_POINTER = 7
"""Rows told from one pointer by 0 to 6 steps: those are 1, 3 or 5, times 1, 2 or 4 by itself."""


def tallest(machine: Machine) -> int:
    """Return the rows of a tile whose sums, with the factors, fill the registers."""
    return heights(machine)[0]


def lanes(machine: Machine, kind: str) -> int:
    """Return the columns of a vector."""
    return machine.lanes(_BYTES[kind])


VECTORS = 2
"""Vectors of a tile that is not narrower."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProductTile:
    """Rows and vectors of columns; a last one `is_partial` has fewer."""

    kind: str
    rows: int
    vectors: int
    is_partial: bool = False
    is_depthwise: bool = False

    @property
    def name(self) -> str:
        """The name by which kernels call it."""
        form = "depthwise" if self.is_depthwise else "product"
        partial = "_partial" if self.is_partial else ""
        return f"{form}_tile_{self.kind}_{self.rows}x{self.vectors}{partial}"


def tile_name(
    machine: Machine, kind: str, rows: int, columns: int, *, is_depthwise: bool = False
) -> str:
    """Return the name of a tile."""
    vectors, rest = -(-columns // lanes(machine, kind)), columns % lanes(machine, kind)
    return ProductTile(kind, rows, vectors, rest > 0 or is_depthwise, is_depthwise).name


def tile_text(symbol: str, machine: Machine, tile: ProductTile) -> str:
    """The module of a tile."""
    return _Tile(symbol, machine, tile).text()


class _Tile:
    """The function of a tile while it is written."""

    def __init__(self, symbol: str, machine: Machine, tile: ProductTile) -> None:
        self._f = FunctionText(symbol, TILE.names)
        self._is_depthwise = tile.is_depthwise
        kind = tile.kind
        self._lanes, self._width, self._form = lanes(machine, kind), _BYTES[kind], _FORMS[kind]
        self._vector = f"<{self._lanes} x {self._form}>"
        self._bytes = self._lanes * self._width
        self._rows, self._vectors = tile.rows, tile.vectors
        self._masks = [""] * tile.vectors
        if tile.is_partial:
            # The last vector has fewer columns, which takes a mask.
            first = (tile.vectors - 1) * self._lanes
            self._masks[-1] = self._f.mask(self._lanes, first, "%columns")

    def text(self) -> str:
        """All of it."""
        f = self._f
        count = self._rows * self._vectors
        kept = f.let(f"alloca [{count} x {self._vector}], align {self._bytes}")
        least = "%iterations0"
        for level in range(1, LEVELS):
            least = f.smaller(least, f"%iterations{level}")
        some, none, store = f.label(), f.label(), f.label()
        f.do(f"br i1 {f.let(f'icmp sgt i64 {least}, 0')}, label %{some}, label %{none}")
        f.start(none)
        empty = [f"ptr {kept}", "i8 0", f"i64 {count * self._bytes}", "i1 false"]
        f.call("void", "llvm.memset.p0.i64", empty)
        f.do(f"br label %{store}")
        f.start(some)
        for number, value in enumerate(self._sums()):
            f.write(self._vector, value, f.behind(kept, number * self._bytes), self._width)
        f.do(f"br label %{store}")
        f.start(store)
        # A loop over rows is compiled in less time than all of them after each other.
        row = TextLoop(f, "0", str(self._rows), 1, [("ptr", kept), ("ptr", f.pointer("%result"))])
        source, target = row.values
        for number, mask in enumerate(self._masks):
            value = f.read(self._vector, f.behind(source, number * self._bytes), self._width)
            f.write(self._vector, value, f.behind(target, number * self._bytes), self._width, mask)
        row.end([f.behind(source, self._vectors * self._bytes), f.behind(target, "%result_step")])
        return f.text()

    def _sums(self) -> list[str]:
        """Emit the sums over all loops, each of which has an iteration.

        The innermost loop has them in registers; those around it are counted in memory.
        """
        f = self._f
        outer = range(LEVELS - 1)
        iterations, over, down = ([f.let("alloca i64") for _ in outer] for _ in range(3))
        multiples = [f.let(f"mul i64 %row_step, {number}") for number in (1, 3, 5)]

        def restart(first: int, left: str, right: str) -> None:
            for level in outer[first:]:
                f.do(f"store i64 %iterations{level}, ptr {iterations[level]}")
            for level in outer[max(first - 1, 0) :]:
                f.do(f"store i64 {left}, ptr {over[level]}")
                f.do(f"store i64 {right}, ptr {down[level]}")

        restart(0, "%left", "%right")
        before, body, again = f.block, f.label(), f.label()
        f.do(f"br label %{body}")
        f.start(body)
        innermost = LEVELS - 1
        phis = [f.later() for _ in range(3 + self._rows * self._vectors)]
        number, left, right, *sums = (name for name, _ in phis)
        added = self._added(left, right, multiples, sums)
        counted = f.let(f"sub i64 {number}, 1")
        following = [f.plus(left, f"%over{innermost}"), f.plus(right, f"%down{innermost}")]
        more, end, next_ = f.let(f"icmp sgt i64 {counted}, 0"), f.label(), f.label()
        f.do(f"br i1 {more}, label %{body}, label %{next_}")
        for level in reversed(outer):
            f.start(next_)
            rest = f.let(f"sub i64 {f.let(f'load i64, ptr {iterations[level]}')}, 1")
            f.do(f"store i64 {rest}, ptr {iterations[level]}")
            more, go_on = f.let(f"icmp sgt i64 {rest}, 0"), f.label()
            next_ = f.label() if level else end
            f.do(f"br i1 {more}, label %{go_on}, label %{next_}")
            f.start(go_on)
            starts = [
                f.plus(f.let(f"load i64, ptr {pointer}"), step)
                for pointer, step in (
                    (over[level], f"%over{level}"),
                    (down[level], f"%down{level}"),
                )
            ]
            restart(level + 1, *starts)
            f.do(f"br label %{again}")
        f.start(again)
        starts = [f.let(f"load i64, ptr {pointer[-1]}") for pointer in (over, down)]
        f.do(f"br label %{body}")
        iteration = f"%iterations{innermost}"
        rows = zip(
            phis,
            (iteration, "%left", "%right", *["zeroinitializer"] * len(sums)),
            (counted, *following, *added),
            (iteration, *starts, *added),
            strict=True,
        )
        for position, ((name, line), first, then, later) in enumerate(rows):
            kind = "i64" if position < 3 else self._vector
            f.fill(
                line,
                f"{name} = phi {kind} [{first}, %{before}], [{then}, %{body}], [{later}, %{again}]",
            )
        f.start(end)
        return added

    def _added(
        self, left: str, right: str, multiples: Sequence[str], sums: Sequence[str]
    ) -> list[str]:
        """The sums with the products at these addresses."""
        factors = self._row(right)
        added = []
        for row, address in enumerate(self._row_starts(left, multiples)):
            lefts = self._row(address) if self._is_depthwise else self._same(address)
            for number, (factor, other) in enumerate(zip(lefts, factors, strict=True)):
                total = sums[row * self._vectors + number]
                added.append(self._f.fma(self._vector, factor, other, total))
        return added

    def _row(self, address: str) -> list[str]:
        """The vectors that lie side by side from an address on."""
        start = self._f.pointer(address)
        return [
            self._f.read(
                self._vector, self._f.behind(start, number * self._bytes), self._width, mask
            )
            for number, mask in enumerate(self._masks)
        ]

    def _same(self, address: str) -> list[str]:
        """Vectors of one number."""
        f = self._f
        single = f.read(self._form, f.pointer(address), self._width)
        return [f.splat(self._form, self._lanes, single)] * self._vectors

    def _row_starts(self, start: str, multiples: Sequence[str]) -> list[str]:
        """The addresses of rows, in terms that the processor adds up while it loads."""
        f = self._f
        step, *_ = multiples
        starts = []
        for row in range(self._rows):
            number = row % _ROWS_OF_A_POINTER
            if not number:
                if row:
                    start = f.plus(start, f.let(f"mul i64 {step}, {_ROWS_OF_A_POINTER}"))
                # LLVM would else find that each row is a step further than the one before it, and
                # add that.
                start = f.opaque(start)
                starts.append(start)
                continue
            factor = number & -number
            moved = multiples[number // factor // 2]
            starts.append(f.plus(start, f.let(f"mul i64 {moved}, {factor}")))
        return starts


@instruction_of(types.void(*[types.int64] * (1 + _ARGUMENTS)))
def product_tile_at(b: Any, address: Any, *operands: Any) -> None:
    """Call the function of a tile by its address; its operands follow."""
    form = ir.FunctionType(ir.VoidType(), [_WORD] * _ARGUMENTS)
    b.call(b.inttoptr(address, ir.PointerType(form)), operands)


def product_tiles(machine: Machine) -> dict[str, Instruction]:
    """Return every function of this module by name, and the instructions for their addresses."""
    tiles = [
        ProductTile(kind, rows, vectors, is_partial, is_depthwise)
        for kind in _BYTES
        for rows in range(1, tallest(machine) + 1)
        for vectors in range(1, VECTORS + 1)
        for is_partial, is_depthwise in ((False, False), (True, False), (True, True))
    ]
    made: list[SharedFunction] = [
        TextFunction(
            TILE.named(tile.name), functools.partial(tile_text, machine=machine, tile=tile)
        )
        for tile in tiles
    ]
    addresses = [tile.address() for tile in made]
    functions = {function.__name__: function for function in (*made, *addresses)}
    return {**functions, "product_tile_at": product_tile_at}
