"""Lowering of dot in its canonical form: at most one batch dimension, matrices row-major.

Panels are packed once for all threads or per work item. A large matrix times few vectors is read
once, in place. BLAS computes complex and narrow products.
"""

import dataclasses
import math
from collections.abc import Iterable
from types import MappingProxyType

from xla_contract.types.shape import Shape
from xla_server.buffers.code import CANCELLATION, Value
from xla_server.codegen.instructions.memory import COPY_BYTES
from xla_server.codegen.instructions.products import product_into
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Items, Loop
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Operands
from xla_server.codegen.kernel_ir.statements import Stop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.contraction.gemm import Gemm, GemmOperand, add_products
from xla_server.codegen.lower.contraction.sum_parts import SumParts
from xla_server.codegen.lower.contraction.thin_product import ThinProduct, add_thin_product
from xla_server.codegen.lower.loop_nests.epilogue import (
    NO_EPILOGUE,
    Epilogue,
    EpilogueKernel,
    Product,
)
from xla_server.codegen.lower.loop_nests.loop_lowering import lower_loop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.lower.movement.reordering import in_order
from xla_server.codegen.routines.column_sums import COLUMN_SUMS
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS
from xla_server.codegen.routines.linear_algebra.matrix_blocks import PIECE_WORK
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.module import HloInstruction
from xla_server.passes.canonicalize.dots.dot_types import is_matrix_product
from xla_server.passes.canonicalize.dots.thin_dots import thin_dot
from xla_server.target.capability import Capability
from xla_server.target.target import Target
from xla_server.target.tuning import BlasProducts

STORED = MappingProxyType(
    {"f32": "f32", "f64": "f64", "s8": "i8", "u8": "u8", "s16": "i16", "s32": "i32", "u32": "i32"}
)
"""Names, in routines, of the element types of packed panels."""


def lower_dot(
    lowering: Lowering, dot: HloInstruction, fusion: HloInstruction | None = None
) -> Tree:
    """Add kernels by panels and tiles, by BLAS, or a loop nest, with the fusion's epilogue."""
    is_alone, capability = fusion is None, lowering.target.capability
    is_product = is_by_blas(dot, capability) or (is_alone and gemm_of(lowering.target, dot))
    if not is_product or not dot.shape.element_count:
        return lower_loop(lowering, fusion or dot)
    made, columns = Product.of(lowering, dot, fusion), dot.shape.dimensions[-1]
    _add(made, made.epilogue(dot.shape.element_count // columns, columns))
    return made.tree


def _add(made: Product, epilogue: Epilogue) -> None:
    target, dot = made.lowering.target, made.producer
    found = thin_dot(dot, target.tuning.thin_dots) if is_canonical(dot) else None
    thin = ThinProduct(target, dot.shape.element_type.text, found) if found else None
    gemm = None if thin is not None else gemm_of(target, dot)
    parts = thin.parts if thin else gemm.parts if gemm else _blas_parts(target, dot)
    product, scratch, fused = made, None, epilogue
    if parts.count > 1:
        shape = Shape.array(dot.shape.element_type, (parts.count * dot.shape.element_count,))
        scratch = made.lowering.new(shape, f"{made.name}.parts")
        product, fused = dataclasses.replace(made, value=scratch), NO_EPILOGUE
    elif epilogue.needs_rows and _is_divided_more(target, thin, gemm):
        fused = NO_EPILOGUE
    if thin is not None:
        _add_thin(product, thin, fused)
    elif gemm is not None:
        whole_rows = dataclasses.replace(gemm, whole_rows=fused.needs_rows)
        add_products(product, whole_rows, fused)
    else:
        _add_blas(product, parts, fused)
    if scratch or fused is not epilogue:
        _add_epilogue(made, epilogue, scratch)


def _is_divided_more(target: Target, thin: ThinProduct | None, gemm: Gemm | None) -> bool:
    """Return whether a product has more work items if rows may be split."""
    if thin is not None:
        return thin.dot.is_right and thin.blocks > 1
    if gemm is None:
        return False
    whole, free = (
        math.prod(g.work_items) for g in (dataclasses.replace(gemm, whole_rows=True), gemm)
    )
    return whole < target.tuning.products.work_items and 2 * whole <= free


def _add_thin(made: Product, thin: ThinProduct, epilogue: Epilogue) -> None:
    """Add the kernel of a matrix and few vectors, after one that makes vectors rows, if needed."""
    dot = thin.dot
    vectors, matrix = made.operands if dot.is_right else made.operands[::-1]
    if dot.is_inner and not dot.vectors_are_rows:
        shape = Shape.array(vectors.shape.element_type, (dot.batch, dot.depth, dot.vectors))
        vectors = in_order(made.lowering, vectors, shape, (0, 2, 1), f"{made.name}.vectors")
    add_thin_product(made, thin, (matrix, vectors), epilogue)


def _add_epilogue(made: Product, epilogue: Epilogue, parts: Value | None = None) -> None:
    """Add the epilogue of a stored product, as a kernel of its own whose work items split rows.

    It adds up `parts` first if the product is stored as these.
    """
    shape = made.producer.shape
    columns, elements = shape.dimensions[-1], shape.element_count
    building = EpilogueKernel(epilogue)
    with Items(building.body, elements // columns, None) as rows:
        if parts is not None:
            buffers = (building.buffer(part, ir.Usage.WRITE) for part in (parts, made.value))
            _add_up(rows, parts.shape.byte_size, buffers, shape)
        epilogue.emit(rows, (ir.START, ir.STOP), (0, columns))
    updates = (parts or made.value,)
    building.add(made.lowering, f"{made.name}.epilogue", Effort.UNOPTIMISED, updates=updates)


def _add_up(rows: Items, byte_size: int, buffers: Iterable[ir.Buffer], shape: Shape) -> None:
    """Append the calls that add up the parts of a range of rows of a product's result.

    `buffers` are those of the parts, of `byte_size` together, and of the result.
    """
    kind = Type(KERNEL_TYPE[shape.element_type].computed)
    # The parts of complex numbers are added up by themselves.
    numbers = kind.byte_size // kind.part.byte_size
    row = shape.dimensions[-1] * kind.byte_size
    source, target = (ir.Address(buffer) + ir.START * row for buffer in buffers)
    count = rows.let("rows", ir.integer_op("sub", ir.STOP, ir.START))
    rows.call(COPY_BYTES, {"target": target, "source": source, "count": count * row})
    size = shape.element_count * kind.byte_size
    with Loop(rows, "part", byte_size // size, 1) as part:
        operands: Operands = {
            "outside": target,
            "inside": source + part.axis * size,
            "count": count * (shape.dimensions[-1] * numbers),
        }
        part.call(COLUMN_SUMS[f"join_{kind.part}"].routine, operands)


def gemm_of(target: Target, i: HloInstruction) -> Gemm | None:
    """A dot as a product of panels and tiles; None if it is none or BLAS is faster."""
    types = {part.shape.element_type for part in i.operands}
    tile = target.capability.product_tile(types, i.shape.element_type)
    if tile is None or not is_canonical(i):
        return None
    numbers = i.attributes.dimension_numbers
    contracting = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    left, right = (
        GemmOperand(STORED[part.shape.element_type.text], contracted == part.shape.rank - 1)
        for part, (contracted,) in zip(i.operands, contracting, strict=True)
    )
    batch = i.shape.dimensions[0] if numbers.lhs_batch_dimensions else 1
    rows, columns = i.shape.dimensions[-2:]
    gemm = Gemm(target, KINDS[tile], left, right, batch, rows, columns, _depth(i))
    if gemm.rows < 2 or gemm.columns < 2:
        return None
    is_known = is_by_blas(i, target.capability)
    # With few columns most lanes are idle. A loop nest is no better if it reads with strides.
    is_narrow = gemm.columns * gemm.kind.width < target.tuning.thin_dots.min_tile_row_bytes
    if is_narrow and (is_known or gemm.left.is_across):
        return None
    copied = gemm.batch * gemm.right_bytes if gemm.is_prepacked else 0
    return None if is_known and copied > gemm.tuning.max_packed_bytes else gemm


def _add_blas(made: Product, parts: SumParts, epilogue: Epilogue) -> None:
    """Add the kernel of a product by BLAS, piece by piece."""
    i, target = made.producer, made.lowering.target
    numbers = i.attributes.dimension_numbers
    lhs, rhs = (operand.shape for operand in i.operands)
    batch = i.shape.dimensions[0] if numbers.lhs_batch_dimensions else 1
    left_transposed = numbers.lhs_contracting_dimensions[0] == lhs.rank - 2
    right_transposed = numbers.rhs_contracting_dimensions[0] == rhs.rank - 1
    rows, columns = i.shape.dimensions[-2:]
    depth, width = _depth(i), i.shape.element_type.byte_width
    computed = KERNEL_TYPE[i.shape.element_type].computed
    across, down = _blocks(target, i, epilogue.needs_rows)
    row_count, column_count = -(-rows // down), -(-columns // across)
    left_step, right_step = (rows if left_transposed else 1), (1 if right_transposed else columns)
    # A product with a deep K is computed in parts, between which cancellation is polled.
    at_once = min(
        parts.depth, max(target.tuning.blas.min_piece_size, PIECE_WORK[computed] // (down * across))
    )
    building = EpilogueKernel(epilogue)
    left, right, result = building.buffers(made.operands, made.value)
    flag = building.buffer(CANCELLATION, ir.Usage.FLAG)
    results = parts.count * batch
    with Items(building.body, results * row_count * column_count, "item") as items:
        rest = items.let("rest", items.axis // column_count)
        column = items.let("column", items.axis % column_count * across)
        row = items.let("row", rest % row_count * down)
        number = items.let("pair", rest // row_count)
        pair, first_step, last_step = parts.of_result(items, number, batch, depth)
        ahead = pair * (rows * depth) + row * (1 if left_transposed else depth)
        a = items.let("a", ir.Address(left) + ahead * width)
        ahead = pair * (depth * columns) + column * (depth if right_transposed else 1)
        b = items.let("b", ir.Address(right) + ahead * width)
        ahead = number * (rows * columns) + row * columns + column
        c = items.let("c", ir.Address(result) + ahead * width)
        last_row = ir.integer_op("minimum", row + down, rows)
        last_column = ir.integer_op("minimum", column + across, columns)
        iterations = -(-parts.depth // at_once)
        with Loop(
            items, "step", last_step, first_step, step=at_once, iterations=iterations
        ) as steps:
            step = steps.axis
            if depth > at_once:
                steps.add(Stop(flag))
            operands: Operands = {
                "a": a + step * (left_step * width),
                "a_ahead": rows if left_transposed else depth,
                "a_is_transposed": int(left_transposed),
                "b": b + step * (right_step * width),
                "b_ahead": depth if right_transposed else columns,
                "b_is_transposed": int(right_transposed),
                "c": c,
                "c_ahead": columns,
                "m": last_row - row,
                "n": last_column - column,
                "k": ir.integer_op("minimum", step + at_once, last_step) - step,
                "adds": ir.condition("gt", step, first_step),
            }
            steps.call(product_into(computed), operands)
        first = pair * rows
        epilogue.emit(items, (first + row, first + last_row), (column, last_column))
    building.add(made.lowering, made.name, Effort.OPTIMISED)


def _blocks(target: Target, i: HloInstruction, whole_rows: bool = False) -> tuple[int, int]:
    """Columns and rows of the blocks of a product, which threads share.

    Columns are divided first: for each block of rows BLAS would pack the whole right operand, which
    adds half of the time.
    """
    rows, columns = i.shape.dimensions[-2:]
    blas = target.tuning.blas
    work = rows * columns * _depth(i)
    batch = i.shape.element_count // (rows * columns)
    pieces = min(blas.pieces // batch, work // blas.min_piece_products)
    pieces = max(pieces, work // blas.max_piece_products)
    across = 1 if whole_rows else _parts(blas, columns, pieces)
    is_in_bands = across == 1 or work >= blas.min_products_in_both
    down = _parts(blas, rows, -(-pieces // across)) if is_in_bands else 1
    return _even(blas, columns, across), _even(blas, rows, down)


def _blas_parts(target: Target, i: HloInstruction) -> SumParts:
    """Return the parts of sums of a product by BLAS."""
    tuned = target.tuning.deep_products
    rows, columns = i.shape.dimensions[-2:]
    sizes = i.shape.element_count // (rows * columns), rows, columns
    return SumParts.of(tuned, sizes, _depth(i), target.tuning.blas.min_piece_size**2)


def _parts(blas: BlasProducts, size: int, wanted: int) -> int:
    """Return the number of parts, at most `wanted`, into which a dimension is divided."""
    return max(1, min(wanted, size // blas.min_piece_size))


def _even(blas: BlasProducts, size: int, parts: int) -> int:
    """Return the size of parts, a multiple of a vector if there are several."""
    return size if parts == 1 else -(-size // (parts * blas.unit)) * blas.unit


def _depth(i: HloInstruction) -> int:
    (contracted,) = i.attributes.dimension_numbers.lhs_contracting_dimensions
    return int(i.operands[0].shape.dimensions[contracted])


def is_by_blas(i: HloInstruction, capability: Capability) -> bool:
    """Return whether a dot is a product of matrices of a type that BLAS supports."""
    types = {shape.element_type for shape in (i.shape, *(part.shape for part in i.operands))}
    return len(types) == 1 and types <= capability.BLAS_TYPES and is_canonical(i)


def is_canonical(i: HloInstruction) -> bool:
    """Return whether a dot is a product of matrices, with at most one leading batch dimension.

    Sums of one product are none: a matrix product would add -0 to zero and give 0.
    """
    has_elements = all(operand.shape.element_count for operand in i.operands)
    return has_elements and is_matrix_product(i) and _depth(i) > 1
