"""Records that state the role of each dimension, and the text of some of them.

Semantics: XLA's Window, PaddingConfig, DotDimensionNumbers, ConvolutionDimensionNumbers,
GatherDimensionNumbers and ScatterDimensionNumbers. The records hold what was written; the shape
rules of the operations check that it fits the operands.
"""

import dataclasses
from collections.abc import Callable, Sequence

from xla_contract.errors import ShapeError


@dataclasses.dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window that slides over a (padded, dilated) base.

    Padding is applied after base dilation and may be negative, which cuts off. `window_reversal`
    reads the window back to front and matters to convolution only.
    """

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    window_reversal: bool = False

    @property
    def dilated_size(self) -> int:
        """The extent of the window with the gaps between its elements."""
        return dilated(self.size, self.window_dilation)

    def padded_size(self, base: int) -> int:
        """The size of a base dimension with its gaps and padding."""
        return self.padding_low + dilated(base, self.base_dilation) + self.padding_high

    def output_size(self, base: int) -> int:
        """Return the number of positions of the window over a base dimension of this size."""
        extent = self.padded_size(base)
        if extent < self.dilated_size or not self.size:
            return 0
        return (extent - self.dilated_size) // self.stride + 1


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A window over every dimension it is applied to."""

    dimensions: tuple[WindowDimension, ...] = ()

    def __str__(self) -> str:
        """HLO text: `size=2x2 stride=2x2 pad=0_1x0_1`; what is trivial is left out."""
        parts = ["size=" + "x".join(str(d.size) for d in self.dimensions)]
        fields: tuple[tuple[str, Callable[[WindowDimension], str], str], ...] = (
            ("stride", lambda d: str(d.stride), "1"),
            ("pad", lambda d: f"{d.padding_low}_{d.padding_high}", "0_0"),
            ("lhs_dilate", lambda d: str(d.base_dilation), "1"),
            ("rhs_dilate", lambda d: str(d.window_dilation), "1"),
            ("rhs_reversal", lambda d: str(int(d.window_reversal)), "0"),
        )
        for name, text, trivial in fields:
            texts = [text(dimension) for dimension in self.dimensions]
            if any(item != trivial for item in texts):
                parts.append(f"{name}={'x'.join(texts)}")
        return "{" + " ".join(parts) + "}"

    @property
    def is_pointwise(self) -> bool:
        """True if the window is one element, without strides, padding and base dilation."""
        return all(
            (d.size, d.stride, d.padding_low, d.padding_high, d.base_dilation) == (1, 1, 0, 0, 1)
            for d in self.dimensions
        )

    def output_sizes(self, base: Sequence[int]) -> tuple[int, ...]:
        """Return the number of positions of the window over a base of these sizes, per dimension.

        It is 0 where negative padding removes more than there is.

        Raises:
            ShapeError: Sizes, strides or dilations are not positive, or the number of dimensions
                differs.
        """
        if len(self.dimensions) != len(base):
            raise ShapeError(
                "a window must have one dimension for each dimension it slides over, got "
                f"{len(self.dimensions)} in {self} for {len(base)}"
            )
        for number, dimension in enumerate(self.dimensions):
            for name in ("size", "stride", "window_dilation", "base_dilation"):
                value = getattr(dimension, name)
                if value < 1:
                    raise ShapeError(
                        f"a window's {name} must be positive, got {value} in dimension {number} "
                        f"of {self}"
                    )
        return tuple(d.output_size(size) for d, size in zip(self.dimensions, base, strict=True))


def dilated(size: int, dilation: int) -> int:
    """The extent of `size` elements placed `dilation` apart."""
    return (size - 1) * dilation + 1 if size else 0


@dataclasses.dataclass(frozen=True, slots=True)
class PaddingDimension:
    """Padding before, after and between elements of one dimension; the ends may be negative."""

    low: int = 0
    high: int = 0
    interior: int = 0

    def __str__(self) -> str:
        """HLO text: `1_2` or `1_2_3`."""
        interior = f"_{self.interior}" if self.interior else ""
        return f"{self.low}_{self.high}{interior}"


@dataclasses.dataclass(frozen=True, slots=True)
class PaddingConfig:
    """Padding of every dimension of an array."""

    dimensions: tuple[PaddingDimension, ...] = ()

    def __str__(self) -> str:
        """HLO text: `0_1x2_3_1`."""
        return "x".join(map(str, self.dimensions))


@dataclasses.dataclass(frozen=True, slots=True)
class DotDimensionNumbers:
    """Contracting and batch dimensions of a dot's operands."""

    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    lhs_batch_dimensions: tuple[int, ...] = ()
    rhs_batch_dimensions: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    """The part each dimension of a convolution's input, kernel and output plays."""

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]

    @property
    def input_order(self) -> tuple[int, ...]:
        """Input dimensions as batch, feature, spatial ..."""
        return (
            self.input_batch_dimension,
            self.input_feature_dimension,
            *self.input_spatial_dimensions,
        )

    @property
    def kernel_order(self) -> tuple[int, ...]:
        """Kernel dimensions as input feature, output feature, spatial ..."""
        return (
            self.kernel_input_feature_dimension,
            self.kernel_output_feature_dimension,
            *self.kernel_spatial_dimensions,
        )

    @property
    def output_order(self) -> tuple[int, ...]:
        """Output dimensions as batch, feature, spatial ..."""
        return (
            self.output_batch_dimension,
            self.output_feature_dimension,
            *self.output_spatial_dimensions,
        )

    def __str__(self) -> str:
        """HLO text: `b01f_01io->b01f`."""

        def labels(order: Sequence[int], names: str) -> str:
            named = {dim: names[i] if i < 2 else str(i - 2) for i, dim in enumerate(order)}
            return "".join(named.get(dim, "?") for dim in range(len(order)))

        return (
            f"{labels(self.input_order, 'bf')}_{labels(self.kernel_order, 'io')}"
            f"->{labels(self.output_order, 'bf')}"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class GatherDimensionNumbers:
    """Dimension numbers of gather: of start indices, and of slices in the result."""

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ScatterDimensionNumbers:
    """Dimension numbers of scatter: of indices, and of updates in the input."""

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
