"""Transfers of large values: in chunks over streams, and through memory shared with the client."""
