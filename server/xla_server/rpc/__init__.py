"""The gRPC side of the server: sockets, calls, and the translation between messages and records.

- `server`, `listeners`, `shared_memory_socket`: the server object and its sockets.
- `methods/`: the rpcs: each decodes its request, calls the session, and encodes the response.
- `calls/`: one call from request to response, in each calling style.
- `threads/`: thread pools, and the order in which calls get threads.
- `limits/`: admission of calls, and what ends idle and slow clients when memory is short.
- `peers/`: callers: connections, credentials, identities.
- `decode/`: messages to records; nothing below this package imports the generated messages.
- `errors`: the statuses that clients get; `grpc_internals`: all private interfaces of grpc.
"""
