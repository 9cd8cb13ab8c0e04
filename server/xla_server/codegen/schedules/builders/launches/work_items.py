"""Division of a loop nest into work items and the loops inside of one."""

import math
from collections.abc import Sequence

from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Store
from xla_server.ir.analysis.affine import Variable
from xla_server.target.loop_tuning import LoopNests


def parts_of_items(loops: Sequence[Variable], stores: Sequence[Store], tuned: LoopNests) -> int:
    """Return the number of equal parts of the last loop but one; 1 if it is not divided.

    A work item is one part and the last loop. The whole loop per item would leave too few items;
    only the last loop per item would divide the item's index once for every few elements. The
    result is the smallest number of parts that avoids both.
    """
    if len(loops) < 3 or loops[-1].size >= tuned.item_elements or reductions_of(stores):
        return 1
    outer = math.prod(loop.size for loop in loops[:-2])
    size = loops[-2].size
    fewest, most = -(-tuned.min_items // outer), size * loops[-1].size // tuned.item_elements
    return next((parts for parts in range(fewest, most + 1) if size % parts == 0), 1)


def inner_loops(
    loops: Sequence[Variable], stores: Sequence[Store], tuned: LoopNests
) -> tuple[Variable, ...]:
    """Return the loops inside a work item: the last one, and more around it if it is short.

    The index of a work item is divided by the size of each outer loop, which costs as much as a few
    elements. In nests with reductions a work item has only the last loop, and the reductions' own;
    none if it stores several neighbours.
    """
    count = min(1, len(loops) - 1)
    if count and reductions_of(stores):
        return () if len({store.argument for store in stores}) < len(stores) else tuple(loops[-1:])
    while (
        0 < count < len(loops) - 1
        and math.prod(loop.size for loop in loops[-count:]) < tuned.item_elements
        and math.prod(loop.size for loop in loops[: -count - 1]) >= tuned.min_items
    ):
        count += 1
    return tuple(loops[len(loops) - count :])
