"""Tridiagonal systems that may be singular: small pivots are perturbed until they can divide.

Semantics: LAPACK's lagtf and lagts with its option to perturb, for several right sides at once, as
JAX's tridiagonal_solve_perturbed_ffi has it. Inverse iteration needs an answer for a singular
matrix, and any large one will do.
"""

from typing import Any

import numpy as np

from xla_contract.types.shape import Shape
from xla_server.custom_calls.linear_algebra import batched
from xla_server.custom_calls.linear_algebra.solvers import tridiagonal_shapes


def solution_shape(call: batched.BatchedCall) -> Shape:
    """The solution, of the right side's shape."""
    tridiagonal_shapes(call)
    return call.operands[3]


def solve(call: batched.BatchedCall, matrices: batched.Matrices) -> batched.Matrices:
    """The lower diagonal starts with an element that is not read, the upper one ends so."""
    below, diagonal, above, right = matrices
    with np.errstate(all="ignore"):
        upper, reduced = _eliminated(below, diagonal, above, right)
        # LAPACK leaves the row before the last out of this maximum.
        seen = [diagonal[0], *above[:1][: len(diagonal) - 1], *upper[:-2].ravel(), upper[-1, 0]]
        return (_substituted(upper, reduced, np.abs(seen).max()),)


def _eliminated(below: Any, diagonal: Any, above: Any, right: Any) -> tuple[Any, Any]:
    """Return the three diagonals [n, 3] of U, and the right side after the same row operations.

    A row is exchanged with the next one if the next one's element is larger relative to its row.
    """
    last = len(diagonal) - 1
    upper = np.zeros((len(diagonal), 3), diagonal.dtype)
    upper[:, 0], upper[:-1, 1] = diagonal, above[:-1]
    reduced = right.copy()
    scale = np.abs(upper[0, :2]).sum()
    for row in range(last):
        under = below[row + 1]
        scale_under = np.abs(under) + np.abs(upper[row + 1, :2]).sum()
        pivot = upper[row, 0]
        weight = np.abs(pivot) / scale if pivot else 0
        if not under:
            scale = scale_under
        elif np.abs(under) / scale_under <= weight:
            scale = scale_under
            factor = under / pivot
            upper[row + 1, 0] -= factor * upper[row, 1]
            reduced[row + 1] -= factor * reduced[row]
        else:
            factor = pivot / under
            beside = upper[row, 1]
            upper[row] = under, upper[row + 1, 0], upper[row + 1, 1]
            upper[row + 1] = beside - factor * upper[row, 1], -factor * upper[row, 2], 0
            reduced[[row, row + 1]] = reduced[row + 1], reduced[row] - factor * reduced[row + 1]
            scale = np.abs(upper[row + 1, :2]).sum()
    return upper, reduced


def _substituted(upper: Any, reduced: Any, largest: Any) -> Any:
    """The solution of U x = reduced, from the last row up; `largest` scales perturbations."""
    size = len(upper)
    solution = np.zeros((size + 2, reduced.shape[1]), reduced.dtype)
    step = np.finfo(upper.dtype).eps * largest
    for row in reversed(range(size)):
        rest = reduced[row] - upper[row, 1] * solution[row + 1] - upper[row, 2] * solution[row + 2]
        pivot, rest = _perturbed(upper[row, 0], rest, step)
        solution[row] = rest * (1 / pivot)
    return solution[:size]


def _perturbed(pivot: Any, right: Any, step: Any) -> tuple[Any, Any]:
    """A pivot by which the right side can be divided without overflow, and that right side.

    Steps double until it is large enough; one that is tiny but fits the right side is scaled up
    together with it.
    """
    limits = np.finfo(pivot.dtype)
    safe = limits.smallest_normal
    large = 1 / safe
    largest = np.abs(right).max(initial=0)
    step = np.copysign(max(np.abs(step), safe), pivot.real)
    while np.abs(pivot) < 1:
        size = np.abs(pivot)
        if size < safe and size != 0 and largest * safe <= size:
            return pivot * large, right * large
        if size >= safe and largest <= size * large:
            break
        pivot, step = pivot + step, step * 2
    return pivot, right


TARGET = batched.MatrixFunction(
    (batched.VECTOR, batched.VECTOR, batched.VECTOR, batched.MATRIX),
    solution_shape,
    solve,
    empty=lambda call, matrices: (matrices[3],),
).target("tridiagonal_solve_perturbed_ffi")
