import re
from typing import Any

import numpy as np
import pytest

from tests.corpus.root_text import run_text
from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collectives.collective_permute import CollectivePermuteAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

X = np.arange(4, dtype=np.float32)
U32 = Shape.parse("u32[]")


def test_shapes_stay() -> None:
    ring = CollectivePermuteAttributes(((0, 1), (1, 0)), 1, (U32, U32))
    assert inferred(Opcode.COLLECTIVE_PERMUTE, ["f32[4]{0}"], ring) == "f32[4]"
    assert inferred(Opcode.COLLECTIVE_PERMUTE, ["f32[4]", "s8[]"], ring) == "(f32[4], s8[])"
    started = inferred(Opcode.COLLECTIVE_PERMUTE_START, ["f32[4]"], ring)
    assert started == "(f32[4], f32[4], u32[], u32[])"
    assert inferred(Opcode.COLLECTIVE_PERMUTE_DONE, [started]) == "f32[4]"


@pytest.mark.parametrize(("pairs", "factor"), [("{{0,0}}", 1), ("{}", 0)])
def test_alone_a_value_goes_to_itself_or_nowhere(pairs: str, factor: int) -> None:
    root = f"f32[4] collective-permute(x0), channel_id=1, source_target_pairs={pairs}"
    np.testing.assert_array_equal(run_text(["f32[4]"], root, [X]), X * factor)


def test_halves_and_several_operands() -> None:
    same = CollectivePermuteAttributes(((0, 0),), 0, (U32, U32))
    started = result_of(Opcode.COLLECTIVE_PERMUTE_START, X, attributes=same)
    np.testing.assert_array_equal(result_of(Opcode.COLLECTIVE_PERMUTE_DONE, started), X)
    nobody = CollectivePermuteAttributes(())
    pair = result_of(Opcode.COLLECTIVE_PERMUTE, X, np.int8(3), attributes=nobody)
    np.testing.assert_array_equal(pair[0], np.zeros(4))
    assert pair[1] == 0


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [
        (((0, 1), (1, 0)), "{{0,1},{1,0}}"),
        (((1, 0),), "{{1,0}}"),
        (((0, 1),), "{{0,1}}"),
        (((0, 0), (1, 2)), "{{0,0},{1,2}}"),
    ],
)
def test_replicas_that_do_not_exist_are_refused(pairs: Any, shown: str) -> None:
    attributes = CollectivePermuteAttributes(pairs)
    with pytest.raises(InvalidArgumentError, match=re.escape(f"from 0 to 0, got pairs {shown}")):
        result_of(Opcode.COLLECTIVE_PERMUTE, X, attributes=attributes)
