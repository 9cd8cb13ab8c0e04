"""How often a kernel evaluates what it computes, counted from the loops as they are written.

An instruction of HLO has each of its elements once. A kernel may evaluate an element again: for
each chunk of work items, for each row, for each reader that asks at another index. The count is
exact for given sizes, whatever decided to put the instruction there.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xla_server.codegen.loops.block import Block
from xla_server.codegen.trace.graph import Fold, Node

Evaluations: TypeAlias = Mapping["Node | Fold", float]
"""Executions of each node, and of the loop body of each fold, in one launch of a kernel."""


@dataclasses.dataclass(slots=True)
class EvaluationCounter:
    """Records in which block each node is evaluated while a kernel is written."""

    _blocks: list[tuple[Node | Fold, Block]] = dataclasses.field(default_factory=list)

    def add(self, what: Node | Fold, block: Block) -> None:
        """Record that `block` evaluates `what` each time it is executed."""
        self._blocks.append((what, block))

    def add_all(self, folds: Sequence[Fold], block: Block) -> None:
        """Record that `block` combines one element for each of `folds`."""
        self._blocks += [(fold, block) for fold in folds]

    def total(self) -> Evaluations:
        """Return the sums over all blocks, whose iterations are final by now."""
        found: dict[Node | Fold, float] = {}
        known: dict[Block, float] = {}
        for what, block in self._blocks:
            times = known.get(block)
            if times is None:
                times = known[block] = block.executions
            turns = what.turns if isinstance(what, Fold) else 1
            found[what] = found.get(what, 0.0) + times * turns
        return found
