"""Passes that keep every bit of the results: identities, folding, inlining, dead code."""
