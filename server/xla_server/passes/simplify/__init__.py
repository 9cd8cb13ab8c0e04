"""Passes that keep results to the bit: identities, constants, inlining, dead code."""
