"""The machine that programs are compiled for: the one source of processor features.

Compilation takes a `Machine` as an argument; nothing else reads the host's processor. So a host can
compile, and mostly run, the code of an older processor.
"""

import dataclasses
import enum
import functools
import os
import platform

from xla_host.environment_variables import CPU_FEATURES, CPU_NAME
from xla_server.target.available import available_cores
from xla_server.target.gpu.properties import GPUS, Gpu


class Architecture(enum.Enum):
    """A family of instruction sets, by LLVM's name."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"
    NVPTX64 = "nvptx64"
    OTHER = "other"


_KINDS = {
    "x86_64": Architecture.X86_64,
    "amd64": Architecture.X86_64,
    "aarch64": Architecture.AARCH64,
    "arm64": Architecture.AARCH64,
}
_AVX2 = "+64bit,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt"
_AVX512 = f"{_AVX2},+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl"
_NARROW_BYTES, _WIDE_BYTES = 32, 64
_L2_BYTES = 512 << 10


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A processor with its cache and cores, or a GPU.

    `name` is LLVM's name of the processor, such as `znver3`, and `features` are its features as
    LLVM reads them, such as `+avx2,+fma,-avx512f`; the last mention of each counts. `l2_bytes` is
    the second-level cache of one core; if the host does not report it, that of the smallest common
    servers. The cores of a `gpu` are its multiprocessors, which share the cache, and its one
    feature is the version of PTX.
    """

    kind: Architecture
    name: str
    features: str
    l2_bytes: int = _L2_BYTES
    cores: int = 4
    gpu: Gpu | None = None

    @classmethod
    def host(cls) -> "Machine":
        """Return the host, or the processor that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name."""
        return _host(CPU_NAME.value(), CPU_FEATURES.value(), available_cores())

    @classmethod
    def sse2(cls, cores: int = 4) -> "Machine":
        """Return the x86-64 baseline."""
        return cls(Architecture.X86_64, "x86-64", "+64bit,+sse,+sse2", cores=cores)

    @classmethod
    def avx2(cls, cores: int = 4) -> "Machine":
        """Return a processor with AVX2: 16 vector registers of 32 bytes."""
        return cls(Architecture.X86_64, "haswell", _AVX2, cores=cores)

    @classmethod
    def avx512(cls, *, has_vnni: bool = False, cores: int = 4) -> "Machine":
        """Return a processor with AVX-512: 32 vector registers of 64 bytes, and masks."""
        if has_vnni:
            return cls(Architecture.X86_64, "cascadelake", f"{_AVX512},+avx512vnni", cores=cores)
        return cls(Architecture.X86_64, "skylake-avx512", _AVX512, cores=cores)

    @classmethod
    def neon(cls, cores: int = 4) -> "Machine":
        """Return an Arm processor with NEON: 32 vector registers of 16 bytes."""
        return cls(Architecture.AARCH64, "neoverse-n1", "+neon,+fp-armv8", cores=cores)

    @classmethod
    def cuda(cls, name: str) -> "Machine":
        """Return an NVIDIA GPU by its compute capability, such as `sm_90`.

        Raises ValueError for a name that `GPUS` does not have.
        """
        gpu = GPUS.get(name)
        if gpu is None:
            raise ValueError(f"a GPU must be one of {', '.join(GPUS)}, got {name}")
        return cls(
            Architecture.NVPTX64, name, f"+ptx{gpu.ptx}", gpu.l2_bytes, gpu.multiprocessors, gpu
        )

    def has(self, *features: str) -> bool:
        """Return whether the processor has all of these features, by LLVM's names."""
        return _enabled(self.features).issuperset(features)

    @property
    def is_x86(self) -> bool:
        """Return whether instructions are those of x86-64."""
        return self.kind is Architecture.X86_64

    @property
    def converts_halves(self) -> bool:
        """Return whether there are instructions to convert between F16 and F32."""
        return self.kind is Architecture.AARCH64 or self.has("f16c")

    @property
    def has_masks(self) -> bool:
        """Return whether loads and stores take masks from mask registers, at no cost."""
        return self.has("avx512f")

    @property
    def vector_bytes(self) -> int:
        """Width of the vectors that routines are written for, in bytes.

        LLVM legalises them to two registers if these are narrower (SSE2, NEON).
        """
        return _WIDE_BYTES if self.has("avx512f") else _NARROW_BYTES

    @property
    def vector_registers(self) -> int:
        """Number of vector registers that routines fill; SSE2 has half as many, and spills."""
        return 32 if self.has("avx512f") else 16

    @property
    def partial_sums(self) -> int:
        """Number of partial sums of f32 that a vectorised reduction loop has, added up at its end.

        LLVM takes four vectors on x86-64 from AVX on, and two of 16 bytes elsewhere. AVX-512 counts
        as AVX: its vectors are longer only on processors for which LLVM prefers them.
        """
        return 4 * 8 if self.has("avx") else 2 * 4

    @property
    def vector_set(self) -> str:
        """The common name of the vector instructions."""
        if self.kind is Architecture.AARCH64:
            return "NEON"
        names = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse2": "SSE2"}
        return next((name for feature, name in names.items() if self.has(feature)), "none")

    def lanes(self, width: int) -> int:
        """Return how many elements of `width` bytes a vector has."""
        return self.vector_bytes // width


@functools.cache
def _enabled(features: str) -> frozenset[str]:
    """Return the names of the features that are switched on."""
    switches = {part[1:]: part[0] == "+" for part in features.split(",") if part}
    return frozenset(name for name, is_on in switches.items() if is_on)


@functools.cache
def _host(name: str | None, features: str | None, cores: int) -> Machine:
    """Return the host. `name` and `features` are read from LLVM if they are None."""
    # Imported here because LLVM takes long to load, and users of the record may not need it.
    import llvmlite.binding as llvm

    if features is None:
        features = str(llvm.get_host_cpu_features().flatten())
    kind = _KINDS.get(platform.machine().lower(), Architecture.OTHER)
    key = "SC_LEVEL2_CACHE_SIZE"
    reported = os.sysconf(key) if key in os.sysconf_names else 0
    l2_bytes = reported if reported > 0 else _L2_BYTES
    return Machine(kind, name or str(llvm.get_host_cpu_name()), features, l2_bytes, cores)
