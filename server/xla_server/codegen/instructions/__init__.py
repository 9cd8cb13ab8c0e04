"""The instructions that native code is written in.

Loads, stores, atomic operations, intrinsics, and symbols of BLAS and LAPACK, as functions of
Python that `compiler` replaces with LLVM instructions or calls.
"""
