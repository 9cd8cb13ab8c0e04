"""Loads of lines into blocks and stores of blocks, for Fourier transforms.

The strides of lines decide the form. "rows": each line is contiguous, and squares of lines and
elements are transposed in registers. "columns": neighbouring lines are one element apart. "lines":
any other, element by element, of complex numbers only. Real numbers are complex ones whose
imaginary part is zero when they are loaded and left out when they are stored.

A block has its real parts at the address `real` and its imaginary parts at `imaginary`, a vector
from each other: exchanging the two turns a forward transform into an inverse one.
"""

import abc
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

from xla_server.codegen.compiler.llvm_text import Declaration, TextLoop
from xla_server.codegen.compiler.shared_functions import TextFunction, by_name
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters, parameters_of
from xla_server.codegen.routines.fourier.fourier_passes import MOVE_COST
from xla_server.codegen.routines.fourier.fourier_text import WIDTH, FourierText

_BLOCK = ("real", "imaginary")
_PLACES = parameters_of(lines=Unit.COUNT, ahead=Unit.OFFSET, count=Unit.COUNT, factor=Unit.NUMBER)
_LINES = parameters_of(
    first=Unit.COUNT, inner=Unit.COUNT, outer_step=Unit.OFFSET, inner_step=Unit.OFFSET
)


def move_routine(kind: str, form: str, *, is_load: bool, is_real: bool) -> Routine:
    """Return the load of a block from memory, or its store, for lines of a form.

    `ahead` is the stride between lines of rows, else between elements. Line q of "lines" begins q
    div inner outer steps and q mod inner inner steps behind `memory`, where `first` is the first q
    and `lines` the number of all lines. Stores multiply by `factor`.
    """
    sides = (Unit.READ, Unit.WRITE) if is_load else (Unit.WRITE, Unit.READ)
    addresses = *parameters(sides[0], "memory"), *parameters(sides[1], *_BLOCK)
    more = _LINES if form == "lines" else ()
    name = move_name(kind, form, is_load=is_load, is_real=is_real)
    # Elements that lie apart are moved one by one.
    each = 16 if form == "lines" else MOVE_COST
    return Routine(name, (*addresses, *_PLACES, *more), cost=lambda n: each * n["count"])


class _Move(FourierText):
    """Writer of a load or store of lines of a form."""

    def __init__(
        self, declared: Declaration, kind: str, form: str, *, is_load: bool, is_real: bool
    ) -> None:
        super().__init__(declared, kind)
        self.is_short, self.is_load, self.is_real = form == "short_rows", is_load, is_real
        self.element = self.width if is_real else 2 * self.width
        self.scale = "" if is_load else self.factor("%factor")

    @abc.abstractmethod
    def move(self) -> None:
        """Write all of it."""

    def load_parts(self, pointer: str, imaginary: str) -> list[str]:
        """Return the parts of an element of the block that are stored, scaled."""
        parts = (pointer,) if self.is_real else (pointer, imaginary)
        return [self.mul(self.load(part), self.scale) for part in parts]

    def store_parts(self, parts: Sequence[str], pointer: str, imaginary: str) -> None:
        """Store an element of the block: its parts, or a real number."""
        self.store(parts[0], pointer)
        self.store("zeroinitializer" if self.is_real else parts[1], imaginary)


class _Rows(_Move):
    """Rows; short ones have fewer elements than a square, but blocks are large enough for one."""

    def move(self) -> None:
        span = self.lanes if self.is_real else self.lanes // 2
        last = self.minus("%lines", "1")
        rows = []
        for lane in range(self.lanes):
            row = self.smaller(str(lane), last)
            rows.append(self.plus("%memory", self.let(f"mul i64 {row}, %ahead")))
        if self.is_short:
            mask = self.mask(self.lanes, 0, self.let(f"mul i64 %count, {self.lanes // span}"))
            self._square(rows, "0", mask)
            return
        latest = self.minus("%count", str(span))
        square = TextLoop(self, "0", "%count", span, [])
        self._square(rows, self.smaller(square.number, latest), "")
        square.end()

    def _square(self, rows: list[str], first: str, mask: str) -> None:
        ahead = self.let(f"mul i64 {first}, {self.element}")
        pointers = [self.pointer(self.plus(row, ahead)) for row in rows]
        begin = self.let(f"mul i64 {first}, {self.pair}")
        real, imaginary = (
            self.pointer(self.plus(f"%{name}", begin)) for name in ("real", "imaginary")
        )
        values, parts = list[str](), 1 if self.is_real else 2
        if self.is_load:
            values += self.transposed([self.load(pointer, mask) for pointer in pointers])
        for n in range(self.lanes // parts):
            here, there = self.behind(real, n * self.pair), self.behind(imaginary, n * self.pair)
            if self.is_load:
                self.store_parts(values[n * parts : (n + 1) * parts], here, there)
            else:
                values += self.load_parts(here, there)
        if not self.is_load:
            # Lanes without a line are stored to the last line, before that line itself.
            stored = zip(reversed(pointers), reversed(self.transposed(values)), strict=True)
            for pointer, value in stored:
                self.store(value, pointer, mask)


class _Columns(_Move):
    """Columns; fewer than there are lanes are masked."""

    def move(self) -> None:
        some = self.let("icmp sgt i64 %count, 0")
        any_lines = self.let("icmp sgt i64 %lines, 0")
        with self.when(self.let(f"and i1 {some}, {any_lines}")):
            self._full_or_partial()

    def _full_or_partial(self) -> None:
        vectors = 1 if self.is_real else 2
        full, partial, done = self.label(), self.label(), self.label()
        is_full = self.let(f"icmp sge i64 %lines, {self.lanes}")
        self.do(f"br i1 {is_full}, label %{full}, label %{partial}")
        self.start(full)
        self._loop([""] * vectors)
        self.do(f"br label %{done}")
        self.start(partial)
        numbers = self.let(f"mul i64 %lines, {vectors}")
        self._loop([self.mask(self.lanes, n * self.lanes, numbers) for n in range(vectors)])
        self.do(f"br label %{done}")
        self.start(done)

    def _loop(self, masks: list[str]) -> None:
        names = [("ptr", self.pointer(f"%{name}")) for name in ("memory", *_BLOCK)]
        element = TextLoop(self, "0", "%count", 1, names)
        pointer, real, imaginary = element.values
        pointers = [pointer] if self.is_real else [pointer, self.behind(pointer, self.bytes)]
        if self.is_load:
            values = [self.load(at, mask) for at, mask in zip(pointers, masks, strict=True)]
            self.store_parts(values if self.is_real else self.parts(*values), real, imaginary)
        else:
            parts = self.load_parts(real, imaginary)
            stored = parts if self.is_real else self.interleaved(*parts)
            for at, vector, mask in zip(pointers, stored, masks, strict=True):
                self.store(vector, at, mask)
        steps = ((pointer, "%ahead"), (real, self.pair), (imaginary, self.pair))
        element.end([self.behind(*step) for step in steps])


class _Lines(_Move):
    """Lines anywhere, by gathers and scatters."""

    def move(self) -> None:
        words = f"<{self.lanes} x i64>"
        numbers = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
        line = self.let(f"add {words} {self._words('%first')}, <{numbers}>")
        last = self._words(self.minus("%lines", "1"))
        low = self.let(f"icmp slt {words} {line}, {last}")
        mask = self.let(f"icmp sle {words} {line}, {last}")
        line = self.let(f"select <{self.lanes} x i1> {low}, {words} {line}, {words} {last}")
        inner = self._words("%inner")
        terms = (("udiv", "%outer_step"), ("urem", "%inner_step"))
        address = self._words("%memory")
        for operation, step in terms:
            part = self.let(f"{operation} {words} {line}, {inner}")
            part = self.let(f"mul {words} {part}, {self._words(step)}")
            address = self.let(f"add {words} {address}, {part}")
        ahead, across = self._words("%ahead"), self._words(str(self.width))
        blocks = [("ptr", self.pointer(f"%{name}")) for name in _BLOCK]
        element = TextLoop(self, "0", "%count", 1, [(words, address), *blocks])
        at, real, imaginary = element.values
        pointers = [at, self.let(f"add {words} {at}, {across}")]
        if self.is_load:
            values = [self._gathered(pointer, mask) for pointer in pointers]
            self.store_parts(values, real, imaginary)
        else:
            parts = self.load_parts(real, imaginary)
            for pointer, value in zip(pointers, parts, strict=True):
                self._scatter(value, pointer, mask)
        next_addresses = self.let(f"add {words} {at}, {ahead}")
        element.end(
            [next_addresses, self.behind(real, self.pair), self.behind(imaginary, self.pair)]
        )

    def _words(self, number: str) -> str:
        return self.splat("i64", self.lanes, number)

    def _pointers(self, addresses: str) -> str:
        lanes = self.lanes
        return self.let(f"inttoptr <{lanes} x i64> {addresses} to <{lanes} x ptr>")

    def _gathered(self, addresses: str, mask: str) -> str:
        operands = [
            f"<{self.lanes} x ptr> {self._pointers(addresses)}",
            f"i32 {self.width}",
            f"<{self.lanes} x i1> {mask}",
            f"{self.vector} zeroinitializer",
        ]
        function = f"llvm.masked.gather.{self.suffix}.v{self.lanes}p0"
        return self.call(self.vector, function, operands)

    def _scatter(self, value: str, addresses: str, mask: str) -> None:
        operands = [
            f"{self.vector} {value}",
            f"<{self.lanes} x ptr> {self._pointers(addresses)}",
            f"i32 {self.width}",
            f"<{self.lanes} x i1> {mask}",
        ]
        self.call("void", f"llvm.masked.scatter.{self.suffix}.v{self.lanes}p0", operands)


def move_name(kind: str, form: str, *, is_load: bool, is_real: bool) -> str:
    """Return the name of a load or store."""
    way = "load" if is_load else "store"
    return f"fourier_{way}_{form}_{'real_' if is_real else ''}{kind}"


_FORMS: Mapping[str, Callable[..., _Move]] = {
    "rows": _Rows,
    "short_rows": _Rows,
    "columns": _Columns,
    "lines": _Lines,
}


def _move(kind: str, form: str, *, is_load: bool, is_real: bool) -> TextFunction:
    routine = move_routine(kind, form, is_load=is_load, is_real=is_real)
    begin = functools.partial(_FORMS[form], kind=kind, form=form, is_load=is_load, is_real=is_real)
    return TextFunction(routine, lambda f: f.move(), begin=begin)


FOURIER_MOVES = by_name(
    _move(kind, form, is_load=is_load, is_real=is_real)
    for kind, form, is_load in itertools.product(WIDTH, _FORMS, (True, False))
    for is_real in ((False,) if form == "lines" else (False, True))
)
"""Every function of this module by its name in kernels."""
