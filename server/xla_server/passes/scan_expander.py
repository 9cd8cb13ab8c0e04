"""scan as a while loop that reads and writes one slice each time."""

import dataclasses

from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.build import constant, element, zeros
from xla_server.passes.counted_loop import Values, counted_loop, read_slice, write_slice
from xla_server.passes.edit import Editor, rewrite


@dataclasses.dataclass(frozen=True)
class ScanExpander:
    """Writes scans out as loops, whose steps are then inlined and simplified as any loop's."""

    name: str = "scan-expander"

    def apply(self, module: HloModule) -> bool:
        """Expand everywhere; whether anything was."""
        editor = Editor(module)
        changed = False
        for computation in list(module.computations):
            made: list[HloComputation] = []

            def rule(i: HloInstruction, made: list[HloComputation] = made) -> HloInstruction | None:
                return _expanded(i, editor, made) if i.opcode is Opcode.SCAN else None

            changed |= rewrite(computation, rule, editor)
            place = module.computations.index(computation)
            module.computations[place:place] = made
        return changed


def _expanded(i: HloInstruction, editor: Editor, made: list[HloComputation]) -> HloInstruction:
    attributes = i.attributes
    (step,) = i.called
    count = len(i.operands) - attributes.carries
    arrays, carried = i.operands[:count], i.operands[count:]
    shapes = i.shape.tuple_shapes if i.shape.is_tuple else (i.shape,)
    outputs = len(shapes) - attributes.carries
    size = int(arrays[0].shape.dimensions[attributes.dimension])

    def turn(number: HloInstruction, given: Values, results: Values) -> Values:
        place = number
        if attributes.is_reverse:
            last = constant(editor, size - 1, ElementType.S64)
            place = editor.add(Opcode.SUBTRACT, (last, number))
        slices = [read_slice(editor, array, place, attributes.dimension) for array in given]
        taken = editor.add(Opcode.CALL, (*slices, *results[outputs:]), called=(step,))
        new = [taken]
        if step.root.shape.is_tuple:
            new = [element(editor, taken, n) for n in range(len(results))]
        for n, output in enumerate(results[:outputs]):
            new[n] = write_slice(editor, output, new[n], place, attributes.dimension)
        return new

    initial = [*(zeros(editor, shape) for shape in shapes[:outputs]), *carried]
    found = counted_loop(editor, made, i.name, size, arrays, initial, turn)
    return editor.add(Opcode.TUPLE, found) if i.shape.is_tuple else found[0]
