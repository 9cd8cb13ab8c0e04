import numpy as np
import pytest

from xla_contract.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnimplementedError,
)
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.interpreter import Interpreter
from xla_server.backends.platform import Buffer
from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.values.futures import ValuePendingError
from xla_server.sessions.values.handles import HandleFactory
from xla_server.sessions.values.value_table import ValueTable

PLATFORM = Interpreter()


def _buffer(value: object) -> Buffer:
    return PLATFORM.to_device(Literal.from_numpy(value), PLATFORM.devices[0])


def _table(memory: MemoryBudget | None = None, **limits: int) -> ValueTable:
    memory = memory or MemoryBudget(100)
    return ValueTable(HandleFactory(), memory, **({"max_bytes": 100, "max_handles": 10} | limits))


def _keep(table: ValueTable, buffer: Buffer) -> int:
    with table.reserve(buffer.byte_size, "a test") as reservation:
        return reservation.keep(buffer)


def test_shared_arrays_count_once_and_until_the_last_handle():
    table = _table()
    both = _keep(table, _buffer((np.zeros(5, np.float32), np.zeros(10, np.float32))))
    assert table.used_bytes == 60
    small, large = table.deconstruct(both)
    again = _keep(table, table.get(small))
    assert table.used_bytes == 60
    for handle, left in ((both, 60), (large, 20), (small, 20), (again, 0)):
        table.remove(handle)
        assert table.used_bytes == left


def test_one_array_twice_in_a_tuple_counts_once():
    array = _buffer(np.zeros(5, np.float32))
    table = _table()
    first, second = _keep(table, array), _keep(table, array)
    assert table.used_bytes == 20
    table.remove(first)
    assert table.used_bytes == 20
    table.remove(second)
    assert table.used_bytes == 0


def test_memory_is_set_aside_before_and_given_back_after():
    table = _table()
    _keep(table, _buffer(np.zeros(10, np.float32)))
    with table.reserve(50, "a result"):
        with (
            pytest.raises(ResourceExhaustedError, match=r"100 bytes.*20 bytes.*a literal.*90"),
            table.reserve(20, "a literal"),
        ):
            pass
        with table.reserve(10, "a literal"):
            pass
    with table.reserve(60, "a literal"):
        pass
    assert table.used_bytes == 40


def test_a_value_that_finds_no_handle_leaves_nothing_counted():
    table = _table(max_handles=1)
    _keep(table, _buffer(np.zeros(5, np.float32)))
    with pytest.raises(ResourceExhaustedError):
        _keep(table, _buffer(np.zeros(5, np.float32)))
    assert table.used_bytes == 20
    with table.reserve(80, "the rest"):
        pass


def test_only_flat_tuples_are_deconstructed():
    table = _table()
    array = np.zeros(2, np.float32)
    with pytest.raises(InvalidArgumentError, match=r"f32\[2\]"):
        table.deconstruct(_keep(table, _buffer(array)))
    with pytest.raises(UnimplementedError):
        table.deconstruct(_keep(table, _buffer((array, (array,)))))
    assert table.deconstruct(_keep(table, _buffer(()))) == []


def test_sessions_share_the_memory_of_the_devices():
    memory = MemoryBudget(100)
    mine, other = _table(memory, max_bytes=80), _table(memory, max_bytes=80)
    kept = _keep(mine, _buffer(np.zeros(15, np.float32)))
    with pytest.raises(ResourceExhaustedError, match=r"of a session may take 80.*40.*60 in use"):
        mine.reserve(40, "a literal")
    with pytest.raises(ResourceExhaustedError, match=r"values may take 100.*60.*60 in use"):
        other.reserve(60, "a literal")
    reservation = other.reserve(40, "a literal")
    assert memory.used_bytes == 100
    reservation.release()
    reservation.release()
    mine.remove(kept)
    assert memory.used_bytes == 0


def test_a_closed_table_frees_all_and_takes_nothing():
    memory = MemoryBudget(100)
    table = _table(memory)
    handle = _keep(table, _buffer(np.zeros(5, np.float32)))
    with table.reserve(20, "a result") as reservation:
        table.close()
        with pytest.raises(UnauthenticatedError, match="must be open"):
            reservation.keep(_buffer(np.zeros(5, np.float32)))
    assert memory.used_bytes == 0
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        table.get(handle)


def test_a_shape_without_bounds_frees_no_memory_for_others():
    table = _table()
    for shape in (Shape.parse("f32[?]{0}"), Shape.parse("(f32[4]{0}, f32[?]{0})")):
        with pytest.raises(
            InvalidArgumentError, match=r"must have bounded sizes, got -\d+ bytes for .*f32\[\?\]"
        ):
            table.reserve(shape.byte_size, shape)
    assert table.reserved_bytes == 0


def test_a_reservation_shrinks_and_never_grows():
    memory = MemoryBudget(100)
    table = _table(memory)
    with table.reserve(80, "a test") as reservation:
        reservation.shrink(90)
        assert (table.reserved_bytes, memory.used_bytes) == (80, 80)
        reservation.shrink(30)
        assert (table.reserved_bytes, memory.used_bytes) == (30, 30)
        _keep(table, _buffer(np.zeros(15, np.float32)))
    assert (table.reserved_bytes, memory.used_bytes) == (0, 60)


def test_a_reservation_grows_as_far_as_there_is_memory():
    memory = MemoryBudget(100, spared_bytes=30)
    table = _table(memory, max_bytes=80)
    with table.reserve_later(70, "a test") as reservation:
        assert memory.used_bytes == 0
        reservation.grow(40, "a test")
        reservation.grow(20, "a test")
        assert (table.reserved_bytes, memory.used_bytes) == (40, 40)
        with pytest.raises(ResourceExhaustedError, match=r"leave 30 of 100 bytes.*31 .*40 in use"):
            reservation.grow(71, "a test")
        with pytest.raises(ResourceExhaustedError, match=r"session may take 80.*50 .*40 in use"):
            reservation.grow(90, "a test")
        assert memory.used_bytes == 40
    assert (table.reserved_bytes, memory.used_bytes) == (0, 0)
    with pytest.raises(ResourceExhaustedError, match=r"leave 30 of 100 bytes.*71 .*with 0 in use"):
        table.reserve_later(71, "a test")


def test_outputs_are_unfetched_until_they_are_freed_or_sent():
    table = _table()
    ones = np.ones(2, np.float32)
    values = [_buffer(ones), _buffer((ones, ones)), _buffer(ones), _buffer(ones)]
    expected = table.expect([value.shape for value in values], "program")
    (sent, pair, freed, failed), _ = zip(*expected, strict=True)
    assert table.unfetched == dict.fromkeys((sent, pair, freed, failed), "program")
    with pytest.raises(ValuePendingError):
        table.get(failed)
    for (handle, pending), value in zip(expected[:3], values, strict=False):
        table.fulfil(handle, pending, value)
    table.fail(*expected[3], InvalidArgumentError("it failed"))
    assert len(table.unfetched) == 4
    table.note_fetched([sent, sent])
    table.remove(freed)
    with pytest.raises(InvalidArgumentError, match="it failed"):
        table.get(failed)
    assert list(table.unfetched) == [pair]
    elements = table.deconstruct(pair)
    assert list(table.unfetched) == elements
    assert set(table.deconstruct(pair)).isdisjoint(table.unfetched)
    table.close()
    assert not table.unfetched
