"""Cache of the programs of static shape that a program of dynamic shape was compiled to."""

import dataclasses
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from xla_server.backends.loaded_program import LoadedProgram
from xla_server.backends.platform import Device
from xla_server.evaluator.plan import PlannedInstruction
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.ops.evaluation import Value
from xla_server.passes.dynamic_sizes.known_sizes import ArgumentIndex
from xla_server.passes.dynamic_sizes.sized_values import arrays_of, extents_of, value_of
from xla_server.passes.dynamic_sizes.static_segments import StaticSegment, first_segment
from xla_server.runtime.host import RunContext

KEPT = 64
"""Bound of cached programs, which are much smaller than their values; evicted by last use."""

Compile: TypeAlias = Callable[[HloModule, str], LoadedProgram]
"""Function from a module of static shape and a name to its compiled program."""


@dataclasses.dataclass(frozen=True, slots=True)
class SizeVariant:
    """A segment as a loaded program; None if the segment is empty.

    Dumps show it under `name`.
    """

    segment: StaticSegment
    program: LoadedProgram | None
    name: str

    def run(
        self, values: Mapping[int, Value], device: Device, context: RunContext
    ) -> tuple[dict[int, Value], int]:
        """Run on values by slot; return the resulting values by slot, and the cycles."""
        program, segment = self.program, self.segment
        assert program is not None
        assert segment.module is not None
        arrays = [array for slot in segment.inputs for array in arrays_of(values[slot])]
        shapes = segment.module.entry.root.shape.tuple_shapes
        results, cycles = program.run_on_arrays(arrays, shapes, device, context)
        given = iter(results)
        return {slot: value_of(extents, given) for slot, extents in segment.outputs}, cycles


class SizeVariants:
    """Compiles the program of some steps for some sizes when it is first needed.

    The most recently used ones are cached. Thread-safe; two threads that need the same program at
    the same time both compile it.
    """

    def __init__(self, module: HloModule, compile_program: Compile) -> None:
        self._module = module
        self._compile = compile_program
        self._made = itertools.count(1)
        self._asked: LastUsed[tuple[Hashable, ...], tuple[ArgumentIndex, ...]] = LastUsed(KEPT)
        self._programs: LastUsed[tuple[Hashable, ...], SizeVariant] = LastUsed(KEPT)

    def __len__(self) -> int:
        return len(self._programs)

    def of(
        self,
        steps: Sequence[PlannedInstruction],
        values: Mapping[int, Value],
        constants: Mapping[int, HloInstruction],
        wanted: Collection[int],
    ) -> SizeVariant:
        """Return the program of the first of these steps, for values of these sizes.

        The arguments are those of `first_segment`. Raises errors of the compilation.
        """
        read = sorted({slot for step in steps for slot in step.operands} & values.keys())
        sizes = tuple(extents_of(values[slot]) for slot in read if slot not in constants)
        instructions = tuple(step.instruction for step in steps)
        structure = (instructions, sizes)
        guards = self._asked.get(structure)
        if guards is not None:
            found = self._programs.get((structure, guards, _numbers(guards, values)))
            if found is not None:
                return found
        segment = first_segment(self._module, steps, values, constants, wanted)
        guards = tuple(sorted(segment.guards.union(guards or ())))
        made = self._made_of(segment)
        self._asked.put(structure, guards)
        self._programs.put((structure, guards, _numbers(guards, values)), made)
        return made

    def _made_of(self, segment: StaticSegment) -> SizeVariant:
        if segment.module is None:
            return SizeVariant(segment, None, "")
        name = f"program_{next(self._made):03}"
        return SizeVariant(segment, self._compile(segment.module, name), name)


def _numbers(guards: Sequence[ArgumentIndex], values: Mapping[int, Value]) -> tuple[bytes, ...]:
    """Return the bytes of the arguments on which sizes depend."""
    return tuple(list(arrays_of(values[slot]))[number].tobytes() for slot, number in guards)


_Key = TypeVar("_Key", bound=Hashable)
_Item = TypeVar("_Item")


class LastUsed(Generic[_Key, _Item]):
    """A bounded number of items, the most recently used. Thread-safe."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._items: OrderedDict[_Key, _Item] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: _Key) -> _Item | None:
        """The item of a key; None if there is none, or if it was evicted."""
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
            return found

    def put(self, key: _Key, item: _Item) -> None:
        """Add an item, and evict the least recently used one if there are too many."""
        with self._lock:
            self._items[key] = item
            self._items.move_to_end(key)
            while len(self._items) > self._count:
                self._items.popitem(last=False)
