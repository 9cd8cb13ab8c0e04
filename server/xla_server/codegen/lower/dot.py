"""Lowering of dot in its canonical form: at most one batch dimension, matrices row-major."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_contract.shape import Shape
from xla_server.buffers.code import CANCELLATION, KernelThunk, Value
from xla_server.codegen.loops.stopping import stop_lines
from xla_server.codegen.lower.gemm import Gemm, Side, layout_source, product_source
from xla_server.codegen.lower.loops import lower_loop
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.lower.tail import NO_TAIL, Tail, TailText
from xla_server.codegen.routines.gemm_tiles import KINDS, Kind
from xla_server.codegen.routines.matrix_blocks import PIECE_WORK
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.module import HloInstruction

BY_BLAS = ("f32", "f64", "c64", "c128")

_PIECES = 16
_PIECE_WORK = 1 << 21
_PIECE_SIZE = 128
"""Pieces of a product: enough for all threads, but each with enough to do for BLAS to be fast."""

_BOTH_WAYS = 1 << 28
"""Products from which rows are divided too, where columns alone give too few pieces."""

_LARGEST_PIECE = 1 << 32
"""What takes a core a twentieth of a second, so that all of them have enough to do to the end."""

_VECTOR = 16

MOST_PANELS = 1 << 26
"""Bytes of right matrices of which copies are made, where BLAS makes them piece by piece."""

STORED = MappingProxyType(
    {"f32": "f32", "f64": "f64", "s8": "i8", "u8": "u8", "s16": "i16", "s32": "i32", "u32": "i32"}
)
"""What panels call the types of elements."""


def lower_dot(lowering: Lowering, i: HloInstruction) -> Tree:
    """Kernels of panels and tiles; BLAS for other matrices of its types; else a loop nest."""
    if gemm_of(i) is None and not is_by_blas(i):
        return lower_loop(lowering, i)
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    a, b = (lowering.array(operand) for operand in i.operands)
    _add(lowering, i, i.name, (a, b, result), NO_TAIL, (a, b, result), (a, b), (result,))
    return result


def lower_dot_fusion(lowering: Lowering, fusion: HloInstruction, dot: HloInstruction) -> Tree:
    """A product whose pieces go through the fusion's tail as soon as they are there."""
    if not is_by_blas(dot) or not dot.shape.element_count:
        return lower_loop(lowering, fusion)
    tail = Tail.of(lowering, fusion, dot)
    columns = dot.shape.dimensions[-1]
    text = tail.text(dot.shape.element_count // columns, columns)
    a, b = (tail.arguments[tail.argument(part)] for part in dot.operands)
    values = (a, b, tail.product)
    _add(lowering, dot, fusion.name, values, text, tail.arguments, tail.reads, tail.writes)
    return tail.tree


def _add(
    lowering: Lowering,
    i: HloInstruction,
    name: str,
    values: tuple[Value, Value, Value],
    tail: TailText,
    arguments: tuple[Value, ...],
    reads: tuple[Value, ...],
    writes: tuple[Value, ...],
) -> None:
    """Add the kernels of a product. `values` are both operands and the product."""
    gemm = gemm_of(i, tail.needs_rows)
    a, b, product = values
    if gemm is not None and gemm.is_laid_out_ahead:
        width = i.shape.element_type.byte_width
        shape = Shape.array(i.shape.element_type, (gemm.batch * gemm.right_bytes // width,))
        panels = lowering.new(shape, f"{name}.panels")
        text, trips, work = layout_source(gemm)
        lowering.add(KernelThunk(panels.name, text, trips, work, (b, panels), (b,), (panels,)))
        arguments, reads, b = (*arguments, panels), (*reads, panels), panels
    arguments = (*arguments, CANCELLATION)
    places = tuple(arguments.index(value) for value in (a, b, product, CANCELLATION))
    if gemm is None:
        text, trips, work = _source(i, places, tail, _blocks(i, tail.needs_rows))
    else:
        text, trips, work = product_source(gemm, places, tail)
    lowering.add(KernelThunk(name, text, trips, work, arguments, reads, writes))


def gemm_of(i: HloInstruction, whole_rows: bool = False) -> Gemm | None:
    """A dot as a product of panels and tiles; None where it is none or BLAS does it better."""
    types = tuple(part.shape.element_type.text for part in i.operands)
    kind = _kind(types, i.shape.element_type.text)
    if kind is None or not is_canonical(i):
        return None
    numbers = i.attributes.dimension_numbers
    lhs, rhs = (operand.shape for operand in i.operands)
    left, right = (
        Side(STORED[name], is_across)
        for name, is_across in zip(
            types,
            (
                numbers.lhs_contracting_dimensions[0] == lhs.rank - 1,
                numbers.rhs_contracting_dimensions[0] == rhs.rank - 1,
            ),
            strict=True,
        )
    )
    batch = i.shape.dimensions[0] if numbers.lhs_batch_dimensions else 1
    rows, columns = i.shape.dimensions[-2:]
    gemm = Gemm(kind, left, right, batch, rows, columns, _depth(i), whole_rows)
    if gemm.rows < 2 or 2 * gemm.columns < kind.lanes:
        return None
    copied = gemm.batch * gemm.right_bytes if gemm.is_laid_out_ahead else 0
    return None if copied > MOST_PANELS and is_by_blas(i) else gemm


def _kind(operands: tuple[str, ...], result: str) -> Kind | None:
    """How elements of these types are multiplied."""
    if result in ("f32", "f64") and set(operands) == {result}:
        return KINDS[result]
    if result in ("s32", "u32"):
        if set(operands) <= {"s32", "u32"}:
            return KINDS["i32"]
        if set(operands) <= {"s8", "u8", "s16"}:
            return KINDS["i16"]
    return None


def _source(
    i: HloInstruction, places: Sequence[int], tail: TailText, block: tuple[int, int]
) -> tuple[str, int, int]:
    """Text, trips and work of the kernel of a product.

    `places` are the numbers of both operands, the product and the word that cancels among its
    arguments, `block` are the columns and rows of a piece.
    """
    numbers = i.attributes.dimension_numbers
    lhs, rhs = (operand.shape for operand in i.operands)
    batch = i.shape.dimensions[0] if numbers.lhs_batch_dimensions else 1
    left_transposed = numbers.lhs_contracting_dimensions[0] == lhs.rank - 2
    right_transposed = numbers.rhs_contracting_dimensions[0] == rhs.rank - 1
    rows, columns = i.shape.dimensions[-2:]
    depth = _depth(i)
    width = i.shape.element_type.byte_width
    computed = KERNEL_TYPE[i.shape.element_type].computed
    across, down = block
    row_count, column_count = -(-rows // down), -(-columns // across)
    left_ahead, right_ahead = (rows if left_transposed else depth), columns
    if right_transposed:
        right_ahead = depth
    a, b, c, cancelled = places
    left_step, right_step = (rows if left_transposed else 1), (1 if right_transposed else columns)
    # Of deep sums a part is added at a time, so that the execution can be stopped in between.
    at_once = min(depth, max(_PIECE_SIZE, PIECE_WORK[computed] // (down * across)))
    looks = "\n".join(stop_lines(3)) if depth > at_once else "            pass"
    source = f"""{tail.constants}def kernel(buffers, start, stop):
    b0 = peek_i64(buffers, {a})
    b1 = peek_i64(buffers, {b})
    b2 = peek_i64(buffers, {c})
    cancelled = peek_i64(buffers, {cancelled})
{tail.first_lines(1)}    for trip in range(start, stop):
        rest = whole_div(trip, {column_count})
        column = whole_mod(trip, {column_count}) * {across}
        row = whole_mod(rest, {row_count}) * {down}
        t = whole_div(rest, {row_count})
        left = b0 + (t * {rows * depth} + row * {1 if left_transposed else depth}) * {width}
        right = b1 + (t * {depth * columns} + column * {depth if right_transposed else 1}) * {width}
        result = b2 + (t * {rows * columns} + row * {columns} + column) * {width}
        for step in range(0, {depth}, {at_once}):
{looks}
            product_into_{computed}(
                left + step * {left_step * width}, {left_ahead}, {left_transposed},
                right + step * {right_step * width}, {right_ahead}, {right_transposed},
                result, {columns},
                minimum(row + {down}, {rows}) - row, minimum(column + {across}, {columns}) - column,
                minimum(step + {at_once}, {depth}) - step, step > 0)
"""
    if tail.loops:
        source += f"""        first_row = t * {rows} + row
        last_row = t * {rows} + minimum(row + {down}, {rows})
        first_column = column
        last_column = minimum(column + {across}, {columns})
{tail.loop_lines(2)}"""
    work = down * across * (depth + tail.work)
    return source, batch * row_count * column_count, work


def _blocks(i: HloInstruction, whole_rows: bool = False) -> tuple[int, int]:
    """Columns and rows of the pieces of a product that threads share.

    Columns are divided first: of pieces of rows, each would have BLAS rearrange all of the right
    operand, which takes half as long again.
    """
    rows, columns = i.shape.dimensions[-2:]
    work = rows * columns * _depth(i)
    batch = i.shape.element_count // (rows * columns)
    pieces = max(min(_PIECES // batch, work // _PIECE_WORK), work // _LARGEST_PIECE)
    across = 1 if whole_rows else _parts(columns, pieces)
    is_in_bands = across == 1 or work >= _BOTH_WAYS
    down = _parts(rows, -(-pieces // across)) if is_in_bands else 1
    return _even(columns, across), _even(rows, down)


def _parts(size: int, wanted: int) -> int:
    """How many parts of a dimension, `wanted` at most, BLAS is fast on."""
    return max(1, min(wanted, size // _PIECE_SIZE))


def _even(size: int, parts: int) -> int:
    """The size of parts, whole vectors where there are several."""
    return size if parts == 1 else -(-size // (parts * _VECTOR)) * _VECTOR


def _depth(i: HloInstruction) -> int:
    (contracted,) = i.attributes.dimension_numbers.lhs_contracting_dimensions
    return int(i.operands[0].shape.dimensions[contracted])


def is_by_blas(i: HloInstruction) -> bool:
    """Whether a dot is a product of matrices of a type that BLAS knows."""
    types = {shape.element_type for shape in (i.shape, *(part.shape for part in i.operands))}
    return len(types) == 1 and i.shape.element_type.text in BY_BLAS and is_canonical(i)


def is_canonical(i: HloInstruction) -> bool:
    """Whether a dot is a product of matrices, or of a leading batch of them.

    Sums of one product are none: added to zero, as those would be, -0 became 0.
    """
    numbers = i.attributes.dimension_numbers
    lhs, rhs = (operand.shape for operand in i.operands)
    batch = numbers.lhs_batch_dimensions
    leading = () if not batch else (0,)
    return (
        batch == leading
        and numbers.rhs_batch_dimensions == leading
        and len(numbers.lhs_contracting_dimensions) == 1
        and lhs.rank == rhs.rank == 2 + len(leading)
        and 0 not in lhs.dimensions
        and 0 not in rhs.dimensions
        and _depth(i) > 1
    )


DOT_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType({Opcode.DOT: lower_dot})
