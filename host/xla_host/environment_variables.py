"""Environment variables that are no options of a server: those of other software, and one of ours.

Each is declared once, with its use. The modules that read them, and the table on docs/SERVER.md,
use these declarations. Options are fields of `Settings`, and the variables of clients are in
`xla_contract/client_settings.py`.
"""

import dataclasses
import os


@dataclasses.dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """A variable of the process's environment, with its purpose for documentation."""

    name: str
    purpose: str

    def value(self) -> str | None:
        """Return the value, or None where the variable is not set."""
        return os.environ.get(self.name)

    def set_default(self, value: str) -> None:
        """Set the variable, for this process and its children, unless it is set."""
        os.environ.setdefault(self.name, value)


# Numba's own, which its users know.
CPU_NAME = EnvironmentVariable(
    "NUMBA_CPU_NAME", "the processor to compile for, by LLVM's name, instead of the host's (numba)"
)
CPU_FEATURES = EnvironmentVariable(
    "NUMBA_CPU_FEATURES", "its features, as LLVM writes them, instead of the host's (numba)"
)
STATE_HOME = EnvironmentVariable(
    "XDG_STATE_HOME", "the user's directory for incidents, where the options name none"
)
CACHE_HOME = EnvironmentVariable(
    "XDG_CACHE_HOME", "the user's directory for compiled kernels, where the options name none"
)
RUNTIME_DIRECTORY = EnvironmentVariable(
    "XDG_RUNTIME_DIR", "the directory for the private socket of shared memory"
)
# An option would be read too late: the server of `Local` has a thread before that.
MALLOC_TUNING = EnvironmentVariable(
    "XLA_SERVICE_MALLOC_TUNING",
    "0 leaves malloc alone; it counts before the first thread starts, in clients too",
)
# gRPC's own, which counts before gRPC is initialised.
GRPC_LOG = EnvironmentVariable(
    "GRPC_VERBOSITY",
    "the severity of gRPC's lines in the log, NONE by default, as they are no JSON and any client "
    "can cause them; ERROR and INFO show them, as of failed TLS handshakes (gRPC)",
)
# Open MPI's own, which mpirun or its user sets.
FAULT_TOLERANCE = EnvironmentVariable(
    "OMPI_MCA_mpi_ft_enable", "1 if processes survive the end of another (Open MPI)"
)
ONE_SIDED_COMPONENT = EnvironmentVariable(
    "OMPI_MCA_osc", "the way in which ranks share memory, sm by default (Open MPI)"
)
WINDOW_DIRECTORY = EnvironmentVariable(
    "OMPI_MCA_osc_sm_backing_directory", "the directory of memory that ranks share (Open MPI)"
)
# The driver's own.
WORK_QUEUES = EnvironmentVariable(
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "the hardware queues that the streams of a GPU share, 32 by default, the driver's most (CUDA)",
)

VARIABLES = (
    *(CPU_NAME, CPU_FEATURES, STATE_HOME, CACHE_HOME, RUNTIME_DIRECTORY, MALLOC_TUNING),
    *(GRPC_LOG, FAULT_TOLERANCE, ONE_SIDED_COMPONENT, WINDOW_DIRECTORY, WORK_QUEUES),
)
"""All of them, in the order of the page."""
