"""The registry of platforms: the only module that names their classes."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xla_contract.errors import InvalidArgumentError
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.platform_names import Platform
from xla_server.app.options.settings import ALL_DEVICES, Distribution, Settings, incident_directory
from xla_server.backends.cuda.worker.exchange.protocol import NoDeviceError
from xla_server.backends.deferred import DeferredBackend
from xla_server.backends.diagnostics.dump_directory import DumpDirectory
from xla_server.backends.diagnostics.incidents import Incidents
from xla_server.backends.diagnostics.private_files import make_directories, others_may_write
from xla_server.backends.interpreter import Interpreter
from xla_server.backends.platform import Backend
from xla_server.codegen.compiler.cache_directory import open_directory
from xla_server.custom_calls.builtin_targets import builtin_registry
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.target.machine import Machine
from xla_server.target.target import Target


def _interpreter(settings: Settings) -> Backend:
    return Interpreter(
        _device_count(settings),
        max_value_bytes=settings.max_device_bytes,
        custom_calls=_custom_calls(settings),
        dumps=_dumps(settings),
    )


def _cpu(settings: Settings) -> Backend:
    count = _device_count(settings)
    options = _options(settings)
    directory = _kernel_directory(settings)

    def load() -> Backend:
        # The compiler takes longer to load than everything else: it is loaded after the port is
        # open.
        from xla_server.backends.compiled.cpu import Cpu

        return Cpu(
            count,
            target=Target.of(Machine.host()),
            max_value_bytes=settings.max_device_bytes,
            compilation_cache_dir=directory,
            **options,
        )

    return DeferredBackend(Platform.CPU, count, load)


def _cuda(settings: Settings) -> Backend:
    from xla_server.backends.cuda.buffers import DevicePlacement
    from xla_server.backends.cuda.workers import count_devices, device_bytes, start_workers

    if settings.distributed is not Distribution.NONE:
        raise ConfigurationError(
            f"distributed: must be {Distribution.NONE} on a platform with memory of its own, got "
            f"{settings.distributed} on {settings.platform}"
        )
    options = _options(settings)
    directory = _kernel_directory(settings)
    fraction = settings.cuda_memory_fraction
    try:
        count = count_devices()
        if settings.devices > count:
            raise ConfigurationError(
                f"devices: must be at most the number of GPUs, {count}, got {settings.devices}"
            )
        workers = start_workers(count if settings.devices == ALL_DEVICES else settings.devices)
    except NoDeviceError as error:
        raise ConfigurationError(f"platform: {error}") from error
    is_bounded = "max_device_bytes" in settings.model_fields_set

    def load() -> Backend:
        from xla_server.backends.cuda.backend import Cuda

        return Cuda(
            workers=workers,
            memory_fraction=fraction,
            max_value_bytes=settings.max_device_bytes if is_bounded else None,
            compilation_cache_dir=directory,
            **options,
        )

    size = sum(device_bytes(worker, fraction) for worker in workers)
    return DeferredBackend(Platform.CUDA, len(workers), load, DevicePlacement(workers).placed, size)


PLATFORMS: Mapping[Platform, Callable[[Settings], Backend]] = {
    Platform.INTERPRETER: _interpreter,
    Platform.CPU: _cpu,
    Platform.CUDA: _cuda,
}
"""A function for each platform that makes its backend, and raises ConfigurationError."""


def create_backend(settings: Settings) -> Backend:
    """The platform of `settings`.

    Raises ConfigurationError for a module of custom calls that cannot be loaded, and for a platform
    that this machine does not have.
    """
    return PLATFORMS[settings.platform](settings)


def _device_count(settings: Settings) -> int:
    if settings.devices == ALL_DEVICES:
        raise ConfigurationError(
            f"devices: must be a number on a platform of processors, got all on {settings.platform}"
        )
    return settings.devices


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "custom_calls": _custom_calls(settings),
        "dumps": _dumps(settings),
        "incidents": Incidents(incident_directory(settings.dump_dir)),
    }


def _kernel_directory(settings: Settings) -> str:
    """Return the directory of compiled kernels, which is made if it is missing."""
    directory = settings.compilation_cache_dir
    try:
        if directory:
            open_directory(Path(directory))
    except InvalidArgumentError as error:
        raise ConfigurationError(f"compilation_cache_dir: {error.message}") from error
    return directory


def _dumps(settings: Settings) -> DumpDirectory:
    if not settings.dump_dir:
        return DumpDirectory()
    root = Path(settings.dump_dir)
    try:
        make_directories(root)
    except OSError as error:
        raise ConfigurationError(f"dump_dir: {root}: {error.strerror}") from error
    if not os.access(root, os.W_OK | os.X_OK):
        found = root.stat()
        raise ConfigurationError(
            f"dump_dir: {root}: the server must be able to write there, got mode "
            f"{stat.filemode(found.st_mode)} of user {found.st_uid} as user {os.geteuid()}"
        )
    if others_may_write(root):
        mode = stat.S_IMODE(root.stat().st_mode)
        raise ConfigurationError(
            f"dump_dir: {root}: others must not be able to replace what is written, got mode "
            f"{mode:o}"
        )
    return DumpDirectory(root)


def _custom_calls(settings: Settings) -> CustomCallRegistry:
    registry = builtin_registry()
    for name in settings.custom_calls:
        try:
            registry.load(name)
        except Exception as error:
            raise ConfigurationError(
                f"custom_calls: module {name}: {type(error).__name__}: {error}"
            ) from error
    return registry
