"""Winograd's convolution F(4x4, 3x3): 16 results from 36 products instead of 144.

A tile of 6x6 inputs and the kernel are taken to the values of polynomials at five points and
infinity, multiplied there feature by feature, and taken back. A finite f32 result is off by at
most 2^-16 of the largest input times the sum of the kernel's magnitudes; tiles of registers are
nearer by about four bits.

What is infinite, no number or overflows at one point spoils results that do not read it, so tiles
with such a result are summed up once more, product by product.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from xla_server.codegen.direct_convolution import Phase, panels
from xla_server.codegen.direct_convolution import tiles as runs_of_tiles
from xla_server.codegen.product_tiles import LEVELS, lanes, tallest, tile_name

POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2))
"""Where polynomials are evaluated: small numbers and their inverses lose least."""

TAPS, RESULTS = 3, 4
SIDE = TAPS + RESULTS - 1
FEWEST_FEATURES = 16
"""Of the input and the result, from which transforms cost less than they save."""

SMALLEST = 6
"""Results along a dimension, from which few of a tile's are thrown away."""

TRIPS = 16
"""Into how many trips, each with memory of its own, the blocks are dealt."""

Rows = Sequence[Sequence[Fraction]]


def matrices() -> tuple[Rows, Rows, Rows]:
    """(of the input, of the kernel, of the result) by Cook and Toom."""
    result = [[p**k for p in POINTS] + [Fraction(int(k == RESULTS - 1))] for k in range(RESULTS)]
    kernel = []
    for p in POINTS:
        scale = Fraction(1)
        for q in POINTS:
            scale *= p - q if p != q else 1
        kernel.append([p**k / scale for k in range(TAPS)])
    kernel.append([Fraction(int(k == TAPS - 1)) for k in range(TAPS)])
    inputs = [_product_without(n) for n in range(len(POINTS))]
    inputs.append(_product_without(None))
    return inputs, kernel, result


def _product_without(left_out: int | None) -> list[Fraction]:
    """The coefficients of the product of (x - point) over all points but one."""
    product = [Fraction(1)]
    for number, point in enumerate(POINTS):
        if number != left_out:
            shifted = [Fraction(0), *product]
            product = [a - point * b for a, b in zip(shifted, [*product, Fraction(0)], strict=True)]
    return product + [Fraction(0)] * (SIDE - len(product))


@dataclasses.dataclass(frozen=True, slots=True)
class Tiled:
    """A phase cut into tiles of results, and blocks of tiles."""

    phase: Phase

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles along both dimensions."""
        down, across = (-(-line.results // RESULTS) for line in self.phase.lines)
        return down, across

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        down, across = self.grid
        return self.phase.batch * down * across

    @property
    def block(self) -> int:
        """Tiles done together: so many share a reading of the kernel."""
        return min(self.tiles, 2 * tallest())

    @property
    def blocks(self) -> int:
        """Blocks of tiles."""
        return -(-self.tiles // self.block)

    @property
    def trips(self) -> int:
        """Of the kernel."""
        return min(self.blocks, TRIPS)

    @property
    def parts(self) -> tuple[int, int, int, int]:
        """Elements of a trip's memory.

        Transformed inputs, products, a tile at the border, and one transformed one way.
        """
        inputs, outputs = self.phase.inputs, self.phase.outputs
        square = SIDE * SIDE
        patch = max(square * inputs, RESULTS * RESULTS * outputs)
        half = SIDE * max(SIDE * inputs, RESULTS * outputs)
        return square * self.block * inputs, square * self.block * outputs, patch, half

    @property
    def scratch(self) -> int:
        """Elements of memory for all trips."""
        return self.trips * sum(self.parts)

    @property
    def work(self) -> int:
        """Products of a trip, about."""
        of_tile = SIDE * SIDE * self.phase.inputs * (self.phase.outputs + 8)
        return -(-self.tiles * of_tile // self.trips)


def fits(phases: Sequence[Phase]) -> bool:
    """Whether a convolution is one of those that tiles of 6x6 inputs are for."""
    if len(phases) != 1 or phases[0].kind != "f32" or phases[0].groups > 1:
        return False
    (phase,) = phases
    return (
        len(phase.lines) == 2
        and all(
            (line.taps, line.step, line.reach, line.apart) == (TAPS, 1, 1, 1)
            and line.results >= SMALLEST
            for line in phase.lines
        )
        and min(phase.inputs, phase.outputs) >= FEWEST_FEATURES
    )


class _Text:
    """Lines of a kernel and the constants before it."""

    def __init__(self) -> None:
        self.constants: dict[str, str] = {}
        self.count = 0

    def constant(self, value: Fraction) -> str:
        """The name of a number."""
        bits = int(np.float32(float(value)).view(np.uint32))
        return self.named(f"f32(0x{bits:08x})")

    def named(self, constant: str) -> str:
        """The name of a constant of this text."""
        return self.constants.setdefault(constant, f"k{len(self.constants)}")

    def sums(self, rows: Rows, names: Sequence[str], lines: list[str]) -> list[str]:
        """Lines that multiply a matrix by named values; the names of the products."""
        results = []
        for row in rows:
            name = ""
            for factor, value in zip(row, names, strict=True):
                if not factor:
                    continue
                term = f"mul({value}, {self.constant(factor)})" if factor != 1 else value
                if name:
                    term = f"fma({value}, {self.constant(factor)}, {name})"
                    if abs(factor) == 1:
                        term = f"{'add' if factor == 1 else 'sub'}({name}, {value})"
                self.count += 1
                name = f"v{self.count}"
                lines.append(f"{name} = {term}")
            results.append(name)
        return results

    def both_ways(self, rows: Rows, square: Sequence[Sequence[str]], lines: list[str]) -> list[str]:
        """M X M' of named values X, row by row."""
        columns = [self.sums(rows, column, lines) for column in zip(*square, strict=True)]
        turned = zip(*columns, strict=True)
        return [name for row in turned for name in self.sums(rows, row, lines)]

    def kernel(self, lines: Sequence[str]) -> str:
        """The whole text."""
        head = [f"{name} = {text}" for text, name in self.constants.items()]
        body = [f"    {line}" for line in lines]
        return "\n".join([*head, "def kernel(buffers, start, stop):", *body]) + "\n"


def kernel_source(phase: Phase) -> str:
    """The kernel that transforms weights; a trip is an input feature."""
    text = _Text()
    square = phase.inputs * phase.outputs
    lines = ["source = peek_i64(buffers, 0)", "target = peek_i64(buffers, 1)"]
    lines.append("for i in range(start, stop):")
    _, matrix, _ = matrices()
    down, across = phase.lines
    for column, columns, count in panels(phase):
        body: list[str] = []
        loaded = [[f"w{a}{b}" for b in range(TAPS)] for a in range(TAPS)]
        for a in range(TAPS):
            for b in range(TAPS):
                y, x = down.tap + a * down.tap_step, across.tap + b * across.tap_step
                at = f"add(at, {(y * TAPS + x) * square})"
                body.append(f"{loaded[a][b]} = load_f32(source, {at})")
        names = text.both_ways(matrix, loaded, body)
        for k, name in enumerate(names):
            body.append(f"store_f32(target, add(to, {k * square}), {name})")
        lines += [
            f"    for panel in range(0, {count}):",
            f"        from_start = i * {phase.outputs} + {column} + panel * {columns}",
            f"        to_start = {column * phase.inputs} + panel * {columns * phase.inputs} "
            f"+ i * {columns}",
            f"        for c in range(0, {columns}):",
            "            at = add(from_start, c)",
            "            to = add(to_start, c)",
            *(f"            {line}" for line in body),
        ]
    return text.kernel(lines)


def tiled_source(tiled: Tiled) -> str:
    """The kernel's text: arguments are input, transformed weights, weights, result and memory."""
    text = _Text()
    of_inputs, of_products, of_patch, of_half = (4 * part for part in tiled.parts)
    share = [f"whole_div(mul({t}, {tiled.blocks}), {tiled.trips})" for t in ("t", "add(t, 1)")]
    lines = [
        "source = peek_i64(buffers, 0)",
        "weights = peek_i64(buffers, 1)",
        "taps = peek_i64(buffers, 2)",
        "result = peek_i64(buffers, 3)",
        "scratch = peek_i64(buffers, 4)",
        "for t in range(start, stop):",
        f"    inputs = scratch + t * {of_inputs + of_products + of_patch + of_half}",
        f"    products = inputs + {of_inputs}",
        f"    patch = products + {of_products}",
        f"    half = patch + {of_patch}",
        f"    for block in range({', '.join(share)}):",
        # The last block begins earlier, and does some tiles once more.
        f"        first = minimum(block * {tiled.block}, {tiled.tiles - tiled.block})",
        *(f"        {line}" for line in _input_lines(tiled, text)),
        *(f"        {line}" for line in _product_lines(tiled)),
        *(f"        {line}" for line in _result_lines(tiled, text)),
    ]
    return text.kernel(lines)


def _place_lines(tiled: Tiled) -> list[str]:
    down, across = tiled.grid
    return [
        f"for n in range(0, {tiled.block}):",
        "    tile = add(first, n)",
        f"    x = whole_mod(tile, {across}) * {RESULTS}",
        f"    rest = whole_div(tile, {across})",
        f"    y = whole_mod(rest, {down}) * {RESULTS}",
        f"    image = whole_div(rest, {down})",
    ]


def _input_lines(tiled: Tiled, text: _Text) -> list[str]:
    """Tiles of the input transformed; those that leave it are laid out with zeros before."""
    phase = tiled.phase
    down, across = phase.lines
    features = phase.inputs
    row = across.size * features
    matrix, _, _ = matrices()
    downwards = _pass_lines(
        text,
        matrix,
        [f"load_f32(origin, add(at, mul({a}, pitch)))" for a in range(SIDE)],
        [f"store_f32(half, add(at, {a * SIDE * features}), {{}})" for a in range(SIDE)],
    )
    step = tiled.block * features
    sideways = _pass_lines(
        text,
        matrix,
        [f"reload_f32(half, add(at, {b * features}))" for b in range(SIDE)],
        [f"store_f32(inputs, add(to, {b * step}), {{}})" for b in range(SIDE)],
    )
    return [
        *_place_lines(tiled),
        f"    top = y + {down.start}",
        f"    left = x + {across.start}",
        f"    origin = source + ((image * {down.size} + top) * {row} + left * {features}) * 4",
        f"    pitch = {row}",
        f"    low = minimum(maximum(0 - left, 0), {SIDE}) * {features}",
        f"    high = minimum({across.size} - left, {SIDE}) * {features}",
        f"    is_inside = bit_and(ge(minimum(top, left), 0), le(top, {down.size - SIDE}))",
        f"    is_inside = bit_and(is_inside, le(left, {across.size - SIDE}))",
        "    if bit_not(is_inside):",
        f"        for a in range(0, {SIDE}):",
        "            p = top + a",
        f"            at = a * {SIDE * features}",
        "            end = low",
        f"            if bit_or(lt(p, 0), gt(p, {down.size - 1})):",
        f"                end = {SIDE * features}",
        "            for c in range(0, end):",
        "                poke_f32(patch, at + c, to_f32(0))",
        "            for c in range(end, maximum(end, high)):",
        f"                poke_f32(patch, at + c, load_f32(origin, a * {row} + c))",
        f"            for c in range(maximum(end, high), {SIDE * features}):",
        "                poke_f32(patch, at + c, to_f32(0))",
        "        origin = patch",
        f"        pitch = {SIDE * features}",
        f"    for at in range(0, {SIDE * features}):",
        *(f"        {line}" for line in downwards),
        f"    for a in range(0, {SIDE}):",
        f"        for c in range(0, {features}):",
        f"            at = add(mul(a, {SIDE * features}), c)",
        f"            to = add(mul(a, {SIDE * step}), add(mul(n, {features}), c))",
        *(f"            {line}" for line in sideways),
    ]


def _pass_lines(
    text: _Text, matrix: Rows, loads: Sequence[str], stores: Sequence[str]
) -> list[str]:
    """A matrix times a column of loaded values, stored."""
    lines = [f"d{number} = {load}" for number, load in enumerate(loads)]
    names = text.sums(matrix, [f"d{number}" for number in range(len(loads))], lines)
    lines += [store.format(name) for store, name in zip(stores, names, strict=True)]
    return lines


def _product_lines(tiled: Tiled) -> list[str]:
    """Products at each of the points, over the input's features."""
    phase, size = tiled.phase, tiled.block
    inputs, outputs = 4 * phase.inputs, 4 * phase.outputs
    lines = [
        f"for k in range(0, {SIDE * SIDE}):",
        f"    lefts = inputs + k * {size * inputs}",
        f"    factors = weights + k * {phase.inputs * outputs}",
        f"    sums = products + k * {size * outputs}",
    ]
    runs = [*runs_of_tiles(size), (size, 0)]
    for column, columns, count in panels(phase):
        vectors = -(-columns // lanes("f32"))
        loops = "1, 0, 0, " * (LEVELS - 1) + f"{phase.inputs}, 4, {4 * columns}"
        lines += [
            f"    for panel in range(0, {count}):",
            f"        right = factors + {column * inputs} + panel * {columns * inputs}",
            f"        to = sums + {4 * column} + panel * {4 * columns}",
        ]
        for (at, rows), (end, _) in itertools.pairwise(runs):
            lines += [
                f"        for x in range(0, {(end - at) // rows}):",
                f"            {tile_name('f32', rows, vectors)}("
                f"lefts + {at * inputs} + x * {rows * inputs}, right, "
                f"to + {at * outputs} + x * {rows * outputs}, "
                f"{inputs}, {outputs}, {columns}, 0, {loops})",
            ]
    return lines


def _result_lines(tiled: Tiled, text: _Text) -> list[str]:
    """Tiles of the result; of those that leave it, what is inside."""
    phase = tiled.phase
    down, across = phase.lines
    features = phase.outputs
    row = across.whole * features
    _, _, matrix = matrices()
    step = tiled.block * features
    sideways = _pass_lines(
        text,
        matrix,
        [f"load_f32(products, add(at, {b * step}))" for b in range(SIDE)],
        [f"store_f32(half, add(to, {b * features}), {{}})" for b in range(RESULTS)],
    )
    exponent = text.named("i32(0x7f800000)")
    downwards = _pass_lines(
        text,
        matrix,
        [f"reload_f32(half, add(at, {a * RESULTS * features}))" for a in range(SIDE)],
        [f"store_f32(into, add(at, mul({a}, pitch)), {{}})" for a in range(RESULTS)],
    )
    looks = [
        f"largest = maximum(largest, bit_and({exponent}, "
        f"reload_i32(into, add(at, mul({a}, pitch)))))"
        for a in range(RESULTS)
    ]
    return [
        *_place_lines(tiled),
        f"    origin = result + ((image * {down.whole} + y) * {row} + x * {features}) * 4",
        "    into = origin",
        f"    pitch = {row}",
        f"    is_inside = le(y, {down.results - RESULTS})",
        f"    is_inside = bit_and(is_inside, le(x, {across.results - RESULTS}))",
        "    if bit_not(is_inside):",
        "        into = patch",
        f"        pitch = {RESULTS * features}",
        f"    for a in range(0, {SIDE}):",
        f"        for c in range(0, {features}):",
        f"            at = add(mul(a, {SIDE * step}), add(mul(n, {features}), c))",
        f"            to = add(mul(a, {RESULTS * features}), c)",
        *(f"            {line}" for line in sideways),
        f"    for at in range(0, {RESULTS * features}):",
        *(f"        {line}" for line in downwards),
        # Looked at in the loop before, they would keep it from being done by vectors.
        "    largest = to_i32(0)",
        f"    for at in range(0, {RESULTS * features}):",
        *(f"        {line}" for line in looks),
        f"    is_spoilt = eq(largest, {exponent})",
        "    if is_spoilt:",
        *(f"        {line}" for line in _sum_lines(phase)),
        "    if bit_or(is_spoilt, bit_not(is_inside)):",
        f"        high = minimum({across.results} - x, {RESULTS}) * {features}",
        f"        for a in range(0, minimum({down.results} - y, {RESULTS})):",
        "            for c in range(0, high):",
        f"                at = a * {RESULTS * features} + c",
        f"                store_f32(origin, a * {row} + c, reload_f32(patch, at))",
    ]


def _sum_lines(phase: Phase) -> list[str]:
    """A tile of the result laid out anew, as sums of products of inputs and weights."""
    down, across = phase.lines
    inputs, features = phase.inputs, phase.outputs
    return [
        f"for at in range(0, {RESULTS * RESULTS * features}):",
        "    store_f32(patch, at, to_f32(0))",
        # One loop, as loops inside of each other would be written out.
        f"for number in range(0, {RESULTS * RESULTS * TAPS * TAPS}):",
        f"    place = whole_div(number, {TAPS * TAPS})",
        f"    v = whole_mod(whole_div(number, {TAPS}), {TAPS})",
        f"    u = whole_mod(number, {TAPS})",
        f"    p = y + whole_div(place, {RESULTS}) + v + {down.start}",
        f"    q = x + whole_mod(place, {RESULTS}) + u + {across.start}",
        f"    inner_p = minimum(maximum(p, 0), {down.size - 1})",
        f"    inner_q = minimum(maximum(q, 0), {across.size - 1})",
        "    is_read = bit_and(eq(p, inner_p), eq(q, inner_q))",
        f"    at = ((image * {down.size} + inner_p) * {across.size} + inner_q) * {inputs}",
        f"    tap = (v * {down.tap_step} + {down.tap}) * {TAPS} + u * {across.tap_step}",
        f"    right = taps + (tap + {across.tap}) * {4 * inputs * features}",
        f"    to = patch + place * {4 * features}",
        f"    for i in range(0, {inputs}):",
        "        factor = select(is_read, load_f32(source, at + i), to_f32(0))",
        f"        for c in range(0, {features}):",
        f"            product = load_f32(right, i * {features} + c)",
        "            store_f32(to, c, fma(factor, product, reload_f32(to, c)))",
    ]
