"""Minimax polynomials by Remez's exchange in 50 decimal digits."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np

DIGITS = 50
"""Decimal digits of the coefficients. Callers set the precision of the context to 10 more."""

_GRID = 600
_ROUNDS = 12

Function = Callable[[Decimal], Decimal]


def remez(
    function: Function,
    weight: Function,
    low: float,
    high: float,
    terms: int,
    known: Sequence[Decimal] = (),
) -> tuple[list[Decimal], float]:
    """Return the coefficients, constant first, and the largest weighted error.

    The first coefficients are those that are `known`.
    """
    left, right = Decimal(low), Decimal(high)
    middle, half = (left + right) / 2, (right - left) / 2
    angles = [Decimal(math.cos(math.pi * k / (_GRID - 1))) for k in range(_GRID)]
    grid = sorted({middle + half * angle for angle in angles})
    if known and not grid[0]:
        del grid[0]  # Terms of higher powers change nothing there.
    values = [function(x) - _horner(known, x) for x in grid]
    weights = [weight(x) for x in grid]
    powers = range(len(known), terms)
    count = len(powers) + 1
    chosen = [round((len(grid) - 1) * k / (count - 1)) for k in range(count)]
    coefficients: list[Decimal] = []
    errors: list[Decimal] = []
    for _ in range(_ROUNDS):
        rows = []
        for sign, k in enumerate(chosen):
            row = [grid[k] ** power if power else Decimal(1) for power in powers]
            level = (-1) ** sign / weights[k] if weights[k] else Decimal(0)
            rows.append([*row, level, values[k]])
        coefficients = [Decimal(0)] * len(known) + _solved(rows)[:-1]
        errors = [
            (_horner(coefficients, x) - value) * w
            for x, value, w in zip(grid, values, weights, strict=True)
        ]
        exchanged = _extremes(errors, count)
        if exchanged == chosen:
            break
        chosen = exchanged
    return [*known, *coefficients[len(known) :]], float(max(abs(error) for error in errors))


def rounded_in_turn(
    function: Function, weight: Function, low: float, high: float, terms: int
) -> list[Decimal]:
    """Return coefficients that are numbers of f32.

    Each is rounded before those of higher powers are fitted again, so that these make up for the
    error of rounding.
    """
    known: list[Decimal] = []
    while len(known) < terms:
        found, _ = remez(function, weight, low, high, terms, known)
        known.append(Decimal(float(np.float32(float(found[len(known)])))))
    return known


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
