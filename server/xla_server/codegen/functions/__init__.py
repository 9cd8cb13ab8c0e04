"""Elementary functions of our own for kernels, one file per family."""

from xla_server.codegen.functions.table import FUNCTIONS

__all__ = ["FUNCTIONS"]
