"""Routines: functions that many kernels call, independent of any program.

Register tiles and panels of products and convolutions, Winograd transforms, Fourier passes,
sorting and heaps, concatenation, blocks of factorizations, exact sums. Most are functions of
Python for `compiler/python_compiler.py`; tiles are LLVM text. They are compiled once per process
and cached on disk.
"""
