"""Libraries that compute plans on a device: one module each, loaded at its first plan.

`Libraries` selects the library of a plan. Only a library's module imports its bindings, which are
large and require the driver.
"""

from xla_server.backends.cuda.worker.libraries.library import Libraries, LibraryError, Memory

__all__ = ["Libraries", "LibraryError", "Memory"]
