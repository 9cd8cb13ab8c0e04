"""The processor that kernels are compiled for: the host, or one that numba's environment names.

NUMBA_CPU_NAME and NUMBA_CPU_FEATURES are LLVM's name of a processor, such as `znver3`, and its
features, such as `+avx2,+fma,-avx512f`. Tile sizes, assembly and LLVM all follow them, so that a
host can compile, and mostly run, what an older one gets.
"""

import functools

import llvmlite.binding as llvm
from numba.core import config
from numba.core.codegen import get_host_cpu_features


def cpu_name() -> str:
    """Return LLVM's name of the processor."""
    name: str = config.CPU_NAME or _host_name()
    return name


def cpu_features() -> str:
    """Return the processor's features as LLVM reads them: `+` or `-` before each name."""
    features: str | None = config.CPU_FEATURES
    return _host_features() if features is None else features


def has_features(*names: str) -> bool:
    """Return whether the processor has all of these features."""
    return _enabled(cpu_features()).issuperset(names)


@functools.cache
def _host_name() -> str:
    name: str = llvm.get_host_cpu_name()
    return name


@functools.cache
def _host_features() -> str:
    features: str = get_host_cpu_features()
    return features


@functools.cache
def _enabled(features: str) -> frozenset[str]:
    """Return the names of those that are switched on, where the last word on each counts."""
    switches = {part[1:]: part[0] == "+" for part in features.split(",") if part}
    return frozenset(name for name, is_on in switches.items() if is_on)
