"""Arithmetic of passes in formulas."""

import numpy as np

from tests.unit.passes.passing import stated
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.interpret import evaluate
from xla_server.passes.framework.editor import Editor, rearrange
from xla_server.passes.framework.formula import Term


def test_terms_compute_what_their_operators_say() -> None:
    module = stated(["f32[3]", "s32[2,3]"], "f32[3] negate(x0)")
    editor, (x, whole) = Editor(module), module.entry.parameters
    term, row = Term(editor, x), Term(editor, editor.at(whole, 1))
    bits = ((row >> 1) & 3).converted(ElementType.F32)
    result = (term < bits).choose(1 - term * bits, (bits + 2) / term).apply(Opcode.NEGATE) - 0.5
    module.entry.root = result.instruction
    module.entry.instructions += editor.drain()
    rearrange(module.entry)
    given = np.array([4, 0.5, -2], np.float32), np.array([[0, 0, 0], [5, 6, 15]], np.int32)
    assert evaluate(module, given).tolist() == [-1.5, 0.0, -7.5]


def test_a_slice_at_an_index_loses_its_dimension() -> None:
    module = stated(["f32[2,3,4]"], "f32[2,3,4] negate(x0)")
    at = Editor(module).at(module.entry.parameters[0], 2, 1)
    (cut,) = at.operands
    assert at.shape.dimensions == (2, 4)
    assert (cut.attributes.starts, cut.attributes.limits) == ((0, 2, 0), (2, 3, 4))
