"""Tracing of HLO to a graph of scalars at symbolic indices.

A `Tracer` asks for an element of a result at an index; rules, one per operation, answer with
scalar nodes and ask for elements of operands. Indices are affine (`ir/affine.py`); operations that
only move elements have one index map (`ir/index_maps.py`), which fusion uses too. Equal nodes are
one node.
"""
