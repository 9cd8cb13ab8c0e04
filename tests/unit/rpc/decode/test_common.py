"""Fields that requests of several rpcs have."""

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.rpc.decode.common import data_handle, shape_in


def test_a_shape_is_there_or_not() -> None:
    shape = Shape.parse("(f32[2,3]{0,1}, token[])")
    request = extension_pb2.UploadSharedRequest()
    assert shape_in(request, "shape") is None
    request.shape.CopyFrom(shape_to_proto(shape))
    assert shape_in(request, "shape") == shape
    request.shape.element_type = 999  # type: ignore[assignment]
    with pytest.raises(InvalidArgumentError, match="999"):
        shape_in(request, "shape")


def test_a_request_must_name_a_value() -> None:
    with pytest.raises(InvalidArgumentError, match="must hold a data handle, got none"):
        data_handle(xla_pb2.GetShapeRequest(), "data")
    given = xla_data_pb2.GlobalDataHandle(handle=7)
    assert data_handle(xla_pb2.GetShapeRequest(data=given), "data") == 7
