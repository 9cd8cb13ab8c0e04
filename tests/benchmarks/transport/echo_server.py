"""The peers of the transport benchmarks: bare gRPC and bare TCP that move bytes and do nothing."""

import contextlib
import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures

import grpc

from tests.command_line import command_line
from xla_host import allocator

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@contextlib.contextmanager
def echo_process() -> Iterator[tuple[str, tuple[str, int]]]:
    """The target of a bare gRPC server in a process of its own, and the address of the TCP one."""
    command = [sys.executable, "-m", "tests.benchmarks.transport.echo_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port, tcp_port = process.stdout.readline().split()
        try:
            yield f"127.0.0.1:{port}", ("127.0.0.1", int(tcp_port))
        finally:
            process.kill()


def serve() -> None:
    """Serve `/bench.Echo/Echo` (returns the request), `Sink` (returns nothing) and `Source`.

    `Source` answers with as many bytes as the decimal number in the request says; `StreamSink` and
    `StreamSource` take and give many messages on one stream. A TCP socket reads blocks as
    `send_block` writes them. Prints both ports when ready and runs until killed. The allocator is
    tuned as a server of ours tunes it, as it is not what is measured.
    """
    allocator.tune()
    source: dict[int, bytes] = {}

    def produce(request: bytes, _: grpc.ServicerContext) -> bytes:
        size = int(request)
        if size not in source:
            source[size] = written_bytes(size)
        return source[size]

    behaviors = {"Echo": lambda request, _: request, "Sink": lambda *_: b"", "Source": produce}
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(behavior) for name, behavior in behaviors.items()
    }
    handlers["StreamSink"] = grpc.stream_unary_rpc_method_handler(_count)
    handlers["StreamSource"] = grpc.unary_stream_rpc_method_handler(_repeat)
    server = grpc.server(futures.ThreadPoolExecutor(16), options=UNLIMITED)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, _listen_to_blocks(), flush=True)
    server.wait_for_termination()


def _count(requests: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
    """The number of messages of a stream."""
    return str(sum(1 for _ in requests)).encode()


def _repeat(request: bytes, _: grpc.ServicerContext) -> Iterator[bytes]:
    """Yield as many messages as the first number says, with as many bytes as the second."""
    count, size = map(int, request.split())
    return itertools.repeat(written_bytes(size), count)


def written_bytes(size: int) -> bytes:
    """Bytes in memory of their own: `bytes(size)` may be one page of zeros, again and again."""
    return b"\1" * size


def send_block(connection: socket.socket, block: memoryview) -> None:
    """Send the size of a block and the block, and wait until it has been read."""
    connection.sendall(len(block).to_bytes(8, "little"))
    connection.sendall(block)
    connection.recv(1)


def _listen_to_blocks() -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_read_blocks, args=(listener,), daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


def _read_blocks(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    memory = bytearray()
    while header := connection.recv(8):
        size = int.from_bytes(header, "little")
        if len(memory) < size:
            memory = bytearray(size)
        into = memoryview(memory)[:size]
        while into:
            into = into[connection.recv_into(into) :]
        connection.sendall(b"\1")


if __name__ == "__main__":
    command_line("tests.benchmarks.transport.echo_server", __doc__).parse_args()
    serve()
