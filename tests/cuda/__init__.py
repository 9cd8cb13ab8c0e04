"""Checks and measurements of the platform `cuda` on a GPU, or on the twin."""
