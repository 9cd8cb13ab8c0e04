"""Limits on calls and streams, and the ends of clients that hold memory without using it.

A call is admitted by its headers (`call_admission`, `concurrency_limit`). While the process has too
much memory, `memory_pressure` ends requests that arrive slowly, then streams that are idle.
"""
