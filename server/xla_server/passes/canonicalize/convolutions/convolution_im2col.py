"""Convolutions as products with an im2col matrix."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from xla_contract.ops.contraction.convolution import ConvolutionAttributes
from xla_contract.ops.shaping.reverse import ReverseAttributes
from xla_contract.types.dimension_numbers import DotDimensionNumbers, PaddingDimension
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.canonicalize.convolutions.library_convolution import library_convolution
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import TargetRewritePass


class ConvolutionIm2col(TargetRewritePass):
    """Writes a convolution as a dot of an im2col matrix and the kernel, if the target wants that.

    A row of the matrix has the elements of the input under one position of the window. The matrix
    is a concatenation of slices of the padded input: one for each element of the window, or one for
    each position, whichever are fewer.
    """

    name = "convolution-im2col"
    opcodes = (Opcode.CONVOLUTION,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        a: ConvolutionAttributes = i.attributes
        types = {operand.shape.element_type for operand in i.operands}
        capability = self.target.capability
        if a.feature_group_count != 1 or a.batch_group_count != 1 or 0 in i.shape.dimensions:
            return None
        if library_convolution(i, capability) is not None:
            return None
        im2col = _Im2col.of(i)
        if not im2col.window or not capability.packs_operands(types, i.shape.element_type):
            return None
        sizes = im2col.rows, im2col.features, im2col.depth
        slices = min(math.prod(im2col.positions), math.prod(im2col.window))
        element_type = i.operands[0].shape.element_type
        if not capability.multiplies_im2col(sizes, slices, element_type):
            return None
        return im2col.product(editor)


@dataclasses.dataclass(frozen=True, slots=True)
class _Im2col:
    """The im2col matrix of a convolution; `positions` and `window` are spatial sizes."""

    i: HloInstruction
    batch: int
    inputs: int
    features: int
    positions: tuple[int, ...]
    window: tuple[int, ...]

    @classmethod
    def of(cls, i: HloInstruction) -> "_Im2col":
        """Return the im2col matrix of a convolution."""
        numbers = i.attributes.dimension_numbers
        base, output = i.operands[0].shape.dimensions, i.shape.dimensions
        return cls(
            i,
            base[numbers.input_batch_dimension],
            base[numbers.input_feature_dimension],
            output[numbers.output_feature_dimension],
            tuple(output[d] for d in numbers.output_spatial_dimensions),
            tuple(dimension.size for dimension in i.attributes.window.dimensions),
        )

    @property
    def rows(self) -> int:
        """The rows of the matrix."""
        return self.batch * math.prod(self.positions)

    @property
    def depth(self) -> int:
        """The columns of the matrix, which the product contracts."""
        return math.prod(self.window) * self.inputs

    def product(self, editor: Editor) -> HloInstruction:
        """Return the convolution as a product."""
        i, numbers = self.i, self.i.attributes.dimension_numbers
        form = DotDimensionNumbers((1,), (0,), (), ())
        dot = editor.dot(i, self._matrix(editor), self._kernel(editor), form)
        result = editor.reshape(dot, (self.batch, *self.positions, self.features))
        # `output` lists (batch, features, *spatial); here features are last.
        last = len(self.positions) + 1
        found = dict(zip(numbers.output_order, (0, last, *range(1, last)), strict=True))
        return editor.transpose(result, [found[d] for d in range(i.shape.rank)])

    def _kernel(self, editor: Editor) -> HloInstruction:
        """Return the kernel as [depth, features]."""
        numbers, kernel = self.i.attributes.dimension_numbers, self.i.operands[1]
        inputs, outputs, *spatial = numbers.kernel_order
        window = zip(spatial, self.i.attributes.window.dimensions, strict=True)
        reversed_dimensions = tuple(d for d, dimension in window if dimension.window_reversal)
        if reversed_dimensions:
            kernel = editor.add(Opcode.REVERSE, (kernel,), ReverseAttributes(reversed_dimensions))
        kernel = editor.transpose(kernel, (*spatial, inputs, outputs))
        return editor.reshape(kernel, (self.depth, self.features))

    def _matrix(self, editor: Editor) -> HloInstruction:
        """Return the matrix, [rows, depth]."""
        base = self._padded(editor)
        by_window = math.prod(self.window) <= math.prod(self.positions)
        parts, shape = [], (self.batch, *self.positions, self.inputs)
        for starts, limits, strides in self._boxes(by_window=by_window):
            ends = (self.batch, *limits, self.inputs)
            part = editor.sliced(base, (0, *starts, 0), ends, (1, *strides, 1))
            parts.append(part if by_window else editor.reshape(part, (self.batch, 1, self.depth)))
        dimension = len(shape) - 1 if by_window else 1
        joined = parts[0]
        if len(parts) > 1:
            joined = editor.concatenate(parts, dimension)
        return editor.reshape(joined, (self.rows, self.depth))

    def _boxes(
        self, *, by_window: bool
    ) -> Iterator[tuple[Sequence[int], Sequence[int], Sequence[int]]]:
        """Yield starts, limits and strides of the slices in the spatial dimensions."""
        window = self.i.attributes.window.dimensions
        steps = [dimension.stride for dimension in window]
        gaps = [dimension.window_dilation for dimension in window]
        apart, sizes, strides, inside = (
            (gaps, self.window, steps, self.positions)
            if by_window
            else (steps, self.positions, gaps, self.window)
        )
        for at in itertools.product(*map(range, sizes)):
            starts = [number * step for number, step in zip(at, apart, strict=True)]
            limits = [
                start + (size - 1) * stride + 1
                for start, size, stride in zip(starts, inside, strides, strict=True)
            ]
            yield starts, limits, strides

    def _padded(self, editor: Editor) -> HloInstruction:
        """Return the input as [batch, *spatial, inputs], padded and dilated."""
        batch, inputs, *spatial = self.i.attributes.dimension_numbers.input_order
        base = editor.transpose(self.i.operands[0], (batch, *spatial, inputs))
        none = PaddingDimension()
        padding = [
            PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1)
            for d in self.i.attributes.window.dimensions
        ]
        if all(each == none for each in padding):
            return base
        zero = editor.constant(0, base.shape.element_type)
        return editor.pad(base, zero, (none, *padding, none))
