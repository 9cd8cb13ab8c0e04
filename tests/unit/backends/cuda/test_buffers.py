"""Values in the memory of devices: placed, read, moved, given up, and lost."""

import os
import signal
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from tests.unit.backends.cuda.platforms import WORKER
from tests.unit.backends.cuda.worker.fake_driver import TOTAL_BYTES
from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.cuda import buffers
from xla_server.backends.cuda.buffers import CudaBuffer, DevicePlacement
from xla_server.backends.cuda.workers import start_workers
from xla_server.backends.platform import Device
from xla_server.execution import memory_check

DEVICES = tuple(Device(number, "cuda") for number in range(2))
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def placement() -> Iterator[DevicePlacement]:
    workers = start_workers(2, WORKER)
    yield DevicePlacement(workers)
    for worker in workers:
        worker.close()


@pytest.mark.parametrize(
    "array",
    [
        X,
        X[:0],
        np.float32(7),
        np.array([True, False]),
        np.arange(3).astype(ml_dtypes.int4),
        np.complex64([1 + 2j]),
        np.arange(100_000),
    ],
)
def test_a_value_comes_back_as_it_went(placement: DevicePlacement, array: np.ndarray) -> None:
    buffer = placement.placed(Literal.from_numpy(np.asarray(array)), DEVICES[1])
    found = buffer.to_literal().value
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert not found.flags.writeable
    assert (buffer.device, buffer.address.worker) == (DEVICES[1], placement.workers[1])


def test_a_layout_is_that_of_the_way_out(placement: DevicePlacement) -> None:
    shape = Shape.parse("f32[2,3]{0,1}")
    buffer = placement.placed(Literal.from_numpy(X, shape), DEVICES[0])
    assert (buffer.shape, buffer.to_literal().shape) == (shape, shape)
    np.testing.assert_array_equal(buffer.to_literal().value, X)
    other = buffer.to_literal(Shape.parse("f32[2,3]{1,0}"))
    np.testing.assert_array_equal(other.value, X)
    with pytest.raises(InvalidArgumentError, match=r"compatible with the value, got f32\[3"):
        buffer.to_literal(Shape.parse("f32[3,2]"))


def test_a_tuple_has_elements_of_its_own(placement: DevicePlacement) -> None:
    literal = Literal.tuple_of([Literal.from_numpy(X), Literal.token()])
    buffer = placement.placed(literal, DEVICES[0])
    array, token = buffer.elements
    assert buffer.elements is buffer.elements
    assert (buffer.memory, token.memory, buffer.byte_size) == (None, None, literal.shape.byte_size)
    del buffer
    np.testing.assert_array_equal(array.to_literal().value, X)


def test_the_evaluator_s_values_are_placed_and_read(placement: DevicePlacement) -> None:
    shape = Shape.parse("(f32[2,3], token[])")
    found = placement.from_value(
        (X, placement.placed(Literal.token(), DEVICES[0]).value), shape, DEVICES[0]
    )
    assert found.elements[0].memory is not None
    np.testing.assert_array_equal(found.value[0], X)  # type: ignore[index]


def test_arrays_of_dynamic_shape_stay_on_the_host(placement: DevicePlacement) -> None:
    shape = Shape.parse("f32[<=4]")
    buffer = placement.from_value(np.float32([1, 2]), shape, DEVICES[0])
    assert buffer.memory is None
    assert buffer.to_literal().dynamic_sizes == (2,)
    with pytest.raises(InvalidArgumentError, match=r"must have static sizes, got f32\[<=4\]"):
        buffer.address  # noqa: B018


def test_a_copy_on_another_device_goes_through_the_host(placement: DevicePlacement) -> None:
    buffer = placement.placed(Literal.from_numpy(X), DEVICES[0])
    assert placement.moved(buffer, DEVICES[0]) is buffer
    other = placement.moved(buffer, DEVICES[1])
    assert (other.device, other.address.worker) == (DEVICES[1], placement.workers[1])
    np.testing.assert_array_equal(other.to_literal().value, X)


def test_a_buffer_that_was_given_up_is_used_no_more(placement: DevicePlacement) -> None:
    buffer = placement.placed(Literal.from_numpy(X), DEVICES[0])
    assert buffer.is_sole_owner
    other = buffer.donated()
    assert other.is_sole_owner
    for use in (buffer.to_literal, lambda: buffer.address, lambda: buffer.value):
        with pytest.raises(InvalidArgumentError, match="once it was donated"):
            use()
    shared = other.as_shape(Shape.parse("f32[6]"), DEVICES[0])
    assert not other.is_sole_owner
    np.testing.assert_array_equal(shared.to_literal().value, X.reshape(-1))


def test_a_value_without_memory_is_refused_with_figures_and_others_stay(
    placement: DevicePlacement,
) -> None:
    kept = placement.placed(Literal.from_numpy(X), DEVICES[0])
    large = Literal.from_numpy(np.zeros(TOTAL_BYTES, np.uint8))
    with pytest.raises(
        ResourceExhaustedError, match=f"{TOTAL_BYTES} bytes with .* free of {TOTAL_BYTES}"
    ):
        placement.placed(large, DEVICES[0])
    np.testing.assert_array_equal(kept.to_literal().value, X)


def test_a_value_that_the_host_has_no_memory_for_stays_on_the_device(
    placement: DevicePlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = placement.placed(Literal.from_numpy(X), DEVICES[0])
    with monkeypatch.context() as patch:
        patch.setattr(memory_check, "free_memory", lambda: memory_check.RESERVE)
        patch.setattr(buffers, "LARGE", X.nbytes)
        with pytest.raises(ResourceExhaustedError, match=f"{X.nbytes} for f32"):
            buffer.to_literal()
    np.testing.assert_array_equal(buffer.to_literal().value, X)


def test_values_of_a_lost_worker_are_unavailable_and_new_ones_work() -> None:
    (worker,) = start_workers(1, WORKER)
    placement = DevicePlacement([worker])
    lost = placement.placed(Literal.from_numpy(X), DEVICES[0])
    os.kill(worker.process().process_id, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"worker of device 0 .* incident") as raised:
            lost.to_literal()
        assert raised.value.incident
    found = placement.placed(Literal.from_numpy(X), DEVICES[0])
    assert isinstance(found, CudaBuffer)
    np.testing.assert_array_equal(found.to_literal().value, X)
    worker.close()
