"""LLVM functions written as text, which takes a tenth of the time that building them does.

Operands and results of instructions are names or constants without their types.
"""

import contextlib
from collections.abc import Iterator, Sequence


class FunctionText:
    """A function over int64 while it is written.

    One that `is_plain` is compiled in less time, as nothing is done to it but what it says.
    """

    def __init__(self, symbol: str, parameters: Sequence[str], *, is_plain: bool = False) -> None:
        self._attributes = "noinline optnone " if is_plain else ""
        self._symbol = symbol
        self._parameters = parameters
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
        """A new name, and the line that `fill` is to give it a value in."""
        self._count += 1
        self._lines.append("")
        return f"%v{self._count}", len(self._lines) - 1

    def fill(self, line: int, text: str) -> None:
        """Write a line that was left empty."""
        self._lines[line] = f"  {text}"

    def label(self) -> str:
        """The name of a block to come."""
        self._count += 1
        return f"b{self._count}"

    def start(self, label: str) -> None:
        """Go on in a block, which whatever comes before has jumped to."""
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
        """The pointer so many bytes behind another."""
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

    def divided(self, one: str, other: str) -> tuple[str, str]:
        """(remainder, quotient) of numbers that are not negative."""
        return self.let(f"urem i64 {one}, {other}"), self.let(f"udiv i64 {one}, {other}")

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

    def read(self, kind: str, pointer: str, align: int, mask: str = "") -> str:
        """A number or vector from memory; if there is a mask, zeros where it is off."""
        if not mask:
            return self.let(f"load {kind}, ptr {pointer}, align {align}")
        where = f"<{lanes_of(kind)} x i1> {mask}"
        given = [f"ptr {pointer}", f"i32 {align}", where, f"{kind} zeroinitializer"]
        return self.call(kind, f"llvm.masked.load.{suffix_of(kind)}.p0", given)

    def write(self, kind: str, value: str, pointer: str, align: int, mask: str = "") -> None:
        """A number or vector to memory, but for what a mask leaves out."""
        if not mask:
            self.do(f"store {kind} {value}, ptr {pointer}, align {align}")
            return
        where = f"<{lanes_of(kind)} x i1> {mask}"
        given = [f"{kind} {value}", f"ptr {pointer}", f"i32 {align}", where]
        self.call("void", f"llvm.masked.store.{suffix_of(kind)}.p0", given)

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """A block that is executed only if a condition holds."""
        inside, after = self.label(), self.label()
        self.do(f"br i1 {condition}, label %{inside}, label %{after}")
        self.start(inside)
        yield
        self.do(f"br label %{after}")
        self.start(after)

    def is_cancelled(self) -> str:
        """Return whether the flag at the address `%cancelled` is set."""
        flag = self.pointer("%cancelled")
        return self.let(
            f"icmp ne i64 {self.let(f'load atomic i64, ptr {flag} seq_cst, align 8')}, 0"
        )

    def invoke(self, function: str, *operands: str) -> None:
        """Call the function at a pointer, which returns nothing."""
        self.do(f"call void {function}({', '.join(f'i64 {operand}' for operand in operands)})")

    def opaque(self, number: str) -> str:
        """The same number, of which LLVM does not know how it comes about."""
        return self.let(f'call i64 asm "", "=r,0"(i64 {number})')

    def text(self, result: str = "") -> str:
        """All of it, with what it calls; it returns an int64, or nothing."""
        kind, returned = ("i64", f"i64 {result}") if result else ("void", "void")
        parameters = ", ".join(f"i64 %{name}" for name in self._parameters)
        return "\n".join(
            [
                *self._declared.values(),
                f"define {kind} @{self._symbol}({parameters}) {self._attributes}{{",
                *self._lines,
                f"  ret {returned}",
                "}\n",
            ]
        )


_SUFFIX = {"float": "f32", "double": "f64"}


def lanes_of(vector: str) -> int:
    """The lanes of a vector type."""
    return int(vector[1 : vector.index(" ")])


def suffix_of(vector: str) -> str:
    """Return the ending of intrinsics' names for a vector type."""
    form = vector[vector.rindex(" ") + 1 : -1]
    return f"v{lanes_of(vector)}{_SUFFIX.get(form, form)}"


class ModuleText:
    """A module's text, to which its compiler adds what it is compiled for."""

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

    def end(self, following: Sequence[str] = ()) -> None:
        """End the body, with the carried values of the next iteration."""
        f = self._f
        number = f.let(f"add nsw i64 {self.number}, {self._by}")
        rows = zip(self._phis, self._carried, (number, *following), strict=True)
        for (name, line), (kind, first), next_ in rows:
            phi = f"phi {kind} [{first}, %{self._before}], [{next_}, %{f.block}]"
            f.fill(line, f"{name} = {phi}")
        more, after = f.let(f"icmp slt i64 {number}, {self._stop}"), f.label()
        f.do(f"br i1 {more}, label %{self._body}, label %{after}")
        f.start(after)
