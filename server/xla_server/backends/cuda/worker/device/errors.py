"""Results of the driver's functions: which errors leave a process unusable.

Semantics: the CUDA driver API, CUresult.
"""

from typing import Any

from xla_server.backends.cuda.worker.exchange.protocol import DeviceLostError

LOST = frozenset(
    {
        *("ASSERT", "CONTAINED", "CONTEXT_IS_DESTROYED", "DEINITIALIZED", "DEVICE_UNAVAILABLE"),
        *("ECC_UNCORRECTABLE", "EXTERNAL_DEVICE", "HARDWARE_STACK_ERROR", "ILLEGAL_ADDRESS"),
        *("ILLEGAL_INSTRUCTION", "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED"),
        *("LAUNCH_TIMEOUT", "MISALIGNED_ADDRESS", "NVLINK_UNCORRECTABLE", "TENSOR_MEMORY_LEAK"),
        *("MPS_CLIENT_TERMINATED", "MPS_RPC_FAILURE", "UNKNOWN"),
    }
)
"""Errors after which the process must end, without their prefix CUDA_ERROR_."""


class CudaError(Exception):
    """The driver refused a call and remains usable; the message has the function and the error."""


def checked(function: str, result: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a call. Raises DeviceLostError, or CudaError for other errors."""
    error, *values = result
    if int(error):
        name = str(getattr(error, "name", error))
        lost = name.removeprefix("CUDA_ERROR_") in LOST
        raise (DeviceLostError if lost else CudaError)(f"{function}: {name}")
    return tuple(values)
