"""Helpers that schedules share: statements for graph nodes, row buffers, work items."""
