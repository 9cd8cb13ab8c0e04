"""The smallest entries of many, kept in a heap with the largest first, as LLVM's text.

An entry is two words: a signed key, and the number of its element, by which equal ones are
ordered.
"""

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters

KEEP = Routine(
    "keep_entry",
    (
        *parameters(Unit.UPDATE, "heap"),
        *parameters(Unit.COUNT, "count", "seen"),
        *parameters(Unit.NUMBER, "key"),
    ),
    cost=lambda n: 8 * n["count"].bit_length(),
)
"""Puts an entry into a heap of the `count` smallest."""

SORT = Routine(
    "sort_heap",
    (
        *parameters(Unit.UPDATE, "heap"),
        *parameters(Unit.COUNT, "count"),
        *parameters(Unit.CANCELLED, "cancelled"),
    ),
    cost=lambda n: 8 * n["count"] * n["count"].bit_length(),
)
"""Puts the entries of a heap in order, smallest first."""

_BYTES = 16
_LOOK = 1 << 10
"""Entries that leave a heap between two polls of the cancellation flag."""


def keep(f: FunctionText) -> None:
    """Put entry number `seen` into a heap of the `count` smallest.

    Numbers count up from 0. The entry is one of the first `count`, or its key is less than the
    largest that is there.
    """
    heap = f.pointer("%heap")
    full, free, end = f.label(), f.label(), f.label()
    f.do(f"br i1 {f.let('icmp sge i64 %seen, %count')}, label %{full}, label %{free}")
    f.start(free)
    before, rise, look, move, put = f.block, *(f.label() for _ in range(4))
    f.do(f"br label %{rise}")
    f.start(rise)
    at, line = f.later()
    f.do(f"br i1 {f.let(f'icmp sgt i64 {at}, 0')}, label %{look}, label %{put}")
    f.start(look)
    parent = f.let(f"lshr i64 {f.minus(at, '1')}, 1")
    other = _loaded(f, _pointer(f, heap, parent))
    # This is the last of equal entries.
    f.do(f"br i1 {f.let(f'icmp sle i64 {other[0]}, %key')}, label %{move}, label %{put}")
    f.start(move)
    _store(f, other, _pointer(f, heap, at))
    f.do(f"br label %{rise}")
    f.fill(line, f"{at} = phi i64 [%seen, %{before}], [{parent}, %{move}]")
    f.start(put)
    _store(f, ("%key", "%seen"), _pointer(f, heap, at))
    f.do(f"br label %{end}")
    f.start(full)
    _sink(f, heap, "%count", ("%key", "%seen"))
    f.do(f"br label %{end}")
    f.start(end)


def sort(f: FunctionText) -> None:
    """Put the entries of a heap in order, smallest first.

    Once the flag at `cancelled` is set their order is undefined.
    """
    heap = f.pointer("%heap")
    some, end, look, go = (f.label() for _ in range(4))
    f.do(f"br i1 {f.let('icmp sgt i64 %count, 1')}, label %{some}, label %{end}")
    f.start(some)
    done = TextLoop(f, "1", "%count", 1, [])
    at = f.minus("%count", done.number)
    often = f.let(f"and i64 {at}, {_LOOK - 1}")
    f.do(f"br i1 {f.let(f'icmp eq i64 {often}, 0')}, label %{look}, label %{go}")
    f.start(look)
    f.do(f"br i1 {f.is_cancelled()}, label %{end}, label %{go}")
    f.start(go)
    last = _pointer(f, heap, at)
    entry = _loaded(f, last)
    _store(f, _loaded(f, heap), last)
    _sink(f, heap, at, entry)
    done.end()
    f.do(f"br label %{end}")
    f.start(end)


def _sink(f: FunctionText, heap: str, length: str, entry: tuple[str, str]) -> None:
    """Put an entry at the head of a heap, or below where it belongs."""
    key, number = entry
    before, fall, below, both, chosen, move, put = f.block, *(f.label() for _ in range(6))
    f.do(f"br label %{fall}")
    f.start(fall)
    at, line = f.later()
    left = f.let(f"add i64 {f.let(f'shl i64 {at}, 1')}, 1")
    right = f.plus(left, "1")
    f.do(f"br i1 {f.let(f'icmp slt i64 {left}, {length}')}, label %{below}, label %{put}")
    f.start(below)
    one = _loaded(f, _pointer(f, heap, left))
    f.do(f"br i1 {f.let(f'icmp slt i64 {right}, {length}')}, label %{both}, label %{chosen}")
    f.start(both)
    other = _loaded(f, _pointer(f, heap, right))
    is_other = _is_before(f, one, other)
    larger = [
        f.let(f"select i1 {is_other}, i64 {second}, i64 {first}")
        for first, second in ((left, right), *zip(one, other, strict=True))
    ]
    f.do(f"br label %{chosen}")
    f.start(chosen)
    child, *found = (
        f.let(f"phi i64 [{first}, %{below}], [{second}, %{both}]")
        for first, second in zip((left, *one), larger, strict=True)
    )
    goes_on = _is_before(f, (key, number), (found[0], found[1]))
    f.do(f"br i1 {goes_on}, label %{move}, label %{put}")
    f.start(move)
    _store(f, (found[0], found[1]), _pointer(f, heap, at))
    f.do(f"br label %{fall}")
    f.fill(line, f"{at} = phi i64 [0, %{before}], [{child}, %{move}]")
    f.start(put)
    _store(f, (key, number), _pointer(f, heap, at))


def _is_before(f: FunctionText, one: tuple[str, str], other: tuple[str, str]) -> str:
    less = f.let(f"icmp slt i64 {one[0]}, {other[0]}")
    same = f.let(f"icmp eq i64 {one[0]}, {other[0]}")
    first = f.let(f"icmp slt i64 {one[1]}, {other[1]}")
    return f.let(f"or i1 {less}, {f.let(f'and i1 {same}, {first}')}")


def _pointer(f: FunctionText, heap: str, number: str) -> str:
    return f.behind(heap, f.let(f"mul i64 {number}, {_BYTES}"))


def _loaded(f: FunctionText, pointer: str) -> tuple[str, str]:
    key = f.let(f"load i64, ptr {pointer}")
    return key, f.let(f"load i64, ptr {f.behind(pointer, 8)}")


def _store(f: FunctionText, entry: tuple[str, str], pointer: str) -> None:
    f.do(f"store i64 {entry[0]}, ptr {pointer}")
    f.do(f"store i64 {entry[1]}, ptr {f.behind(pointer, 8)}")
