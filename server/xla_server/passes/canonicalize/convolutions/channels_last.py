"""Convolutions with channels last (NHWC): batch, spatial dimensions, features.

The fastest kernels have that order: they write blocks of whole rows. Transposes of results move
past the users of a convolution: elementwise operations, operations on dimensions and further
convolutions. So a network with channels first is transposed only at its ends.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from xla_contract.ops.reduction.reduce_window import ReduceWindowAttributes
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers, Window
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor, inverse_permutation, users
from xla_server.passes.framework.rewrite_pass import Rule, TargetRewritePass
from xla_server.target.target import Target


class _Moving:
    """Moves transposes behind the instructions that read them, operands first."""

    def __init__(self, computation: HloComputation, editor: Editor, target: Target) -> None:
        self._target = target
        self._editor = editor
        self._readers = users(computation)
        self._made: set[HloInstruction] = set()

    def moved(self, i: HloInstruction) -> HloInstruction | None:
        """An instruction on the untransposed operands; None if it is not moved."""
        if i.opcode is Opcode.CONVOLUTION:
            found = self._convolution(i)
        else:
            permutation = self._order_of(i)
            found = None if permutation is None else _RULES[i.opcode](i, permutation, self._editor)
        if found is None:
            return None
        made, order = found
        if list(order) == sorted(order):
            return made
        result = self._editor.transpose(made, order)
        self._readers[result] = self._readers[i]
        self._made.add(result)
        return result

    def _order_of(self, i: HloInstruction) -> tuple[int, ...] | None:
        """Return the permutation of an instruction's operands, if all have the same."""
        orders = {part.attributes.permutation for part in i.operands if part in self._made}
        if len(orders) != 1 or i.control_predecessors:
            return None
        for part in i.operands:
            if part in self._made:
                # For another reader of the original order the transpose would stay in any case.
                if not all(reader.opcode in _TAKEN for reader in self._readers[part]):
                    return None
            elif part.shape.rank and part.opcode is not Opcode.BROADCAST:
                return None
        return tuple(*orders)

    def _convolution(self, i: HloInstruction) -> "Moved":
        """Return a convolution with channels last of the operands before their transposes."""
        numbers = i.attributes.dimension_numbers
        operands = list(i.operands)
        for number, array in enumerate(("input", "kernel")):
            if operands[number] in self._made:
                order = operands[number].attributes.permutation
                (operands[number],) = operands[number].operands
                numbers = renumbered(numbers, array, order)
        back: tuple[int, ...] = ()
        is_taken = operands[0] is not i.operands[0]
        if is_worth_it(i, self._target) or (is_taken and has_unit_window(i)):
            into = _last(numbers.input_order)
            operands[0] = self._editor.transpose(operands[0], into)
            numbers = renumbered(numbers, "input", inverse_permutation(into))
            inputs, outputs, *window = numbers.kernel_order
            operands[1] = self._editor.transpose(operands[1], (*window, inputs, outputs))
            numbers = renumbered(numbers, "kernel", inverse_permutation((*window, inputs, outputs)))
            back = inverse_permutation(_last(numbers.output_order))
            numbers = renumbered(numbers, "output", back)
        if operands == list(i.operands) and numbers == i.attributes.dimension_numbers:
            return None
        attributes = dataclasses.replace(i.attributes, dimension_numbers=numbers)
        made = self._editor.add(Opcode.CONVOLUTION, operands, attributes)
        made.control_predecessors = i.control_predecessors
        return made, back


def _last(order: Sequence[int]) -> tuple[int, ...]:
    """Return dimensions as batch, spatial ones, feature; `order` has the feature second."""
    batch, feature, *spatial = order
    return (batch, *spatial, feature)


def has_unit_window(i: HloInstruction) -> bool:
    """Return whether the window of a convolution has a single element."""
    return all(d.size == 1 for d in i.attributes.window.dimensions)


def is_worth_it(i: HloInstruction, target: Target) -> bool:
    """Return whether channels last makes a convolution faster by more than transposes cost."""
    capability, tuning = target.capability, target.tuning.convolution_layouts
    numbers, window = i.attributes.dimension_numbers, i.attributes.window.dimensions
    kernel, groups = i.operands[1].shape, i.attributes.feature_group_count
    if i.attributes.batch_group_count > 1 or len(window) not in (1, 2, 3):
        return False
    outputs = kernel.dimensions[numbers.kernel_output_feature_dimension]
    depth = kernel.element_count // max(outputs, 1)
    if has_unit_window(i) or not i.shape.element_count:
        return False
    if min(outputs // groups, depth) < tuning.min_group_features <= groups:
        is_last = _last(numbers.output_order)[-1] == i.shape.rank - 1
        return bool(groups >= tuning.min_groups) and not is_last
    if len({part.shape.element_type for part in (i, *i.operands)}) > 1:
        return False
    if i.shape.element_type not in capability.TILED_CONVOLUTIONS:
        return False
    moved = sum(
        part.shape.element_count
        for part, order in ((i.operands[0], numbers.input_order), (i, numbers.output_order))
        if list(_last(order)) != sorted(order)
    )
    row = i.shape.dimensions[numbers.output_spatial_dimensions[-1]]
    is_wide = capability.is_wide_enough(outputs // groups, groups)
    is_tiled = is_wide and row >= capability.MIN_TILED_ROW and depth <= capability.MAX_TILED_DEPTH
    return is_tiled and bool(i.shape.element_count * depth >= moved * capability.MIN_TAPS)


def renumbered(
    numbers: ConvolutionDimensionNumbers, array: str, order: Sequence[int]
) -> ConvolutionDimensionNumbers:
    """The numbers where dimension d of "input", "kernel" or "output" is `order[d]` now."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(numbers):
        if field.name.startswith(array):
            old = getattr(numbers, field.name)
            is_list = isinstance(old, tuple)
            changed[field.name] = tuple(order[d] for d in old) if is_list else order[old]
    return dataclasses.replace(numbers, **changed)


Moved: TypeAlias = tuple[HloInstruction, tuple[int, ...]] | None
"""An instruction before a transpose, and the permutation of that; None if it is not moved."""


def _elementwise(i: HloInstruction, order: tuple[int, ...], editor: Editor) -> Moved:
    """Apply the operation before the transposes; broadcasts get permuted dimensions."""
    operands: list[HloInstruction] = []
    for part in i.operands:
        if part.opcode is Opcode.TRANSPOSE:
            operands += part.operands
        elif not part.shape.rank:
            operands.append(part)
        else:
            mapped = [order[d] for d in part.attributes.dimensions]
            dimensions = [part.shape.dimensions[d] for d in inverse_permutation(order)]
            operands.append(editor.broadcast(part.operands[0], mapped, dimensions))
    return editor.add(i.opcode, operands, i.attributes), order


def _reduce(i: HloInstruction, order: tuple[int, ...], editor: Editor) -> Moved:
    """Reduce over the same dimensions before the transpose; the other ones are permuted."""
    if len(i.operands) != 2 or i.operands[0].opcode is not Opcode.TRANSPOSE:
        return None
    reduced = [order[d] for d in i.attributes.dimensions]
    (source,) = i.operands[0].operands
    made = editor.reduce(source, i.operands[1], reduced, i.called[0])
    kept = [order[d] for d in range(len(order)) if d not in i.attributes.dimensions]
    return made, tuple(sorted(kept).index(d) for d in kept)


def _reduce_window(i: HloInstruction, order: tuple[int, ...], editor: Editor) -> Moved:
    """Apply a window with its dimensions in the order before the transpose."""
    if len(i.operands) != 2 or i.operands[0].opcode is not Opcode.TRANSPOSE:
        return None
    window = i.attributes.window.dimensions
    dimensions = tuple(window[d] for d in inverse_permutation(order))
    attributes = ReduceWindowAttributes(Window(dimensions))
    (source,) = i.operands[0].operands
    made = editor.add(Opcode.REDUCE_WINDOW, (source, i.operands[1]), attributes, called=i.called)
    return made, order


def _concatenate(i: HloInstruction, order: tuple[int, ...], editor: Editor) -> Moved:
    """Concatenate operands before their transposes, if all of them have one."""
    if any(part.opcode is not Opcode.TRANSPOSE for part in i.operands):
        return None
    sources = [part.operands[0] for part in i.operands]
    return editor.concatenate(sources, order[i.attributes.dimension]), order


_RULES: Mapping[Opcode, Callable[[HloInstruction, tuple[int, ...], Editor], Moved]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.CONCATENATE: _concatenate,
}
_TAKEN = frozenset({*_RULES, Opcode.CONVOLUTION, Opcode.TRANSPOSE})
"""Opcodes of instructions that transposes are moved behind."""


class ChannelsLast(TargetRewritePass):
    """Transposes the operands of convolutions, and their results back, as late as possible."""

    name = "channels-last"
    opcodes = _TAKEN - {Opcode.TRANSPOSE}

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule | None:
        if all(i.opcode is not Opcode.CONVOLUTION for i in computation.instructions):
            return None
        return _Moving(computation, editor, self.target).moved
