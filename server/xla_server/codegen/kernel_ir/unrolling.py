"""Unrolling: short loops, such as those over a window, become copies of their bodies.

LLVM's own heuristics unroll far more, which took half of all compile time and made almost no kernel
faster.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.kernel_ir.analysis.vectors import (
    has_costly_functions,
    is_of_functions,
    is_of_lookups,
    is_of_stores,
    is_of_sums,
    stores_apart,
)
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Index,
    Quotient,
    Remainder,
    Value,
    known,
    operands_of,
)
from xla_server.codegen.kernel_ir.statements import Call, For, Let, Statement, While, blocks_of
from xla_server.codegen.kernel_ir.walk import Path, read_by, walk, within
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS

MAX_COPIES = 64
"""Largest number of copies from nested loops: those of a window of eight by eight."""

LOOP_COPIES = 6
"""Copies that a loop inside counts as if it is not unrolled itself: a window of three by three may
have one for each element."""

VECTOR_COPIES = 4
"""Copies that a loop of vectors counts for: two vectors of eight rows each are unrolled, not three.
"""

MAX_LOOP_STATEMENTS = 8
"""Most statements of a loop in an unrolled one: copies of longer ones cost more than they save."""

MIN_LEFT = 3
"""Iterations from which a loop of loads at loaded indices, or of costly functions, is not unrolled,
so that LLVM vectorises it, which it does not do for two iterations."""

MIN_SUMS = 4
"""The same of a loop of sums: f32[20000,8] times [8,8] takes 37 us, unrolled 65, and a quarter of
the time to compile; three columns take 22 us, unrolled 15 (LOG, cold compilation by class). A pool
of four features takes 21 us, unrolled 29, and a fifth of the time (LOG, copies count)."""

MAX_COPIED_STATEMENTS = 256
"""Most statements in all copies of a loop's body. Six results of a padded 3x3 window, side by side,
took 2 times as long to compile, and as long to run (LOG, edges of filters)."""

MAX_NESTED_STATEMENTS = 384
"""The same with the copies inside of the body. Padded 3x3 windows of three features, about 290, ran
0.8 to 0.9 of the time; one of 5x5 by two, 420, as long, and took twice as long to compile (LOG,
copies count)."""

MAX_COLUMN_STATEMENTS = 64
"""Most statements in all copies of a loop over a column, such as an edge of few rows: these gain
little. A filter of 9 taps over 8 rows took 4 times as long to compile (LOG, edges of filters)."""

MIN_COLUMN_STRIDE = 16
"""Fewest elements between two of a column: a cache line of f32. Nearer ones share vectors."""


def is_unrolled(loop: For) -> bool:
    """Return whether a loop is unrolled. One that calls routines, or of too much code, is not.

    Nor is one of three or more iterations that store loads at loaded indices, or results of costly
    functions: LLVM vectorises the loop, but not its copies. Nor is one of four or more neighbouring
    sums, or extremes. Nor is one of rows, whose copies would be equal loops.
    """
    copies = _copies([loop])
    is_small = _is_short(loop) and copies <= MAX_COPIES and not is_long_column(loop)
    inside = [_copies_by(path) for _, path in walk(loop.body)]
    iterations = constant_iterations(loop) or 0
    is_small = is_small and iterations * len(inside) <= MAX_COPIED_STATEMENTS
    is_small = is_small and iterations * sum(inside) <= MAX_NESTED_STATEMENTS
    is_left = copies >= MIN_LEFT and (is_of_lookups(loop) or is_of_functions(loop))
    is_row = iterations >= MIN_SUMS and is_of_sums(loop)
    has_calls = any(isinstance(s, Call) and not s.routine.is_inlined for s, _ in walk(loop.body))
    return is_small and not (has_calls or is_left or is_row or _is_of_rows(loop))


def _is_of_rows(loop: For) -> bool:
    """Return whether a loop stores rows by loops that stay, and uses its axis in addresses only.

    An axis that is tested or divided would be constant in each copy.
    """
    rows = [each for each in loop.body if isinstance(each, For)]
    if not rows or not all(not row.unrolled and is_of_stores(row) for row in rows):
        return False
    inside = [statement for statement, _ in walk(loop.body)]
    found = [each for statement in inside for each in read_by(statement)]
    parts = (each for each in found if isinstance(each, Apply | Quotient | Remainder))
    used = [part for each in parts for part in operands_of(each)]
    used += [each.expression for each in inside if isinstance(each, Let)]
    numbers = (part for part in used if isinstance(part, Value | Index))
    return not any(loop.axis in within(part) for part in numbers)


def is_long_column(loop: For) -> bool:
    """Return whether a loop stores a column by more statements than are worth copies or vectors.

    LLVM would load and store each element of a vector by itself, so vectors are as much code.
    """
    statements = (constant_iterations(loop) or 0) * len(loop.body)
    is_long = statements > MAX_COLUMN_STATEMENTS and not has_costly_functions(loop)
    return is_long and is_of_stores(loop) and stores_apart(loop, MIN_COLUMN_STRIDE)


def constant_iterations(loop: For | While) -> int | None:
    """Return the number of iterations of a loop; None if its bounds are not known."""
    if isinstance(loop, While):
        return None
    low, high = known(loop.low), known(loop.high)
    return None if low is None or high is None else len(range(low, high, loop.step))


def _is_short(loop: For | While) -> bool:
    if isinstance(loop, For) and loop.vectorised:
        return False
    iterations = constant_iterations(loop)
    return iterations is not None and iterations <= MAX_UNROLLED_ITERATIONS


def _copies(statements: Sequence[Statement]) -> int:
    """Return the number of copies of the innermost statements when short loops are unrolled."""
    most = 1
    for each in statements:
        copies = _copies(blocks_of(each))
        if isinstance(each, For | While):
            if _is_short(each):
                copies *= constant_iterations(each) or 0
            elif isinstance(each, For) and each.vectorised:
                copies *= VECTOR_COPIES
            else:
                is_worth_it = len(each.body) <= MAX_LOOP_STATEMENTS and not _has_loops(each.body)
                copies = LOOP_COPIES if is_worth_it else MAX_COPIES
        most = max(most, copies)
    return most


def _copies_by(path: Path) -> float:
    """Return the number of copies of a statement that unrolled loops around it make."""
    return math.prod(each.iterations for each in path if isinstance(each, For) and each.unrolled)


def _has_loops(statements: Sequence[Statement]) -> bool:
    """Return whether loops remain at any depth once short ones are unrolled."""
    return any(
        (isinstance(each, For | While) and not _is_short(each)) or _has_loops(blocks_of(each))
        for each in statements
    )
