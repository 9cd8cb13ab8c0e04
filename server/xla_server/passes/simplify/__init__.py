"""Passes that preserve every bit of the results: identities, constants, inlining, dead code."""
