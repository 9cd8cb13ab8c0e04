"""The rules of the algebraic simplifier, one file for each kind of operation."""
