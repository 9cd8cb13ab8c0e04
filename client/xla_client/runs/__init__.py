"""Executables and their runs: arguments, donation, results, and the messages of a run."""
