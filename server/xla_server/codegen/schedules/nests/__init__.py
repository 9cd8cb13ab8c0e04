"""Schedules: each module builds loop nests of one form and tests which graphs fit it."""
