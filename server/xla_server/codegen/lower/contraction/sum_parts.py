"""Parts of the sums of a deep product, which threads share if it has few results."""

import dataclasses
from typing import Self

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body
from xla_server.target.tuning import DeepProducts


@dataclasses.dataclass(frozen=True, slots=True)
class SumParts:
    """The number of parts, and the k indices of each; the last one may have fewer.

    They follow from the shape alone, so that bits do not depend on the machine's cores.
    """

    count: int
    depth: int

    @classmethod
    def of(cls, tuned: DeepProducts, sizes: tuple[int, int, int], depth: int, at_once: int) -> Self:
        """Return the parts of a product of a batch, rows and columns.

        `at_once` is the number of results that one work item computes in any case.
        """
        batch, rows, columns = sizes
        items = -(-batch * rows * columns // at_once)
        read = batch * (rows + columns) * depth
        limits = tuned.max_items // items, depth // tuned.min_depth, read // tuned.min_elements
        wanted = min(limits)
        if wanted < tuned.min_parts:
            return cls(1, depth)
        part = -(-depth // (wanted * tuned.depth_unit)) * tuned.depth_unit
        return cls(-(-depth // part), part)

    def of_result(
        self, body: Body, number: ir.Expression, batch: int, depth: int
    ) -> tuple[ir.Expression, ir.Expression, ir.Expression]:
        """Return the pair of operands of a result, its first k index, and one past the last.

        Results of the first parts of a batch are before those of the second ones.
        """
        if self.count == 1:
            return number, ir.whole(0), ir.whole(depth)
        first = body.let("first_step", number // batch * self.depth)
        last = body.let("last_step", ir.integer_op("minimum", first + self.depth, depth))
        return body.let("operands", number % batch), first, last
