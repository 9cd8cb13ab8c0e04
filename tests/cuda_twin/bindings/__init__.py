"""Bindings of NVIDIA's libraries on memory of the host, by the libraries' documentation.

They stand in for `nvmath.bindings`, with its names and arguments: what is called with them is what
a GPU would be called with. Matrices are column-major here, as they are there.
"""

from tests.cuda_twin.bindings import cublas, cublas_lt, cufft, cusolver_dn

cublasLt, cusolverDn = cublas_lt, cusolver_dn  # noqa: N816

__all__ = ["cublas", "cublasLt", "cufft", "cusolverDn"]
