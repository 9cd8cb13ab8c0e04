"""Object code of kernels on disk, for the next start of a server.

Object code that is read here is executed. So the directory must belong to the user who runs the
server, and no other user may write into it; files of other users and links are not read. The
checksum in each file finds damage, not malice.
"""

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from xla_server.codegen.compiler.cache_directory import open_directory
from xla_server.codegen.compiler.kernel_compiler import fingerprint

_LOG = logging.getLogger(__name__)

_MAGIC = b"XLAKRNL1"
_SUFFIX = ".kernel"
_UNFINISHED = "unfinished-kernel-"
_DIGEST_BYTES = hashlib.sha256().digest_size
MAX_BYTES = 1 << 30
"""Bytes of all files: little on a disk; beyond it the least recently used kernels go."""


class KernelCache:
    """A directory of object code by the name of its symbol.

    Names of files are hashes of the symbol and of everything else that the code depends on: this
    version's own text, numba's, the processor. Any number of threads and processes may share a
    directory. The worst effect of a disk error is that a kernel is compiled again. The least
    recently used files are removed beyond `max_bytes` in all.
    """

    def __init__(self, directory: Path, max_bytes: int = MAX_BYTES) -> None:
        """Make the directory if it is absent.

        Raises InvalidArgumentError for one into which other users could write.
        """
        self._directory = directory
        self._max_bytes = max_bytes
        self._fingerprint = fingerprint()
        self._lock = threading.Lock()
        self._has_warned = False
        # A scan of the whole directory is due with the first file that is added.
        self._added = max_bytes
        open_directory(directory)

    def get(self, symbol: str) -> bytes | None:
        """The object code of a symbol; None if it is absent or damaged."""
        path = self._path(symbol)
        try:
            data = _read(path)
        except OSError:
            return None
        code = data[len(_MAGIC) + _DIGEST_BYTES :]
        if data != _header(code) + code:
            _LOG.warning("a kernel on disk is damaged and is compiled again: %s", path)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        return code

    def put(self, symbol: str, code: bytes) -> None:
        """Store the object code of a symbol; no effect if the disk fails."""
        self._try_disk(lambda: self._put(symbol, code))

    def tidy(self) -> None:
        """Scan the directory and remove files beyond `max_bytes`, if a scan is due."""
        self._try_disk(lambda: self._bound(0))

    def _path(self, symbol: str) -> Path:
        key = hashlib.sha256(self._fingerprint + symbol.encode()).hexdigest()
        return self._directory / f"{key}{_SUFFIX}"

    def _try_disk(self, work: Callable[[], None]) -> None:
        """Run `work`, whose failure is harmless; only the first one is logged."""
        try:
            work()
        except OSError as error:
            if not self._has_warned:
                _LOG.warning("compiled kernels cannot be kept on disk: %s", error)
            self._has_warned = True

    def _put(self, symbol: str, code: bytes) -> None:
        # A reader sees no file or a complete one: a rename is atomic.
        handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=self._directory)
        try:
            with open(handle, "wb") as file:
                file.write(_header(code) + code)
            os.replace(name, self._path(symbol))
        except BaseException:  # After any exception no partial file remains.
            os.unlink(name)
            raise
        self._bound(len(code))

    def _bound(self, added: int) -> None:
        """Remove the least recently used files, but only after many bytes `added`: it scans all."""
        with self._lock:
            self._added += added
            if self._added <= self._max_bytes // 16:
                return
            self._added = 0
        files = []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if not entry.name.endswith(_SUFFIX) and not entry.name.startswith(_UNFINISHED):
                    continue
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    files.append((found.st_mtime, found.st_size, entry.path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _header(code: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(code).digest()


def _read(path: Path) -> bytes:
    """The content of a file of this user, whose time of use is set to now."""
    # Opening a pipe would wait for its writer.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
            raise PermissionError(f"{path} is not a file of this user")
        with contextlib.suppress(OSError):
            os.utime(handle)
        return file.read()
