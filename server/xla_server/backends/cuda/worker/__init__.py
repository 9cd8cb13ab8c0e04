"""The process that owns one device: memory, modules, runs of programs.

- `process`: the server's end, a DeviceWorker for each device; `generation` is one process with
  its connections, `transfers` what passes through `shared_memory`.
- `protocol`, `messages`: programs and requests as the ends exchange them.
- `child`: the process; `connection` answers requests, `executor` walks programs, `loaded` and
  `graphs` have what it keeps of them.
- `driver`: the interface of a device, which tests implement on the host; `cuda_driver` is NVIDIA's,
  and `libraries` compute plans.
"""
