"""Complex vectors in LLVM text, shared by the routines of Fourier transforms.

A block is scratch memory with `lanes` lines side by side: element j of all lines is a vector of
real parts followed by a vector of imaginary parts, at j times `pair` bytes.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xla_server.codegen.compiler import llvm_text
from xla_server.codegen.compiler.shared_functions import TextFunction
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.target.machine import Machine

Complex: TypeAlias = tuple[str, str]
"""Names of a vector of real parts and one of imaginary parts."""

WIDTH = {kind: llvm_text.ELEMENT_BYTES[form] for kind, form in llvm_text.FORM.items()}
"""Bytes of a real number."""


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


class FourierText(llvm_text.VectorText):
    """A function on vectors of the real type `kind` while it is written."""

    def __init__(self, declared: llvm_text.Declaration, kind: str) -> None:
        super().__init__(declared, llvm_text.FORM[kind])
        self.pair = 2 * self.bytes

    def load_pair(self, pointer: str) -> Complex:
        """Return the element of a block at a pointer."""
        return self.load(pointer), self.load(self.behind(pointer, self.bytes))

    def store_pair(self, value: Complex, pointer: str) -> None:
        """Store an element of a block at a pointer."""
        self.store(value[0], pointer)
        self.store(value[1], self.behind(pointer, self.bytes))

    def broadcast_pair(self, pointer: str) -> Complex:
        """Return the splats of the complex number at a pointer."""
        return self.broadcast(pointer), self.broadcast(self.behind(pointer, self.width))

    def neg(self, one: str) -> str:
        """Return a vector with the other sign."""
        return self.let(f"fneg {self.vector} {one}")

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

    def transposed(self, rows: Sequence[str]) -> Sequence[str]:
        """Return the columns of a square of `lanes` vectors."""
        half = self.lanes // 2
        while half:
            rows = self.exchanged(self.vector, rows, half)
            half //= 2
        return rows

    def parts(self, one: str, other: str) -> Complex:
        """Return the real and imaginary parts of `lanes` complex numbers in two vectors."""
        evens = [2 * n for n in range(self.lanes)]
        return self.shuffled(one, other, evens), self.shuffled(one, other, [n + 1 for n in evens])

    def interleaved(self, real: str, imaginary: str) -> list[str]:
        """Return the two vectors of complex numbers with these parts."""
        order = [lane for n in range(self.lanes) for lane in (n, self.lanes + n)]
        half = len(order) // 2
        return [self.shuffled(real, imaginary, each) for each in (order[:half], order[half:])]

    def factor(self, bits: str) -> str:
        """Return the splat of a number whose bits as f64 an operand has."""
        value = self.let(f"bitcast i64 {bits} to double")
        if self.form == "float":
            value = self.let(f"fptrunc double {value} to float")
        return self.splat(self.form, self.lanes, value)

    @property
    def suffix(self) -> str:
        """Return the ending of intrinsics' names for these vectors."""
        return llvm_text.suffix_of(self.vector)


def fourier_function(routine: Routine, code: Callable[[Any], None], kind: str) -> TextFunction:
    """Return the function of a routine on vectors of a real type."""
    return TextFunction(routine, code, begin=functools.partial(FourierText, kind=kind))
