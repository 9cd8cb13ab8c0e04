"""Where the tests of indices in a loop nest change: the cuts between pieces without tests."""

import itertools
from collections.abc import Sequence

from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.trace.graph import Apply, Immediate, Position, Store
from xla_server.ir.analysis.affine import Affine, Modulus, Quotient, Variable
from xla_server.target.loop_tuning import Pieces


def cuts_of(
    loops: Sequence[Variable], stores: Sequence[Store], tuned: Pieces
) -> dict[int, list[int]]:
    """Return, by the number of a loop, the values of its variable at which a test changes."""
    found: dict[int, set[int]] = {}
    for node in all_nodes(stores):
        changes = changes_of(node, tuned) if isinstance(node, Apply) else None
        if changes is not None:
            loop, cuts = changes
            if loop in loops and cuts:
                found.setdefault(loops.index(loop), set()).update(cuts)
    return {number: sorted(cuts) for number, cuts in found.items()}


def changes_of(test: Apply, tuned: Pieces) -> tuple[Variable, Sequence[int]] | None:
    """Return the variable that a test depends on, and its values at which the outcome changes."""
    if test.function not in ("ge", "lt"):
        return None
    position, limit = test.operands
    if not isinstance(position, Position) or not isinstance(limit, Immediate):
        return None
    index, least = position.index, limit.constant.parts[0]
    if len(index.terms) != 1:
        return _changes_of_parts(index, least, tuned)
    ((loop, factor),) = index.terms
    if not isinstance(loop, Variable):
        return _changes_of_parts(index, least, tuned)
    # factor * loop + constant >= limit holds from `cut` on, or below it if the factor is negative.
    least -= index.constant
    cut = -(-least // factor) if factor > 0 else least // factor + 1
    return loop, [cut] if 0 < cut < loop.size else []


def _changes_of_parts(
    index: Affine, least: int, tuned: Pieces
) -> tuple[Variable, Sequence[int]] | None:
    """Return the same for quotients and remainders of a small variable, by trying all values."""
    loops = {atom for atom in index.atoms() if not isinstance(atom, Quotient | Modulus)}
    if len(loops) != 1:
        return None
    (loop,) = loops
    if not isinstance(loop, Variable) or loop.size > tuned.max_runs:
        return None
    outcomes = [index.at(value) >= least for value in range(loop.size)]
    pairs = enumerate(itertools.pairwise(outcomes), 1)
    return loop, [value for value, (before, now) in pairs if before != now]
