"""Connections to a server: grpc, TLS, credentials and streams. No other folder imports grpc.

A call starts at `transport.Transport`. Streams of messages are `stream.Stream`; `inline_stream` is
one that the calling thread reads, and `multiplexed_stream` carries several calls at a time.
"""

from xla_client.transport import grpc_log as grpc_log  # First: it keeps grpc quiet.
