"""Mistakes that the client's functions see before a shape rule does name the operation too."""

from collections.abc import Callable

import pytest

from xla_client import ops
from xla_client.ops.contraction.convolution import default_dimension_numbers
from xla_client.programs.builder import Builder, Op
from xla_client.programs.computation import Computation
from xla_contract.errors import ShapeError
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def _combined(function: Callable[[Op, Op], Op]) -> Computation:
    builder = Builder("combined")
    scalar = Shape.scalar(ElementType.F32)
    return builder.build(function(builder.parameter(0, scalar), builder.parameter(1, scalar)))


_SUM, _LESS = _combined(ops.add), _combined(ops.lt)
_NUMBERS = default_dimension_numbers(1)


@pytest.mark.parametrize(
    ("opcode", "call"),
    [
        (Opcode.SORT, lambda x: ops.sort(x, _LESS, 2)),
        (Opcode.SLICE, lambda x: ops.slice_in_dim(x, 0, 1, 1, 2)),
        (Opcode.PAD, lambda x: ops.pad_in_dim(x, x, -3, 0, 0)),
        (Opcode.REDUCE_WINDOW, lambda x: ops.reduce_window(x, x, _SUM, [2], [1], "same")),
        (
            Opcode.REDUCE_WINDOW,
            lambda x: ops.reduce_window_with_general_padding(x, x, _SUM, [2, 2], [1]),
        ),
        (
            Opcode.SELECT_AND_SCATTER,
            lambda x: ops.select_and_scatter(x, _LESS, [2], [1], "valid", x, x, _SUM),
        ),
        (
            Opcode.SELECT_AND_SCATTER,
            lambda x: ops.select_and_scatter_with_general_padding(
                x, _LESS, [2, 2], [1, 1], [(0, 0)], x, x, _SUM
            ),
        ),
        (
            Opcode.CONVOLUTION,
            lambda x: ops.conv_with_general_dimensions(x, x, [1], "same", _NUMBERS),
        ),
        (
            Opcode.CONVOLUTION,
            lambda x: ops.conv_general_dilated(x, x, [1], [(0, 0)], None, None, _NUMBERS),
        ),
    ],
)
def test_the_message_begins_with_the_operation(opcode: Opcode, call: Callable[[Op], Op]) -> None:
    x = Builder("b").parameter(0, Shape.array(ElementType.F32, [2, 3]))
    with pytest.raises(ShapeError, match=f"^{opcode}: .*, got ") as caught:
        call(x)
    assert caught.value.op == opcode
