"""The files of a dump, on disk or in memory, with limits of number and size."""

import re
import threading
from pathlib import Path

from xla_server.backends.diagnostics.private_files import write_file

MAX_FILES = 1000
"""Most files in the dumps of one module."""

MAX_MODULE_BYTES = 64 * 2**20
"""Largest dump of one module, and of dumps in one response of ExplainExecutable, in bytes."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]")


class Budget:
    """A budget of bytes or files that several writers share. Thread-safe."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._lock = threading.Lock()

    def spend(self, count: int) -> bool:
        """Spend `count` of the budget; False, and nothing is spent, if fewer are left."""
        with self._lock:
            if count > self._left:
                return False
            self._left -= count
            return True


class DumpFiles:
    """The files of one module's dump, bounded in number and size. Thread-safe.

    Files beyond the bounds are left out; `left_out.txt` names the first of them. Raises OSError.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_MODULE_BYTES,
        budget: Budget | None = None,
    ) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._max_files = max_files
        self._budget = budget
        self._files = 0
        self._bytes = 0
        self.is_cut = False
        """True if something was left out."""
        self._lock = threading.Lock()

    def write(self, name: str, data: str | bytes) -> None:
        """Write a file, replacing one of the same name."""
        content = data.encode() if isinstance(data, str) else data
        with self._lock:
            fits = self._files < self._max_files and self._bytes + len(content) <= self.max_bytes
            if fits and (self._budget is None or self._budget.spend(len(content))):
                self._files += 1
                self._bytes += len(content)
                self._put(name, content)
                return
        self.leave_out(name, f"{len(content)} bytes")

    def leave_out(self, name: str, size: str) -> None:
        """Write the first missing file's name and size to `left_out.txt`."""
        with self._lock:
            if not self.is_cut:
                self.is_cut = True
                text = (
                    f"{name} ({size}) is left out, and perhaps more: a module's dump may take "
                    f"{self._max_files} files and {self.max_bytes} bytes, and all of a server's "
                    "together are bounded too.\n"
                )
                self._put("left_out.txt", text.encode())

    def _put(self, name: str, content: bytes) -> None:
        write_file(self.directory / safe_name(name), content)


class DumpInMemory(DumpFiles):
    """The files of one module's dump as bytes, for a client's request."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(Path(), max_bytes=max_bytes)
        self.contents: dict[str, bytes] = {}
        """Bytes by the names of the files."""

    def _put(self, name: str, content: bytes) -> None:
        self.contents[safe_name(name)] = content


def safe_name(name: str) -> str:
    """Return any name as a valid file name."""
    return _UNSAFE.sub("_", name)[:120] or "_"
