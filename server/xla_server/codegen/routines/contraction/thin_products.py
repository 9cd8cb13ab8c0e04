"""Products of a large matrix with few vectors, which read the matrix once from where it is stored.

These are bound by the memory they read: unlike tiles of `gemm_tiles`, they pack nothing and read
long contiguous runs. Sums along the rows of the matrix ("inner") are kept in vectors of partial
sums; sums along its columns ("outer") are added to the result a few rows at a time.
"""

import functools
from collections.abc import Callable, Sequence

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop, lanes_of
from xla_server.codegen.compiler.shared_functions import SharedFunction, TextFunction
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS, TileKind
from xla_server.target.machine import Machine

INNER = Routine(
    "thin_inner",
    (
        # The matrix: rows of `steps` elements, from row to row, and how many rows.
        *parameters(Unit.READ, "matrix"),
        *parameters(Unit.OFFSET, "ahead"),
        *parameters(Unit.COUNT, "count"),
        # The vectors: from one to the next, and how many.
        *parameters(Unit.READ, "vectors"),
        *parameters(Unit.OFFSET, "vector_ahead"),
        *parameters(Unit.COUNT, "vector_count"),
        # The result: between results of neighbouring rows and of neighbouring vectors.
        *parameters(Unit.UPDATE, "result"),
        *parameters(Unit.OFFSET, "row_ahead", "result_ahead"),
        # Products of a sum, and whether to add to the result or set it.
        *parameters(Unit.COUNT, "steps"),
        *parameters(Unit.FLAG, "adds"),
    ),
    cost=lambda n: n["count"] * max(n["vector_count"], ROWS) * n["steps"],
)
"""Multiplies rows of a matrix with vectors. There is one for each type and number of vectors."""

OUTER = Routine(
    "thin_outer",
    (
        # The matrix: `steps` rows, and from row to row.
        *parameters(Unit.READ, "matrix"),
        *parameters(Unit.OFFSET, "ahead"),
        # The vectors: from one to the next and from element to element, and how many.
        *parameters(Unit.READ, "vectors"),
        *parameters(Unit.OFFSET, "vector_ahead", "element_ahead"),
        *parameters(Unit.COUNT, "vector_count"),
        # The result: a row of `columns` for each vector, and from row to row.
        *parameters(Unit.UPDATE, "result"),
        *parameters(Unit.OFFSET, "result_ahead"),
        *parameters(Unit.COUNT, "columns"),
        # Products of a sum, and whether to add to the result or set it.
        *parameters(Unit.COUNT, "steps"),
        *parameters(Unit.FLAG, "adds"),
    ),
    cost=lambda n: n["columns"] * max(n["vector_count"], ROWS) * n["steps"],
)
"""Multiplies columns of a matrix with vectors. There is one for each type and number of vectors."""

ROWS = 4
"""Rows of the matrix that are multiplied at the same time where sums are along rows.

The loads of as many rows are in flight together.
"""

_SUMS = 4
"""Partial sums of a row that is read alone: as many additions as a processor has under way."""

THIN_KINDS = ("f32", "f64")
"""Kinds of elements that there are functions for."""


def inner_heights(machine: Machine) -> tuple[int, ...]:
    """Return for how many vectors at a time there are functions: their sums are in registers."""
    return (1, 2, 4) if machine.vector_registers > 16 else (1, 2)


OUTER_HEIGHTS = (1, 2)
"""Vectors at a time of the functions whose sums are along columns."""


def thin_name(kind: str, height: int, *, is_inner: bool) -> str:
    """Return the name by which kernels call a function of this module."""
    return f"thin_{'inner' if is_inner else 'outer'}_{kind}_{height}"


def streamed_name(kind: str) -> str:
    """Return the name by which kernels call the function that reads one row after the other."""
    return f"thin_streamed_{kind}"


def inner_text(symbol: str, machine: Machine, kind: TileKind, height: int) -> str:
    """Return the function of sums along rows, for `height` vectors at a time."""
    f = FunctionText(symbol, INNER.names)
    lanes, vector = machine.lanes(kind.width), _vector(machine, kind)
    last_row, last_vector = f.minus("%count", "1"), f.minus("%vector_count", "1")
    # The last vector of elements is read under a mask, and has one element at least.
    whole = f.let(f"and i64 {f.minus('%steps', '1')}, {-lanes}")
    mask = f.mask(lanes, 0, f.minus("%steps", whole))
    row = TextLoop(f, "0", "%count", ROWS, [])
    rows = [f.smaller(f.plus(row.number, str(n)), last_row) for n in range(ROWS)]
    lefts = [f.pointer(f.address("%matrix", (n, "%ahead"))) for n in rows]
    some = TextLoop(f, "0", "%vector_count", height, [])
    chosen = [f.smaller(f.plus(some.number, str(n)), last_vector) for n in range(height)]
    rights = [f.pointer(f.address("%vectors", (n, "%vector_ahead"))) for n in chosen]
    zeros = ["zeroinitializer"] * (height * ROWS)

    def added(step: str, sums: Sequence[str], mask: str) -> list[str]:
        left, right = (
            [f.read(vector, f.behind(pointer, step), kind.width, mask) for pointer in side]
            for side in (lefts, rights)
        )
        pairs = [(one, other) for other in right for one in left]
        return [f.fma(vector, *pair, total) for pair, total in zip(pairs, sums, strict=True)]

    first = added(f.let(f"mul i64 {whole}, {kind.width}"), zeros, mask)

    def step(number: str, sums: Sequence[str]) -> list[str]:
        return added(f.let(f"mul i64 {number}, {kind.width}"), sums, "")

    sums = _accumulated(f, vector, ("0", whole, lanes), first, step)
    totals = [
        total
        for n in range(height)
        for total in _totals(f, vector, sums[n * ROWS : (n + 1) * ROWS])
    ]
    pointers = [
        f.pointer(f.address("%result", (n, "%row_ahead"), (number, "%result_ahead")))
        for number in chosen
        for n in rows
    ]
    adds = f.let("icmp ne i64 %adds, 0")
    # Rows and vectors that are not there are the last ones again: all is read before it is written.
    before_ = []
    for pointer in pointers:
        old = f.read(kind.form, pointer, kind.width)
        before_.append(f.let(f"select i1 {adds}, {kind.form} {old}, {kind.form} 0.0"))
    for pointer, old, total in zip(pointers, before_, totals, strict=True):
        value = f.let(f"fadd {kind.form} {old}, {total}")
        f.write(kind.form, value, pointer, kind.width)
    some.end()
    row.end()
    return f.text()


def streamed_text(symbol: str, machine: Machine, kind: TileKind) -> str:
    """Return the function of sums along rows for one vector, which reads a row after the other.

    The processor's prefetching then sees one stream of memory, not `ROWS` of them. A row has
    `_SUMS` partial sums, as one would wait for its own last addition.
    """
    f = FunctionText(symbol, INNER.names)
    lanes, vector = machine.lanes(kind.width), _vector(machine, kind)
    whole = f.let(f"and i64 {f.minus('%steps', '1')}, {-lanes}")
    mask = f.mask(lanes, 0, f.minus("%steps", whole))
    together = f.let(f"and i64 {whole}, {-lanes * _SUMS}")
    right = f.pointer("%vectors")
    adds = f.let("icmp ne i64 %adds, 0")
    row = TextLoop(f, "0", "%count", 1, [])
    left = f.pointer(f.address("%matrix", (row.number, "%ahead")))

    def added(number: str, sums: Sequence[str], mask: str = "") -> list[str]:
        offsets = [f.let(f"mul i64 {number}, {kind.width}")]
        offsets += [f.plus(offsets[0], str(n * lanes * kind.width)) for n in range(1, len(sums))]
        lefts, rights = (
            [f.read(vector, f.behind(side, offset), kind.width, mask) for offset in offsets]
            for side in (left, right)
        )
        return [f.fma(vector, *each) for each in zip(lefts, rights, sums, strict=True)]

    first = added(whole, ["zeroinitializer"], mask)
    sums = [*first, *(["zeroinitializer"] * (_SUMS - 1))]
    sums = _accumulated(f, vector, ("0", together, lanes * _SUMS), sums, added)
    sums[:1] = _accumulated(f, vector, (together, whole, lanes), sums[:1], added)
    while len(sums) > 1:
        pairs = zip(sums[::2], sums[1::2], strict=True)
        sums = [f.let(f"fadd {vector} {one}, {other}") for one, other in pairs]
    (total,) = _totals(f, vector, sums)
    pointer = f.pointer(f.address("%result", (row.number, "%row_ahead")))
    old = f.read(kind.form, pointer, kind.width)
    before = f.let(f"select i1 {adds}, {kind.form} {old}, {kind.form} 0.0")
    value = f.let(f"fadd {kind.form} {before}, {total}")
    f.write(kind.form, value, pointer, kind.width)
    row.end()
    return f.text()


def _accumulated(
    f: FunctionText,
    vector: str,
    steps: tuple[str, str, int],
    first: Sequence[str],
    body: Callable[[str, Sequence[str]], list[str]],
) -> list[str]:
    """Return the sums behind a loop that may have no iteration.

    `steps` are where it starts and stops, and by how much it counts; `first` the sums before it.
    `body` gives those of the next iteration.
    """
    start, stop, by = steps
    before, inside, after = f.block, f.label(), f.label()
    f.do(f"br i1 {f.let(f'icmp slt i64 {start}, {stop}')}, label %{inside}, label %{after}")
    f.start(inside)
    step = TextLoop(f, start, stop, by, [(vector, total) for total in first])
    following = body(step.number, step.values)
    step.end(following)
    behind = f.block
    f.do(f"br label %{after}")
    f.start(after)
    return [
        f.let(f"phi {vector} [{one}, %{before}], [{other}, %{behind}]")
        for one, other in zip(first, following, strict=True)
    ]


def _totals(f: FunctionText, vector: str, sums: Sequence[str]) -> list[str]:
    """Return the sum of the elements of each of `ROWS` vectors."""
    lanes = lanes_of(vector)
    values = list(sums)
    size = lanes
    # Two vectors become one of the sums of halves, until one has a part of each.
    while len(values) > 1:
        size //= 2
        halves = []
        for one, other in zip(values[::2], values[1::2], strict=True):
            low, high = (
                [
                    n + part * size
                    for part in range(start, 2 * lanes // size, 2)
                    for n in range(size)
                ]
                for start in (0, 1)
            )
            picked = [f.shuffle(vector, one, other, numbers) for numbers in (low, high)]
            halves.append(f.let(f"fadd {vector} {picked[0]}, {picked[1]}"))
        values = halves
    (value,) = values
    while size > 1:
        size //= 2
        swapped = [n ^ size for n in range(lanes)]
        other = f.shuffle(vector, value, "poison", swapped)
        value = f.let(f"fadd {vector} {value}, {other}")
    part = lanes // len(sums)
    return [f.let(f"extractelement {vector} {value}, i32 {n * part}") for n in range(len(sums))]


def outer_text(symbol: str, machine: Machine, kind: TileKind, height: int) -> str:
    """Return the function of sums along columns, for `height` vectors at a time."""
    return _Outer(symbol, machine, kind, height).text()


class _Outer:
    """The function of sums along columns while it is written."""

    def __init__(self, symbol: str, machine: Machine, kind: TileKind, height: int) -> None:
        self._f = FunctionText(symbol, OUTER.names)
        self._kind, self._height = kind, height
        self._vector, self._lanes = _vector(machine, kind), machine.lanes(kind.width)
        # Half of the registers, as each row of the matrix has one, and each factor.
        self._together = min(8, machine.vector_registers // 2 // height)

    def text(self) -> str:
        f, kind = self._f, self._kind
        together = self._together
        # The last vector of columns is read under a mask, and has one column at least.
        whole = f.let(f"and i64 {f.minus('%columns', '1')}, {-self._lanes}")
        mask = f.mask(self._lanes, 0, f.minus("%columns", whole))
        steps = f.let(f"and i64 %steps, {-together}")
        last = f.minus("%vector_count", "1")
        some = TextLoop(f, "0", "%vector_count", self._height, [])
        chosen = [f.smaller(f.plus(some.number, str(n)), last) for n in range(self._height)]
        vectors = [f.address("%vectors", (n, "%vector_ahead")) for n in chosen]
        results = [f.pointer(f.address("%result", (n, "%result_ahead"))) for n in chosen]
        with f.when(f.let("icmp eq i64 %adds, 0")):
            size = f.let(f"mul i64 %columns, {kind.width}")
            for result in results:
                given = [f"ptr {result}", "i8 0", f"i64 {size}", "i1 false"]
                f.call("void", "llvm.memset.p0.i64", given)
        for first, stop, count in (("0", steps, together), (steps, "%steps", 1)):
            with f.when(f.let(f"icmp slt i64 {first}, {stop}")):
                step = TextLoop(f, first, stop, count, [])
                self._add(step.number, count, vectors, results, whole, mask)
                step.end()
        some.end()
        return f.text()

    def _add(
        self,
        step: str,
        count: int,
        vectors: Sequence[str],
        results: Sequence[str],
        whole: str,
        mask: str,
    ) -> None:
        """Add the products of `count` rows of the matrix to the results."""
        f, kind = self._f, self._kind
        numbers = [step, *(f.plus(step, str(n)) for n in range(1, count))]
        rows = [f.pointer(f.address("%matrix", (n, "%ahead"))) for n in numbers]
        factors = []
        for vector in vectors:
            pointers = [f.pointer(f.address(vector, (n, "%element_ahead"))) for n in numbers]
            singles = [f.read(kind.form, p, kind.width) for p in pointers]
            factors.append([f.splat(kind.form, self._lanes, single) for single in singles])
        with f.when(f.let(f"icmp sgt i64 {whole}, 0")):
            column = TextLoop(f, "0", whole, self._lanes, [])
            self._column(column.number, rows, factors, results, "")
            column.end()
        self._column(whole, rows, factors, results, mask)

    def _column(
        self,
        column: str,
        rows: Sequence[str],
        factors: Sequence[Sequence[str]],
        results: Sequence[str],
        mask: str,
    ) -> None:
        """Add the products of one vector of columns."""
        f, kind, vector = self._f, self._kind, self._vector
        offset = f.let(f"mul i64 {column}, {kind.width}")
        read = [f.read(vector, f.behind(row, offset), kind.width, mask) for row in rows]
        pointers = [f.behind(result, offset) for result in results]
        before = [f.read(vector, pointer, kind.width, mask) for pointer in pointers]
        for pointer, old, factor in zip(pointers, before, factors, strict=True):
            # Only the sum of these rows is added to what may be the sum of many.
            total = f.let(f"fmul {vector} {factor[0]}, {read[0]}")
            for one, other in zip(factor[1:], read[1:], strict=True):
                total = f.fma(vector, one, other, total)
            total = f.let(f"fadd {vector} {old}, {total}")
            f.write(vector, total, pointer, kind.width, mask)


def _vector(machine: Machine, kind: TileKind) -> str:
    return f"<{machine.lanes(kind.width)} x {kind.form}>"


def thin_products(machine: Machine) -> dict[str, SharedFunction]:
    """Return every function of this module by its name in kernels."""
    found: list[SharedFunction] = []
    for name in THIN_KINDS:
        for height in inner_heights(machine):
            text = functools.partial(inner_text, machine=machine, kind=KINDS[name], height=height)
            found.append(TextFunction(INNER.named(thin_name(name, height, is_inner=True)), text))
        text = functools.partial(streamed_text, machine=machine, kind=KINDS[name])
        found.append(TextFunction(INNER.named(streamed_name(name)), text))
        for height in OUTER_HEIGHTS:
            text = functools.partial(outer_text, machine=machine, kind=KINDS[name], height=height)
            found.append(TextFunction(OUTER.named(thin_name(name, height, is_inner=False)), text))
    return {function.__name__: function for function in found}
