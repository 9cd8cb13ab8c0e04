"""Transfers of large values: in chunks over grpc, through shared memory, and by tuple element."""
