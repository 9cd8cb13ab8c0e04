"""Bindings of NVIDIA's libraries on memory of the host, as the libraries' documentation states them.

They stand in for `nvmath.bindings`, with its names and arguments: what is called with them is what
a GPU would be called with. Matrices are column-major here, as they are there.
"""

from tests.cuda_twin.bindings import cublas, cufft
from tests.cuda_twin.bindings import cublas_lt as cublasLt
from tests.cuda_twin.bindings import cusolver_dn as cusolverDn

__all__ = ["cublas", "cublasLt", "cufft", "cusolverDn"]
