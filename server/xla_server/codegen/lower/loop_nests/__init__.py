"""Lowering to loop nests, alone or as epilogues of products."""
