import pytest

from xla_contract.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from xla_server.sessions.values.handles import HANDLE_BITS, HandleFactory, HandleKind, HandleTable


def _table(limit: int = 10) -> HandleTable[str]:
    return HandleTable(HandleFactory(), HandleKind.DATA, limit)


def test_handles_are_positive_distinct_and_of_one_kind():
    factory = HandleFactory()
    handles = {kind: {factory.issue(kind) for _ in range(500)} for kind in HandleKind}
    every = set().union(*handles.values())
    assert len(every) == 500 * len(HandleKind)
    assert all(0 < handle < 2**HANDLE_BITS < 2**53 for handle in every)
    for kind, own in handles.items():
        assert all(factory.was_issued(handle, kind) == (handle in own) for handle in every)


def test_neighbouring_handles_tell_nothing_of_each_other():
    factory = HandleFactory()
    first, second = factory.issue(HandleKind.DATA), factory.issue(HandleKind.DATA)
    # About half of the bits differ; 8 is five standard deviations below.
    assert (first ^ second).bit_count() > 8
    assert HandleFactory().issue(HandleKind.DATA) != first


@pytest.mark.parametrize("handle", [0, -1, 1, 2**52, 2**53, 2**62, 2**63 - 1, -(2**63)])
def test_numbers_never_given_out_are_not_found(handle):
    table = _table()
    table.add("value")
    with pytest.raises(NotFoundError, match=str(handle)):
        table.get(handle)


def test_a_javascript_number_holds_every_handle_exactly():
    factory = HandleFactory()
    for kind in HandleKind:
        handles = [factory.issue(kind) for _ in range(500)]
        assert [int(float(handle)) for handle in handles] == handles


def test_handles_of_one_session_are_not_found_in_another():
    tables = [_table(1000), _table(1000)]
    handles = [tables[0].add("value") for _ in range(1000)]
    for _ in range(1000):
        tables[1].add("other")
    for handle in handles:
        with pytest.raises(NotFoundError, match="never given"):
            tables[1].get(handle)


def test_a_freed_handle_is_invalid_and_never_comes_back():
    table = _table()
    freed = table.add("value")
    assert table.get(freed) == "value"
    assert table.remove(freed) == "value"
    for call in (table.get, table.remove):
        with pytest.raises(InvalidArgumentError, match="unregistered"):
            call(freed)
    assert freed not in {table.add("other") for _ in range(10)}


def test_a_group_is_kept_whole_or_not_at_all():
    table = _table(limit=3)
    table.add("value")
    with pytest.raises(ResourceExhaustedError, match="may have 3 data handles, got 3 more with 1"):
        table.add_all(["a", "b", "c"])
    assert len(table) == 1
    assert len(table.add_all(["a", "b"])) == 2


def test_handles_are_listed_in_the_order_they_were_given():
    factory = HandleFactory()
    table = HandleTable(factory, HandleKind.DATA, 10)
    handles = []
    for number in range(6):
        factory.issue(HandleKind.EXECUTABLE)
        handles.append(table.add(str(number)))
    assert table.handles_after(0) == handles
    assert [factory.number(handle) for handle in handles] == [1, 2, 3, 4, 5, 6]
    table.replace(handles[3], "another")
    table.remove(handles[2])
    assert table.handles_after(handles[1]) == table.handles_after(handles[2]) == handles[3:]
    assert table.handles_after(handles[5]) == []
