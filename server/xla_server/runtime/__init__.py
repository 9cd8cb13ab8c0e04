"""The native executor: runs compiled programs without Python's lock.

`program.py` is one loaded program: its kernels, constants and tables, which `encoding.py` makes
once. `executor.py` walks the thunks: kernels, copies, jumps. A thunk that needs Python ends the
walk, and its caller resumes it after the thunk. `collective_records.py` lays out the shared memory
in which participants of a grid meet in native code: a collective is a thunk that waits for its
group, followed by the kernels that compute the results. `threads.py` splits a kernel's work items
over helper threads, in chunks; helpers join the loop that has the fewest helpers. Large copies are
split the same way. `blocks.py` is the bounded pool of memory for arenas and results; runs are
pooled as well. The walk polls the cancellation flag at each kernel, chunk and jump.

Kernels run with subnormal numbers as zeros (`rounding.py`), and BLAS on one thread.
`thunk_times.py` measures each thunk for profiles.
"""
