"""Checks and measurements of the platform `cuda` on a GPU; the twin takes the device's place."""
