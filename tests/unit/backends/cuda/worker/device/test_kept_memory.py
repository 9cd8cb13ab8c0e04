"""Memory that is kept: by sizes, the last first, and bounded."""

from xla_server.backends.cuda.worker.device.kept_memory import MAX_BYTES, MIN_BYTES, KeptMemory


def test_a_piece_of_its_size_is_taken_once_and_the_last_first() -> None:
    kept = KeptMemory()
    assert not any([kept.keep(1, 8), kept.keep(2, 8), kept.keep(3, 9)])
    assert kept.byte_size == 8 + 8 + 9
    assert [kept.pop(8), kept.pop(8), kept.pop(8), kept.pop(9)] == [2, 1, None, 3]
    assert kept.byte_size == 0


def test_the_size_that_was_used_longest_ago_is_given_up_first() -> None:
    kept, third = KeptMemory(), MAX_BYTES // 3
    assert not any([kept.keep(1, third), kept.keep(2, third - 1), kept.keep(3, third)])
    assert kept.keep(4, third) == [2]
    assert kept.pop(third - 1) is None
    assert kept.keep(5, MAX_BYTES + 1) == [5]
    assert kept.keep(6, MAX_BYTES) == [1, 3, 4]


def test_small_pieces_are_bounded_in_number() -> None:
    kept, most = KeptMemory(), MAX_BYTES // MIN_BYTES
    assert not any(kept.keep(number, 1) for number in range(most))
    assert kept.keep(most, 1) == [0]
    assert sorted(kept.clear()) == list(range(1, most + 1))
    assert kept.pop(1) is None
    assert not kept.keep(0, MAX_BYTES)
