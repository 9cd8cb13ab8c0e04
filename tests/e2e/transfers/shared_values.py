"""Queries of a session in tests of shared memory, and the values they send."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import Message

import xla_client as xc
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.element_type import ElementType


def call(client: xc.Client, name: str, request: Message) -> Any:
    """The response of an rpc, called in a client's session."""
    return client._session.call(name, request)


def use(client: xc.Client) -> Any:
    """Return quotas and use of a client's session and the server."""
    return call(client, "DescribeSession", extension_pb2.DescribeSessionRequest())


def random_array(element_type: ElementType, dimensions: Sequence[int]) -> Any:
    """An array of any bits that are values of a type, NaNs among them."""
    random = np.random.default_rng(int(element_type))
    count = int(np.prod(dimensions)) * element_type.byte_width
    bits = random.integers(0, 256, count, np.uint8)
    if element_type is ElementType.PRED:
        bits &= 1
    if element_type.bit_width < 8:
        bits &= (1 << element_type.bit_width) - 1
    return bits.view(element_type.dtype).reshape(dimensions)
