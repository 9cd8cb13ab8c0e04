"""Faults of the server: incident ids, and reproducers of programs that the compiler fails on."""

import logging
import os
import secrets
import traceback
from pathlib import Path

from xla_contract.errors import InternalError
from xla_server.backends.compile_options import CompileOptions
from xla_server.backends.diagnostics.dump import constant_bytes, serialized
from xla_server.backends.diagnostics.dump_files import DumpFiles
from xla_server.backends.diagnostics.private_files import make_directories, make_directory
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.ir.text.printer import print_module

_LOG = logging.getLogger(__name__)

MAX_KEPT = 100
"""Bound of reproducers in a directory; with that many, no further one is written."""

_PREFIX = "incident_"


def new_incident() -> str:
    """Return a new incident id, which the client's error and the server's log have in common."""
    return secrets.token_hex(8)


class Incidents:
    """Turns compiler failures into errors for clients, and writes reproducers.

    Each reproducer is a directory in `directory`: the original module (text and message), the
    source of the kernel, the options, the traceback. Without `directory` failures are only logged.
    """

    def __init__(self, directory: Path | None = None, *, max_kept: int = MAX_KEPT) -> None:
        self._directory = directory
        self._max_kept = max_kept

    def report(
        self,
        error: BaseException,
        module: HloModule,
        options: CompileOptions,
        *,
        instruction: HloInstruction | None = None,
        kernel: str = "",
    ) -> InternalError:
        """Return the error for the client: instruction or module, incident id, no cause.

        The cause and the reproducer's path are logged. `kernel` is the source of the kernel that
        does not compile.
        """
        incident = new_incident()
        rule = "a program must compile" if not kernel else "a kernel must compile"
        op, name = ("", "") if instruction is None else (str(instruction.opcode), instruction.name)
        prefix = f"{op} %{name:.200}: " if op else ""
        reported = InternalError(
            f"{prefix}{rule}, got a failure of the server in module {module.name:.200}, "
            f"incident {incident}",
            op=op,
            instruction=name,
            incident=incident,
        )
        kept = self._keep(incident, error, module, options, reported.message, kernel)
        _LOG.error(
            "incident %s: reproducer in %s",
            incident,
            kept or "no directory",
            exc_info=error,
            extra={"reproducer": str(kept or ""), "kernel": kernel},
        )
        return reported

    def _keep(
        self,
        incident: str,
        error: BaseException,
        module: HloModule,
        options: CompileOptions,
        message: str,
        kernel: str,
    ) -> Path | None:
        """Write the reproducer; return its directory, or None if that fails or there are too many.

        An error of the reporting itself is logged, so that it does not hide the fault.
        """
        if self._directory is None:
            return None
        try:
            make_directories(self._directory)
            kept = sum(name.startswith(_PREFIX) for name in os.listdir(self._directory))
            if kept >= self._max_kept:
                _LOG.warning("there are %d reproducers in %s already", kept, self._directory)
                return None
            directory = self._directory / f"{_PREFIX}{incident}"
            make_directory(directory)
            files = DumpFiles(directory)
            lines = [message, str(options.passes), *traceback.format_exception(error)]
            files.write("traceback.txt", "\n".join(lines))
            if kernel:
                files.write("kernel.py", kernel)
            # A text of this size takes too long to print.
            if constant_bytes(module) * 8 <= files.max_bytes:
                files.write("module.txt", print_module(module))
                files.write("module.pb", serialized(module))
            else:
                files.leave_out("module.txt", f"{constant_bytes(module)} bytes of constants")
        except Exception as failure:
            _LOG.warning("a reproducer cannot be written: %s", failure)
            return None
        return directory
