from hypothesis import given
from hypothesis import strategies as st

from tests.unit.backends.compiled.test_compile_time import calls_of
from xla_server.buffers.arena import ArenaAllocator

LAST = 20
LIFETIMES = st.lists(
    st.tuples(st.integers(-1, LAST - 1), st.integers(1, 6)).map(
        lambda at: (at[0], min(sum(at), LAST))
    ),
    min_size=1,
    max_size=3,
)
Spans = list[tuple[int, int]]


def overlap(these: Spans, others: Spans) -> bool:
    return any(a < d and c < b for a, b in these for c, d in others)


@given(st.lists(st.tuples(st.integers(0, 4), LIFETIMES, st.booleans())))
def test_a_value_has_the_lowest_memory_that_is_free_while_it_lives(
    values: list[tuple[int, Spans, bool]],
) -> None:
    arena, placed = ArenaAllocator(LAST), list[tuple[tuple[int, int], Spans]]()
    for size, lifetime, is_apart in values:
        apart = [placed[0][0]] if is_apart and placed else []
        used = apart + [span for span, others in placed if overlap(lifetime, others)]
        begin = next(n for n in range(999) if not size or not overlap([(n, n + size)], used))
        span = arena.allocate(size, lifetime, apart)
        assert span == (begin, begin + size)
        placed.append((span, lifetime))


def test_an_allocation_does_not_look_at_each_value_that_lives_at_the_same_time() -> None:
    arena = ArenaAllocator(1000)
    calls = [calls_of(lambda n=n: arena.allocate(64, [(n, 1000)], ())) for n in range(1000)]  # type: ignore[misc]
    assert max(calls[500:]) < 2 * max(calls[:20])
