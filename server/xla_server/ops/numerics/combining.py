"""Updates combined into flat targets at positions that may repeat, shared by the scatters."""

from collections.abc import Sequence

import numpy as np

from xla_server.ir.module import HloComputation
from xla_server.ops.evaluation import Array, Frame
from xla_server.ops.numerics.indices import Indices
from xla_server.ops.numerics.scalar_function import (
    as_arrays,
    parameter_dtypes,
    recognise,
    round_to,
    takes_the_second,
)


def combine_at(
    combiner: HloComputation,
    targets: Sequence[Array],
    positions: Indices,
    updates: Sequence[Array],
    frame: Frame,
) -> list[Array]:
    """Flat copies of the flat targets with each update combined in at its position.

    `positions` are in range. Updates of one position are applied in their order.
    """
    if len(targets) == 1 and takes_the_second(combiner):
        replaced = targets[0].copy()
        replaced[positions] = round_to(updates[0], replaced.dtype)
        return [replaced]
    known = recognise(combiner)
    if known is not None and targets[0].dtype == known.dtype:
        total = np.array(known.to_keys(targets[0]))
        known.ufunc.at(total, positions, known.to_keys(updates[0]))
        is_target = np.ones(total.shape, np.bool_)
        is_target[positions] = False
        # Elements that nothing is combined with stay as they are, subnormal ones too.
        return [np.where(is_target, targets[0], known.from_keys(total))]
    # Rounds in which each position occurs once: first all first updates, then all second ...
    results = [target.copy() for target in targets]
    dtypes = parameter_dtypes(combiner)
    of_targets, of_updates = dtypes[: len(targets)], dtypes[len(targets) :]
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(ordered))
    round_number = 0
    while len(starts):
        chosen = order[starts + round_number]
        at = positions[chosen]
        left = [round_to(r[at], dtype) for r, dtype in zip(results, of_targets, strict=True)]
        right = [round_to(u[chosen], dtype) for u, dtype in zip(updates, of_updates, strict=True)]
        combined = as_arrays(frame.call_lifted(combiner, [*left, *right]))
        for result, part in zip(results, combined, strict=True):
            result[at] = round_to(part, result.dtype)
        round_number += 1
        more = starts + round_number < ends
        starts, ends = starts[more], ends[more]
    return results
