"""Libraries that compute plans on a device: one module for each, loaded at the first plan for it.

`Libraries` gives a plan to the library that computes it. Bindings are imported by the modules of
their libraries alone: they are large, and look for the driver.
"""

from xla_server.backends.cuda.worker.libraries.library import Libraries, LibraryError, Memory

__all__ = ["Libraries", "LibraryError", "Memory"]
