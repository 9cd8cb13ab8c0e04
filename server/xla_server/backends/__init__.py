"""Platforms: they compile modules, store values and run programs."""
