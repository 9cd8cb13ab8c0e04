"""Limits on calls and streams, and the cancellation of those that hold memory without progress.

A call is admitted by its headers (`call_admission`, `concurrency_limit`). While the process has too
much memory, `memory_pressure` ends requests that arrive slowly, then streams that are idle.
"""
