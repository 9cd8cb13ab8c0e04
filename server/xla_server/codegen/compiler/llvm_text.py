"""LLVM functions written as text, in a tenth of the time of building them.

Operands and results of instructions are names or constants without their types.
"""

import contextlib
import dataclasses
import functools
import struct
from collections.abc import Iterator, Sequence

from xla_server.target.machine import Machine


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """The symbol and the parameters of a function, and the machine that it is written for."""

    symbol: str
    parameters: Sequence[str]
    machine: Machine


class FunctionText:
    """Writer of a function over int64.

    If it `is_plain`, it is compiled in less time, as no optimisation passes run on it.
    """

    def __init__(self, declared: Declaration, *, is_plain: bool = False) -> None:
        self._attributes = "noinline optnone " if is_plain else ""
        self._declaration = declared
        self._lines: list[str] = ["entry:"]
        self._count = 0
        self._declared: dict[str, str] = {}
        self.block = "entry"

    def let(self, text: str) -> str:
        """A new name for the result of an instruction."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append(f"  {text}")

    def later(self) -> tuple[str, int]:
        """A new name, and the number of the line that `fill` will write to define it."""
        self._count += 1
        self._lines.append("")
        return f"%v{self._count}", len(self._lines) - 1

    def fill(self, line: int, text: str) -> None:
        """Write a line that was left empty."""
        self._lines[line] = f"  {text}"

    def label(self) -> str:
        """The label of a block that is written later."""
        self._count += 1
        return f"b{self._count}"

    def start(self, label: str) -> None:
        """Begin a block; the text before it has ended with a jump to it."""
        self._lines.append(f"{label}:")
        self.block = label

    def call(self, result: str, function: str, operands: Sequence[str]) -> str:
        """An LLVM intrinsic's result. Operands have their types with them."""
        kinds = ", ".join(operand[: operand.rindex(" ")] for operand in operands)
        self._declared[function] = f"declare {result} @{function}({kinds})"
        text = f"call {result} @{function}({', '.join(operands)})"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text)

    def pointer(self, address: str) -> str:
        """The pointer of an address."""
        return self.let(f"inttoptr i64 {address} to ptr")

    def behind(self, pointer: str, count: int | str) -> str:
        """The pointer `count` bytes after another."""
        return pointer if count == 0 else self.let(f"getelementptr i8, ptr {pointer}, i64 {count}")

    def splat(self, kind: str, lanes: int, value: str) -> str:
        """A vector of one value."""
        single = self.let(f"insertelement <{lanes} x {kind}> poison, {kind} {value}, i32 0")
        return self.let(
            f"shufflevector <{lanes} x {kind}> {single}, <{lanes} x {kind}> poison, "
            f"<{lanes} x i32> zeroinitializer"
        )

    def fma(self, vector: str, one: str, other: str, total: str) -> str:
        """one * other + total, rounded once."""
        function = f"llvm.fma.{suffix_of(vector)}"
        self._declared[function] = f"declare {vector} @{function}({vector}, {vector}, {vector})"
        operands = f"{vector} {one}, {vector} {other}, {vector} {total}"
        return self.let(f"call {vector} @{function}({operands})")

    def mask(self, lanes: int, first: int, count: str) -> str:
        """Return a mask of the lanes, numbered from `first` on, that are below a count."""
        numbers = ", ".join(f"i32 {first + lane}" for lane in range(lanes))
        below = self.splat("i32", lanes, self.let(f"trunc i64 {count} to i32"))
        return self.let(f"icmp slt <{lanes} x i32> <{numbers}>, {below}")

    def plus(self, one: str, other: str) -> str:
        """The sum of two numbers."""
        return self.let(f"add i64 {one}, {other}")

    def minus(self, one: str, other: str) -> str:
        """The difference of two numbers."""
        return self.let(f"sub i64 {one}, {other}")

    def address(self, start: str, *terms: tuple[str, str | int]) -> str:
        """start + the sum of the products."""
        for one, other in terms:
            start = self.plus(start, self.let(f"mul i64 {one}, {other}"))
        return start

    def smaller(self, one: str, other: str) -> str:
        """The smaller of two numbers."""
        less = self.let(f"icmp slt i64 {one}, {other}")
        return self.let(f"select i1 {less}, i64 {one}, i64 {other}")

    def shuffle(self, vector: str, one: str, other: str, numbers: Sequence[int]) -> str:
        """The vector of these lanes of two vectors."""
        chosen = ", ".join(f"i32 {number}" for number in numbers)
        return self.let(
            f"shufflevector {vector} {one}, {vector} {other}, <{len(numbers)} x i32> <{chosen}>"
        )

    def exchanged(self, vector: str, rows: Sequence[str], half: int) -> list[str]:
        """Return rows of a square with blocks of `half` rows and columns exchanged.

        The blocks are those beside the diagonal of each square of twice the size.
        """
        side, result = len(rows), list(rows)
        upper = [lane if not lane & half else side + lane - half for lane in range(side)]
        lower = [lane + half if not lane & half else side + lane for lane in range(side)]
        for row in range(side):
            if not row & half:
                both = rows[row], rows[row + half]
                result[row] = self.shuffle(vector, *both, upper)
                result[row + half] = self.shuffle(vector, *both, lower)
        return result

    def merged(self, vector: str, rows: Sequence[str], few: int) -> list[str]:
        """Return each row of the upper half interleaved with its row of the lower half.

        Elements stay within their run of `few` neighbours, of which a row has one or more.
        """
        lanes, half = lanes_of(vector), len(rows) // 2
        starts = range(0, lanes, few)
        return [
            self.shuffle(
                vector,
                *both,
                [run + first + n // 2 + n % 2 * lanes for run in starts for n in range(few)],
            )
            for both in zip(rows[:half], rows[half:], strict=True)
            for first in (0, few // 2)
        ]

    def read(self, kind: str, pointer: str, align: int, mask: str = "") -> str:
        """A number or vector from memory; lanes that a mask disables are zero."""
        if not mask:
            return self.let(f"load {kind}, ptr {pointer}, align {align}")
        where = f"<{lanes_of(kind)} x i1> {mask}"
        arguments = [f"ptr {pointer}", f"i32 {align}", where, f"{kind} zeroinitializer"]
        return self.call(kind, f"llvm.masked.load.{suffix_of(kind)}.p0", arguments)

    def write(self, kind: str, value: str, pointer: str, align: int, mask: str = "") -> None:
        """Store a number or vector, except lanes that a mask disables."""
        if not mask:
            self.do(f"store {kind} {value}, ptr {pointer}, align {align}")
            return
        where = f"<{lanes_of(kind)} x i1> {mask}"
        arguments = [f"{kind} {value}", f"ptr {pointer}", f"i32 {align}", where]
        self.call("void", f"llvm.masked.store.{suffix_of(kind)}.p0", arguments)

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """A block that is executed only if a condition holds."""
        inside, after = self.label(), self.label()
        self.do(f"br i1 {condition}, label %{inside}, label %{after}")
        self.start(inside)
        yield
        self.do(f"br label %{after}")
        self.start(after)

    def clear(self, pointer: str, count: int | str) -> None:
        """Set `count` bytes to zero."""
        arguments = [f"ptr {pointer}", "i8 0", f"i64 {count}", "i1 false"]
        self.call("void", "llvm.memset.p0.i64", arguments)

    def opaque(self, number: str) -> str:
        """The same number, opaque to LLVM."""
        return self.let(f'call i64 asm "", "=r,0"(i64 {number})')

    def text(self, result: str = "") -> str:
        """The function's text with its declarations; it returns an int64, or nothing."""
        kind, returned = ("i64", f"i64 {result}") if result else ("void", "void")
        parameters = ", ".join(f"i64 %{name}" for name in self._declaration.parameters)
        return "\n".join(
            [
                *self._declared.values(),
                f"define {kind} @{self._declaration.symbol}({parameters}) {self._attributes}{{",
                *self._lines,
                f"  ret {returned}",
                "}\n",
            ]
        )


ELEMENT_BYTES = {"float": 4, "double": 8, "i32": 4, "i64": 8}
"""Bytes of the elements that functions have vectors of, by LLVM's names."""


class VectorText(FunctionText):
    """Writer of a function on vectors of `lanes` elements of one type, `form`.

    Vectors fill a register of the machine; they are loaded and stored at any alignment.
    """

    def __init__(self, declared: Declaration, form: str, *, is_plain: bool = False) -> None:
        super().__init__(declared, is_plain=is_plain)
        self.form, self.width = form, ELEMENT_BYTES[form]
        self.lanes = declared.machine.lanes(self.width)
        self.vector = f"<{self.lanes} x {form}>"
        self.bytes = self.lanes * self.width

    def load(self, pointer: str, mask: str = "") -> str:
        """Return the vector at a pointer."""
        return self.read(self.vector, pointer, self.width, mask)

    def store(self, value: str, pointer: str, mask: str = "") -> None:
        """Store a vector at a pointer."""
        self.write(self.vector, value, pointer, self.width, mask)

    def broadcast(self, pointer: str) -> str:
        """Return the splat of the element at a pointer."""
        return self.splat(self.form, self.lanes, self.read(self.form, pointer, self.width))

    def offset(self, number: str) -> str:
        """Return the size of `number` elements, in bytes."""
        return self.let(f"mul i64 {number}, {self.width}")

    def whole_and_rest(self, count: str) -> tuple[str, str]:
        """Return the number of elements before the last vector, and the mask of that one.

        `count` is at least 1, and so is the number of elements of the last vector.
        """
        whole = self.let(f"and i64 {self.minus(count, '1')}, {-self.lanes}")
        return whole, self.mask(self.lanes, 0, self.minus(count, whole))

    @property
    def is_float(self) -> bool:
        """Return whether the elements are floats."""
        return self.form in _SUFFIX

    def _binary(self, operation: str, one: str, other: str) -> str:
        """Return the result of an operation on two vectors."""
        return self.let(f"{'f' * self.is_float}{operation} {self.vector} {one}, {other}")

    add = functools.partialmethod(_binary, "add")
    sub = functools.partialmethod(_binary, "sub")
    mul = functools.partialmethod(_binary, "mul")

    def multiply_add(self, one: str, other: str, total: str) -> str:
        """Return one * other + total, rounded once."""
        return self.fma(self.vector, one, other, total)

    def shuffled(self, one: str, other: str, numbers: Sequence[int]) -> str:
        """Return the vector of these lanes of two vectors."""
        return self.shuffle(self.vector, one, other, numbers)

    def number(self, value: float) -> str:
        """Return the splat constant of a number rounded to the type."""
        if self.form == "float":
            (value,) = struct.unpack("<f", struct.pack("<f", value))
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        return f"splat ({self.form} {bits:#018x})"


_SUFFIX = {"float": "f32", "double": "f64"}
FORM = {name: form for form, name in _SUFFIX.items()}
"""LLVM's names of float types, by theirs in kernels."""


def lanes_of(vector: str) -> int:
    """The lanes of a vector type."""
    return int(vector[1 : vector.index(" ")])


def suffix_of(vector: str) -> str:
    """Return the ending of intrinsics' names for a vector type."""
    form = vector[vector.rindex(" ") + 1 : -1]
    return f"v{lanes_of(vector)}{_SUFFIX.get(form, form)}"


class ModuleText:
    """A module's text without a target, which its compiler adds."""

    def __init__(self, functions: str) -> None:
        self._functions = functions
        self.triple = ""
        self.data_layout = ""

    def __str__(self) -> str:
        target = f'target triple = "{self.triple}"\ntarget datalayout = "{self.data_layout}"\n'
        return target + self._functions


class TextLoop:
    """A loop that is run at least once: counts from `first` up to below `stop`.

    `values` are the values of `carried`, (type, first value), in an iteration; `number` is the
    iteration's.
    """

    def __init__(
        self,
        f: FunctionText,
        first: str,
        stop: str,
        by: int | str,
        carried: Sequence[tuple[str, str]],
    ) -> None:
        self._f, self._stop, self._by = f, stop, by
        self._before, self._body = f.block, f.label()
        self._carried = [("i64", first), *carried]
        f.do(f"br label %{self._body}")
        f.start(self._body)
        self._phis = [f.later() for _ in self._carried]
        self.number, *self.values = (name for name, _ in self._phis)

    def end(self, carried: Sequence[str] = ()) -> None:
        """End the body, with the carried values of the next iteration."""
        f = self._f
        number = f.let(f"add nsw i64 {self.number}, {self._by}")
        rows = zip(self._phis, self._carried, (number, *carried), strict=True)
        for (name, line), (kind, first), next_ in rows:
            phi = f"phi {kind} [{first}, %{self._before}], [{next_}, %{f.block}]"
            f.fill(line, f"{name} = {phi}")
        more, after = f.let(f"icmp slt i64 {number}, {self._stop}"), f.label()
        f.do(f"br i1 {more}, label %{self._body}, label %{after}")
        f.start(after)
