"""Thread pools per kind of call, and the fair order in which calls get their threads.

`event_loop` replaces grpc's event loop, so that identities take turns; `request_threads` takes a
thread when a whole request has arrived, not at its headers.
"""
