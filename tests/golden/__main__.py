"""Writes the kernels of all programs anew: what changed is then in the diff."""

from tests.golden.kernels import PROGRAMS, generated, kept

for name in PROGRAMS:
    kept(name).write_text(generated(name))
    print(kept(name))
