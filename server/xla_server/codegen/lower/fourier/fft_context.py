"""State that lowerings of Fourier transforms share: lines, arrays, the cost of each algorithm."""

import dataclasses
import functools
import math

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.lower.fourier import fft_plan as plan
from xla_server.codegen.lower.fourier.fft_block import Tables
from xla_server.codegen.lower.fourier.fft_kernels import BlockKernel, LineLayout, Options
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.routines.fourier.fourier_passes import MOVE_COST
from xla_server.codegen.routines.fourier.fourier_text import WIDTH, pair_bytes
from xla_server.target.kernel_tuning import FourierTransforms


@dataclasses.dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of `lanes` real numbers, and the tuning of transforms with them."""

    lanes: int
    tuned: FourierTransforms

    def block_cost(self, n: int) -> float:
        """Return the cost of a block transform of n elements; infinite if too many for a block."""
        return plan.block_cost(n, self.tuned.max_block_elements)


@dataclasses.dataclass(frozen=True, slots=True)
class Lines:
    """Lines of n elements: `outer` groups of `inner` neighbours, as [outer, n, inner].

    Costs are in vector instructions, for the vectors of an argument `to`.
    """

    outer: int
    n: int
    inner: int

    def one_kernel_cost(self, to: Vectors) -> float:
        """Return the cost of transforms in one kernel."""
        return (-(-self.outer * self.inner // to.lanes) + to.tuned.idle_blocks) * to.block_cost(
            self.n
        )

    def cut(self, to: Vectors) -> tuple[float, int]:
        """Return the cost of the cheapest cut of lines, and its g."""
        return _cheapest_cut(self, to)

    def rest(self, m: int) -> "Lines":
        """Return the second transforms of a cut, m lines for each line."""
        return Lines(self.outer * m, self.n // m, self.inner)

    def is_narrow(self, to: Vectors) -> bool:
        """Return whether `inner` neighbours alone would fill less than half of a vector's lanes."""
        return 2 * self.inner < to.lanes

    def convolution_cost(self, to: Vectors) -> float:
        """Return the cost of transforms by convolution."""
        if max(plan.prime_factors(self.n), default=1) <= to.tuned.max_cut_factor:
            return math.inf
        size, count = plan.padded_length(self.n), self.outer * self.inner
        padded = Lines(count, size, 1)
        each = min(padded.one_kernel_cost(to), padded.cut(to)[0])
        # Three further kernels load, multiply and store.
        moved = 3 * 2 * MOVE_COST * size / to.lanes * count
        return moved + 3 * to.tuned.kernel_cost + 2 * each

    def cost(self, to: Vectors) -> float:
        """Return the cost of the cheapest algorithm."""
        return min(self.one_kernel_cost(to), self.cut(to)[0], self.convolution_cost(to))

    def is_one_kernel(self, to: Vectors, extra: float = 0) -> bool:
        """Return whether one kernel is cheapest, if other algorithms cost `extra` more."""
        cost = self.one_kernel_cost(to)
        if cost == math.inf:
            return False
        return cost <= extra + min(self.cut(to)[0], self.convolution_cost(to))


@functools.lru_cache(4096)
def _cheapest_cut(lines: Lines, to: Vectors) -> tuple[float, int]:
    best = (math.inf, 0)
    for g in plan.divisors(lines.n)[1:-1]:
        m = lines.n // g
        if to.block_cost(m) == math.inf:
            continue
        if lines.is_narrow(to):
            first, then = (lines.outer * -(-k * lines.inner // to.lanes) for k in (g, m))
        else:
            first, then = (lines.outer * k * -(-lines.inner // to.lanes) for k in (g, m))
        cost = (first + to.tuned.idle_blocks) * (to.block_cost(m) + 5 * m) + to.tuned.kernel_cost
        cost += (
            (then + to.tuned.idle_blocks) * to.block_cost(g)
            if to.block_cost(g) < math.inf
            else lines.rest(m).cost(to)
        )
        best = min(best, (cost, g))
    return best


@dataclasses.dataclass(frozen=True, slots=True)
class Array:
    """A value as an array of real or complex numbers, independent of its type."""

    value: Value
    is_real: bool = False


FORWARD = Options()
"""A forward transform whose results are stored as they are."""


class Context:
    """The lowering of one instruction's transforms, and their real type."""

    def __init__(self, lowering: Lowering, name: str, real: ElementType) -> None:
        self.lowering, self.name, self.real = lowering, name, real
        self.kind = real.text
        self.width = WIDTH[self.kind]
        machine, self.tuned = lowering.target.machine, lowering.target.tuning.fourier
        self.lanes, self.pair = machine.lanes(self.width), pair_bytes(machine)
        self.vectors = Vectors(self.lanes, self.tuned)
        self._count = 0

    def title(self) -> str:
        """Return a name for the next thunk or value."""
        self._count += 1
        return f"{self.name}.{self._count}"

    def new(self, count: int) -> Array:
        """Return scratch memory for complex numbers."""
        return Array(self.lowering.new(Shape.array(self.real.complex_of, (count,)), self.title()))

    def layout(
        self,
        array: Array,
        steps: tuple[int, ...],
        inner_step: int,
        element_step: int,
        split: tuple[int, int] | None = None,
    ) -> LineLayout:
        """Return the layout of lines in an array, from strides in elements."""
        width = self.width * (1 if array.is_real else 2)
        return LineLayout(
            array.value,
            width,
            tuple(step * width for step in steps),
            inner_step * width,
            element_step * width,
            array.is_real,
            split and (split[0], split[1] * width),
        )

    def kernel(
        self,
        sizes: tuple[int, ...],
        inner: int,
        source: LineLayout,
        target: LineLayout,
        lengths: tuple[int, int, int],
        options: Options = FORWARD,
        tables: Tables | None = None,
    ) -> BlockKernel:
        """Return the next kernel, for lines of `lengths` loaded, stored and transformed."""
        lines = sizes, inner, source, target, *lengths
        constants = tables or Tables(self.kind)
        return BlockKernel(self.lowering, self.title(), self.kind, *lines, options, constants)
