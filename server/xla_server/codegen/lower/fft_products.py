"""Kernels of Fourier transforms that treat element by element: products, copies, real spectra."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_server.codegen.lower.fft_block import Tables
from xla_server.codegen.lower.fft_context import Array, Context, Lines
from xla_server.codegen.lower.fft_kernels import add_kernel, bits_of
from xla_server.codegen.lower.fft_plan import roots
from xla_server.codegen.routines.fourier_moves import move_name

_CHUNK = 256
"""Vectors of a work item."""

_ELEMENTS = 1 << 13
"""Elements of a work item that only moves them."""

_ONE = bits_of(1.0)


def product(
    c: Context,
    source: Array,
    target: Array,
    lines: Lines,
    table: Any,
    target_size: int,
    count: int,
    *,
    is_inverse: bool,
    is_back: bool = False,
) -> None:
    """Multiply the first `count` elements of lines by a table's, from one array to another.

    Lines of the target have `target_size` elements, one after the other in memory; with `is_back`
    those of the source do, and the target has neighbours side by side. An inverse one exchanges
    real and imaginary parts before and after.
    """
    if lines.inner == 1:
        _rows_product(c, source, target, lines, table, target_size, count, is_inverse=is_inverse)
        return
    vector = c.pair // 2
    real, imaginary = (vector, 0) if is_inverse else (0, vector)
    tables = Tables(c.kind)
    address = tables.add(table[:count])
    width, total = 2 * c.width, lines.outer * lines.inner
    chunks, blocks = -(-count // _CHUNK), -(-total // c.lanes)
    beside = (lines.inner, (target_size if is_back else lines.n) * lines.inner * width, width)
    apart = (1, (lines.n if is_back else target_size) * width, 0)
    text = [
        f"a = room_for({_CHUNK * c.pair})",
        "for item in range(start, stop):",
        f"    begin = whole_div(item, {blocks}) * {_CHUNK}",
        f"    first = whole_mod(item, {blocks}) * {c.lanes}",
        f"    count = minimum({_CHUNK}, {count} - begin)",
    ]
    sides = (apart, beside) if is_back else (beside, apart)
    for name, is_load, (inner, outer_step, inner_step) in zip(
        ("source", "target"), (True, False), sides, strict=True
    ):
        ahead = lines.inner * width if inner == lines.inner else width
        move = move_name(c.kind, "lines", is_load=is_load, is_real=False)
        if not is_load:
            text.append(
                f"    fourier_chirp_{c.kind}(a, {c.pair}, a, {c.pair}, count, "
                f"{address} + begin * {width}, count)"
            )
        text.append(
            f"    {move}({name} + begin * {ahead}, a + {real}, a + {imaginary}, {total}, {ahead}, "
            f"count, {_ONE}, first, {inner}, {outer_step}, {inner_step})"
        )
    work = 40 * _CHUNK
    add_kernel(
        c.lowering, c.title(), text, chunks * blocks, work, source.value, target.value, tables
    )


def _rows_product(
    c: Context,
    source: Array,
    target: Array,
    lines: Lines,
    table: Any,
    target_size: int,
    count: int,
    *,
    is_inverse: bool,
) -> None:
    """Neighbouring elements of a line side by side."""
    vector = c.pair // 2
    real, imaginary = (vector, 0) if is_inverse else (0, vector)
    full, rest = divmod(count, c.lanes)
    vectors = full + (rest > 0)
    chunks = -(-vectors // _CHUNK)
    tables = Tables(c.kind)
    ones = tables.add(_by_lanes(np.ones(c.lanes, np.complex128), c.lanes))
    address = tables.add(_by_lanes(table[:count], c.lanes))
    text = [
        f"a = room_for({_CHUNK * c.pair})",
        "for item in range(start, stop):",
        f"    line = whole_div(item, {chunks})",
        f"    chunk = whole_mod(item, {chunks})",
        f"    first = chunk * {_CHUNK}",
        f"    count = minimum({_CHUNK}, {vectors} - first)",
        f"    rest = {rest} * whole_div(chunk + 1, {chunks})",
        f"    full = minimum(count, {full} - first)",
    ]
    for name, array, size, is_load in (
        ("source", source, lines.n, True),
        ("target", target, target_size, False),
    ):
        width = c.width if array.is_real else 2 * c.width
        move = move_name(c.kind, "columns", is_load=is_load, is_real=array.is_real)
        ahead = c.lanes * width
        if not is_load:
            text.append(
                f"    fourier_turn_lanes_{c.kind}(a, count, {address} + first * {c.pair}, {ones}, "
                "count)"
            )
        text += [
            f"    at = {name} + line * {size * width} + first * {ahead}",
            f"    {move}(at, a + {real}, a + {imaginary}, {c.lanes}, {ahead}, full, {_ONE})",
            f"    {move}(at + full * {ahead}, a + {real} + full * {c.pair}, "
            f"a + {imaginary} + full * {c.pair}, rest, {ahead}, 1, {_ONE})",
        ]
    items, work = lines.outer * chunks, 12 * min(_CHUNK, vectors)
    add_kernel(c.lowering, c.title(), text, items, work, source.value, target.value, tables)


def _by_lanes(numbers: Any, width: int) -> Any:
    """Complex numbers as vectors of real parts, each followed by its imaginary parts.

    The last number fills what is left of the last vector.
    """
    numbers = np.concatenate([numbers, np.repeat(numbers[-1:], -numbers.size % width)])
    parts = np.stack([numbers.real, numbers.imag], -1)
    return parts.reshape(-1, width, 2).transpose(0, 2, 1)


def half_table(n: int, *, is_inverse: bool) -> tuple[float, Any]:
    """Return (scale, factors for k = 1 to n // 4) of `from_half`, or of `to_half`."""
    turns = roots(n, np.arange(1, n // 4 + 1))
    return (1.0, 1j * np.conj(turns)) if is_inverse else (0.5, -0.5j * turns)


def mix(c: Context, source: Array, target: Array, rows: int, n: int, *, is_inverse: bool) -> None:
    """Take transforms of half the length n to spectra of real lines, or back."""
    half, kind, width = n // 2, c.kind, 2 * c.width
    scale, table = half_table(n, is_inverse=is_inverse)
    pairs = table.size
    read, written = (half + 1, half) if is_inverse else (half, half + 1)
    first, other = ("0", str(2 * half)) if is_inverse else ("0", "1")
    ends = [
        f"one = peek_{kind}(source_at, {first})",
        f"other = peek_{kind}(source_at, {other})",
        f"poke_{kind}(target_at, 0, add(one, other))",
        f"poke_{kind}(target_at, {1 if is_inverse else 2 * half}, sub(one, other))",
    ]
    if not is_inverse:
        ends += [f"poke_{kind}(target_at, {place}, to_{kind}(0))" for place in (1, 2 * half + 1)]
    vectors = -(-pairs // c.lanes)
    chunks = max(1, -(-vectors // _CHUNK))
    tables = Tables(kind)
    text = [
        f"a = room_for({_CHUNK * c.pair})",
        f"b = room_for({_CHUNK * c.pair})",
        "for item in range(start, stop):",
        f"    line = whole_div(item, {chunks})",
        f"    chunk = whole_mod(item, {chunks})",
        f"    source_at = source + line * {read * width}",
        f"    target_at = target + line * {written * width}",
        "    if chunk == 0:",
        *(f"        {line}" for line in ends),
    ]
    if pairs:
        address = tables.add(_by_lanes(table, c.lanes))
        full = pairs // c.lanes
        text += [
            f"    first = chunk * {_CHUNK}",
            f"    count = minimum({_CHUNK}, {vectors} - first)",
            f"    full = minimum(count, {full} - first)",
            *(f"    {line}" for line in _mixed_lines(c, half, pairs, address, scale)),
        ]
    work = 40 * min(_CHUNK, vectors)
    add_kernel(c.lowering, c.title(), text, rows * chunks, work, source.value, target.value, tables)


def _mixed_lines(c: Context, half: int, pairs: int, address: str, scale: float) -> list[str]:
    kind, width, vector = c.kind, 2 * c.width, c.pair // 2
    step = c.lanes * width

    def moves(place: str, *, is_load: bool) -> list[str]:
        columns = move_name(kind, "columns", is_load=is_load, is_real=False)
        lines = move_name(kind, "lines", is_load=is_load, is_real=False)
        behind = f"full * {c.pair}"
        end = f"{pairs} - (first + full) * {c.lanes}"
        up = f"{place} + {width} + first * {step}"
        down = f"{place} + {(half - 1) * width} - first * {step}"
        return [
            f"{columns}({up}, a, a + {vector}, {c.lanes}, {step}, full, {_ONE})",
            "if full > 0:",
            f"    {lines}({down}, b, b + {vector}, {c.lanes}, {-step}, full, {_ONE}, 0, "
            f"{c.lanes}, 0, {-width})",
            "if full < count:",
            f"    {lines}({up} + full * {step}, a + {behind}, a + {vector} + {behind}, {end}, 0, "
            f"1, {_ONE}, 0, {c.lanes}, 0, {width})",
            f"    {lines}({down} - full * {step}, b + {behind}, b + {vector} + {behind}, {end}, "
            f"0, 1, {_ONE}, 0, {c.lanes}, 0, {-width})",
        ]

    return [
        *moves("source_at", is_load=True),
        f"fourier_mix_{kind}(a, a + {vector}, b, b + {vector}, count, "
        f"{address} + first * {c.pair}, {bits_of(scale)})",
        *moves("target_at", is_load=False),
    ]


def complete(c: Context, source: Array, target: Array, rows: int, n: int) -> None:
    """Complete spectra of real lines of odd length n: element n - k is the conjugate of k."""
    kind = c.kind
    half = n // 2 + 1
    _each_element(
        c,
        source,
        target,
        rows,
        half,
        [
            f"at = source + line * {half * 2 * c.width}",
            f"there = target + line * {n * 2 * c.width}",
            "if begin == 0:",
            f"    poke_{kind}(there, 0, peek_{kind}(at, 0))",
            f"    poke_{kind}(there, 1, to_{kind}(0))",
            "for k in range(maximum(begin, 1), end):",
            f"    one = peek_{kind}(at, 2 * k)",
            f"    other = peek_{kind}(at, 2 * k + 1)",
            f"    poke_{kind}(there, 2 * k, one)",
            f"    poke_{kind}(there, 2 * k + 1, other)",
            f"    poke_{kind}(there, {2 * n} - 2 * k, one)",
            f"    poke_{kind}(there, {2 * n} - 2 * k + 1, neg(other))",
        ],
    )


def copy_rows(c: Context, source: Array, target: Array, rows: int, n: int, count: int) -> None:
    """Copy the first `count` elements of rows of n complex numbers, or their real parts."""
    kind = c.kind
    parts = range(1 if target.is_real else 2)
    steps = len(parts)
    _each_element(
        c,
        source,
        target,
        rows,
        count,
        [
            f"at = source + line * {n * 2 * c.width}",
            f"there = target + line * {count * steps * c.width}",
            "for k in range(begin, end):",
            *(
                f"    poke_{kind}(there, {steps} * k + {part}, peek_{kind}(at, 2 * k + {part}))"
                for part in parts
            ),
        ],
    )


def clear_ends(c: Context, target: Array, rows: int, n: int, size: int) -> None:
    """Fill rows of `size` complex numbers with zeros from element n on."""
    width = 2 * c.width
    body = [
        f"at = target + (line * {size} + {n} + begin) * {width}",
        f"clear_bytes(at, (end - begin) * {width})",
    ]
    _each_element(c, target, target, rows, size - n, body)


def _each_element(
    c: Context, source: Array, target: Array, rows: int, count: int, body: Sequence[str]
) -> None:
    """Append a kernel that does elements `begin` to `end` - 1 of a line in each work item."""
    chunks = -(-count // _ELEMENTS)
    text = [
        "for item in range(start, stop):",
        f"    line = whole_div(item, {chunks})",
        f"    begin = whole_mod(item, {chunks}) * {_ELEMENTS}",
        f"    end = minimum(begin + {_ELEMENTS}, {count})",
        *(f"    {line}" for line in body),
    ]
    work = 2 * min(count, _ELEMENTS)
    is_glue = not any("poke" in line for line in body)
    add_kernel(
        c.lowering,
        c.title(),
        text,
        rows * chunks,
        work,
        source.value,
        target.value,
        is_glue=is_glue,
    )
