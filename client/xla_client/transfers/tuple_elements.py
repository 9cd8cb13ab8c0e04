"""Transfers of large tuples element by element, each as a single array is transferred."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from xla_client.programs.compile_options import execution_options
from xla_client.transfers.progress import Progress
from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape

LEAST_BYTES = 64 << 20
"""Size in bytes from which a tuple is worth the calls that take it apart or put it together."""


class TransferSession(Protocol):
    """The methods of a session that transfers use."""

    def call(self, name: str, request: Any, timeout: float | None = None) -> Any:
        """Make a unary call; raises XlaError."""

    def upload(
        self,
        literal: Literal,
        device: int,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Keep a literal on a device; return its data handle."""

    def download(
        self,
        handle: int,
        shape: Shape,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Literal:
        """The value of a data handle in the layouts of `shape`."""


def is_assembled(shape: Shape) -> bool:
    """Return whether a value of this shape is uploaded element by element."""
    leaves_fit = all(leaf.is_array and leaf.is_static for leaf in shape.leaves())
    return shape.is_tuple and leaves_fit and shape.byte_size >= LEAST_BYTES


def is_split(shape: Shape) -> bool:
    """Return whether a value of this shape is downloaded element by element."""
    is_flat = shape.is_tuple and all(part.is_array for part in shape.tuple_shapes)
    return is_flat and shape.byte_size >= LEAST_BYTES


def upload_elements(
    session: TransferSession,
    literal: Literal,
    device: xla_data_pb2.DeviceHandle,
    timeout: float | None,
    progress: Progress | None,
) -> int:
    """Keep a tuple on a device, made there of its elements by a program; return its data handle."""
    handles: list[int] = []
    try:
        for element, part in _parts(literal.shape, progress):
            value = literal.elements[element]
            handles.append(session.upload(value, device.handle, timeout, part))
        request = _program(literal.shape, handles, device)
        response = session.call("ExecuteGraphParallel", request, timeout)
    finally:
        _free(session, handles)
    handle: int = response.responses[0].output.handle
    return handle


def download_elements(
    session: TransferSession,
    handle: int,
    shape: Shape,
    timeout: float | None,
    progress: Progress | None,
) -> Literal:
    """The tuple of a data handle in the layouts of `shape`."""
    request = xla_pb2.DeconstructTupleRequest(
        tuple_handle=xla_data_pb2.GlobalDataHandle(handle=handle)
    )
    response = session.call("DeconstructTuple", request, timeout)
    handles = [element.handle for element in response.element_handles]
    try:
        return Literal.tuple_of(
            [
                session.download(handles[element], shape.tuple_shapes[element], timeout, part)
                for element, part in _parts(shape, progress)
            ]
        )
    finally:
        _free(session, handles)


def _parts(shape: Shape, progress: Progress | None) -> Iterator[tuple[int, Progress | None]]:
    """Yield the number of each element with a progress function for its share of the whole."""
    before = 0
    for number, part in enumerate(shape.tuple_shapes):

        def notify(done: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress(before + done, shape.byte_size)

        yield number, None if progress is None else notify
        before += part.byte_size


def _program(
    shape: Shape, handles: Sequence[int], device: xla_data_pb2.DeviceHandle
) -> xla_pb2.ExecuteGraphParallelRequest:
    # The builder is loaded where a program is written.
    from xla_client.ops.control import tuple as tuple_of
    from xla_client.programs.builder import Builder

    builder = Builder("tuple")
    parameters = [builder.parameter(number, each) for number, each in enumerate(shape.tuple_shapes)]
    request = xla_pb2.ExecuteGraphParallelRequest()
    run = request.requests.add(
        arguments=[xla_data_pb2.GlobalDataHandle(handle=handle) for handle in handles],
        execution_options=execution_options(shape),
    )
    run.execution_options.device_handles.add().CopyFrom(device)
    builder.build(tuple_of(parameters, builder)).write_to(run.computation)
    return request


def _free(session: TransferSession, handles: Sequence[int]) -> None:
    request = xla_pb2.UnregisterRequest(
        data=[xla_data_pb2.GlobalDataHandle(handle=handle) for handle in handles]
    )
    # The error of the failed call is raised, not one of its clean-up.
    with contextlib.suppress(XlaError):
        session.call("Unregister", request)
