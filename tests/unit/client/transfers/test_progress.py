"""Transfers through shared memory report their progress."""

import threading
from typing import Any

import numpy as np
import pytest

from tests.fault.plain import until
from xla_client.transfers.progress import STEP_BYTES, watching, write_in_steps
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.linear_memory import write_linear_memory


@pytest.mark.parametrize("shape", ["f32[700,900]", "f32[700,900]{0,1}", "pred[1500,1000]", "s8[3]"])
def test_what_is_written_in_steps_is_what_is_written_at_once(shape: str) -> None:
    wanted = Shape.parse(shape).with_default_layout()
    generator = np.random.default_rng(0)
    values = generator.integers(0, 2, wanted.dimensions).astype(wanted.element_type.dtype)
    literal = Literal.from_numpy(values, wanted)
    expected = np.zeros(wanted.byte_size, np.uint8)
    found, reported = expected.copy(), list[tuple[int, int]]()
    write_linear_memory(literal, expected)
    write_in_steps(literal, found, lambda *now: reported.append(now))
    np.testing.assert_array_equal(found, expected)
    size = wanted.byte_size
    assert reported == [(done, size) for done in range(STEP_BYTES, size, STEP_BYTES)]


def test_what_somebody_else_writes_is_reported_step_by_step() -> None:
    memory, reported = np.zeros(4 * STEP_BYTES, np.uint8), list[tuple[int, int]]()
    with watching(memory, lambda *now: reported.append(now)):
        for step in range(3):
            memory[step * STEP_BYTES : (step + 1) * STEP_BYTES] = 7
            until(lambda step=step: len(reported) == step + 1)  # type: ignore[misc]
        memory[3 * STEP_BYTES :] = 7
    assert reported == [(done * STEP_BYTES, memory.size) for done in (1, 2, 3)]


def test_what_progress_raises_comes_out() -> None:
    memory = np.zeros(2 * STEP_BYTES, np.uint8)

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    def write() -> None:
        with watching(memory, fail):
            memory[:] = 7
            until(lambda: not any(each.name == "progress" for each in threading.enumerate()))

    with pytest.raises(ZeroDivisionError):
        write()


def test_small_memory_and_no_callback_are_left_alone() -> None:
    memory = np.zeros(STEP_BYTES, np.uint8)
    with watching(memory, print), watching(np.zeros(4 * STEP_BYTES, np.uint8), None):
        assert not memory.any()
