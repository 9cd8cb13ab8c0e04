"""The thunks that lowerings add: kernels, plans of libraries, and kernels of the host."""
