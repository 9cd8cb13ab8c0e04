"""Passes: rewrites from HLO to HLO that run before fusion.

`pipeline` is the order of all passes. Each folder holds passes of one kind, one pass a file.
"""
