import numpy as np

from xla_contract.types.shape import Shape
from xla_server.sessions.feeds.queue_contents import QueueContents
from xla_server.sessions.feeds.queue_entries import Item

SCALAR = Shape.parse("s32[]")


def _item(value: int, *, is_last: bool = True, sequence: int = 0) -> Item:
    return Item(SCALAR, np.array(value, np.int32), is_last=is_last, sequence=sequence)


def test_held_items_use_capacity_until_they_are_released():
    stock = QueueContents()
    items = [_item(1), _item(2), _item(3)]
    stock.append(items)
    held = stock.pop(2, holds=True)
    assert (stock.used, stock.byte_size, len(stock)) == ((3, 12), 4, 1)
    stock.release(1, 4)
    assert stock.used == (2, 8)
    stock.put_back(held[1:])
    assert stock.used == (2, 8)
    assert (stock.held_items, stock.held_bytes) == (0, 0)
    assert list(stock.items) == items[1:]
    assert stock.first(5) == tuple(items[1:])


def test_the_first_value_ends_with_its_last_item():
    stock = QueueContents()
    assert stock.value_count() is None
    stock.append([_item(1, is_last=False)])
    assert stock.value_count() is None
    stock.append([_item(2), _item(3)])
    assert stock.value_count() == 2


def test_numbers_are_consumed_by_taking_and_by_dropping():
    stock = QueueContents()
    stock.append([_item(1, sequence=7), _item(2), _item(3, sequence=8), _item(4, sequence=9)])
    stock.pop(2)
    assert (stock.consumed, stock.epoch) == (7, 0)
    stock.pop(1, holds=True)
    assert stock.drop() == 1
    assert (stock.consumed, stock.epoch) == (9, 1)
    assert stock.used == (1, 4)
