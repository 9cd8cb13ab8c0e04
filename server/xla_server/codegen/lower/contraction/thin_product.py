"""Products with a matrix of few rows or columns: how they are divided, and their kernels."""

import dataclasses

from xla_server.buffers.code import CANCELLATION, Value
from xla_server.codegen.kernel_ir.builder import Items, Loop
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Address, Role, condition, integer_op, whole
from xla_server.codegen.kernel_ir.routine import Operands
from xla_server.codegen.kernel_ir.statements import Stop
from xla_server.codegen.lower.loop_nests.epilogue import Ends, Epilogue, EpilogueKernel, Product
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS
from xla_server.codegen.routines.contraction.thin_products import (
    INNER,
    OUTER,
    OUTER_HEIGHTS,
    ROWS,
    inner_heights,
    streamed_name,
    thin_name,
)
from xla_server.target.target import Target
from xla_server.target.tuning import ThinProducts


@dataclasses.dataclass(frozen=True, slots=True)
class ThinProduct:
    """A product of `batch` pairs of a matrix and few vectors.

    `count` are the results for each vector and `depth` the products of each. The rows of the
    matrix are its results if `is_inner`, else its products. `vector_strides` are elements from
    vector to vector and from element to element of one; `result_strides` those from result to
    result and from vector to vector of the product.
    """

    target: Target
    kind: str
    batch: int
    count: int
    vectors: int
    depth: int
    is_inner: bool
    vector_strides: tuple[int, int]
    result_strides: tuple[int, int]

    @property
    def _tuning(self) -> ThinProducts:
        return self.target.tuning.thin_products

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return KINDS[self.kind].width

    @property
    def height(self) -> int:
        """Vectors that are multiplied at the same time."""
        heights = inner_heights(self.target.machine) if self.is_inner else OUTER_HEIGHTS
        return next((n for n in heights if n >= self.vectors), heights[-1])

    @property
    def function(self) -> str:
        """The name of the function that multiplies."""
        is_long = min(self.run, self.depth) >= self._tuning.min_streamed_run
        is_large = self.count * self.depth * self.width >= self._tuning.min_streamed_bytes
        if self.is_inner and self.vectors == 1 and is_large and is_long:
            return streamed_name(self.kind)
        return thin_name(self.kind, self.height, is_inner=self.is_inner)

    @property
    def block(self) -> int:
        """Results for each vector that a work item computes, a multiple of what is done at once."""
        tuned = self._tuning
        row = self.depth * self.width if self.is_inner else self.width
        matrix = self.count * self.depth * self.width
        items = max(1, min(-(-tuned.work_items // self.batch), matrix // tuned.min_item_bytes))
        items = max(items, min(-(-tuned.even_items // self.batch), matrix // tuned.min_even_bytes))
        unit = ROWS
        least = -(-tuned.min_item_bytes // row)
        if not self.is_inner:
            unit = self.target.machine.lanes(self.width)
            least = self.target.tuning.thin_dots.outer_piece_bytes // row
            items = max(items, -(-self.count * row // tuned.result_row_bytes))
        wanted = max(-(-self.count // items), least)
        return min(self.count, -(-wanted // unit) * unit)

    @property
    def blocks(self) -> int:
        """Work items of a pair."""
        return -(-self.count // self.block)

    @property
    def run(self) -> int:
        """Products of a sum that are added up at a time."""
        if not self.is_inner:
            return min(self.depth, self._tuning.step_elements // self.block)
        runs = -(-self.depth * self.width // self._tuning.run_bytes)
        lanes = self.target.machine.lanes(self.width)
        return -(-self.depth // (runs * lanes)) * lanes


def add_thin_product(
    made: Product,
    thin: ThinProduct,
    operands: tuple[Value, Value],
    epilogue: Epilogue,
    *,
    is_right: bool,
) -> None:
    """Add the kernel of a product.

    Args:
        made: The product.
        thin: Its blocking.
        operands: The matrix and the vectors.
        epilogue: Code on each block of the product.
        is_right: Whether the matrix is the right operand, so that blocks are columns.
    """
    width, block, blocks = thin.width, thin.block, thin.blocks
    matrix_row = thin.depth if thin.is_inner else thin.count
    of_block, of_step = (matrix_row, 1) if thin.is_inner else (1, matrix_row)
    vector, element = thin.vector_strides
    result, ahead = thin.result_strides
    of_pair = thin.vectors * thin.depth * width, thin.vectors * thin.count * width
    building = EpilogueKernel(epilogue)
    values = (*operands, made.value, CANCELLATION)
    roles = (Role.READ, Role.READ, Role.WRITE, Role.WORD)
    a, b, c, word = map(building.buffer, values, roles)
    with Items(building.body, thin.batch * blocks, "item") as items:
        first = items.let("first", items.axis % blocks * block)
        pair = items.let("pair", items.axis // blocks)
        count = items.let("count", integer_op("minimum", block, whole(thin.count) - first))
        matrix = Address(a) + pair * (thin.count * thin.depth * width) + first * (of_block * width)
        matrix = items.let("matrix", matrix)
        vectors = items.let("vectors", Address(b) + pair * of_pair[0])
        target = items.let("target", Address(c) + pair * of_pair[1] + first * (result * width))
        with Loop(items, "step", thin.depth, step=thin.run) as run:
            run.add(Stop(word))
            step = run.axis
            common: Operands = {
                "matrix": matrix + step * (of_step * width),
                "ahead": matrix_row * width,
                "vectors": vectors + step * (element * width),
                "vector_ahead": vector * width,
                "vector_count": thin.vectors,
                "result": target,
                "result_ahead": ahead * width,
                "steps": integer_op("minimum", thin.run, whole(thin.depth) - step),
                "adds": integer_op("to_i64", condition("gt", step, 0)),
            }
            if thin.is_inner:
                own: Operands = {"count": count, "row_ahead": result * width}
            else:
                own = {"columns": count, "element_ahead": element * width}
            routine = INNER if thin.is_inner else OUTER
            run.call(routine.named(thin.function), {**common, **own})
        spans: tuple[Ends, Ends] = (first, first + count), (0, thin.vectors)
        columns, (low, high) = spans if is_right else spans[::-1]
        before = pair * (thin.vectors if is_right else thin.count)
        epilogue.emit(items, (before + low, before + high), columns)
    building.add(made.lowering, made.name, Effort.UNOPTIMISED)
