"""Targets that call back into Python, and why no server can follow them.

JAX writes them for debug.print, pure_callback, io_callback and their like. The function stands in
the process that lowered the program; the call holds its number in a table there, or its address.
"""

TARGETS = frozenset(
    {
        "xla_buffer_python_cpu_callback",
        "xla_buffer_python_gpu_callback",
        "xla_ffi_partitioned_python_cpu_callback",
        "xla_ffi_partitioned_python_gpu_callback",
        "xla_ffi_python_cpu_callback",
        "xla_ffi_python_gpu_callback",
        "xla_python_cpu_callback",
        "xla_python_gpu_callback",
    }
)
REASON = (
    "calls a Python function of the process that made the program, which a server cannot reach; "
    "leave debug.print, pure_callback and io_callback out of programs for it"
)
