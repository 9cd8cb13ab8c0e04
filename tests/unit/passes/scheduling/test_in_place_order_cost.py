"""Cost of the order of updates, in looks at an array's readers."""

from tests.unit.passes.scheduling.test_in_place_order import entry
from xla_server.ir.module import HloInstruction
from xla_server.passes.scheduling.alias_analysis import storage_of
from xla_server.passes.scheduling.in_place_order import _Order


class Counted(dict[HloInstruction, int]):
    """A dict that counts how often it is read."""

    reads = 0

    def __getitem__(self, key: HloInstruction) -> int:
        self.reads += 1
        return super().__getitem__(key)


def test_the_readers_of_an_array_are_looked_at_once_for_all_that_overwrite_it() -> None:
    count = 200
    writers = [f"d{n} = f32[100] dynamic-update-slice(a, u, i)" for n in range(count)]
    shapes, names = ", ".join(["f32[100]"] * count), ", ".join(f"d{n}" for n in range(count))
    computation = entry(*writers, f"ROOT t = ({shapes}) tuple({names})").entry
    storage = storage_of(computation, {})
    found = _Order(computation.instructions, storage.readers)
    found.positions = positions = Counted(found.positions)
    in_place = [o.writer.name for o in storage.overwrites if found.is_in_place(o)]
    assert (len(storage.overwrites), in_place) == (count, [f"d{count - 1}"])
    assert positions.reads < 3 * count
