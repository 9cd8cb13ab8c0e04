"""Thread pools per kind of call, and the fair order in which calls get their threads.

grpc's event loop is replaced by `event_loop`, in which identities take turns; `request_threads`
takes a thread when a request has arrived, not when its headers have.
"""
