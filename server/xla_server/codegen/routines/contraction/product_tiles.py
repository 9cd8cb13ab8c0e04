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

from xla_server.codegen.compiler.llvm_text import FunctionText
from xla_server.codegen.compiler.shared_functions import SharedFunction, TextFunction
from xla_server.codegen.instructions.instruction import Instruction, instruction_of
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit, parameters
from xla_server.codegen.routines.contraction.gemm_tiles import heights
from xla_server.target.machine import Machine

LEVELS = 4
"""Loops of a sum."""
_INNERMOST = LEVELS - 1

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
        # Memory that is not allocated at the start would move the stack's end.
        kept = [f.let("alloca i64") for _ in range(LEVELS + 1)]
        runs = "%iterations0"
        for level in range(1, _INNERMOST):
            runs = f.let(f"mul i64 {runs}, %iterations{level}")
        steps = f.let(f"mul i64 {runs}, %iterations{_INNERMOST}")
        before, some, store = f.block, f.label(), f.label()
        f.do(f"br i1 {f.let(f'icmp sgt i64 {steps}, 0')}, label %{some}, label %{store}")
        f.start(some)
        added = self._sums(runs, kept)
        end = f.block
        f.do(f"br label %{store}")
        f.start(store)
        sums = [
            f.let(f"phi {self._vector} [zeroinitializer, %{before}], [{value}, %{end}]")
            for value in added
        ]
        row = "%result"
        for first in range(0, len(sums), self._vectors):
            target = f.pointer(row)
            for number, mask in enumerate(self._masks):
                place = f.behind(target, number * self._bytes)
                f.write(self._vector, sums[first + number], place, self._width, mask)
            row = f.plus(row, "%result_step")
        return f.text()

    def _sums(self, runs: str, kept: Sequence[str]) -> list[str]:
        """Emit the sums over all loops, each of which has an iteration.

        The innermost loop, which is run `runs` times, has them in registers. `kept` are pointers to
        the runs that are left, to what the last one started from, and to the iterations that are
        left of the loops around it but the outermost.
        """
        f = self._f
        multiples = [f.let(f"mul i64 %row_step, {number}") for number in (1, 3, 5)]
        moves = [self._moves(side) for side in ("over", "down")]
        iterations = [f"%iterations{level}" for level in range(_INNERMOST - 1, 0, -1)]
        for first, place in zip((runs, "%left", "%right", *iterations), kept, strict=True):
            f.do(f"store i64 {first}, ptr {place}")
        before, body, again, end = f.block, f.label(), f.label(), f.label()
        f.do(f"br label %{body}")
        f.start(body)
        phis = [f.later() for _ in range(3 + self._rows * self._vectors)]
        number, left, right, *sums = (name for name, _ in phis)
        added = self._added(left, right, multiples, sums)
        counted = f.minus(number, "1")
        following = [f.plus(left, f"%over{_INNERMOST}"), f.plus(right, f"%down{_INNERMOST}")]
        f.do(f"br i1 {f.let(f'icmp sgt i64 {counted}, 0')}, label %{body}, label %{again}")
        f.start(again)
        rest, *starts = self._next_run(kept, moves, iterations)
        f.do(f"br i1 {f.let(f'icmp sgt i64 {rest}, 0')}, label %{body}, label %{end}")
        iteration = f"%iterations{_INNERMOST}"
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

    def _moves(self, side: str) -> list[str]:
        """The bytes from a run's start to the next one's, by the loop that goes on, inner first."""
        f, back = self._f, "0"
        moves = []
        for level in reversed(range(_INNERMOST)):
            moves.append(f.minus(f"%{side}{level}", back))
            others = f.minus(f"%iterations{level}", "1")
            back = f.plus(back, f.let(f"mul i64 {others}, %{side}{level}"))
        return moves

    def _next_run(
        self, kept: Sequence[str], moves: Sequence[Sequence[str]], iterations: Sequence[str]
    ) -> list[str]:
        """Emit the runs left after one of them, and where the next one starts on both sides.

        There are no branches, which would be predicted wrongly where loops are short.
        """
        f = self._f
        runs, left, right, *counts = [f.let(f"load i64, ptr {place}") for place in kept]
        moved, by = [side[0] for side in moves], "1"
        for level, (count, most) in enumerate(zip(counts, iterations, strict=True)):
            rest = f.minus(count, by)
            ends = f.let(f"icmp eq i64 {rest}, 0")
            by = f.let(f"zext i1 {ends} to i64")
            counts[level] = f.let(f"select i1 {ends}, i64 {most}, i64 {rest}")
            moved = [
                f.let(f"select i1 {ends}, i64 {side[level + 1]}, i64 {move}")
                for side, move in zip(moves, moved, strict=True)
            ]
        run = [f.minus(runs, "1"), f.plus(left, moved[0]), f.plus(right, moved[1])]
        for value, place in zip((*run, *counts), kept, strict=True):
            f.do(f"store i64 {value}, ptr {place}")
        return run

    def _added(
        self, left: str, right: str, multiples: Sequence[str], sums: Sequence[str]
    ) -> list[str]:
        """The sums with the products at these addresses."""
        f, added = self._f, list(sums)
        starts = [f.pointer(address) for address in self._row_starts(left, multiples)]
        numbers, there = range(self._vectors), f.pointer(right)
        if self._is_depthwise:
            # The factors of one vector of columns at a time, for which 16 registers suffice.
            for number in numbers:
                factor = self._columns(there, number)
                for row, start in enumerate(starts):
                    place = row * self._vectors + number
                    other = self._columns(start, number)
                    added[place] = f.fma(self._vector, other, factor, sums[place])
            return added
        factors = [self._columns(there, number) for number in numbers]
        for row, start in enumerate(starts):
            same = f.splat(self._form, self._lanes, f.read(self._form, start, self._width))
            for place, factor in enumerate(factors, row * self._vectors):
                added[place] = f.fma(self._vector, same, factor, sums[place])
        return added

    def _columns(self, start: str, number: int) -> str:
        """A vector of the columns that lie side by side from a pointer on."""
        place = self._f.behind(start, number * self._bytes)
        return self._f.read(self._vector, place, self._width, self._masks[number])

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
