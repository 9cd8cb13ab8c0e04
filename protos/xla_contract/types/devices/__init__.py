"""Devices of a program: grids, meshes, groups of replicas and partitions, shardings."""
