"""The peer of the transport benchmarks: a bare gRPC server that moves bytes and does nothing."""

from concurrent import futures

import grpc

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def serve() -> None:
    """Serve `/bench.Echo/Echo` (returns the request), `Sink` (returns nothing) and `Source`.

    `Source` answers with as many zero bytes as the decimal number in the request says. Prints
    the port when ready and runs until killed.
    """
    source: dict[int, bytes] = {}

    def produce(request: bytes, _: grpc.ServicerContext) -> bytes:
        size = int(request)
        return source.setdefault(size, bytes(size))

    behaviors = {"Echo": lambda request, _: request, "Sink": lambda *_: b"", "Source": produce}
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(behavior) for name, behavior in behaviors.items()
    }
    server = grpc.server(futures.ThreadPoolExecutor(16), options=UNLIMITED)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    serve()
