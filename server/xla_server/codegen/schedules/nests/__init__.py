"""Schedules: each file has the loop nests of one form, and the test that a graph fits it."""
