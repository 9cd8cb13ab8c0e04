"""Products of a large matrix with few vectors, which read the matrix once and unpacked.

These are bound by the memory they read: unlike tiles of `gemm_tiles`, they pack nothing and read
long contiguous runs. Sums along the rows of the matrix ("inner") are kept in vectors of partial
sums; sums along its columns ("outer") are added to the result a few rows at a time.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

from xla_server.codegen.compiler.llvm_text import FORM, TextLoop, VectorText
from xla_server.codegen.compiler.shared_functions import SharedFunction, TextFunction, by_name
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit, parameters
from xla_server.target.machine import Machine

_PARAMETERS = (
    # The matrix, and from row to row of it.
    *parameters(Unit.READ, "matrix"),
    *parameters(Unit.OFFSET, "ahead"),
    # The vectors: from one to the next, and how many.
    *parameters(Unit.READ, "vectors"),
    *parameters(Unit.OFFSET, "vector_ahead"),
    *parameters(Unit.COUNT, "vector_count"),
    # Results: between those of neighbouring vectors, and how many each has.
    *parameters(Unit.UPDATE, "result"),
    *parameters(Unit.OFFSET, "result_ahead"),
    *parameters(Unit.COUNT, "count"),
    # Products of a sum, and whether to add to the result or set it.
    *parameters(Unit.COUNT, "steps"),
    *parameters(Unit.FLAG, "adds"),
)


def _products(n: Mapping[str, int]) -> float:
    return n["count"] * max(n["vector_count"], ROWS) * n["steps"]


INNER = Routine("thin_inner", (*_PARAMETERS, Parameter("row_ahead", Unit.OFFSET)), cost=_products)
"""Multiplies `count` rows of a matrix with vectors, for results `row_ahead` from each other.

There is one for each type and number of vectors.
"""

OUTER = Routine(
    "thin_outer", (*_PARAMETERS, Parameter("element_ahead", Unit.OFFSET)), cost=_products
)
"""Multiplies `count` columns of a matrix with vectors of elements `element_ahead` from each other.

There is one for each type and number of vectors.
"""

ROWS = 4
"""Rows of the matrix that are multiplied at the same time where sums are along rows.

The loads of as many rows are in flight together.
"""

THIN_KINDS = ("f32", "f64")
"""Element types with functions."""


def inner_heights(machine: Machine) -> tuple[int, ...]:
    """Return the numbers of vectors at a time that have functions: their sums fit in registers."""
    return (1, 2, 4) if machine.vector_registers > 16 else (1, 2)


OUTER_HEIGHTS = (1, 2)
"""Vectors at a time of the functions whose sums are along columns."""


def thin_name(kind: str, height: int, *, is_inner: bool) -> str:
    """Return the name by which kernels call a function of this module."""
    return f"thin_{'inner' if is_inner else 'outer'}_{kind}_{height}"


def _inner(f: VectorText, height: int) -> None:
    """Write the function of sums along rows, for `height` vectors at a time."""
    last_row, last_vector = f.minus("%count", "1"), f.minus("%vector_count", "1")
    whole, mask = f.whole_and_rest("%steps")
    row = TextLoop(f, "0", "%count", ROWS, [])
    rows = [f.smaller(f.plus(row.number, str(n)), last_row) for n in range(ROWS)]
    lefts = [f.pointer(f.address("%matrix", (n, "%ahead"))) for n in rows]
    some = TextLoop(f, "0", "%vector_count", height, [])
    chosen = [f.smaller(f.plus(some.number, str(n)), last_vector) for n in range(height)]
    rights = [f.pointer(f.address("%vectors", (n, "%vector_ahead"))) for n in chosen]
    zeros = ["zeroinitializer"] * (height * ROWS)

    def added(number: str, sums: Sequence[str], mask: str = "") -> list[str]:
        offset = f.offset(number)
        left, right = (
            [f.load(f.behind(pointer, offset), mask) for pointer in side]
            for side in (lefts, rights)
        )
        pairs = [(one, other) for other in right for one in left]
        return [f.multiply_add(*pair, total) for pair, total in zip(pairs, sums, strict=True)]

    sums = _accumulated(f, ("0", whole, f.lanes), added(whole, zeros, mask), added)
    totals = [total for n in range(height) for total in _totals(f, sums[n * ROWS : (n + 1) * ROWS])]
    pointers = [
        f.pointer(f.address("%result", (n, "%row_ahead"), (number, "%result_ahead")))
        for number in chosen
        for n in rows
    ]
    # Missing rows and vectors repeat the last ones: all loads precede all stores.
    _finish(f, f.let("icmp ne i64 %adds, 0"), pointers, totals)
    some.end()
    row.end()


def _finish(f: VectorText, adds: str, pointers: Sequence[str], totals: Sequence[str]) -> None:
    """Set results to sums, or add these to them."""
    before = []
    for pointer in pointers:
        old = f.read(f.form, pointer, f.width)
        before.append(f.let(f"select i1 {adds}, {f.form} {old}, {f.form} 0.0"))
    for pointer, old, total in zip(pointers, before, totals, strict=True):
        f.write(f.form, f.let(f"fadd {f.form} {old}, {total}"), pointer, f.width)


def _accumulated(
    f: VectorText,
    steps: tuple[str, str, int],
    first: Sequence[str],
    body: Callable[[str, Sequence[str]], list[str]],
) -> list[str]:
    """Return the sums after a loop that may have no iteration.

    `steps` has start, stop and increment; `first` the sums before the loop. `body` returns those of
    the next iteration.
    """
    start, stop, by = steps
    before, inside, after = f.block, f.label(), f.label()
    f.do(f"br i1 {f.let(f'icmp slt i64 {start}, {stop}')}, label %{inside}, label %{after}")
    f.start(inside)
    step = TextLoop(f, start, stop, by, [(f.vector, total) for total in first])
    added = body(step.number, step.values)
    step.end(added)
    behind = f.block
    f.do(f"br label %{after}")
    f.start(after)
    return [
        f.let(f"phi {f.vector} [{one}, %{before}], [{other}, %{behind}]")
        for one, other in zip(first, added, strict=True)
    ]


def _totals(f: VectorText, sums: Sequence[str]) -> list[str]:
    """Return the sum of the elements of each of `ROWS` vectors."""
    values = list(sums)
    size = lanes = f.lanes
    # Two vectors become one with sums of their halves, until one vector has all sums.
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
            halves.append(f.add(*(f.shuffled(one, other, numbers) for numbers in (low, high))))
        values = halves
    (value,) = values
    while size > 1:
        size //= 2
        swapped = [n ^ size for n in range(lanes)]
        value = f.add(value, f.shuffled(value, "poison", swapped))
    part = lanes // len(sums)
    return [f.let(f"extractelement {f.vector} {value}, i32 {n * part}") for n in range(len(sums))]


def _outer(f: VectorText, height: int, together: int) -> None:
    """Write the function of sums along columns, for `height` vectors at a time.

    `together` is the number of rows of the matrix that are read at the same time.
    """
    whole, mask = f.whole_and_rest("%count")
    steps = f.let(f"and i64 %steps, {-together}")
    last = f.minus("%vector_count", "1")
    some = TextLoop(f, "0", "%vector_count", height, [])
    chosen = [f.smaller(f.plus(some.number, str(n)), last) for n in range(height)]
    vectors = [f.address("%vectors", (n, "%vector_ahead")) for n in chosen]
    results = [f.pointer(f.address("%result", (n, "%result_ahead"))) for n in chosen]
    with f.when(f.let("icmp eq i64 %adds, 0")):
        size = f.offset("%count")
        for result in results:
            f.clear(result, size)

    def add(numbers: Sequence[str]) -> None:
        """Add the products of these rows of the matrix to the results."""
        rows = [f.pointer(f.address("%matrix", (n, "%ahead"))) for n in numbers]
        factors = [
            [f.broadcast(f.pointer(f.address(vector, (n, "%element_ahead")))) for n in numbers]
            for vector in vectors
        ]

        def add_columns(first: str, mask: str = "") -> None:
            offset = f.offset(first)
            read = [f.load(f.behind(row, offset), mask) for row in rows]
            pointers = [f.behind(result, offset) for result in results]
            before = [f.load(pointer, mask) for pointer in pointers]
            for pointer, old, factor in zip(pointers, before, factors, strict=True):
                # These rows are summed first, and the result, maybe of many rows, is changed once.
                total = f.mul(factor[0], read[0])
                for one, other in zip(factor[1:], read[1:], strict=True):
                    total = f.multiply_add(one, other, total)
                f.store(f.add(old, total), pointer, mask)

        with f.when(f.let(f"icmp sgt i64 {whole}, 0")):
            column = TextLoop(f, "0", whole, f.lanes, [])
            add_columns(column.number)
            column.end()
        add_columns(whole, mask)

    for first, stop, count in (("0", steps, together), (steps, "%steps", 1)):
        with f.when(f.let(f"icmp slt i64 {first}, {stop}")):
            step = TextLoop(f, first, stop, count, [])
            add([step.number, *(f.plus(step.number, str(n)) for n in range(1, count))])
            step.end()
    some.end()


def thin_products(machine: Machine) -> dict[str, SharedFunction]:
    """Return every function of this module by its name in kernels."""
    found: list[SharedFunction] = []
    for name in THIN_KINDS:
        begin = functools.partial(VectorText, form=FORM[name])
        for height in inner_heights(machine):
            routine = INNER.named(thin_name(name, height, is_inner=True))
            code = functools.partial(_inner, height=height)
            found.append(TextFunction(routine, code, begin=begin))
        for height in OUTER_HEIGHTS:
            routine = OUTER.named(thin_name(name, height, is_inner=False))
            # Half of the registers, as each row of the matrix has one, and each factor.
            together = min(8, machine.vector_registers // 2 // height)
            code = functools.partial(_outer, height=height, together=together)
            found.append(TextFunction(routine, code, begin=begin))
    return by_name(found)
