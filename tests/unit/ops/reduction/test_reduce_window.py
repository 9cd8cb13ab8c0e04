import numpy as np
import pytest

from tests.corpus.root_text import run_text
from xla_contract.errors import ShapeError
from xla_contract.ops.definitions import infer_shape
from xla_contract.ops.reduction.reduce_window import ReduceWindowAttributes
from xla_contract.types.dimension_numbers import Window, WindowDimension
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape

F32 = Shape.parse("f32[]")
ADD = ProgramShape((F32, F32), F32)
X = np.array([1, 2, 3, 4, 5], np.float32)
ZERO = np.array(0, np.float32)


def sums(window: str, result: str, start: float = 0) -> list[float]:
    root = f"{result} reduce-window(x0, x1), window={{{window}}}, to_apply=add"
    found = run_text(["f32[5]", "f32[]"], root, [X, np.array(start, np.float32)])
    return [float(number) for number in found]


def test_strides_padding_and_dilations_say_which_elements_are_in_a_window() -> None:
    assert sums("size=2", "f32[4]") == [3, 5, 7, 9]
    assert sums("size=2 stride=2", "f32[2]") == [3, 7]
    assert sums("size=3 pad=1_1", "f32[5]") == [3, 6, 9, 12, 9]
    assert sums("size=2 rhs_dilate=3", "f32[2]") == [5, 7]
    assert sums("size=2 lhs_dilate=2", "f32[8]") == [1, 2, 2, 3, 3, 4, 4, 5]
    assert sums("size=3 pad=-1_0", "f32[2]") == [9, 12]


def test_padding_that_cuts_off_everything_leaves_no_window() -> None:
    assert sums("size=2 pad=-4_-4", "f32[0]") == []


def test_every_window_starts_with_the_init_value() -> None:
    assert sums("size=2 stride=4 pad=0_3", "f32[2]", start=10) == [13, 15]


def test_rules() -> None:
    attributes = ReduceWindowAttributes(Window((WindowDimension(2, 2),)))

    def infer(*operands: str) -> str:
        shapes = [Shape.parse(text) for text in operands]
        return str(infer_shape(Opcode.REDUCE_WINDOW, shapes, attributes, [ADD]))

    assert infer("f32[5]", "f32[]") == "f32[2]"
    with pytest.raises(ShapeError, match=r"^reduce-window: .*got 1 in .* for 2"):
        infer("f32[5,5]", "f32[]")
    with pytest.raises(ShapeError, match=r"^reduce-window: .*f32\[1\]"):
        infer("f32[5]", "f32[1]")
