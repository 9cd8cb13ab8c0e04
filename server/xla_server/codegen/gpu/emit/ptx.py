"""PTX of LLVM modules and machine code of that, by processes of their own, kept on disk.

LLVM ends its process at an intrinsic without code, and at a version of PTX that is too old for the
GPU: the next module is then compiled in a new process.
"""

import hashlib
import json
import selectors
import subprocess
import sys
import threading
import time
from typing import Any

from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.gpu.emit import ptx_child
from xla_server.codegen.gpu.emit.assembler import Assembler
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.target.machine import Machine

_TIMEOUT = 60.0
"""Timeout of a compilation in seconds: a module takes milliseconds."""

_SHOWN = 2000
"""Characters of LLVM's output that an error shows."""

NO_ASSEMBLER = Assembler(missing="no assembler was chosen")


class PtxError(Exception):
    """LLVM could not compile a module to PTX."""


class PtxCompiler:
    """Compiles modules for one GPU, one after the other, to machine code by `assembler`.

    Thread-safe. Its process starts with the first module; `close` ends it.
    """

    def __init__(
        self,
        machine: Machine,
        cache: KernelCache | None = None,
        assembler: Assembler = NO_ASSEMBLER,
    ) -> None:
        self._machine, self._cache, self._assembler = machine, cache, assembler
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def module(self, text: str) -> DeviceModule:
        """Return the code of a module's text.

        Raises PtxError for a text that is no module, and if compiling it ended the process or took
        over a minute. Raises AssemblyError as Assembler.module.
        """
        machine, assembler = self._machine, self._assembler
        kind = (machine.name, machine.features, assembler.architecture, assembler.version)
        digest = hashlib.sha256(text.encode()).hexdigest()
        key = f"module {digest} {' '.join(kind)} {assembler.missing}"
        with self._lock:
            found = self._cache.get(key) if self._cache else None
            if found is not None:
                return DeviceModule.decoded(found)
            made = assembler.module(self._compiled(text.encode()))
            if self._cache:
                self._cache.put(key, made.encoded())
            return made

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def __enter__(self) -> "PtxCompiler":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _compiled(self, text: bytes) -> bytes:
        child = self._started()
        assert child.stdin is not None
        machine = self._machine
        request = {"name": machine.name, "features": machine.features, "size": len(text)}
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n" + text)
            child.stdin.flush()
            head, rest = self._answered(child, time.monotonic() + _TIMEOUT)
        except (OSError, EOFError, TimeoutError) as error:
            said = self._end()
            raise PtxError(
                f"a module for {machine.name} with {machine.features} must be one that LLVM has "
                f"PTX for, got {said or error!r}"
            ) from error
        if "error" in head:
            raise PtxError(f"a module for {machine.name} must be LLVM's, got {head['error']}")
        return rest

    def _answered(self, child: subprocess.Popen[bytes], end: float) -> tuple[dict[str, Any], bytes]:
        """Return an answer and its bytes. Raises EOFError or TimeoutError without one."""
        data, size = bytearray(), None
        head: dict[str, Any] = {}
        with selectors.DefaultSelector() as selector:
            assert child.stdout is not None
            selector.register(child.stdout, selectors.EVENT_READ)
            while size is None or len(data) < size:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError(f"no PTX after {_TIMEOUT:.0f} seconds")
                part = child.stdout.read1(1 << 16)  # type: ignore[attr-defined]
                if not part:
                    raise EOFError("the process ended")
                data += part
                if size is None and b"\n" in data:
                    line, _, data = data.partition(b"\n")
                    head = json.loads(line)
                    size = head.get("size", 0)
        return head, bytes(data)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", ptx_child.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        return self._child

    def _end(self) -> str:
        """End the process, if there is one; return the end of its error output."""
        child, self._child = self._child, None
        if child is None:
            return ""
        child.kill()
        _, said = child.communicate()
        return said.decode(errors="replace")[-_SHOWN:]
