"""Fusions that fail to compile: counted, logged, and compiled instruction by instruction instead.

A fault in fused code costs a program speed, not its result. A program that also fails without
fusion raises its own error.
"""

import logging
import secrets
import threading
import traceback

from xla_contract.errors import InternalError, XlaError
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction

_LOG = logging.getLogger(__name__)


class FusionFaults:
    """The number of fusions that failed to compile. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """Fusions that failed since the process began."""
        return self._count

    def record(self, error: BaseException, fusion: HloInstruction) -> None:
        """Count and log a fusion that failed.

        The log has an incident id, the class of the error and its location, and nothing of the
        program.
        """
        with self._lock:
            self._count += 1
            count = self._count
        incident = secrets.token_hex(8)
        where = "unknown"
        for frame, line in traceback.walk_tb(error.__traceback__):
            where = f"{frame.f_code.co_name}:{line}"
        _LOG.warning(
            "incident %s: a fusion of %d instructions failed to compile (%s in %s) and is compiled "
            "unfused, fault %d of this process",
            incident,
            len(fusion.called[0].instructions),
            type(error).__name__,
            where,
            count,
            extra={"incident": incident, "fusion_faults": count},
        )


FUSED = frozenset({Opcode.FUSION, Opcode.WHILE})
"""Opcodes compiled to one kernel though the instructions inside could have their own kernels."""

FUSION_FAULTS = FusionFaults()
"""The faults of this process."""


def is_fault(error: Exception) -> bool:
    """Return whether an error is a fault of the compiler, not of the program or of the machine."""
    return not isinstance(error, (XlaError, MemoryError)) or isinstance(error, InternalError)
