"""Sums of products kept in registers: a tile of results, and all that is added to them.

A tile has some rows, one for each position of the left side, and some vectors of columns, which are
contiguous on the right side and in the result. The sum runs over up to four loops with strides of
their own on both sides, so that overlapping windows are never copied (no im2col).

A depthwise tile has columns on the left side too: those of a row times those on the right. All of
these take any number of columns, as memory bounds their time. A tile of a filter of one feature has
vectors of positions: those of a row times one element on the right. The last row may have fewer.
"""

import dataclasses
import enum
import functools
from collections.abc import Sequence
from typing import Any

from xla_server.codegen.compiler.llvm_text import ELEMENT_BYTES, FORM, Declaration, VectorText
from xla_server.codegen.compiler.shared_functions import TextFunction, with_addresses
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit, parameters
from xla_server.codegen.routines.contraction.gemm_tiles import heights
from xla_server.target.machine import Machine

LEVELS = 4
"""Loops of a sum."""
_INNERMOST = LEVELS - 1
"""Number of the innermost loop; the outermost is 0."""

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

_ROWS_OF_A_POINTER = 7
"""Rows addressed from one pointer, at 0 to 6 steps: 1, 3 or 5, scaled by 1, 2 or 4."""


def tallest(machine: Machine) -> int:
    """Return the rows of a tile whose sums, with the factors, fill the registers."""
    return heights(machine)[0]


def lanes(machine: Machine, kind: str) -> int:
    """Return the columns of a vector."""
    return machine.lanes(ELEMENT_BYTES[FORM[kind]])


VECTORS = 2
"""Vectors of a tile that is not narrower."""


class TileForm(enum.Enum):
    """Sides of a product that are vectors: the right one, both, or the left one."""

    PRODUCT = "product"
    DEPTHWISE = "depthwise"
    FILTER = "filter"


@dataclasses.dataclass(frozen=True, slots=True)
class ProductTile:
    """Rows and vectors of columns; a last one `is_partial` has fewer."""

    kind: str
    rows: int
    vectors: int
    is_partial: bool = False
    form: TileForm = TileForm.PRODUCT

    @property
    def name(self) -> str:
        """The name by which kernels call it."""
        partial = "_partial" if self.is_partial else ""
        return f"{self.form.value}_tile_{self.kind}_{self.rows}x{self.vectors}{partial}"


def tile_name(
    machine: Machine, kind: str, rows: int, columns: int, form: TileForm = TileForm.PRODUCT
) -> str:
    """Return the name of a tile."""
    vectors, rest = -(-columns // lanes(machine, kind)), columns % lanes(machine, kind)
    return ProductTile(kind, rows, vectors, rest > 0 or form is not TileForm.PRODUCT, form).name


class ProductTileText(VectorText):
    """Writer of the function of a tile."""

    def __init__(self, declared: Declaration, tile: ProductTile) -> None:
        super().__init__(declared, FORM[tile.kind])
        self._form = tile.form
        self._rows, self._vectors = tile.rows, tile.vectors
        self._mask = ""
        if tile.is_partial:
            # The last vector has fewer columns, which takes a mask.
            self._mask = self.mask(self.lanes, (tile.vectors - 1) * self.lanes, "%columns")

    def multiply(self) -> None:
        """Write all of it."""
        # Memory that is not allocated at the start would move the stack's end.
        pointers = [self.let("alloca i64") for _ in range(LEVELS + 1)]
        runs = "%iterations0"
        for level in range(1, _INNERMOST):
            runs = self.let(f"mul i64 {runs}, %iterations{level}")
        steps = self.let(f"mul i64 {runs}, %iterations{_INNERMOST}")
        before, some, store = self.block, self.label(), self.label()
        self.do(f"br i1 {self.let(f'icmp sgt i64 {steps}, 0')}, label %{some}, label %{store}")
        self.start(some)
        added = self._sums(runs, pointers)
        end = self.block
        self.do(f"br label %{store}")
        self.start(store)
        sums = [
            self.let(f"phi {self.vector} [zeroinitializer, %{before}], [{value}, %{end}]")
            for value in added
        ]
        row = "%result"
        for number in range(self._rows):
            target = self.pointer(row)
            for vector in range(self._vectors):
                total = sums[number * self._vectors + vector]
                pointer = self.behind(target, vector * self.bytes)
                self.store(total, pointer, self._mask_of(number, vector))
            row = self.plus(row, "%result_step")

    def _sums(self, runs: str, pointers: Sequence[str]) -> list[str]:
        """Emit the sums over all loops, each of which has at least one iteration.

        The sums stay in registers during the innermost loop, which is run `runs` times. `pointers`
        address the number of remaining runs, the last run's start addresses, and the remaining
        iterations of the loops around it, without the outermost.
        """
        multiples = [self.let(f"mul i64 %row_step, {number}") for number in (1, 3, 5)]
        moves = [self._moves(side) for side in ("over", "down")]
        iterations = [f"%iterations{level}" for level in range(_INNERMOST - 1, 0, -1)]
        for first, pointer in zip((runs, "%left", "%right", *iterations), pointers, strict=True):
            self.do(f"store i64 {first}, ptr {pointer}")
        before, body, again, end = self.block, self.label(), self.label(), self.label()
        self.do(f"br label %{body}")
        self.start(body)
        phis = [self.later() for _ in range(3 + self._rows * self._vectors)]
        number, left, right, *sums = (name for name, _ in phis)
        added = self._added(left, right, multiples, sums)
        counted = self.minus(number, "1")
        next_addresses = [
            self.plus(left, f"%over{_INNERMOST}"),
            self.plus(right, f"%down{_INNERMOST}"),
        ]
        self.do(f"br i1 {self.let(f'icmp sgt i64 {counted}, 0')}, label %{body}, label %{again}")
        self.start(again)
        rest, *starts = self._next_run(pointers, moves, iterations)
        self.do(f"br i1 {self.let(f'icmp sgt i64 {rest}, 0')}, label %{body}, label %{end}")
        iteration = f"%iterations{_INNERMOST}"
        rows = zip(
            phis,
            (iteration, "%left", "%right", *["zeroinitializer"] * len(sums)),
            (counted, *next_addresses, *added),
            (iteration, *starts, *added),
            strict=True,
        )
        for position, ((name, line), first, then, later) in enumerate(rows):
            kind = "i64" if position < 3 else self.vector
            again_from = f"[{then}, %{body}], [{later}, %{again}]"
            self.fill(line, f"{name} = phi {kind} [{first}, %{before}], {again_from}")
        self.start(end)
        return added

    def _moves(self, side: str) -> list[str]:
        """The bytes from a run's start to the next one's, per advancing loop, inner first."""
        back, moves = "0", []
        for level in reversed(range(_INNERMOST)):
            moves.append(self.minus(f"%{side}{level}", back))
            others = self.minus(f"%iterations{level}", "1")
            back = self.plus(back, self.let(f"mul i64 {others}, %{side}{level}"))
        return moves

    def _next_run(
        self, pointers: Sequence[str], moves: Sequence[Sequence[str]], iterations: Sequence[str]
    ) -> list[str]:
        """Emit the number of remaining runs, and the start addresses of the next run.

        There are no branches: short loops would mispredict them.
        """
        runs, left, right, *counts = [self.let(f"load i64, ptr {pointer}") for pointer in pointers]
        moved, by = [side[0] for side in moves], "1"
        for level, (count, most) in enumerate(zip(counts, iterations, strict=True)):
            rest = self.minus(count, by)
            ends = self.let(f"icmp eq i64 {rest}, 0")
            by = self.let(f"zext i1 {ends} to i64")
            counts[level] = self.let(f"select i1 {ends}, i64 {most}, i64 {rest}")
            moved = [
                self.let(f"select i1 {ends}, i64 {side[level + 1]}, i64 {move}")
                for side, move in zip(moves, moved, strict=True)
            ]
        run = [self.minus(runs, "1"), self.plus(left, moved[0]), self.plus(right, moved[1])]
        for value, pointer in zip((*run, *counts), pointers, strict=True):
            self.do(f"store i64 {value}, ptr {pointer}")
        return run

    def _added(
        self, left: str, right: str, multiples: Sequence[str], sums: Sequence[str]
    ) -> list[str]:
        """The sums with the products at these addresses."""
        added = list(sums)
        starts = [self.pointer(address) for address in self._row_starts(left, multiples)]
        numbers, there = range(self._vectors), self.pointer(right)
        if self._form is not TileForm.PRODUCT:
            # The factors of one vector of columns at a time, for which 16 registers suffice.
            for number in numbers:
                is_same = self._form is TileForm.FILTER
                factor = self.broadcast(there) if is_same else self._columns(there, number)
                for row, start in enumerate(starts):
                    index = row * self._vectors + number
                    other = self._columns(start, number, row)
                    added[index] = self.multiply_add(other, factor, sums[index])
            return added
        factors = [self._columns(there, number) for number in numbers]
        for row, start in enumerate(starts):
            same = self.broadcast(start)
            for index, factor in enumerate(factors, row * self._vectors):
                added[index] = self.multiply_add(same, factor, sums[index])
        return added

    def _columns(self, start: str, number: int, row: int = 0) -> str:
        """A vector of contiguous columns at a pointer."""
        return self.load(self.behind(start, number * self.bytes), self._mask_of(row, number))

    def _mask_of(self, row: int, number: int) -> str:
        """The mask of a vector of a row; no text if all of it is there."""
        is_last = number == self._vectors - 1
        if self._form is TileForm.FILTER:
            is_last = row == self._rows - 1
        return self._mask if is_last else ""

    def _row_starts(self, start: str, multiples: Sequence[str]) -> list[str]:
        """The addresses of rows, as sums that the processor's addressing modes compute."""
        step, *_ = multiples
        starts = []
        for row in range(self._rows):
            number = row % _ROWS_OF_A_POINTER
            if not number:
                if row:
                    start = self.plus(start, self.let(f"mul i64 {step}, {_ROWS_OF_A_POINTER}"))
                # Otherwise LLVM would compute each row's address from the previous one by an
                # addition.
                start = self.opaque(start)
                starts.append(start)
                continue
            factor = number & -number
            moved = multiples[number // factor // 2]
            starts.append(self.plus(start, self.let(f"mul i64 {moved}, {factor}")))
        return starts


def product_tiles(machine: Machine) -> dict[str, Any]:
    """Return every function of this module by name, and the instructions for their addresses."""
    forms = {
        TileForm.PRODUCT: (VECTORS, (False, True)),
        TileForm.DEPTHWISE: (VECTORS, (True,)),
        TileForm.FILTER: (1, (True,)),
    }
    tiles = [
        ProductTile(kind, rows, vectors, is_partial, form)
        for form, (most, partial) in forms.items()
        for kind in FORM
        for rows in range(1, tallest(machine) + 1)
        for vectors in range(1, most + 1)
        for is_partial in partial
    ]
    return with_addresses(
        TextFunction(
            TILE.named(tile.name),
            ProductTileText.multiply,
            begin=functools.partial(ProductTileText, tile=tile),
        )
        for tile in tiles
    )
