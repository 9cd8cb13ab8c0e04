"""A platform that is loaded after the server has begun to listen.

Loading the compiler takes longer than everything else that happens before a server listens, and
clients that connect, upload or open sessions do not need it.
"""

import functools
import threading
from collections.abc import Callable

from xla_contract.errors import InternalError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape
from xla_server.backends.compile_options import DEFAULTS, CompileOptions
from xla_server.backends.host_buffer import HostBuffer
from xla_server.backends.platform import Backend, Buffer, Device, Executable, devices_of
from xla_server.ir.module import HloModule
from xla_server.runtime.blocks import BlockPool


class DeferredBackend:
    """A platform whose code is loaded by its first user.

    Implements xla_server.backends.platform.Backend. The first call of `prepare` or `compile` loads
    the platform; others wait for it. Values are placed without it. Thread-safe.
    """

    def __init__(
        self,
        platform: str,
        device_count: int,
        load: Callable[[], Backend],
        to_device: Callable[[Literal, Device], Buffer] | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Store how to load the platform.

        Args:
            platform: Its name, which the loaded one must have.
            device_count: The number of its devices, at least one.
            load: Makes the platform; called once, in the thread of its first user.
            to_device: Copies a value to a device, before the platform is loaded; by default to the
                memory of this process.
            memory_bytes: Bytes of the devices' memory, as Backend.memory_bytes.

        Raises InvalidArgumentError for less than one device.
        """
        self.platform = platform
        self.devices = devices_of(platform, device_count)
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Backend | None = None
        self._failure: Exception | None = None
        self._to_device = to_device or functools.partial(HostBuffer.placed, blocks=BlockPool())
        self.memory_bytes = memory_bytes

    @property
    def is_loaded(self) -> bool:
        """True once the platform is loaded."""
        return self._loaded is not None

    def prepare(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Load the platform, whatever `is_over` returns, and then prepare it as Backend.prepare.

        Raises the exception of loading it, at each call.
        """
        return self._backend().prepare(is_over)

    def compile(
        self, module: HloModule, entry: ProgramShape, *, options: CompileOptions = DEFAULTS
    ) -> Executable:
        """Compile as Backend.compile does.

        Raises InternalError if the platform cannot be loaded.
        """
        try:
            backend = self._backend()
        except Exception as error:
            raise InternalError("the platform must be loaded, got a failure to load it") from error
        return backend.compile(module, entry, options=options)

    def to_device(self, literal: Literal, device: Device) -> Buffer:
        """Copy a value to `device`."""
        copy = self._to_device if self._loaded is None else self._loaded.to_device
        return copy(literal, device)

    def _backend(self) -> Backend:
        if self._loaded is not None:
            return self._loaded
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._loaded is None:
                try:
                    self._loaded = self._load()
                except Exception as error:
                    self._failure = error
                    raise
            return self._loaded
