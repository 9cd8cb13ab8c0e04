from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from xla_client import Builder, ops
from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2
from xla_contract.types.shape import parse_shape
from xla_contract.wire.literals import parsed_size
from xla_contract.wire.literals.decoding import decode_literal_message
from xla_contract.wire.literals.parsed_size import check_parse_size
from xla_contract.wire.literals.proto import literal_from_proto
from xla_contract.wire.shape_proto import shape_to_proto
from xla_contract.wire.varint import encode_varint

UPLOAD = xla_pb2.TransferToServerRequest
COMPILE = xla_pb2.CompileRequest
MANY = 1 << 18


def tagged(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def number_of(kind: Any, name: str) -> int:
    number: int = kind.DESCRIPTOR.fields_by_name[name].number
    return number


def shape(text: str) -> bytes:
    return tagged(1, shape_to_proto(parse_shape(text)).SerializeToString())


def constant(literal: bytes) -> bytes:
    """A CompileRequest whose program has an instruction with a literal."""
    data = literal
    for kind, name in (
        (hlo_pb2.HloInstructionProto, "literal"),
        (hlo_pb2.HloComputationProto, "instructions"),
        (hlo_pb2.HloModuleProto, "computations"),
        (COMPILE, "computation"),
    ):
        data = tagged(number_of(kind, name), data)
    return data


ONES = tagged(5, b"\x01" * MANY)


def upload(literal: bytes) -> bytes:
    return tagged(1, literal)


TWO, ALL = shape("s64[2]{0}"), shape(f"s64[{MANY}]{{0}}")


@pytest.mark.parametrize(
    "numbers",
    [
        ONES,
        tagged(5, b"\x81\x01" * (MANY // 2)),
        tagged(5, b"\x01" * (MANY // 2)) * 2,
        b"\x28\x01" * (MANY // 4),
        b"\x28\x01" + ONES,
        tagged(5, b"\x01" * MANY + b"\x80"),
    ],
    ids=["in one piece", "of two bytes", "in two pieces", "one by one", "mixed", "malformed"],
)
@pytest.mark.parametrize(("kind", "whole"), [(UPLOAD, upload), (COMPILE, constant)])
def test_numbers_are_counted_before_they_are_parsed(
    kind: Any, whole: Callable[[bytes], bytes], numbers: bytes
) -> None:
    for literal in (TWO + numbers, numbers + TWO, tagged(10, TWO + numbers) + shape("(s64[2]{0})")):
        with pytest.raises(InvalidArgumentError, match=r"literal s64\[2\]\{0\}: .* for 2 elements"):
            check_parse_size(kind, whole(literal))
    with pytest.raises(InvalidArgumentError, match="must have a shape, got none"):
        check_parse_size(kind, whole(numbers))


def test_what_is_reported_equals_that_of_parsed_messages() -> None:
    for text in ("s64[2]{0}", "s64[2]", "s64[?]{0}", "s32[2]{0}", "f32[2]{0}", "token[]", "()"):
        literal = shape(text) + ONES
        with pytest.raises(InvalidArgumentError) as caught:
            decode_literal_message(UPLOAD, upload(literal))
        with pytest.raises(InvalidArgumentError) as official:
            literal_from_proto(UPLOAD.FromString(upload(literal)).literal)
        assert str(caught.value) == str(official.value)
    sparse = TWO + tagged(14, b"\x01" * MANY)
    with pytest.raises(InvalidArgumentError, match="must be dense, got sparse_indices"):
        check_parse_size(UPLOAD, upload(sparse))


def test_as_many_as_the_shape_says_pass_in_whatever_pieces() -> None:
    half = tagged(5, b"\x01" * (MANY // 2))
    for literal in (upload(ALL + ONES), upload(ALL + half) + upload(half), upload(half * 2 + ALL)):
        check_parse_size(UPLOAD, literal)
        received = decode_literal_message(UPLOAD, literal).literal
        assert received is not None
        np.testing.assert_array_equal(received.read().value, np.ones(MANY, np.int64))
    check_parse_size(COMPILE, constant(ALL + ONES))
    check_parse_size(UPLOAD, upload(ALL + half + tagged(1, b"\x10\x05") + half))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (UPLOAD, upload(tagged(10, b"") * MANY)),
        (COMPILE, tagged(number_of(COMPILE, "input_shape_with_layout"), b"") * MANY),
        (
            COMPILE,
            tagged(
                number_of(COMPILE, "computation"),
                tagged(
                    number_of(hlo_pb2.HloModuleProto, "computations"),
                    tagged(number_of(hlo_pb2.HloComputationProto, "instructions"), b"") * MANY,
                ),
            ),
        ),
        (UPLOAD, upload(shape("token[]") + tagged(1, tagged(4, b"") * MANY))),
    ],
    ids=["literals", "shapes", "instructions", "shapes of a tuple"],
)
def test_empty_messages_one_beside_the_other_are_refused(
    kind: Any, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsed_size, "ALLOWANCE", 1 << 20)
    with pytest.raises(ResourceExhaustedError, match=f"a message of {len(data)} bytes may take"):
        check_parse_size(kind, data)


def test_fields_beyond_a_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"\x10\x01" * MANY
    check_parse_size(xla_pb2.TransferToInfeedRequest, data)
    monkeypatch.setattr(parsed_size, "MAX_FIELDS", 1000)
    with pytest.raises(ResourceExhaustedError, match="may have 1000 fields"):
        check_parse_size(xla_pb2.TransferToInfeedRequest, data)


@pytest.mark.parametrize(
    "fault",
    [
        b"\x80",
        b"\x0a",
        b"\x0a\x7f",
        b"\x12\x02\x08",
        b"\x09\x00",
        b"\xff" * 11,
        b"\x0a\x02\x0a\x01",
    ],
)
def test_malformed_bytes_are_left_to_the_parser(fault: bytes) -> None:
    data = upload(ALL + ONES) + fault
    check_parse_size(UPLOAD, data)
    with pytest.raises(DecodeError):
        decode_literal_message(UPLOAD, data)


def test_unknown_fields_and_groups_are_walked_through() -> None:
    unknown = tagged(99, bytes(100)) + b"\x99\x06" + bytes(8) + b"\x9d\x06" + bytes(4)
    group = b"\x9b\x06\x10\x01\x9c\x06"
    check_parse_size(UPLOAD, (unknown + group) * 2000)


def test_small_messages_are_not_looked_at() -> None:
    check_parse_size(UPLOAD, upload(tagged(10, b"") * 1000 + TWO + tagged(5, bytes(9))))


def test_no_small_message_takes_more_than_any_may() -> None:
    """Two bytes are the fewest a message inside another one takes."""
    largest = max(
        parsed_size._size_of(parsed_size._descriptor(kind))
        for kind in (hlo_pb2.HloInstructionProto, hlo_pb2.HloModuleProto, xla_data_pb2.LiteralProto)
    )
    assert parsed_size.SMALL_BYTES // 2 * largest < 2 * parsed_size.ALLOWANCE


def test_programs_pass_without_the_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder("chain")
    value = builder.parameter(0, parse_shape("f32[8]{0}"))
    for _ in range(1500):
        value = ops.add(ops.sin(value), value)
    module = builder.build(value).proto
    monkeypatch.setattr(parsed_size, "ALLOWANCE", 0)
    data = COMPILE(computation=module).SerializeToString()
    assert len(data) > parsed_size.SMALL_BYTES
    check_parse_size(COMPILE, data)
