"""Convolutions as GPU libraries define them: shapes in one order of dimensions, no addresses.

Semantics: cuDNN's backend API, the descriptors of operations with convolutions.
"""

import dataclasses
import enum
import itertools
import math
from collections.abc import Sequence

from xla_contract.types.dimension_numbers import dilated
from xla_contract.types.element_type import ElementType

_TYPES = frozenset({ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64})

_RANKS = (2, 3)
"""Numbers of spatial dimensions. One dimension is written as two, the first of size 1."""

_MAX_ELEMENTS = (1 << 31) - 1
"""Most elements of an array: kernels of libraries index them with 32 bits."""


class Direction(enum.Enum):
    """The one of the three arrays of a convolution that is computed from the other two."""

    FORWARD = "forward"
    DATA_GRADIENT = "data gradient"
    FILTER_GRADIENT = "filter gradient"


@dataclasses.dataclass(frozen=True, slots=True)
class Convolution:
    """y[n, k, p] = the sum of x[n, c, p * stride + r * dilation - low] * w[k, c, r], or a gradient.

    The sum is over positions r of the window and over input features c of the group of k. FORWARD
    computes y from (x, w), DATA_GRADIENT computes x from (y, w), FILTER_GRADIENT w from (x, y).
    `inputs` and `outputs` are features of all groups. Spatial sizes are those of x (`image`), of w
    (`window`) and of y (`positions`); x is padded with `low` zeros before and `high` zeros after
    each spatial dimension.

    Arrays are dense, all three with channels last, or all with channels in front of the spatial
    dimensions. `rounds_operands` lets the library round operands of f32 to TF32.
    """

    direction: Direction
    element: ElementType
    batch: int
    inputs: int
    outputs: int
    groups: int
    image: tuple[int, ...]
    window: tuple[int, ...]
    positions: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    is_channels_last: bool
    rounds_operands: bool = False

    def __str__(self) -> str:
        order = "channels last" if self.is_channels_last else "channels first"
        sizes = " * ".join(str(list(each)) for each in self.sizes)
        window = f"strides {self.strides}, dilations {self.dilations}, pad {self.low} {self.high}"
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        last = ", in TF32" if self.rounds_operands else ""
        what = f"{self.direction.value} of {self.element.text}, x * w -> y of {sizes}"
        return f"{what}, {window}{groups}, {order}{last}"

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The sizes of x, w and y: batch or features, features, then the spatial dimensions."""
        return (
            (self.batch, self.inputs, *self.image),
            (self.outputs, self.inputs // self.groups, *self.window),
            (self.batch, self.outputs, *self.positions),
        )

    def distances(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the stride of each dimension of `sizes`, in elements."""
        rank = len(sizes)
        order = (0, *range(2, rank), 1) if self.is_channels_last else tuple(range(rank))
        steps = dict.fromkeys(order, 1)
        for inner, outer in itertools.pairwise(reversed(order)):
            steps[outer] = steps[inner] * sizes[inner]
        return tuple(steps[d] for d in range(rank))

    @property
    def operations(self) -> int:
        """Number of additions and multiplications in the definition of the sums."""
        _, (_, depth, *window), y = self.sizes
        return 2 * math.prod(y) * depth * math.prod(window)

    @property
    def bytes(self) -> int:
        """Bytes of the three arrays."""
        return sum(map(math.prod, self.sizes)) * self.element.byte_width

    @property
    def problem(self) -> str | None:
        """The reason why cuDNN cannot compute it; None if its documentation allows it."""
        if self.element not in _TYPES:
            return f"the element type must be f16, bf16, f32 or f64, got {self.element.text}"
        if self.rounds_operands and self.element is not ElementType.F32:
            return f"operands to round must be f32, got {self.element.text}"
        if len(self.image) not in _RANKS:
            return f"there must be 2 or 3 spatial dimensions, got {len(self.image)}"
        if self.groups < 1 or self.inputs % self.groups or self.outputs % self.groups:
            features = self.inputs, self.outputs
            return f"groups must divide features, got {self.groups} groups of {features}"
        for name, sizes in zip("xwy", self.sizes, strict=True):
            if not 0 < math.prod(sizes) <= _MAX_ELEMENTS or min(sizes) < 1:
                return f"{name} must have 1 to {_MAX_ELEMENTS} elements, got {list(sizes)}"
        return self._window()

    def _window(self) -> str | None:
        """Return the reason why the window is not supported, or None."""
        if min(*self.strides, *self.dilations) < 1:
            return f"strides and dilations must be positive, got {self.strides}, {self.dilations}"
        if min(*self.low, *self.high) < 0:
            return f"padding must not cut off, got {self.low}, {self.high}"
        made = tuple(
            (size + low + high - dilated(window, dilation)) // stride + 1
            for size, low, high, window, dilation, stride in zip(
                *(self.image, self.low, self.high, self.window, self.dilations, self.strides),
                strict=True,
            )
        )
        return None if made == self.positions else f"y must have {made}, got {self.positions}"
