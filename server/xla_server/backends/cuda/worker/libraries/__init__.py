"""Libraries that compute plans on a device: one module for each, loaded when a program needs it.

Nothing here is imported on machines without a GPU, and no module imports a binding before its
library is asked for: they are large, and look for the driver. `Libraries` gives a plan to the
library that computes it.
"""

from xla_server.backends.cuda.worker.libraries.libraries import Libraries
from xla_server.backends.cuda.worker.libraries.library import LibraryError, Memory

__all__ = ["Libraries", "LibraryError", "Memory"]
