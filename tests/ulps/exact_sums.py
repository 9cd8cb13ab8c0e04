"""Sums and products in 80 bits, with what they leave out as a second number."""

from typing import Any

import numpy as np

Array = Any
WIDE = np.clongdouble


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    product = x * y
    halves = []
    for number in (x, y):
        wide = number * (2.0**32 + 1)
        high = wide - (wide - number)
        halves.append((high, number - high))
    (a, b), (c, d) = halves
    return product, ((a * c - product) + a * d + b * c) + b * d


def sum_of_products(*pairs: tuple[Array, Array]) -> Array:
    total, low = np.longdouble(0), np.longdouble(0)
    for pair in pairs:
        product, first = two_product(*pair)
        total, second = two_sum(total, product)
        low = low + first + second
    return total + low


def from_parts(real: Array, imag: Array) -> Array:
    result = np.empty(np.shape(real), WIDE)
    result.real, result.imag = real, imag
    return result
