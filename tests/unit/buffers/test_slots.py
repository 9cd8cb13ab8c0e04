"""Slots of encoded programs: named buffers, thunks that do nothing, positions of labels."""

from xla_contract.types.shape import Shape
from xla_server.buffers.assignment import Assignment, Location
from xla_server.buffers.code import Branch, CopyThunk, HostThunk, Jump, Label, Switch, Value
from xla_server.buffers.slots import addressed, copies_nothing, label_positions, of_kind

A, B, C = (Value(Shape.parse("f32[2]"), name) for name in "abc")
FIRST, LAST = Label("first"), Label("last")


def test_thunks_need_the_addresses_of_what_they_read_and_write() -> None:
    assert addressed(CopyThunk(A, B)) == (B, A)
    assert addressed(HostThunk("h", None, (A,), (B, C))) == (A, B, C)
    assert addressed(Branch(A, LAST)) == addressed(Switch(A, (FIRST, LAST))) == (A,)
    assert addressed(Jump(FIRST)) == addressed(FIRST) == ()


def test_buffers_of_a_kind_are_there_once() -> None:
    places = [
        Location("arena", 64),
        Location("result", 0),
        Location("arena", 0),
        Location("arena", 64),
    ]
    assert of_kind("arena", places) == [Location("arena", 64), Location("arena", 0)]


def test_a_copy_into_the_same_memory_does_nothing() -> None:
    same = Assignment(
        {A: Location("arena", 0), B: Location("arena", 0), C: Location("arena", 64)}, 128, ()
    )
    assert copies_nothing(CopyThunk(A, B), same)
    assert not copies_nothing(CopyThunk(A, C), same)
    assert not copies_nothing(Jump(FIRST), same)


def test_labels_are_not_counted() -> None:
    thunks = [FIRST, CopyThunk(A, B), Jump(FIRST), LAST]
    assert label_positions(thunks) == {FIRST: 0, LAST: 2}
