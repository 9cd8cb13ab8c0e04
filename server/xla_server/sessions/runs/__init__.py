"""Running of programs: one, several in one run, in the background, in batches, and in parallel.

A request (`requests`) is planned (`planner`) before anything of it runs (`run`). Executions wait
for memory in `memory_queue` and share the processors by `time_slicing`.
"""
