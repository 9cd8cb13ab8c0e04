"""Passes of Stockham's autosort transform over blocks, one function for each radix.

A pass of radix r over n = r * m * s elements takes element q + s * (p + m * b) of the source to
element q + s * (r * p + k) of the target, for p < m and q < s. It is the transform of length r over
b, times w^(p * k) with w = exp(-2 pi i / (r * m)). Transforms are forward; an inverse one is
forward with real and imaginary parts exchanged.
"""

import functools
import itertools
import math
from collections.abc import Sequence

from xla_server.codegen.compiler.llvm_text import TextLoop
from xla_server.codegen.compiler.shared_functions import by_name
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters_of
from xla_server.codegen.routines.fourier.fourier_text import (
    WIDTH,
    Complex,
    FourierText,
    fourier_function,
    unit_root,
)

RADICES = (13, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)
"""Lengths whose transforms are unrolled in registers."""

_HALF_ROOT = math.sqrt(0.5)

PASS_COST = {2: 5, 3: 7, 4: 7, 5: 9, 6: 9, 7: 12, 8: 10, 9: 12, 10: 12, 11: 20, 13: 25}
"""Vector instructions of a pass for an element, loads and stores among them.

Costs of Fourier transforms are in vector instructions. Each is taken for an access, which costs of
routines are in: `CostClass.ACCESS` additions of the model of costs.
"""

MOVE_COST = 6
"""Vector instructions for an element that is loaded into a block, stored or multiplied in it."""

CALL_COST = 20
"""Vector instructions around a pass."""


def generic_cost(radix: int) -> float:
    """Return the vector instructions for an element of a pass of any odd radix."""
    return 8 + 1.5 * radix


_PARAMETERS = parameters_of(
    source=Unit.READ, target=Unit.WRITE, s=Unit.COUNT, m=Unit.COUNT, twiddles=Unit.READ
)
_OF_ANY_RADIX = parameters_of(r=Unit.COUNT, roots=Unit.READ, workspace=Unit.WRITE)
_GENERIC_PARAMETERS = (*_PARAMETERS, *_OF_ANY_RADIX)


def butterfly(f: FourierText, x: Sequence[Complex]) -> list[Complex]:
    """Return the forward transform of a few elements."""
    count = len(x)
    if count == 1:
        return list(x)
    if count == 2:
        return [f.complex_add(*x), f.complex_sub(*x)]
    if count == 4:
        return _of_four(f, x)
    if count == 8:
        return _of_eight(f, x)
    for factor in (2, 3):
        if count > factor and count % factor == 0:
            return _composite(f, x, factor)
    return _odd(f, x)


def _of_four(f: FourierText, x: Sequence[Complex]) -> list[Complex]:
    (a, b), (c, d) = butterfly(f, x[0::2]), butterfly(f, x[1::2])
    return [f.complex_add(a, c), f.minus_i(b, d), f.complex_sub(a, c), f.plus_i(b, d)]


def _of_eight(f: FourierText, x: Sequence[Complex]) -> list[Complex]:
    even, odd = _of_four(f, x[0::2]), _of_four(f, x[1::2])

    def rotated(total: Complex, by: Complex) -> tuple[Complex, Complex]:
        """total + and - sqrt(1/2) * by."""
        return f.plus_scaled(total, _HALF_ROOT, by), f.plus_scaled(total, -_HALF_ROOT, by)

    first = f.add(*odd[1]), f.sub(odd[1][1], odd[1][0])
    third = f.sub(odd[3][1], odd[3][0]), f.neg(f.add(*odd[3]))
    pairs = [
        (f.complex_add(even[0], odd[0]), f.complex_sub(even[0], odd[0])),
        rotated(even[1], first),
        (f.minus_i(even[2], odd[2]), f.plus_i(even[2], odd[2])),
        rotated(even[3], third),
    ]
    return [pair[0] for pair in pairs] + [pair[1] for pair in pairs]


def _composite(f: FourierText, x: Sequence[Complex], r: int) -> list[Complex]:
    """A transform of r times m elements, of those of r and of m; by Good if they have no factor."""
    count = len(x)
    m = count // r
    y: list[Complex] = [("", "")] * count
    if math.gcd(r, m) == 1:
        rows = [butterfly(f, [x[(r * b + m * a) % count] for b in range(m)]) for a in range(r)]
        for k in range(m):
            for n, value in enumerate(butterfly(f, [row[k] for row in rows])):
                y[next(t for t in range(count) if t % m == k and t % r == n)] = value
        return y
    rows = [butterfly(f, x[a::r]) for a in range(r)]
    for k in range(m):
        column = [rows[0][k]]
        for a in range(1, r):
            real, imaginary = map(f.number, unit_root(a * k, count))
            column.append(f.complex_mul(rows[a][k], (real, imaginary)) if k else rows[a][k])
        for n, value in enumerate(butterfly(f, column)):
            y[k + m * n] = value
    return y


def _odd(f: FourierText, x: Sequence[Complex]) -> list[Complex]:
    """A transform of odd length by sums and differences of elements at equal distance from 0."""
    r = len(x)
    half = range(1, (r + 1) // 2)
    sums = {j: f.complex_add(x[j], x[r - j]) for j in half}
    differences = {j: f.complex_sub(x[j], x[r - j]) for j in half}
    y = [x[0]] * r
    for j in half:
        y[0] = f.complex_add(y[0], sums[j])
    for k in half:
        real, rotated = x[0], ("zeroinitializer", "zeroinitializer")
        for j in half:
            root = unit_root(j * k, r)
            real = f.plus_scaled(real, root[0], sums[j])
            rotated = f.plus_scaled(rotated, -root[1], differences[j])
        y[k], y[r - k] = f.minus_i(real, rotated), f.plus_i(real, rotated)
    return y


def _pass(f: FourierText, radix: int, *, is_last: bool) -> None:
    """Write a pass; the last one has m = 1 and no twiddles."""
    per_row = f.let(f"mul i64 %s, {f.pair}")
    apart_in = f.let(f"mul i64 {per_row}, %m")
    further = f.let(f"mul i64 {per_row}, {radix - 1}")
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("source", "target")]
    rows = TextLoop(f, "0", "%m", 1, [*begin, ("ptr", f.pointer("%twiddles"))])
    source, target, twiddles = rows.values
    column = TextLoop(f, "0", "%s", 1, [("ptr", source), ("ptr", target)])
    here, there = column.values
    pointer, values = here, []
    for b in range(radix):
        values.append(f.load_pair(pointer))
        if b < radix - 1:
            pointer = f.behind(pointer, apart_in)
    pointer = there
    for k, value in enumerate(butterfly(f, values)):
        if k and not is_last:
            root = f.broadcast_pair(f.behind(twiddles, 2 * (k - 1) * f.width))
            value = f.complex_mul(value, root)
        f.store_pair(value, pointer)
        if k < radix - 1:
            pointer = f.behind(pointer, per_row)
    next_pointers = f.behind(here, f.pair), f.behind(there, f.pair)
    column.end(next_pointers)
    next_twiddles = f.behind(twiddles, 2 * (radix - 1) * f.width)
    rows.end([next_pointers[0], f.behind(next_pointers[1], further), next_twiddles])


def pass_routine(kind: str, radix: int, *, is_last: bool) -> Routine:
    """Return a pass. Its twiddles are complex numbers w^(p * k) by p and k = 1 to r - 1."""
    return Routine(
        f"fourier_{'last' if is_last else 'pass'}_{radix}_{kind}",
        _PARAMETERS,
        cost=lambda n: radix * n["s"] * n["m"] * PASS_COST[radix] + CALL_COST,
    )


def _generic(f: FourierText) -> None:
    """Write a pass of any odd radix.

    `roots` has cos(2 pi j / r) and sin(2 pi j / r) for j < r, `workspace` holds r elements.
    `twiddles` has entries for all p.
    """
    per_row = f.let(f"mul i64 %s, {f.pair}")
    apart_in = f.let(f"mul i64 {per_row}, %m")
    last_in = f.let(f"mul i64 {apart_in}, {f.minus('%r', '1')}")
    last_out = f.let(f"mul i64 {per_row}, {f.minus('%r', '1')}")
    half = f.let(f"lshr i64 {f.plus('%r', '1')}, 1")
    row_twiddles = f.let(f"mul i64 {f.minus('%r', '1')}, {2 * f.width}")
    kept, roots = f.pointer("%workspace"), f.pointer("%roots")
    minus_in, minus_out = f.minus("0", apart_in), f.minus("0", per_row)
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("source", "target")]
    rows = TextLoop(f, "0", "%m", 1, [*begin, ("ptr", f.pointer("%twiddles"))])
    source, target, twiddles = rows.values
    column = TextLoop(f, "0", "%s", 1, [("ptr", source), ("ptr", target)])
    here, there = column.values
    zero = f.load_pair(here)
    up, down = f.behind(here, apart_in), f.behind(here, last_in)
    vectors = [("ptr", up), ("ptr", down), ("ptr", kept), (f.vector, zero[0]), (f.vector, zero[1])]
    fold = TextLoop(f, "1", half, 1, vectors)
    one, other = f.load_pair(fold.values[0]), f.load_pair(fold.values[1])
    total = f.complex_add(one, other)
    f.store_pair(total, fold.values[2])
    f.store_pair(f.complex_sub(one, other), f.behind(fold.values[2], f.pair))
    sums = f.complex_add((fold.values[3], fold.values[4]), total)
    fold.end(
        [
            f.behind(fold.values[0], apart_in),
            f.behind(fold.values[1], minus_in),
            f.behind(fold.values[2], 2 * f.pair),
            *sums,
        ]
    )
    f.store_pair(sums, there)
    ascending, descending = f.behind(there, per_row), f.behind(there, last_out)
    k = TextLoop(f, "1", half, 1, [("ptr", ascending), ("ptr", descending)])
    empty = "zeroinitializer"
    parts = [(f.vector, name) for name in (*zero, empty, empty)]
    j = TextLoop(f, "1", half, 1, [("ptr", kept), ("i64", k.number), *parts])
    pointer, angle, *totals = j.values
    root = f.let(f"getelementptr i8, ptr {roots}, i64 {f.let(f'mul i64 {angle}, {2 * f.width}')}")
    cosine, sine = f.broadcast_pair(root)
    s, d = f.load_pair(pointer), f.load_pair(f.behind(pointer, f.pair))
    totals = [
        f.multiply_add(value, factor, part)
        for value, factor, part in zip((*s, *d), (cosine, cosine, sine, sine), totals, strict=True)
    ]
    rotated = f.plus(angle, k.number)
    less = f.minus(rotated, "%r")
    is_low = f.let(f"icmp slt i64 {rotated}, %r")
    j.end(
        [
            f.behind(pointer, 2 * f.pair),
            f.let(f"select i1 {is_low}, i64 {rotated}, i64 {less}"),
            *totals,
        ]
    )
    real, imaginary = (totals[0], totals[1]), (totals[2], totals[3])
    low, high = f.minus_i(real, imaginary), f.plus_i(real, imaginary)
    first = f.behind(twiddles, f.let(f"mul i64 {f.minus(k.number, '1')}, {2 * f.width}"))
    end = f.minus(f.minus("%r", k.number), "1")
    second = f.behind(twiddles, f.let(f"mul i64 {end}, {2 * f.width}"))
    f.store_pair(f.complex_mul(low, f.broadcast_pair(first)), k.values[0])
    f.store_pair(f.complex_mul(high, f.broadcast_pair(second)), k.values[1])
    k.end([f.behind(k.values[0], per_row), f.behind(k.values[1], minus_out)])
    next_pointers = f.behind(here, f.pair), f.behind(there, f.pair)
    column.end(next_pointers)
    rows.end(
        [next_pointers[0], f.behind(next_pointers[1], last_out), f.behind(twiddles, row_twiddles)]
    )


def generic_pass(kind: str) -> Routine:
    """Return the pass of any odd radix."""
    return Routine(
        f"fourier_generic_{kind}",
        _GENERIC_PARAMETERS,
        cost=lambda n: n["r"] * n["s"] * n["m"] * generic_cost(n["r"]),
    )


FOURIER_PASSES = by_name(
    (
        *(
            fourier_function(
                pass_routine(kind, radix, is_last=is_last),
                functools.partial(_pass, radix=radix, is_last=is_last),
                kind,
            )
            for kind, radix, is_last in itertools.product(WIDTH, RADICES, (False, True))
        ),
        *(fourier_function(generic_pass(kind), _generic, kind) for kind in WIDTH),
    )
)
"""Every function of this module by its name in kernels."""
