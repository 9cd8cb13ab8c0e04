"""The process that owns one device: memory, modules, runs of programs.

- `supervisor`: the server's end. `process` has a DeviceWorker for each device; `generation` is one
  process with its connections, `transfers` copies arrays through shared memory.
- `exchange`: programs and requests as the ends exchange them.
- `child`: the process; `connection` answers requests, `executor` walks programs, `thunk_work` has
  the work of their thunks, `loaded` and `graphs` the programs and their CUDA graphs.
- `device`: the interface of a device, which tests implement on the host, and NVIDIA's driver;
  `libraries` compute plans.
"""
