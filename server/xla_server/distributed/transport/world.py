"""The processes that mpirun started, and MPI in this one."""

import dataclasses
from typing import TYPE_CHECKING

import mpi4py

from xla_host.environment_variables import FAULT_TOLERANCE, ONE_SIDED_COMPONENT
from xla_server.distributed.transport.shared_regions import SharedRegions, shared_regions

# MPI is initialised when a server starts, not on import. The interpreter must not finalize it at
# exit: it would wait for ranks that have ended.
mpi4py.rc.initialize = False
mpi4py.rc.finalize = False

if TYPE_CHECKING:
    from mpi4py import MPI


class WorldError(Exception):
    """MPI cannot be used; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class World:
    """The processes that mpirun started; `rank` is this one's number.

    `records`, `arrays` and `parcels` are communicators of all ranks: for control messages, for
    MPI's collectives, and for small arrays. `regions` is the memory shared by the ranks of this
    machine.
    """

    rank: int
    size: int
    records: "MPI.Intracomm"
    arrays: "MPI.Intracomm"
    parcels: "MPI.Intracomm"
    regions: SharedRegions | None
    survives_ranks: bool
    """False if mpirun ends all processes when one ends."""

    @classmethod
    def joined(cls, window_bytes: int) -> "World":
        """Initialise MPI with all ranks, and share `window_bytes` of each on its machine.

        Raises WorldError if MPI does not support threads, or there is only one process.
        """
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise WorldError(f"MPI cannot be loaded: {error}") from error
        # Without this default, each start logs a warning about another component for windows, which
        # is not available.
        ONE_SIDED_COMPONENT.set_default("sm")
        level = MPI.Init_thread(MPI.THREAD_MULTIPLE)
        if level < MPI.THREAD_MULTIPLE:
            raise WorldError(f"MPI must support calls from all threads, got level {level}")
        everyone = MPI.COMM_WORLD
        if everyone.size < 2:
            raise WorldError("mpirun must start at least 2 processes, got 1")
        records, arrays, parcels = (everyone.Dup() for _ in range(3))
        for each in (everyone, records, arrays, parcels):
            each.Set_errhandler(MPI.ERRORS_RETURN)
        # Set by `mpirun --with-ft ulfm`.
        survives = FAULT_TOLERANCE.value() == "1"
        regions = shared_regions(everyone, window_bytes)
        return cls(everyone.rank, everyone.size, records, arrays, parcels, regions, survives)

    def left(self) -> None:
        """Finalize MPI together with all other ranks, which must do the same."""
        from mpi4py import MPI

        MPI.Finalize()
