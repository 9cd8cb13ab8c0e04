"""The `cuda` platform: programs compiled to kernels for one compute capability, run by workers.

The server never calls the driver. Each device has a worker process (`worker/`), to which the server
sends requests, so an illegal address ends the worker alone.
"""
