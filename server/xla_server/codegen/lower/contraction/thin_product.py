"""Products with a matrix of few rows or columns: their blocking, and their kernels."""

import dataclasses
import functools

from xla_server.buffers.code import CANCELLATION, Value
from xla_server.codegen.kernel_ir.builder import Items, Loop
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Address, Usage, condition, integer_op, whole
from xla_server.codegen.kernel_ir.routine import Operands
from xla_server.codegen.kernel_ir.statements import Stop
from xla_server.codegen.lower.contraction.sum_parts import SumParts
from xla_server.codegen.lower.loop_nests.epilogue import Ends, Epilogue, EpilogueKernel, Product
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS
from xla_server.codegen.routines.contraction.thin_products import (
    INNER,
    OUTER,
    OUTER_HEIGHTS,
    ROWS,
    inner_heights,
    thin_name,
)
from xla_server.passes.canonicalize.dots.thin_dots import ThinDot
from xla_server.target.target import Target
from xla_server.target.tuning import ThinProducts


@dataclasses.dataclass(frozen=True)
class ThinProduct:
    """The blocking of a thin dot of a type."""

    target: Target
    kind: str
    dot: ThinDot

    @property
    def _tuning(self) -> ThinProducts:
        return self.target.tuning.thin_products

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return KINDS[self.kind].width

    @property
    def height(self) -> int:
        """Number of vectors that are multiplied at the same time."""
        heights = inner_heights(self.target.machine) if self.dot.is_inner else OUTER_HEIGHTS
        return next((n for n in heights if n >= self.dot.vectors), heights[-1])

    @property
    def function(self) -> str:
        """The name of the function that multiplies."""
        return thin_name(self.kind, self.height, is_inner=self.dot.is_inner)

    @property
    def block(self) -> int:
        """Results of a work item for each vector, a multiple of those computed at once."""
        dot, tuned = self.dot, self._tuning
        row = dot.depth * self.width if dot.is_inner else self.width
        matrix = dot.count * dot.depth * self.width
        shared = dot.batch * self.parts.count
        items = max(1, min(-(-tuned.work_items // shared), matrix // tuned.min_item_bytes))
        items = max(items, min(-(-tuned.even_items // shared), matrix // tuned.min_even_bytes))
        unit = ROWS
        least = -(-tuned.min_item_bytes // row)
        if not dot.is_inner:
            unit = self.target.machine.lanes(self.width)
            least = self.target.tuning.thin_dots.outer_piece_bytes // row
            items = max(items, -(-dot.count * row // tuned.result_row_bytes))
        wanted = max(-(-dot.count // items), least)
        return min(dot.count, -(-wanted // unit) * unit)

    @functools.cached_property
    def parts(self) -> SumParts:
        """The parts of sums along rows, which work items share if there are few results."""
        dot, tuned = self.dot, self.target.tuning.deep_products
        if not dot.is_inner:
            return SumParts(1, dot.depth)
        sizes = dot.batch, dot.count, dot.vectors
        return SumParts.of(tuned, sizes, dot.depth, ROWS * dot.vectors)

    @property
    def blocks(self) -> int:
        """Work items of one product of the batch."""
        return -(-self.dot.count // self.block)

    @property
    def run(self) -> int:
        """Depth of a K block, in products."""
        depth = self.parts.depth
        if not self.dot.is_inner:
            return min(depth, self._tuning.step_elements // self.block)
        runs = -(-depth * self.width // self._tuning.run_bytes)
        lanes = self.target.machine.lanes(self.width)
        return -(-depth // (runs * lanes)) * lanes


def add_thin_product(
    made: Product, thin: ThinProduct, operands: tuple[Value, Value], epilogue: Epilogue
) -> None:
    """Add the kernel of a product of a matrix and vectors, with its epilogue on each block."""
    width, block, blocks, dot = thin.width, thin.block, thin.blocks, thin.dot
    matrix_row = dot.depth if dot.is_inner else dot.count
    of_block, of_step = (matrix_row, 1) if dot.is_inner else (1, matrix_row)
    are_rows = dot.is_inner or dot.vectors_are_rows
    # Strides: between vectors and between their elements; between results and to the next vector's.
    # If the matrix is the right operand, blocks are columns.
    vector, element = (dot.depth, 1) if are_rows else (1, dot.vectors)
    result, ahead = (1, dot.count) if dot.is_right else (dot.vectors, 1)
    of_pair = dot.vectors * dot.depth * width, dot.vectors * dot.count * width
    building = EpilogueKernel(epilogue)
    a, b, c = building.buffers(operands, made.value)
    flag = building.buffer(CANCELLATION, Usage.FLAG)
    with Items(building.body, dot.batch * thin.parts.count * blocks, "item") as items:
        first = items.let("first", items.axis % blocks * block)
        number = items.let("pair", items.axis // blocks)
        pair, first_step, last_step = thin.parts.of_result(items, number, dot.batch, dot.depth)
        count = items.let("count", integer_op("minimum", block, whole(dot.count) - first))
        matrix = Address(a) + pair * (dot.count * dot.depth * width) + first * (of_block * width)
        matrix = items.let("matrix", matrix)
        vectors = items.let("vectors", Address(b) + pair * of_pair[0])
        target = items.let("target", Address(c) + number * of_pair[1] + first * (result * width))
        iterations = -(-thin.parts.depth // thin.run)
        with Loop(
            items, "step", last_step, first_step, step=thin.run, iterations=iterations
        ) as run:
            run.add(Stop(flag))
            step = run.axis
            arguments: Operands = {
                "matrix": matrix + step * (of_step * width),
                "ahead": matrix_row * width,
                "vectors": vectors + step * (element * width),
                "vector_ahead": vector * width,
                "vector_count": dot.vectors,
                "result": target,
                "result_ahead": ahead * width,
                "count": count,
                "steps": integer_op("minimum", thin.run, last_step - step),
                "adds": integer_op("to_i64", condition("gt", step, first_step)),
            }
            if dot.is_inner:
                run.call(INNER.named(thin.function), {**arguments, "row_ahead": result * width})
            else:
                run.call(
                    OUTER.named(thin.function), {**arguments, "element_ahead": element * width}
                )
        spans: tuple[Ends, Ends] = (first, first + count), (0, dot.vectors)
        columns, (low, high) = spans if dot.is_right else spans[::-1]
        before = pair * (dot.vectors if dot.is_right else dot.count)
        epilogue.emit(items, (before + low, before + high), columns)
    building.add(made.lowering, made.name, Effort.UNOPTIMISED)
