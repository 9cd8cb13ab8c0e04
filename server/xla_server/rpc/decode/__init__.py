"""Decoding of messages into the records of sessions, and encoding of shared parts of responses.

Checks that need a shape, a handle or a quota of the session are made there, not here.
"""
