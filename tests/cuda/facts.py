"""Facts of a machine: its device, and the versions of packages."""

import importlib.metadata
import sys
from collections.abc import Iterator

from tests.cuda.checks.outcomes import Outcome, Status
from tests.platforms import compiled_platform

PACKAGES = (
    "cuda-bindings",
    "cuda-core",
    "nvmath-python",
    "nvidia-cublas",
    "nvidia-cudnn-cu13",
    "nvidia-cufft",
    "nvidia-cusolver",
    "nvidia-cuda-nvcc",
    "numba",
    "llvmlite",
    "numpy",
    "ml_dtypes",
    "scipy",
    "jax",
    "jaxlib",
    "protobuf",
    "pytest",
    "hypothesis",
)


def facts(platform: str) -> Iterator[Outcome]:
    """Yield the versions of packages, and what the device says of itself."""
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{name} -")
    yield Outcome("packages", text=f"Python {sys.version.split()[0]}, {', '.join(versions)}")
    try:
        import llvmlite.binding as llvm

        llvm.initialize_all_targets()
        version = ".".join(map(str, llvm.llvm_version_info))
        llvm.Target.from_triple("nvptx64-nvidia-cuda")
        yield Outcome("llvm", text=f"{version}, with NVPTX")
        yield Outcome("device", text=str(compiled_platform(platform).devices))
    except Exception as error:
        yield Outcome("device", Status.RAISED, f"{type(error).__name__}: {error}")
