"""Complex vectors in LLVM text, shared by the routines of Fourier transforms.

A block is scratch memory with `lanes` lines side by side: element j of all lines is a vector of
real parts followed by a vector of imaginary parts, at j times `pair` bytes.
"""

import math
import struct
from collections.abc import Sequence
from typing import TypeAlias

from xla_server.codegen.compiler.llvm_text import FunctionText, suffix_of
from xla_server.codegen.routines.contraction.product_tiles import lanes
from xla_server.target.machine import Machine

Complex: TypeAlias = tuple[str, str]
"""Names of a vector of real parts and one of imaginary parts."""

WIDTH = {"f32": 4, "f64": 8}
"""Bytes of a real number."""

_FORM = {"f32": "float", "f64": "double"}


def pair_bytes(machine: Machine) -> int:
    """Return the bytes of one element of a block: two vectors."""
    return 2 * machine.vector_bytes


def unit_root(exponent: int, n: int) -> tuple[float, float]:
    """Return the parts of exp(-2 pi i exponent / n); angles are reduced to an eighth of the circle.

    Reduced in integers, they lose nothing, and equal roots have equal parts.
    """
    octant, rest = divmod(8 * (exponent % n), n)
    is_odd = octant % 2 == 1
    angle = (n - rest if is_odd else rest) * (2 * math.pi / (8 * n))
    cosine, sine = math.cos(angle), -math.sin(angle) if is_odd else math.sin(angle)
    for _ in range((octant + 1) // 2):
        cosine, sine = -sine, cosine
    return cosine, -sine


class FourierText(FunctionText):
    """A function on vectors of the real type `kind` while it is written."""

    def __init__(self, symbol: str, operands: Sequence[str], machine: Machine, kind: str) -> None:
        super().__init__(symbol, operands)
        self.lanes, self.width, self.form = lanes(machine, kind), WIDTH[kind], _FORM[kind]
        self.vector = f"<{self.lanes} x {self.form}>"
        self.bytes = self.lanes * self.width
        self.pair = 2 * self.bytes

    def number(self, value: float) -> str:
        """Return the splat constant of a number rounded to the type."""
        if self.form == "float":
            (value,) = struct.unpack("<f", struct.pack("<f", value))
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        return f"splat ({self.form} {bits:#018x})"

    def load(self, pointer: str, mask: str = "") -> str:
        """Return the vector at a pointer of any alignment."""
        return self.read(self.vector, pointer, self.width, mask)

    def store(self, value: str, pointer: str, mask: str = "") -> None:
        """Store a vector at a pointer of any alignment."""
        self.write(self.vector, value, pointer, self.width, mask)

    def load_pair(self, pointer: str) -> Complex:
        """Return the element of a block at a pointer."""
        return self.load(pointer), self.load(self.behind(pointer, self.bytes))

    def store_pair(self, value: Complex, pointer: str) -> None:
        """Store an element of a block at a pointer."""
        self.store(value[0], pointer)
        self.store(value[1], self.behind(pointer, self.bytes))

    def broadcast(self, pointer: str) -> str:
        """Return the splat of the real number at a pointer."""
        value = self.read(self.form, pointer, self.width)
        return self.splat(self.form, self.lanes, value)

    def broadcast_pair(self, pointer: str) -> Complex:
        """Return the splats of the complex number at a pointer."""
        return self.broadcast(pointer), self.broadcast(self.behind(pointer, self.width))

    def shuffled(self, one: str, other: str, numbers: Sequence[int]) -> str:
        """Return the vector of these lanes of two vectors."""
        return self.shuffle(self.vector, one, other, numbers)

    def add(self, one: str, other: str) -> str:
        """Return the sum of two vectors."""
        return self.let(f"fadd {self.vector} {one}, {other}")

    def sub(self, one: str, other: str) -> str:
        """Return the difference of two vectors."""
        return self.let(f"fsub {self.vector} {one}, {other}")

    def mul(self, one: str, other: str) -> str:
        """Return the product of two vectors."""
        return self.let(f"fmul {self.vector} {one}, {other}")

    def neg(self, one: str) -> str:
        """Return a vector with the other sign."""
        return self.let(f"fneg {self.vector} {one}")

    def multiply_add(self, one: str, other: str, total: str) -> str:
        """Return one * other + total, rounded once."""
        return self.fma(self.vector, one, other, total)

    def complex_add(self, one: Complex, other: Complex) -> Complex:
        """Return the sum."""
        return self.add(one[0], other[0]), self.add(one[1], other[1])

    def complex_sub(self, one: Complex, other: Complex) -> Complex:
        """Return the difference."""
        return self.sub(one[0], other[0]), self.sub(one[1], other[1])

    def plus_i(self, one: Complex, other: Complex) -> Complex:
        """Return one + i * other."""
        return self.sub(one[0], other[1]), self.add(one[1], other[0])

    def minus_i(self, one: Complex, other: Complex) -> Complex:
        """Return one - i * other."""
        return self.add(one[0], other[1]), self.sub(one[1], other[0])

    def complex_mul(self, one: Complex, other: Complex) -> Complex:
        """Return the product."""
        real = self.neg(self.mul(one[1], other[1]))
        imaginary = self.mul(one[1], other[0])
        return (
            self.multiply_add(one[0], other[0], real),
            self.multiply_add(one[0], other[1], imaginary),
        )

    def plus_scaled(self, total: Complex, factor: float, value: Complex) -> Complex:
        """Return total + factor * value for a real factor; a total of constants 0 is left out."""
        scale = self.number(factor)
        if total[0] == "zeroinitializer":
            return self.mul(value[0], scale), self.mul(value[1], scale)
        return (
            self.multiply_add(value[0], scale, total[0]),
            self.multiply_add(value[1], scale, total[1]),
        )

    def transposed(self, rows: Sequence[str]) -> list[str]:
        """Return the columns of a square of `lanes` vectors."""
        rows = list(rows)
        half = self.lanes // 2
        numbers = range(self.lanes)
        while half:
            upper = [n if not n & half else self.lanes + n - half for n in numbers]
            lower = [n + half if not n & half else self.lanes + n for n in numbers]
            for row in numbers:
                if not row & half:
                    one, other = rows[row], rows[row + half]
                    rows[row] = self.shuffled(one, other, upper)
                    rows[row + half] = self.shuffled(one, other, lower)
            half //= 2
        return rows

    def parts(self, one: str, other: str) -> Complex:
        """Return the real and imaginary parts of `lanes` complex numbers in two vectors."""
        evens = [2 * n for n in range(self.lanes)]
        return self.shuffled(one, other, evens), self.shuffled(one, other, [n + 1 for n in evens])

    def interleaved(self, value: Complex) -> tuple[str, str]:
        """Return the two vectors of complex numbers with these parts."""
        order = [lane for n in range(self.lanes) for lane in (n, self.lanes + n)]
        half = len(order) // 2
        return self.shuffled(*value, order[:half]), self.shuffled(*value, order[half:])

    def factor(self, bits: str) -> str:
        """Return the splat of a number whose bits as f64 an operand has."""
        value = self.let(f"bitcast i64 {bits} to double")
        if self.form == "float":
            value = self.let(f"fptrunc double {value} to float")
        return self.splat(self.form, self.lanes, value)

    @property
    def suffix(self) -> str:
        """Return the ending of intrinsics' names for these vectors."""
        return suffix_of(self.vector)
