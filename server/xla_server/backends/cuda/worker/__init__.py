"""The process that owns one device: memory, modules, runs of programs.

`protocol.py` has what the server and a worker say to each other. `driver.py` is the interface of a
device, which tests implement on the host.
"""
