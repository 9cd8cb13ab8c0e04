"""Times of compilation: cold, with kernels on disk, and of a compiled module."""

import dataclasses
import shutil
import statistics
import time

from tests.benchmarks.programs import COMPILATIONS
from tests.benchmarks.workloads.workload import Workload
from tests.corpus.jax.programs import lower
from xla_contract.stubs import hlo_pb2, xla_pb2
from xla_contract.types.devices.sharding import REPLICATED
from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.platform import Executable
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.importer import import_module
from xla_server.passes.partitioning.signature import ShardedSignature
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.programs.code_cache import CompiledProgram
from xla_server.sessions.programs.compile_request import prepare_program
from xla_server.sessions.programs.executable_table import ExecutableCache

REPETITIONS = 5


@dataclasses.dataclass(frozen=True)
class CompileTimes:
    """Times with XLA's own compilation as 1."""

    cold: float
    warm: float
    repeated: float


@dataclasses.dataclass(frozen=True)
class Program:
    """A workload as a client sends it."""

    serialized: bytes

    @classmethod
    def of(cls, workload: Workload) -> "Program":
        """The module that JAX makes of a workload."""
        return cls(lower(workload.function, *workload.arguments))

    def compiled(self, platform: CompiledBackend) -> tuple[float, Executable]:
        """The seconds from the bytes to an executable."""
        started = time.perf_counter()
        module = import_module(hlo_pb2.HloModuleProto.FromString(self.serialized))
        executable = platform.compile(module, module.entry_program_shape)
        return time.perf_counter() - started, executable

    def repeated(self, cpu: Cpu, executable: Executable) -> float:
        """The seconds from the bytes to an executable that the server has."""
        table = ExecutableCache(Limits(0))
        return min(self._looked_up(cpu, table, executable) for _ in range(1 + REPETITIONS))

    def _looked_up(self, cpu: Cpu, table: ExecutableCache, executable: Executable) -> float:
        started = time.perf_counter()
        proto = hlo_pb2.HloModuleProto.FromString(self.serialized)
        request = read_compile_request(proto, xla_pb2.ExecutionOptions())
        program = prepare_program(request, None)
        compiled = CompiledProgram(executable, ShardedSignature(program.entry, (), REPLICATED))
        found = table.acquire(program, lambda: compiled, Cancellation())
        table.release(found)
        return time.perf_counter() - started


def prepared(directory: str = "") -> tuple[float, Cpu]:
    """A platform that has compiled what programs share, and the seconds that took."""
    cpu = Cpu(compilation_cache_dir=directory)
    started = time.perf_counter()
    assert cpu.prepare()
    return time.perf_counter() - started, cpu


def compile_times(
    program: Program, peer_seconds: float, directory: str, shared: str
) -> tuple[CompileTimes, Cpu, Executable]:
    """The times, with a platform and an executable of it.

    `directory` must be empty, and there as long as the platform. Platforms are prepared, as a
    server's is when it has been ready for a second or two: from the directory `shared`, which has
    what programs share and nothing else.
    """
    cold, warm, platforms = [], [], []
    for number in range(COMPILATIONS):
        kept = shutil.copytree(shared, f"{directory}/{number}")
        for seconds in (cold, warm):
            _, cpu = prepared(kept)
            platforms.append(cpu)
            taken, executable = program.compiled(cpu)
            seconds.append(taken)
    for unused in platforms[:-1]:
        unused.close()
    repeated = program.repeated(cpu, executable)
    times = (statistics.median(cold), statistics.median(warm), repeated)
    return CompileTimes(*(each / peer_seconds for each in times)), cpu, executable
