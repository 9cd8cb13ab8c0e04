"""The service over gRPC: decode, call, encode, and one place where errors become statuses."""
