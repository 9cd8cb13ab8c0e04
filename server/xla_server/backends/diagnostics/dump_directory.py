"""The operator's directory for clients' dumps, with a limit of their number."""

import logging
import os
import re
from pathlib import Path

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_server.backends.compile_options import DumpOptions
from xla_server.backends.diagnostics.dump_files import Budget, DumpFiles, safe_name
from xla_server.backends.diagnostics.private_files import make_directory, make_or_close_directory

_LOG = logging.getLogger(__name__)

MAX_MODULES = 1000
"""Most modules that one server process dumps."""

MAX_BYTES = 2**31
"""Size limit of all dumps of one server process, in bytes."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,79}")


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
