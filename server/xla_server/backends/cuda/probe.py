"""The process that queries the driver for devices and prints a line of JSON.

`{"count": 2}`, or `{"missing": "..."}` with the reason why programs cannot run, as a sentence.
Semantics: CUDA driver API, Initialization, Version Management and Device Management.
"""

import ctypes
import importlib
import json
from typing import Any

LIBRARY = "libcuda.so.1"
BINDINGS = "cuda.bindings"
EXTRA = "pip install 'xla-service[cuda]'"

_DRIVER = 13_000
"""The oldest supported driver: that of CUDA 13.0, whose libraries the package's extra installs."""

_CAPABILITY = (8, 0)
"""The oldest supported compute capability: that of A100."""

_NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE."""

_MAJOR, _MINOR = 75, 76
"""Numbers of attributes of a device."""


def main() -> None:
    """Print the number of devices, or the reason why there are none."""
    try:
        found: dict[str, object] = {"count": devices_of(_library())}
    except MissingError as error:
        found = {"missing": str(error)}
    print(json.dumps(found))


class MissingError(Exception):
    """A requirement is missing; the message names it."""


def _library() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise MissingError(
            f"platform cuda needs NVIDIA's driver, got no {LIBRARY}: {error}"
        ) from None
    try:
        importlib.import_module(BINDINGS)
    except ImportError as error:
        raise MissingError(
            f"platform cuda needs libraries that are not installed: {EXTRA}; {error}"
        ) from None
    return library


def devices_of(library: Any) -> int:
    """Return the number of devices that a driver has.

    Raises MissingError if there is none, or if a device or the driver is too old.
    """
    version = _number(library.cuDriverGetVersion)
    if version < _DRIVER:
        raise MissingError(
            f"platform cuda needs a driver of CUDA {_release(_DRIVER)} or later, got one of CUDA "
            f"{_release(version)}"
        )
    code = library.cuInit(0)
    count = 0 if code == _NO_DEVICE else _number(library.cuDeviceGetCount, before=code)
    if not count:
        raise MissingError(
            "platform cuda needs a GPU, got none that the driver sees (CUDA_VISIBLE_DEVICES may "
            "hide some)"
        )
    for ordinal in range(count):
        capability = tuple(
            _number(library.cuDeviceGetAttribute, attribute, ordinal)
            for attribute in (_MAJOR, _MINOR)
        )
        if capability < _CAPABILITY:
            raise MissingError(
                "platform cuda needs GPUs of compute capability 8.0 or later, got GPU "
                f"{ordinal} of {capability[0]}.{capability[1]}"
            )
    return count


def _number(function: Any, *arguments: int, before: int = 0) -> int:
    """Return the number that a driver's function stores; `before` is an earlier call's result."""
    number = ctypes.c_int()
    code = before or function(ctypes.byref(number), *arguments)
    if code:
        raise MissingError(f"platform cuda needs a driver that works, got its error {code}")
    return number.value


def _release(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


if __name__ == "__main__":
    main()
