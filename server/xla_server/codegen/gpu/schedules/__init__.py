"""Schedules of loop nests on a GPU, each in a file of its own; `table.py` has their order.

`groups.py` builds threads that reduce together: lanes of a warp combine their results by
`Shuffle`, and warps of a block through a `SharedArray` with a `Barrier` between.
"""
