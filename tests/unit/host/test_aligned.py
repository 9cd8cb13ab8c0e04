import numpy as np
import pytest

from xla_contract.types.literal import Literal, with_aligned_elements
from xla_contract.types.shape import Shape
from xla_host.aligned import ALIGNMENT, aligned_empty


@pytest.mark.parametrize("dimensions", [(), (0, 3), (5, 7)])
def test_memory_begins_at_a_multiple(dimensions: tuple[int, ...]) -> None:
    array = aligned_empty(dimensions, np.float64)
    assert array.shape == dimensions
    assert array.dtype == np.float64
    assert array.size == 0 or array.ctypes.data % ALIGNMENT == 0


def shifted(count: int) -> np.ndarray:
    return np.frombuffer(bytes(range(4 * count + 1)), np.uint8)[1:].view(np.float32)


def test_only_what_lies_askew_is_copied() -> None:
    shape = Shape.parse("f32[2,3]{0,1}")
    askew = Literal.from_linear_memory(shape, shifted(6))
    straight = with_aligned_elements(askew)
    assert straight == askew
    assert straight.value.flags.aligned
    assert straight.value.flags.c_contiguous
    assert not straight.value.flags.writeable
    assert with_aligned_elements(straight) is straight
    whole = with_aligned_elements(Literal.tuple_of([askew, Literal.token()]))
    assert whole == Literal.tuple_of([askew, Literal.token()])
    assert whole.elements[0].value.flags.aligned


def test_dynamic_sizes_stay() -> None:
    literal = Literal.from_linear_memory(Shape.parse("f32[<=3]{0}"), shifted(3), (2,))
    assert with_aligned_elements(literal).dynamic_sizes == (2,)
