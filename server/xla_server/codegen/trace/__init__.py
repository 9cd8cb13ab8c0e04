"""Tracing of HLO to a graph of scalars at symbolic indices.

A `Tracer` requests an element of a result at an index; rules, one per operation, return scalar
nodes and request elements of operands. Indices are affine (`ir/analysis/affine.py`); operations
that only move elements have one index map (`ir/analysis/index_maps.py`), which fusion uses too.
Equal nodes are one node.
"""
