"""Connections to a server: grpc, TLS, credentials and streams. No other folder imports grpc.

A call starts at `transport.Transport`. Streaming calls are `stream.ClientStream`. Small unary calls
share one stream, `multiplexed_stream`, one call at a time; it is an `inline_stream`, which the
calling thread itself reads.
"""

from xla_client.transport import grpc_log as grpc_log  # First: it keeps grpc quiet.
