"""Modules written by jaxlib: every field known, and written back to the same bytes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from xla_contract.stubs import hlo_pb2

pytest.importorskip("jax")

from tests.corpus.jax import programs as jax_programs

ROOT = Path(__file__).parents[3]


def messages_in(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is None:
                continue
            children = list(value.values())
        else:
            children = value if isinstance(value, list) or hasattr(value, "add") else [value]
        for child in children:
            yield from messages_in(child)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def canonical(data: bytes, kind: Descriptor) -> list[object]:
    """Take an encoding apart without loss, sorting nothing but the entries of a map."""
    parts: list[object] = []
    maps: dict[int, list[object]] = {}
    at = 0
    while at < len(data):
        start = at
        tag, at = varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        field = kind.fields_by_number.get(number)
        if wire_type == 2:
            size, begin = varint(data, at)
            at = begin + size
            if field is not None and field.message_type is not None:
                inner = canonical(data[begin:at], field.message_type)
                if field.message_type.GetOptions().map_entry:
                    if number not in maps:
                        maps[number] = []
                        parts.append((number, maps[number]))
                    maps[number].append(inner)
                else:
                    parts.append((number, inner))
                continue
        elif wire_type == 0:
            _, at = varint(data, at)
        else:
            at += {1: 8, 5: 4}[wire_type]
        parts.append(data[start:at])
    for entries in maps.values():
        entries.sort(key=repr)
    return parts


def check(data: bytes) -> None:
    module = hlo_pb2.HloModuleProto.FromString(data)
    unknown = {
        f"{message.DESCRIPTOR.full_name} {field.field_number}"
        for message in messages_in(module)
        for field in UnknownFieldSet(message)
    }
    assert not unknown
    again = module.SerializeToString()
    assert len(again) == len(data)
    assert canonical(again, module.DESCRIPTOR) == canonical(data, module.DESCRIPTOR)


@pytest.mark.parametrize("make", jax_programs.PROGRAMS.values(), ids=jax_programs.PROGRAMS.keys())
def test_lowered_module(make: Callable[[], bytes]) -> None:
    check(make())


@pytest.mark.parametrize("make", jax_programs.OPTIMIZED.values(), ids=jax_programs.OPTIMIZED.keys())
def test_optimized_module(make: Callable[[], bytes]) -> None:
    check(make())


def test_optimized_collectives(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.corpus.jax import programs;"
        "open(sys.argv[1], 'wb').write(programs.optimized_collectives())"
    )
    devices = f"--xla_force_host_platform_device_count={jax_programs.DEVICES}"
    path = tmp_path / "module.binpb"
    subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": devices, "JAX_PLATFORMS": "cpu"},
        check=True,
    )
    check(path.read_bytes())


def test_corpus_covers_what_it_claims() -> None:
    opcodes = {
        instruction.opcode
        for name in ("collectives", "cholesky_as_hlo", "random_bits", "fft", "convolution", "sort")
        for computation in hlo_pb2.HloModuleProto.FromString(
            jax_programs.PROGRAMS[name]()
        ).computations
        for instruction in computation.instructions
    }
    assert opcodes >= {
        *("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter"),
        *("cholesky", "triangular-solve", "rng-bit-generator", "fft", "convolution", "sort"),
    }
