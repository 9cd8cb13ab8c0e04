"""Minimax polynomials and their ratios by Remez's exchange in 50 decimal digits."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal

DIGITS = 50
"""Decimal digits of the coefficients. Callers set the precision of the context to 10 more."""

_GRID = 600
_ROUNDS = 12

Function = Callable[[Decimal], Decimal]


def remez(
    function: Function, weight: Function, low: float, high: float, terms: int, divisor: int = 0
) -> tuple[list[Decimal], float]:
    """Return the coefficients, constant first, and the largest weighted error.

    With a `divisor` of that many terms the fit is a ratio; its coefficients follow those of the
    dividend, and the first of them is 1.
    """
    left, right = Decimal(low), Decimal(high)
    middle, half = (left + right) / 2, (right - left) / 2
    angles = [Decimal(math.cos(math.pi * k / (_GRID - 1))) for k in range(_GRID)]
    grid = sorted({middle + half * angle for angle in angles})
    values = [function(x) for x in grid]
    weights = [weight(x) for x in grid]
    count = terms + max(divisor, 1)
    chosen = [round((len(grid) - 1) * k / (count - 1)) for k in range(count)]
    above, below, errors = [Decimal(0)], [Decimal(1)], [Decimal(0)]
    for _ in range(_ROUNDS):
        rows = []
        for sign, k in enumerate(chosen):
            powers = [grid[k] ** power if power else Decimal(1) for power in range(terms)]
            others = [-values[k] * grid[k] ** power for power in range(1, divisor)]
            level = (-1) ** sign / weights[k] if weights[k] else Decimal(0)
            rows.append([*powers, *others, level * _horner(below, grid[k]), values[k]])
        found = _solved(rows)[:-1]
        above, below = found[:terms], [Decimal(1), *found[terms:]]
        errors = [
            (_horner(above, x) / _horner(below, x) - value) * w
            for x, value, w in zip(grid, values, weights, strict=True)
        ]
        exchanged = _extremes(errors, count)
        if exchanged == chosen and not divisor:
            break  # A divisor stands in the equations of the next round.
        chosen = exchanged
    return [*above, *below[:divisor]], float(max(abs(error) for error in errors))


def _extremes(errors: list[Decimal], count: int) -> list[int]:
    runs: list[int] = []
    for k, error in enumerate(errors):
        if runs and (errors[runs[-1]] >= 0) == (error >= 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = k
        else:
            runs.append(k)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    while len(runs) < count:
        free = [k for k in range(len(errors)) if k not in runs]
        runs = sorted([*runs, free[len(free) // 2]])
    return runs


def _horner(coefficients: Sequence[Decimal], x: Decimal) -> Decimal:
    total = Decimal(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _solved(rows: list[list[Decimal]]) -> list[Decimal]:
    size = len(rows)
    for k in range(size):
        pivot = max(range(k, size), key=lambda row: abs(rows[row][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for row in range(size):
            if row != k:
                factor = rows[row][k] / rows[k][k]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[k], strict=True)]
    return [rows[k][size] / rows[k][k] for k in range(size)]
