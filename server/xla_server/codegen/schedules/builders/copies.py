"""Loops that copy contiguous elements to contiguous elements."""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.trace.graph import Load, Store, variables_of
from xla_server.ir.analysis.affine import Affine, Variable, variable


@dataclasses.dataclass(frozen=True, slots=True)
class InnerLoops:
    """Loops inside of a work item, outermost first, and the stores inside of them.

    A run that `is_joined` replaces several runs that copied adjacent elements.
    """

    loops: tuple[Variable, ...]
    stores: tuple[Store, ...]
    is_joined: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CopiedRun:
    """A run that copies `count` contiguous elements to contiguous elements.

    `load` and `store` access its first element.
    """

    load: Load
    store: Store
    count: int

    @classmethod
    def of(cls, run: InnerLoops) -> "CopiedRun | None":
        """Return the copy that a run makes; None for other runs."""
        (store, *others), load = run.stores, run.stores[0].value
        if len(run.loops) > 1 or others or not isinstance(load, Load) or load.guard is not None:
            return None
        loop = run.loops[0] if run.loops else Variable(1, "i")
        starts = [offset + variable(loop) * -1 for offset in (load.offset, store.offset)]
        if any(loop in variables_of(start) for start in starts):
            return None
        return cls(*_moved(load, store, starts), loop.size)

    @property
    def byte_size(self) -> int:
        """The number of bytes copied."""
        return self.count * Type(self.store.kernel_type.storage).byte_size

    def extended(self, following: "CopiedRun") -> "CopiedRun | None":
        """Return this copy and one that continues it as one copy; None if `following` does not."""
        pairs = ((self.load, following.load), (self.store, following.store))
        if not all(
            (before.argument, before.kernel_type) == (after.argument, after.kernel_type)
            and after.offset + before.offset * -1 == Affine(self.count)
            for before, after in pairs
        ):
            return None
        return dataclasses.replace(self, count=self.count + following.count)

    def run(self) -> InnerLoops:
        """Return the run that makes the copy."""
        loop = Variable(self.count, "i")
        offsets = [part.offset + variable(loop) for part in (self.load, self.store)]
        _, store = _moved(self.load, self.store, offsets)
        return InnerLoops((loop,), (store,), is_joined=True)


def _moved(load: Load, store: Store, offsets: Sequence[Affine]) -> tuple[Load, Store]:
    """Return a copy's load and store at other offsets."""
    moved = Load(load.argument, load.kernel_type, offsets[0], load.size)
    return moved, dataclasses.replace(store, offset=offsets[1], value=moved)
