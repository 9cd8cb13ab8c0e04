"""Schedules: each file the loop nests of one form, and which graphs fit it."""
