"""Division of a loop nest into work items and the loops inside of one."""

import math
from collections.abc import Sequence

from xla_server.codegen.loops.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Store
from xla_server.ir.affine import Variable
from xla_server.target.loop_tuning import LoopNests


def inner_loops(
    loops: Sequence[Variable], stores: Sequence[Store], tuned: LoopNests
) -> tuple[Variable, ...]:
    """Return the loops of a work item: the last one, and more around it if it is short.

    The index of a work item is divided by the size of each loop around it, which takes as long as
    some elements do. Nests with reductions have a single loop in an item, beside those of the
    reductions.
    """
    count = min(1, len(loops) - 1)
    while (
        0 < count < len(loops) - 1
        and math.prod(loop.size for loop in loops[-count:]) < tuned.item_elements
        and math.prod(loop.size for loop in loops[: -count - 1]) >= tuned.min_items
        and not reductions_of(stores)
    ):
        count += 1
    return tuple(loops[len(loops) - count :])
