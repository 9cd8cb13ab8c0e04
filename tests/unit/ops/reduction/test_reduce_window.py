import numpy as np

from tests.corpus.root_text import run_text
from xla_contract.ops.definitions import infer_shape
from xla_contract.ops.reduction.reduce_window import ReduceWindowAttributes
from xla_contract.types.dimension_numbers import Window, WindowDimension
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape

F32 = Shape.parse("f32[]")


def test_padding_that_cuts_off_everything_leaves_no_window() -> None:
    root = "f32[0] reduce-window(x0, z), window={size=2 pad=-4_-4}, to_apply=add"
    assert run_text(["f32[5]"], root, [np.ones(5, np.float32)]).shape == (0,)


def test_windows_that_do_not_fit_are_left_out() -> None:
    attributes = ReduceWindowAttributes(Window((WindowDimension(2, 2),)))
    add = ProgramShape((F32, F32), F32)
    found = infer_shape(Opcode.REDUCE_WINDOW, [Shape.parse("f32[5]"), F32], attributes, [add])
    assert str(found) == "f32[2]"
