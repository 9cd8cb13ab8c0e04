"""scan as a while loop that reads and writes one slice per iteration."""

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass
from xla_server.passes.loops.counted_loop import Values, counted_loop, read_slice, write_slice


class ScanExpander(RewritePass):
    """Expands scans to loops, whose bodies are then inlined and simplified like others."""

    name = "scan-expander"
    opcodes = (Opcode.SCAN,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction:
        attributes = i.attributes
        (step,) = i.called
        count = len(i.operands) - attributes.carries
        arrays, carried = i.operands[:count], i.operands[count:]
        shapes = i.shape.parts
        outputs = len(shapes) - attributes.carries
        size = int(arrays[0].shape.dimensions[attributes.dimension])

        def body(number: HloInstruction, inputs: Values, results: Values) -> Values:
            index = number
            if attributes.is_reverse:
                last = editor.constant(size - 1, ElementType.S64)
                index = editor.add(Opcode.SUBTRACT, (last, number))
            slices = [read_slice(editor, array, index, attributes.dimension) for array in inputs]
            called = editor.add(Opcode.CALL, (*slices, *results[outputs:]), called=(step,))
            new = editor.elements(called)
            for n, output in enumerate(results[:outputs]):
                new[n] = write_slice(editor, output, new[n], index, attributes.dimension)
            return new

        initial = [*(editor.zeros(shape) for shape in shapes[:outputs]), *carried]
        found = counted_loop(editor, i.name, size, arrays, initial, body)
        return editor.results_as(i, found)
