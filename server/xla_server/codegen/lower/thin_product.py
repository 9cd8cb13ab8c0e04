"""Products with a matrix of few rows or columns: how they are divided, and the text of kernels."""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.loops.stopping import stop_lines
from xla_server.codegen.lower.tail import TailText
from xla_server.codegen.routines.gemm_tiles import KINDS
from xla_server.codegen.routines.thin_products import (
    INNER_OPERANDS,
    OUTER_HEIGHTS,
    OUTER_OPERANDS,
    ROWS,
    inner_heights,
    streamed_name,
    thin_name,
)
from xla_server.target.machine import Machine
from xla_server.target.tuning import ThinProducts, tuning_of


@dataclasses.dataclass(frozen=True, slots=True)
class ThinProduct:
    """A product of `batch` pairs of a matrix and few vectors.

    `count` are the results for each vector and `depth` the products of each. The rows of the
    matrix are its results if `is_inner`, else its products. `vector_strides` are elements from
    vector to vector and from element to element of one; `result_strides` those from result to
    result and from vector to vector of the product.
    """

    machine: Machine
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
        return tuning_of(self.machine).thin_products

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return KINDS[self.kind].width

    @property
    def height(self) -> int:
        """Vectors that are multiplied at the same time."""
        heights = inner_heights(self.machine) if self.is_inner else OUTER_HEIGHTS
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
            unit = self.machine.lanes(self.width)
            least = tuning_of(self.machine).thin_dots.outer_piece_bytes // row
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
        lanes = self.machine.lanes(self.width)
        return -(-self.depth // (runs * lanes)) * lanes


def thin_source(
    thin: ThinProduct, places: Sequence[int], tail: TailText, *, is_right: bool
) -> tuple[str, int, int]:
    """Return text, work items and work of each of the kernel of a product.

    Args:
        thin: The product.
        places: The numbers of the matrix, of the vectors, of the product and of the cancellation
            flag among the kernel's arguments.
        tail: The epilogue of a block of the product.
        is_right: Whether the matrix is the right operand, so that blocks are columns.
    """
    width, block = thin.width, thin.block
    pair = thin.count * thin.depth * width
    matrix_row = thin.depth if thin.is_inner else thin.count
    of_block, of_step = (matrix_row, 1) if thin.is_inner else (1, matrix_row)
    vector, element = thin.vector_strides
    result, ahead = thin.result_strides
    common = {
        "matrix": f"matrix + step * {of_step * width}",
        "ahead": matrix_row * width,
        "vectors": f"vectors + step * {element * width}",
        "vector_ahead": vector * width,
        "vector_count": thin.vectors,
        "result": "result",
        "result_ahead": ahead * width,
        "steps": f"minimum({thin.run}, {thin.depth} - step)",
        "adds": "to_i64(step > 0)",
    }
    if thin.is_inner:
        names, operands = INNER_OPERANDS, {"count": "count", "row_ahead": result * width}
    else:
        names, operands = OUTER_OPERANDS, {"columns": "count", "element_ahead": element * width}
    operands = {**common, **operands}
    function = thin.function
    a, b, c, cancelled = places
    of_pair = thin.vectors * thin.depth * width, thin.vectors * thin.count * width
    lines = [
        f"cancelled = peek_i64(buffers, {cancelled})",
        *tail.first,
        "for trip in range(start, stop):",
        f"    first = whole_mod(trip, {thin.blocks}) * {block}",
        f"    pair = whole_div(trip, {thin.blocks})",
        f"    count = minimum({block}, {thin.count} - first)",
        f"    matrix = peek_i64(buffers, {a}) + pair * {pair} + first * {of_block * width}",
        f"    vectors = peek_i64(buffers, {b}) + pair * {of_pair[0]}",
        f"    result = peek_i64(buffers, {c}) + pair * {of_pair[1]} + first * {result * width}",
        f"    for step in range(0, {thin.depth}, {thin.run}):",
        *stop_lines(2),
        f"        {function}(",
        *(f"            {operands[name]},  # {name}" for name in names),
        "        )",
    ]
    if tail.loops:
        spans = ["first", "first + count"], ["0", str(thin.vectors)]
        columns, rows = spans if is_right else spans[::-1]
        rows_of_pair = thin.vectors if is_right else thin.count
        lines += [
            f"    first_row = pair * {rows_of_pair} + {rows[0]}",
            f"    last_row = pair * {rows_of_pair} + {rows[1]}",
            f"    first_column = {columns[0]}",
            f"    last_column = {columns[1]}",
            *(f"    {line}" for line in tail.loops),
        ]
    body = "\n".join(f"    {line}" for line in lines)
    text = f"{tail.constants}def kernel(buffers, start, stop):\n{body}\n"
    work = block * max(thin.vectors, ROWS) * (thin.depth + tail.work)
    return text, thin.batch * thin.blocks, work
