"""Compiled kernels that all processes of a session share."""

from pathlib import Path

from tests.corpus.kept import kernel_directory
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.kernel import Kernels


def kept_kernels() -> Kernels:
    """Return kernels of the host that are compiled once in a session of tests."""
    directory = kernel_directory()
    return Kernels(KernelCache(Path(directory)) if directory else None)
