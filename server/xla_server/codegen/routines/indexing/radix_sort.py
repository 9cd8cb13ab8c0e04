"""Entries sorted by the bytes of their keys, as LLVM's text.

In one pass entries go to 256 regions of the buffer beside them, in their order; the next pass
brings them back. Few are inserted one by one.
"""

from collections.abc import Callable, Sequence

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.kernel_ir.types import Type

COUNT_WORDS = 8 * 256
"""Words of scratch memory for the counts of a sort."""

LOOK = 1 << 16
"""Entries that are moved between two polls of the cancellation flag."""

_FEW = 32
"""Entries that are inserted one by one: counting a byte's 256 values takes longer."""

_VALUES = 256
"""Values of a byte."""

_COLUMN = 8 * _VALUES
"""Bytes of the counts for one byte of the keys."""


def sorter(words: int, size: int) -> Routine:
    """Return the routine that sorts entries of so many words, by so many bytes of their keys.

    It returns where the sorted ones are: in `entries`, or in `room`, which is as large. Once the
    flag at `cancelled` is set their order is undefined, and none of them may be used.
    """
    return Routine(
        f"sort_entries_{words}_{size}",
        (
            *parameters(Unit.UPDATE, "entries"),
            *parameters(Unit.WRITE, "room", "counts"),
            *parameters(Unit.COUNT, "length"),
            *parameters(Unit.CANCELLED, "cancelled"),
        ),
        (Type.I64,),
        # A pass for each byte, and one that counts.
        cost=lambda n: 12 * (size + 1) * n["length"],
    )


class RadixText:
    """The function of a sorter: `first` and `last` bound the bytes of an entry's key."""

    def __init__(self, symbol: str, words: int, first: int, last: int) -> None:
        self._f = FunctionText(symbol, sorter(words, last - first).names)
        self._words, self._first, self._last = words, first, last
        self._bytes = 8 * words
        self._end = self._f.label()
        self._returned: list[tuple[str, str]] = []

    def text(self) -> str:
        """All of it."""
        f = self._f
        few, many = f.label(), f.label()
        f.do(f"br i1 {f.let(f'icmp sle i64 %length, {_FEW}')}, label %{few}, label %{many}")
        f.start(few)
        self._insert()
        f.start(many)
        self._count()
        self._leave(self._passes())
        f.start(self._end)
        found = ", ".join(f"[{value}, %{block}]" for value, block in self._returned)
        return f.text(f.let(f"phi i64 {found}"))

    def _leave(self, entries: str) -> None:
        self._returned.append((entries, self._f.block))
        self._f.do(f"br label %{self._end}")

    def _insert(self) -> None:
        """Sort few entries: each goes below those that are larger."""
        f = self._f
        some, none = f.label(), f.label()
        f.do(f"br i1 {f.let('icmp sgt i64 %length, 1')}, label %{some}, label %{none}")
        f.start(none)
        self._leave("%entries")
        f.start(some)
        begin = f.pointer("%entries")
        new = TextLoop(f, "1", "%length", 1, [("ptr", f.behind(begin, self._bytes))])
        entry = self._loaded(new.values[0])
        before, sift, look, move, put = f.block, *(f.label() for _ in range(4))
        f.do(f"br label %{sift}")
        f.start(sift)
        at, line = f.later()
        f.do(f"br i1 {f.let(f'icmp eq ptr {at}, {begin}')}, label %{put}, label %{look}")
        f.start(look)
        below = f.behind(at, -self._bytes)
        other = self._loaded(below)
        larger = f.let(f"icmp sgt i64 {other[0]}, {entry[0]}")
        f.do(f"br i1 {larger}, label %{move}, label %{put}")
        f.start(move)
        self._store(other, at)
        f.do(f"br label %{sift}")
        f.fill(line, f"{at} = phi ptr [{new.values[0]}, %{before}], [{below}, %{move}]")
        f.start(put)
        self._store(entry, at)
        new.end([f.behind(new.values[0], self._bytes)])
        self._leave("%entries")

    def _count(self) -> None:
        """Count the values of each byte of the keys."""
        f = self._f
        counts = f.pointer("%counts")
        digits = self._last - self._first
        empty = [f"ptr {counts}", "i8 0", f"i64 {digits * _COLUMN}", "i1 false"]
        f.call("void", "llvm.memset.p0.i64", empty)

        def count(pointer: str) -> None:
            key = f.let(f"load i64, ptr {pointer}")
            for digit in range(digits):
                column = f.behind(counts, digit * _COLUMN)
                cell = self._cell(column, self._byte(key, str(8 * (self._first + digit))))
                f.do(f"store i64 {f.plus(f.let(f'load i64, ptr {cell}'), '1')}, ptr {cell}")

        self._each("%entries", count)

    def _passes(self) -> str:
        """A pass for each byte that is not the same in all keys; the address of the sorted ones."""
        f = self._f
        first, last = 8 * self._first, 8 * self._last
        carried = [("i64", "%entries"), ("i64", "%room"), ("i64", "%counts")]
        turn = TextLoop(f, str(first), str(last), 8, carried)
        shift, (entries, room, counts) = turn.number, turn.values
        column = f.pointer(counts)
        lead = self._byte(f.let(f"load i64, ptr {f.pointer(entries)}"), shift)
        count = f.let(f"load i64, ptr {self._cell(column, lead)}")
        before, go, after = f.block, f.label(), f.label()
        f.do(f"br i1 {f.let(f'icmp eq i64 {count}, %length')}, label %{after}, label %{go}")
        f.start(go)
        # The highest byte has the sign, and what is negative comes first.
        is_highest = f.let(f"icmp eq i64 {shift}, {last - 8}")
        flip = f.let(f"select i1 {is_highest}, i64 128, i64 0")
        value = TextLoop(f, "0", str(_VALUES), 1, [("i64", room)])
        cell = self._cell(column, f.let(f"xor i64 {value.number}, {flip}"))
        size = f.let(f"mul i64 {f.let(f'load i64, ptr {cell}')}, {self._bytes}")
        f.do(f"store i64 {value.values[0]}, ptr {cell}")
        value.end([f.plus(value.values[0], size)])

        def move(pointer: str) -> None:
            entry = self._loaded(pointer)
            cell = self._cell(column, self._byte(entry[0], shift))
            target = f.let(f"load i64, ptr {cell}")
            f.do(f"store i64 {f.plus(target, str(self._bytes))}, ptr {cell}")
            self._store(entry, f.pointer(target))

        self._each(entries, move)
        done = f.block
        f.do(f"br label %{after}")
        f.start(after)
        now, other = (
            f.let(f"phi i64 [{same}, %{before}], [{swapped}, %{done}]")
            for same, swapped in ((entries, room), (room, entries))
        )
        turn.end([now, other, f.plus(counts, str(_COLUMN))])
        return now

    def _each(self, entries: str, do: Callable[[str], None]) -> None:
        """Do something at each entry's address; look before each span of them."""
        f = self._f
        spans = TextLoop(f, "0", "%length", LOOK, [("i64", entries)])
        begin = spans.values[0]
        is_cancelled, stop, go = f.is_cancelled(), f.label(), f.label()
        f.do(f"br i1 {is_cancelled}, label %{stop}, label %{go}")
        f.start(stop)
        self._leave(entries)
        f.start(go)
        count = f.smaller(f.minus("%length", spans.number), str(LOOK))
        size = f.let(f"mul i64 {count}, {self._bytes}")
        end = f.plus(begin, size)
        each = TextLoop(f, begin, end, self._bytes, [])
        do(f.pointer(each.number))
        each.end()
        spans.end([end])

    def _byte(self, key: str, shift: str) -> str:
        return self._f.let(f"and i64 {self._f.let(f'lshr i64 {key}, {shift}')}, 255")

    def _cell(self, column: str, value: str) -> str:
        return self._f.let(f"getelementptr i64, ptr {column}, i64 {value}")

    def _loaded(self, pointer: str) -> list[str]:
        f = self._f
        pointers = (f.behind(pointer, 8 * n) for n in range(self._words))
        return [f.let(f"load i64, ptr {pointer}") for pointer in pointers]

    def _store(self, entry: Sequence[str], pointer: str) -> None:
        f = self._f
        for n, word in enumerate(entry):
            f.do(f"store i64 {word}, ptr {f.behind(pointer, 8 * n)}")
