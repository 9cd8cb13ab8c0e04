"""The operator's directory for clients' dumps, with limits of number and size."""

import logging
import os
import re
import threading
from pathlib import Path

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_server.backends.compile_options import DumpOptions
from xla_server.backends.diagnostics.private_files import (
    make_directory,
    make_or_close_directory,
    write_file,
)

_LOG = logging.getLogger(__name__)

MAX_FILES = 1000
"""Most files in the dumps of one module."""

MAX_MODULE_BYTES = 64 * 2**20
"""Largest dump of one module, and of dumps in one response of ExplainExecutable, in bytes."""

MAX_MODULES = 1000
"""Most modules that one server process dumps."""

MAX_BYTES = 2**31
"""Size limit of all dumps of one server process, in bytes."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,79}")
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


class DumpDirectory:
    """The root directory of dumps requested by clients; without a root they are refused.

    A client's name is a directory in the root, with a directory for each module. All of these are
    closed to other users, existing ones, too; the root's mode remains as the operator set it.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        max_modules: int = MAX_MODULES,
    ) -> None:
        self._root = root
        self._modules = Budget(max_modules)
        self._bytes = Budget(MAX_BYTES)
        self._max_modules = max_modules

    def open(self, options: DumpOptions, module_name: str) -> DumpFiles | None:
        """Return the files for one module's dump: its own, else new ones; None without a dump.

        Raises InvalidArgumentError for a name that is no directory's in the root, and without a
        root; ResourceExhaustedError when this server has written enough; FailedPreconditionError
        when it cannot write.
        """
        if options.files is not None or not options.name:
            return options.files
        parent = self._checked(options.name)
        if options.modules is not None and not options.modules.finds(module_name):
            return None
        try:
            make_or_close_directory(parent)
            number = len(os.listdir(parent))
            if 0 <= options.max_modules <= number:
                return None
            if not self._modules.spend(1):
                raise ResourceExhaustedError(
                    f"a server dumps at most {self._max_modules} modules, got one more",
                    hint="Compile without xla_dump_to.",
                )
            return DumpFiles(_made(parent, number, module_name), budget=self._bytes)
        except OSError as error:
            _LOG.warning("a dump cannot be written: %s", error)
            raise FailedPreconditionError(
                f"xla_dump_to: the server must be able to write there, got {error.strerror}"
            ) from error

    def _checked(self, name: str) -> Path:
        if self._root is None:
            raise InvalidArgumentError(
                "xla_dump_to must be empty on a server without a directory for dumps, got "
                f"{name!r:.200}",
                hint="The operator names one with xla-server serve --dump-dir.",
            )
        path = self._root / name
        # A name with separators would be a path, and one that is only dots is another directory.
        if not _NAME.fullmatch(name) or path.is_symlink() or (path.exists() and not path.is_dir()):
            raise InvalidArgumentError(
                "xla_dump_to must be the name of a directory inside the server's directory for "
                "dumps: up to 80 letters, digits and _ . - that do not begin with . or -, no path "
                f"and no link, got {name!r:.200}"
            )
        return path


def safe_name(name: str) -> str:
    """Return any name as a valid file name."""
    return _UNSAFE.sub("_", name)[:120] or "_"


def _made(parent: Path, number: int, module_name: str) -> Path:
    """Create a directory with the next free number."""
    while True:
        number += 1
        path = parent / f"module_{number:04}.{safe_name(module_name)[:80]}"
        try:
            make_directory(path)
        except FileExistsError:
            continue
        return path
