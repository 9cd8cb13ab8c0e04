"""Entries sorted by the bytes of their keys, as LLVM's text.

In one pass entries go to 256 regions of the buffer beside them, in their order; the next pass
brings them back. Few are inserted one by one.
"""

from collections.abc import Callable, Sequence

from xla_server.codegen.compiler.llvm_text import Declaration, FunctionText, TextLoop
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


class RadixText(FunctionText):
    """The function of a sorter: `first` and `last` bound the bytes of an entry's key."""

    def __init__(self, declared: Declaration, words: int, first: int, last: int) -> None:
        super().__init__(declared)
        self._words, self._first, self._last = words, first, last
        self._bytes = 8 * words
        self._end = self.label()
        self._returned: list[tuple[str, str]] = []

    def sort(self) -> str:
        """Write all of it; return the address of the sorted entries."""
        few, many = self.label(), self.label()
        self.do(f"br i1 {self.let(f'icmp sle i64 %length, {_FEW}')}, label %{few}, label %{many}")
        self.start(few)
        self._insert()
        self.start(many)
        self._count_digits()
        self._leave(self._passes())
        self.start(self._end)
        found = ", ".join(f"[{value}, %{block}]" for value, block in self._returned)
        return self.let(f"phi i64 {found}")

    def _leave(self, entries: str) -> None:
        self._returned.append((entries, self.block))
        self.do(f"br label %{self._end}")

    def _insert(self) -> None:
        """Sort few entries: each goes below those that are larger."""
        some, none = self.label(), self.label()
        self.do(f"br i1 {self.let('icmp sgt i64 %length, 1')}, label %{some}, label %{none}")
        self.start(none)
        self._leave("%entries")
        self.start(some)
        begin = self.pointer("%entries")
        new = TextLoop(self, "1", "%length", 1, [("ptr", self.behind(begin, self._bytes))])
        entry = self._loaded(new.values[0])
        before, sift, look, move, put = self.block, *(self.label() for _ in range(4))
        self.do(f"br label %{sift}")
        self.start(sift)
        at, line = self.later()
        self.do(f"br i1 {self.let(f'icmp eq ptr {at}, {begin}')}, label %{put}, label %{look}")
        self.start(look)
        below = self.behind(at, -self._bytes)
        other = self._loaded(below)
        larger = self.let(f"icmp sgt i64 {other[0]}, {entry[0]}")
        self.do(f"br i1 {larger}, label %{move}, label %{put}")
        self.start(move)
        self._store(other, at)
        self.do(f"br label %{sift}")
        self.fill(line, f"{at} = phi ptr [{new.values[0]}, %{before}], [{below}, %{move}]")
        self.start(put)
        self._store(entry, at)
        new.end([self.behind(new.values[0], self._bytes)])
        self._leave("%entries")

    def _count_digits(self) -> None:
        """Count the values of each byte of the keys."""
        counts = self.pointer("%counts")
        digits = self._last - self._first
        self.clear(counts, digits * _COLUMN)

        def count(pointer: str) -> None:
            key = self.let(f"load i64, ptr {pointer}")
            for digit in range(digits):
                column = self.behind(counts, digit * _COLUMN)
                cell = self._cell(column, self._byte(key, str(8 * (self._first + digit))))
                self.do(
                    f"store i64 {self.plus(self.let(f'load i64, ptr {cell}'), '1')}, ptr {cell}"
                )

        self._each("%entries", count)

    def _passes(self) -> str:
        """A pass for each byte that is not the same in all keys; the address of the sorted ones."""
        first, last = 8 * self._first, 8 * self._last
        carried = [("i64", "%entries"), ("i64", "%room"), ("i64", "%counts")]
        turn = TextLoop(self, str(first), str(last), 8, carried)
        shift, (entries, room, counts) = turn.number, turn.values
        column = self.pointer(counts)
        lead = self._byte(self.let(f"load i64, ptr {self.pointer(entries)}"), shift)
        count = self.let(f"load i64, ptr {self._cell(column, lead)}")
        before, go, after = self.block, self.label(), self.label()
        self.do(f"br i1 {self.let(f'icmp eq i64 {count}, %length')}, label %{after}, label %{go}")
        self.start(go)
        # The highest byte has the sign, and what is negative comes first.
        is_highest = self.let(f"icmp eq i64 {shift}, {last - 8}")
        flip = self.let(f"select i1 {is_highest}, i64 128, i64 0")
        value = TextLoop(self, "0", str(_VALUES), 1, [("i64", room)])
        cell = self._cell(column, self.let(f"xor i64 {value.number}, {flip}"))
        size = self.let(f"mul i64 {self.let(f'load i64, ptr {cell}')}, {self._bytes}")
        self.do(f"store i64 {value.values[0]}, ptr {cell}")
        value.end([self.plus(value.values[0], size)])

        def move(pointer: str) -> None:
            entry = self._loaded(pointer)
            cell = self._cell(column, self._byte(entry[0], shift))
            target = self.let(f"load i64, ptr {cell}")
            self.do(f"store i64 {self.plus(target, str(self._bytes))}, ptr {cell}")
            self._store(entry, self.pointer(target))

        self._each(entries, move)
        done = self.block
        self.do(f"br label %{after}")
        self.start(after)
        now, other = (
            self.let(f"phi i64 [{same}, %{before}], [{swapped}, %{done}]")
            for same, swapped in ((entries, room), (room, entries))
        )
        turn.end([now, other, self.plus(counts, str(_COLUMN))])
        return now

    def _each(self, entries: str, do: Callable[[str], None]) -> None:
        """Do something at each entry's address; look before each span of them."""
        spans = TextLoop(self, "0", "%length", LOOK, [("i64", entries)])
        begin = spans.values[0]
        is_cancelled, stop, go = self.is_cancelled(), self.label(), self.label()
        self.do(f"br i1 {is_cancelled}, label %{stop}, label %{go}")
        self.start(stop)
        self._leave(entries)
        self.start(go)
        count = self.smaller(self.minus("%length", spans.number), str(LOOK))
        size = self.let(f"mul i64 {count}, {self._bytes}")
        end = self.plus(begin, size)
        each = TextLoop(self, begin, end, self._bytes, [])
        do(self.pointer(each.number))
        each.end()
        spans.end([end])

    def _byte(self, key: str, shift: str) -> str:
        return self.let(f"and i64 {self.let(f'lshr i64 {key}, {shift}')}, 255")

    def _cell(self, column: str, value: str) -> str:
        return self.let(f"getelementptr i64, ptr {column}, i64 {value}")

    def _loaded(self, pointer: str) -> list[str]:
        pointers = (self.behind(pointer, 8 * n) for n in range(self._words))
        return [self.let(f"load i64, ptr {pointer}") for pointer in pointers]

    def _store(self, entry: Sequence[str], pointer: str) -> None:
        for n, word in enumerate(entry):
            self.do(f"store i64 {word}, ptr {self.behind(pointer, 8 * n)}")
