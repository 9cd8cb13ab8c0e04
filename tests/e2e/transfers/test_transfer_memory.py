"""Peak memory of a transfer, and that it is released. docs/TRANSFERS.md has the multiples."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import Raw, refused, start_server
from tests.fault.plain import until
from xla_contract.stubs import hlo_pb2, xla_pb2
from xla_contract.types.shape import parse_shape
from xla_contract.wire.shape_proto import shape_to_proto
from xla_contract.wire.varint import encode_varint
from xla_host.allocator import tune

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SIZE = 64 << 20
RECEIVER, SENDER = 4, 3
"""Peak memory of either process, as a multiple of the literal, the value that stays with it
included.

grpc's buffer, the parts it makes of it and the joined message are three times the literal; the
value is allocated when two of them are free, in their memory or after that was released.
"""
HOSTILE_SIZE = 32 << 20
REFUSED, WIDENED = 4, 12
"""Multiples of a message of one-byte integers: one that is refused for the size it claims, and one
whose elements take eight bytes.
"""
KEPT = 0.5
"""Most memory that either process may keep, relative to the literal, once transfers have been idle
for a while.
"""


def test_transfers_take_a_few_times_the_literal_and_give_it_back(tmp_path: Path) -> None:
    with start_server(tmp_path, "--platform", "interpreter") as server:
        # A client in a process of its own: what tests left in this one is not of transfers.
        done = subprocess.run(
            [sys.executable, "-m", "tests.e2e.transfers.test_transfer_memory"],
            input=f"{server.address} {server.process.pid}",
            text=True,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr


def test_numbers_that_grow_are_refused_before_they_do(tmp_path: Path) -> None:
    many = HOSTILE_SIZE
    ones, half = integers(many), integers(many // 2)
    two, all_of_them = shape_field("s64[2]{0}"), shape_field(f"s64[{many}]{{0}}")
    limit = 9 * many
    flags = ("--platform", "interpreter", "--max-device-bytes", str(limit))
    flags += ("--identity-share", "1", "--connection-share", "1")
    with start_server(tmp_path, *flags) as server:
        raw = Raw(server.address)
        upload, infeed = "/xla.XlaService/TransferToServer", "/xla.XlaService/TransferToInfeed"
        handle = raw.upload(np.zeros(1024, np.float32))

        def refusal(code: grpc.StatusCode, path: str, data: bytes) -> None:
            def send() -> None:
                reported.append(refused(code, raw.send_bytes, path, data))

            reported: list[str] = []
            check("refused", peak(server.process.pid, send), REFUSED, HOSTILE_SIZE)
            assert "s64" in reported[0]

        invalid, exhausted = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
        refusal(invalid, upload, field(1, two, ones))
        refusal(invalid, upload, field(1, two, half, half))
        refusal(invalid, infeed, field(1, field(10, two, ones), shape_field("(s64[2]{0})")))
        refusal(invalid, "/xla.XlaService/Compile", constant(two, ones))
        larger = shape_field(f"s64[{limit // 8 + 1}]{{0}}")
        refusal(exhausted, upload, field(1, larger, integers(limit // 8 + 1)))
        request = field(1, all_of_them, ones)
        size = peak(server.process.pid, lambda: raw.send_bytes(upload, request))
        check("widened", size, WIDENED, HOSTILE_SIZE)
        assert raw.download(handle).shape.dimensions == [1024]
        raw.close()


def field(number: int, *parts: bytes) -> bytes:
    """A field of bytes, or of a message that is these one after another."""
    data = b"".join(parts)
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def shape_field(text: str) -> bytes:
    return field(1, shape_to_proto(parse_shape(text)).SerializeToString())


def integers(count: int) -> bytes:
    """`LiteralProto.s64s` of ones."""
    return field(5, b"\x01" * count)


def constant(*literal: bytes) -> bytes:
    """A CompileRequest whose program has an instruction with a literal."""
    data = b"".join(literal)
    for kind, name in (
        (hlo_pb2.HloInstructionProto, "literal"),
        (hlo_pb2.HloComputationProto, "instructions"),
        (hlo_pb2.HloModuleProto, "computations"),
        (xla_pb2.CompileRequest, "computation"),
    ):
        data = field(kind.DESCRIPTOR.fields_by_name[name].number, data)
    return data


def transfer(address: str, server: int) -> None:
    """Transfer in single messages, as with a server that has no other way, and look at both."""
    value = np.arange(SIZE // 4, dtype=np.float32)
    client = xc.connect(address, shared_memory=False)
    client._session.chunks = None
    client.to_device(np.zeros(1024, np.float32)).delete()
    own, theirs = resident("self"), resident(server)
    kept: list[xc.Buffer] = []
    check("upload, server", peak(server, lambda: kept.append(client.to_device(value))), RECEIVER)
    check("download, server", peak(server, kept[0].to_numpy), SENDER)
    check("upload, client", peak("self", lambda: kept.append(client.to_device(value))), SENDER)
    check("download, client", peak("self", kept[1].to_numpy), RECEIVER)
    np.testing.assert_array_equal(kept[1].to_numpy(), value)
    for buffer in kept:
        buffer.delete()
    # grpc keeps a buffer for the next read of a connection until it ends. The buffer is as large as
    # what was once read without a pause: on a busy machine up to a whole message.
    client.close()
    if tune():
        await_fall("self", own + KEPT * SIZE)
        # The pool of device memory keeps blocks for the next values.
        await_fall(server, theirs + (2 + KEPT) * SIZE)


def check(what: str, size: int, multiple: int, whole: int = SIZE) -> None:
    assert size < multiple * whole, f"{what}: {size / whole:.2f} times what was sent"


def resident(process: int | str) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak(process: int | str, action: Callable[[], object]) -> int:
    """The most that a process had in memory during `action`, beyond what it had before."""
    before = resident(process)
    Path(f"/proc/{process}/clear_refs").write_text("5")
    action()
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 - before


def await_fall(process: int | str, limit: float) -> None:
    """Wait until a process has no more than `limit` bytes in memory."""
    until(lambda: resident(process) <= limit)


if __name__ == "__main__":
    target, process = sys.stdin.read().split()
    transfer(target, int(process))
