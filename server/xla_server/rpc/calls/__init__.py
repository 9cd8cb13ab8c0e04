"""The course of one call, from the bytes of the request to those of the response.

`method_table` says how an rpc is answered: unary in a thread (`boundary`), deferred without one
(`deferred`), or streaming (`streaming`). Every exception becomes a status in `boundary`. Large
responses are accounted until they are sent (`response_memory`).
"""
