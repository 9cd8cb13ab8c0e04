"""Calls, element by element, of computations on scalars that no kernel can hold."""

import dataclasses
import math
from collections.abc import Sequence

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.vectorized_scalars import can_lift
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.loops.counted_loop import Values, counted_loop, read_slice, write_slice
from xla_server.passes.simplify.call_inliner import copied
from xla_server.passes.simplify.constant_folding import FOLDED, constants_of

TRACED = (FOLDED - {Opcode.SORT}) | {
    Opcode.BROADCAST,
    Opcode.CONSTANT,
    Opcode.CONVOLUTION,
    Opcode.COPY,
    Opcode.GET_TUPLE_ELEMENT,
    Opcode.IOTA,
    Opcode.MAP,
    Opcode.PARAMETER,
    Opcode.REDUCE_WINDOW,
    Opcode.STOCHASTIC_CONVERT,
}
"""Operations that a loop nest computes: elements of results from elements of operands."""


class ScalarComputations:
    """Scalar computations that kernels can hold, cached, as each may call the next one twice."""

    def __init__(self) -> None:
        self._known: dict[HloComputation, bool] = {}
        self._lifted: dict[HloComputation, bool] = {}

    def fits_loops(self, computation: HloComputation) -> bool:
        """Return whether loop nests can hold a computation and its callees.

        They have constants of one element; larger ones need buffers, which a callee does not have.
        """
        if computation not in self._known:
            constants = constants_of(computation)
            self._known[computation] = all(
                (self._is_traced(i) or (i.opcode is Opcode.TUPLE and i is computation.root))
                and (i not in constants or (i.shape.is_array and i.shape.element_count == 1))
                for i in computation.instructions
            )
        return self._known[computation]

    def fits_text(self, computation: HloComputation) -> bool:
        """Return whether hand-written kernels can hold a computation: a formula of scalars only."""
        return can_lift(computation, self._lifted) and self.fits_loops(computation)

    def _is_traced(self, i: HloInstruction) -> bool:
        return i.opcode in TRACED and all(map(self.fits_loops, i.called))


@dataclasses.dataclass(frozen=True)
class ScalarCallEmitter:
    """Writes calls of a computation with `editor`."""

    editor: Editor
    computation: HloComputation

    def one(self, arguments: Values) -> list[HloInstruction]:
        """The results for scalars, which are converted to the parameters' types."""
        typed = tuple(
            self.editor.convert(argument, parameter.shape.element_type)
            for argument, parameter in zip(arguments, self.computation.parameters, strict=True)
        )
        return self.editor.elements(copied(self.computation, typed, self.editor))

    def one_where(
        self, condition: HloInstruction, arguments: Values, otherwise: Values
    ) -> list[HloInstruction]:
        """The results if a scalar condition holds, else `otherwise`, without a call."""
        editor = self.editor
        operand = editor.add(Opcode.TUPLE, (*arguments, *otherwise))
        outside = editor.drain()
        branches = []
        for is_called in (True, False):
            parameter = editor.parameter(0, operand.shape)
            parts = editor.elements(parameter)
            others = parts[len(arguments) :]
            results = self.one(parts[: len(arguments)]) if is_called else others
            pairs = zip(results, others, strict=True)
            typed = [editor.convert(result, other.shape.element_type) for result, other in pairs]
            root = editor.add(Opcode.TUPLE, typed)
            name = f"{self.computation.name}.{'called' if is_called else 'not_called'}"
            branches.append(editor.computation(name, editor.drain(), root, [parameter]))
        editor.put_back(outside)
        editor.inner += branches
        chosen = editor.add(Opcode.CONDITIONAL, (condition, operand, operand), called=branches)
        return editor.elements(chosen)

    def each(
        self, arrays: Values, condition: HloInstruction | None = None, otherwise: Values = ()
    ) -> list[HloInstruction]:
        """The results for each element of arrays of equal dimensions, in row-major order.

        With a condition, also an array, the computation is called only for elements where that
        holds; other elements have the results `otherwise`.
        """
        editor = self.editor
        dimensions = arrays[0].shape.dimensions
        size = math.prod(dimensions)
        root = self.computation.root.shape
        shapes: Sequence[Shape] = root.parts
        if condition is not None:
            shapes = [part.shape for part in otherwise]
        results = [Shape.array(shape.element_type, (size,)) for shape in shapes]
        if not size:
            return [editor.reshape(editor.zeros(shape), dimensions) for shape in results]
        inputs = [*arrays, *otherwise, *([] if condition is None else [condition])]

        def called(scalars: Values) -> list[HloInstruction]:
            arguments = scalars[: len(arrays)]
            if condition is None:
                return self.one(arguments)
            return self.one_where(scalars[-1], arguments, scalars[len(arrays) : -1])

        if size == 1:
            found = called([editor.reshape(array, ()) for array in inputs])
            return [editor.reshape(part, dimensions) for part in found]

        def body(number: HloInstruction, invariants: Values, results: Values) -> Values:
            found = called([read_slice(editor, array, number) for array in invariants])
            return [
                write_slice(editor, result, part, number)
                for result, part in zip(results, found, strict=True)
            ]

        flat = [editor.reshape(array, (size,)) for array in inputs]
        initial = [editor.zeros(shape) for shape in results]
        name = self.computation.name
        found = counted_loop(editor, name, size, flat, initial, body)
        return [editor.reshape(part, dimensions) for part in found]
