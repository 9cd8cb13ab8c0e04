"""The `cuda` platform: programs compiled to kernels for one kind of NVIDIA GPU, run by workers.

The server never calls the driver. Each device has a process, its worker (`worker/`), which the
server sends requests to; an illegal address ends the worker alone.
"""
