"""Convolutions in the forms of a GPU library."""

import dataclasses
import math

from xla_contract.ops.contraction.convolution import ConvolutionAttributes
from xla_contract.ops.contraction.precision import allows_tf32
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers, Window
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.canonicalize.convolutions.channels_last import renumbered
from xla_server.passes.canonicalize.dots.dot_types import is_in_order
from xla_server.passes.framework.editor import Editor, inverse_permutation
from xla_server.passes.framework.rewrite_pass import TargetRewritePass
from xla_server.target.capability import Capability
from xla_server.target.gpu.convolution import Convolution, Direction


class LibraryConvolution(TargetRewritePass):
    """Brings convolutions that the target's library computes into its forms.

    A reversed filter becomes a window that is read backwards. A filter, or its gradient, is
    transposed so that its features are at the same position as the images': the library has one
    order for all three arrays.
    """

    name = "library-convolution"
    opcodes = (Opcode.CONVOLUTION,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        found = library_convolution(i, self.target.capability)
        return None if found is None or found.is_ready(i) else found.placed(i, editor)


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryForm:
    """An instruction as a convolution of a library.

    It reads `filter` without the reverse that `window` has. The library's filter w, an operand or
    the result, must have its dimensions in `order`.
    """

    convolution: Convolution
    filter: HloInstruction
    window: Window
    order: tuple[int, ...]

    def is_ready(self, i: HloInstruction) -> bool:
        """Return whether the instruction has this form already."""
        return self.filter is i.operands[1] and self._is_in_order(i)

    def _is_in_order(self, i: HloInstruction) -> bool:
        return is_in_order(i if self._is_gradient else self.filter, self.order)

    @property
    def _is_gradient(self) -> bool:
        return self.convolution.direction is Direction.FILTER_GRADIENT

    def placed(self, i: HloInstruction, editor: Editor) -> HloInstruction:
        """Return the instruction in this form; a result that is w is transposed back."""
        numbers, kernel = i.attributes.dimension_numbers, self.filter
        attributes = dataclasses.replace(i.attributes, window=self.window)
        if self._is_in_order(i):
            return editor.add(Opcode.CONVOLUTION, (i.operands[0], kernel), attributes)
        inverse = inverse_permutation(self.order)
        moved = renumbered(numbers, "output" if self._is_gradient else "kernel", inverse)
        if not self._is_gradient:
            kernel = editor.transpose(kernel, self.order)
        attributes = dataclasses.replace(attributes, dimension_numbers=moved)
        made = editor.add(Opcode.CONVOLUTION, (i.operands[0], kernel), attributes)
        return editor.transpose(made, inverse) if self._is_gradient else made


def library_convolution(i: HloInstruction, capability: Capability) -> LibraryForm | None:
    """Return a convolution in the form in which the target's library computes it; None if not."""
    found = form_of(i) if capability.has_convolutions else None
    return found if found is not None and capability.convolves(found.convolution) else None


def form_of(i: HloInstruction) -> LibraryForm | None:
    """Return the form of a convolution for a library, or None.

    A dilated input, or a window that is read backwards, makes a gradient of data, as in XLA's GPU
    backend. A window with more positions than the result makes a gradient of a filter.
    """
    types = {shape.element_type for shape in (i.shape, *(each.shape for each in i.operands))}
    if len(types) > 1 or 0 in (*i.shape.dimensions, *i.operands[0].shape.dimensions):
        return None
    kernel, window = _unreversed(i)
    wide = [d for d in window.dimensions if d.size > 1]
    is_dilated = any(d.base_dilation > 1 for d in window.dimensions)
    is_reversed = bool(wide) and all(d.window_reversal for d in wide)
    if wide and not is_reversed and (is_dilated or any(d.window_reversal for d in wide)):
        return None
    if is_dilated or is_reversed:
        return _form(i, Direction.DATA_GRADIENT, kernel, window)
    numbers: ConvolutionDimensionNumbers = i.attributes.dimension_numbers
    positions = [i.shape.dimensions[d] for d in numbers.output_spatial_dimensions]
    is_filter = math.prod(d.size for d in window.dimensions) > math.prod(positions)
    direction = Direction.FILTER_GRADIENT if is_filter else Direction.FORWARD
    return _form(i, direction, kernel, window)


def _unreversed(i: HloInstruction) -> tuple[HloInstruction, Window]:
    """Return the filter without reverses of spatial dimensions, and the window that has them."""
    kernel, window = i.operands[1], i.attributes.window
    spatial, flipped = i.attributes.dimension_numbers.kernel_spatial_dimensions, set[int]()
    while kernel.opcode is Opcode.REVERSE and set(kernel.attributes.dimensions) <= set(spatial):
        flipped ^= set(kernel.attributes.dimensions)
        kernel = kernel.operands[0]
    dimensions = (
        dataclasses.replace(each, window_reversal=each.window_reversal != (d in flipped))
        for d, each in zip(spatial, window.dimensions, strict=True)
    )
    return kernel, Window(tuple(dimensions))


@dataclasses.dataclass(frozen=True, slots=True)
class _Array:
    """An array of a convolution with its dimensions in the library's order."""

    i: HloInstruction
    order: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.i.shape.dimensions[d] for d in self.order)

    @property
    def exchanged(self) -> "_Array":
        """Return the array with its first two dimensions exchanged."""
        first, second, *spatial = self.order
        return _Array(self.i, (second, first, *spatial))

    def last(self, *, is_channels_last: bool) -> tuple[int, ...]:
        """Return the order, with channels last if so asked."""
        outer, features, *spatial = self.order
        return (outer, *spatial, features) if is_channels_last else self.order


@dataclasses.dataclass(frozen=True, slots=True)
class _Spatial:
    """A spatial dimension; with `high` None the padding behind follows from the sizes."""

    stride: int
    dilation: int
    low: int
    high: int | None = None

    def padding(self, image: int, window: int, positions: int) -> int:
        """Return the padding behind an image: as much as before it if that makes no difference."""
        if self.high is not None:
            return self.high
        reach = (positions - 1) * self.stride + (window - 1) * self.dilation + 1
        least = reach - image - self.low
        same = self.low if least <= self.low < least + self.stride else least
        return max(same, 0) if least + self.stride > 0 else same


def _form(
    i: HloInstruction, direction: Direction, kernel: HloInstruction, window: Window
) -> LibraryForm | None:
    """Return the form in a direction; None for unsupported groups or orders of images."""
    attributes: ConvolutionAttributes = i.attributes
    numbers, dimensions = attributes.dimension_numbers, window.dimensions
    image, taps, result = (
        _Array(i.operands[0], numbers.input_order),
        _Array(kernel, numbers.kernel_order),
        _Array(i, numbers.output_order),
    )
    groups = attributes.feature_group_count, attributes.batch_group_count
    match direction:
        case Direction.FORWARD:
            is_known, x, w, y = groups[1] == 1, image, taps.exchanged, result
            spatial = [
                _Spatial(d.stride, d.window_dilation, d.padding_low, d.padding_high)
                for d in dimensions
            ]
        case Direction.DATA_GRADIENT:
            is_known, x, w, y = groups == (1, 1), result, taps, image
            is_known &= all(d.stride == 1 for d in dimensions)
            spatial = [
                _Spatial(d.base_dilation, d.window_dilation, d.dilated_size - 1 - d.padding_low)
                for d in dimensions
            ]
        case Direction.FILTER_GRADIENT:
            # The library accumulates over its batch, which is the features here.
            is_known, x, w, y = groups[0] == 1, image.exchanged, result.exchanged, taps
            spatial = [_Spatial(d.window_dilation, d.stride, d.padding_low) for d in dimensions]
    orders = [
        is_last
        for is_last in (True, False)
        if all(is_in_order(each.i, each.last(is_channels_last=is_last)) for each in (x, y))
    ]
    if not is_known or not orders or not spatial:
        return None
    (batch, inputs, *sizes), (_, _, *size), (_, outputs, *positions) = (
        each.sizes for each in (x, w, y)
    )
    high = [
        axis.padding(*each) for axis, *each in zip(spatial, sizes, size, positions, strict=True)
    ]
    # Libraries require at least two spatial dimensions.
    ones, zeros = ((1,), (0,)) if len(spatial) == 1 else ((), ())
    element = i.shape.element_type
    convolution = Convolution(
        direction,
        element,
        batch,
        inputs,
        outputs,
        math.prod(groups),
        (*ones, *sizes),
        (*ones, *size),
        (*ones, *positions),
        (*ones, *(axis.stride for axis in spatial)),
        (*ones, *(axis.dilation for axis in spatial)),
        (*zeros, *(axis.low for axis in spatial)),
        (*zeros, *high),
        is_channels_last=orders[0],
        rounds_operands=element is ElementType.F32
        and allows_tf32(attributes.precision, attributes.algorithm),
    )
    return LibraryForm(convolution, kernel, window, w.last(is_channels_last=orders[0]))
